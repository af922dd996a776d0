"""What one snapshot changes: files added and deleted, changelog, index files. Pure: made of commit messages.

A message yields up to two of them: `appended` (new files, input changelog, index files) and `compacted`. For
tables with row tracking the numbers of new rows depend on the snapshot before, so each try of a commit calls
`numbered` again.

An OVERWRITE is one snapshot (FORMAT.md 17.4), so what its writers compacted meanwhile counts as written at
once; the same holds for a compaction of postponed rows. Files that do not overlap in keys need no level 0
(`overwrite-upgrade`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tablestore.format.commit_message import CommitMessage
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, IndexEntry, IndexFileMeta
from tablestore.format.manifests.manifest import ADD, APPEND_SOURCE, DELETE, DataFileMeta, ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.meta.manifests import ManifestStore

ROW_ID = "_ROW_ID"


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The delta of one snapshot, in order. `statistics` names a file of statistics; `compactions` are the
    records of those that made it, each with its serialized partition; `followed`: the COMPACT of the same
    commit comes next, and readers wait for it."""

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: tuple[IndexEntry, ...] = ()
    statistics: str | None = None
    compactions: tuple[tuple[bytes, CompactionRecord], ...] = ()
    followed: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (self.entries or self.changelog or self.index or self.statistics)

    @property
    def replaces_rows(self) -> bool:
        """Whether it deletes rows: such an append is an OVERWRITE."""
        vectors = any(e.file.index_type == DELETION_VECTORS for e in self.index)
        return vectors or any(e.kind == DELETE for e in self.entries)

    @property
    def partitions(self) -> frozenset[bytes]:
        """Partitions touched by data or index files."""
        return frozenset({e.partition for e in self.entries} | {e.partition for e in self.index})


def appended(messages: Iterable[CommitMessage]) -> SnapshotChanges:
    """The changes of the first snapshot of these messages: what they add."""
    messages = tuple(messages)
    return SnapshotChanges(
        tuple(e for m in messages for e in entries(ADD, m, m.new_files)),
        tuple(e for m in messages for e in entries(ADD, m, m.changelog_files)),
        tuple(e for m in messages for e in _index(m, m.deleted_index, m.new_index)),
    )


def compacted(messages: Iterable[CommitMessage]) -> SnapshotChanges:
    """The changes of the second snapshot of these messages: what their compactions replace. All DELETE
    entries come before the ADD entries (FORMAT.md 8.4)."""
    messages = tuple(messages)
    return SnapshotChanges(
        tuple(e for m in messages for e in entries(DELETE, m, m.compact_before))
        + tuple(e for m in messages for e in entries(ADD, m, m.compact_after)),
        tuple(e for m in messages for e in entries(ADD, m, m.compact_changelog)),
        tuple(e for m in messages for e in _index(m, m.compact_deleted_index, m.compact_new_index)),
        compactions=tuple((m.partition, r) for m in messages for r in m.compactions),
    )


def without_duplicates(changes: SnapshotChanges, live: Container[str]) -> SnapshotChanges:
    """`changes` without the files of these names; a bucket that then adds no file adds no changelog
    either."""
    kept = tuple(e for e in changes.entries if e.file.file_name not in live)
    places = {(e.partition, e.bucket) for e in kept}
    emptied = {(e.partition, e.bucket) for e in changes.entries} - places
    return replace(
        changes,
        entries=kept,
        changelog=tuple(e for e in changes.changelog if (e.partition, e.bucket) not in emptied),
        index=tuple(e for e in changes.index if (e.partition, e.bucket) not in emptied),
    )


def overwriting(
    new: SnapshotChanges,
    latest: Snapshot | None,
    manifests: ManifestStore,
    replaced: Callable[[bytes], bool],
    *,
    postponed: bool,
) -> SnapshotChanges:
    """The changes of an overwrite: `new` in place of all live files of `latest` in the chosen partitions.
    Rows that wait in postponed buckets stay, unless the table's buckets are all `postponed`."""
    live = manifests.live_entries(latest, partition=replaced)
    gone = (replace(e, kind=DELETE) for e in live if postponed or e.bucket != POSTPONE_BUCKET)
    index = (replace(e, kind=DELETE) for e in manifests.index_entries(latest) if replaced(e.partition))
    return SnapshotChanges((*gone, *new.entries), (), (*index, *new.index))


def entries(kind: int, m: CommitMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    """Manifest entries of files of a message."""
    return [ManifestEntry(kind, m.partition, m.bucket, m.total_buckets, f) for f in files]


def _index(
    m: CommitMessage, gone: Sequence[IndexFileMeta], new: Sequence[IndexFileMeta]
) -> Iterable[IndexEntry]:
    yield from (IndexEntry(DELETE, m.partition, m.bucket, f) for f in gone)
    yield from (IndexEntry(ADD, m.partition, m.bucket, f) for f in new)


def numbered(
    entries: Sequence[ManifestEntry], *, snapshot_id: int, first_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Row tracking (FORMAT.md 9.6): entries whose new files have their first row id and the snapshot as
    sequence number, and the next free row id. Files that carry their row ids (compacted ones) keep them."""
    done, next_id = [], first_row_id
    for e in entries:
        f = e.file
        fresh = f.file_source == APPEND_SOURCE and f.first_row_id is None and e.kind == ADD
        if fresh and ROW_ID not in (f.write_cols or ()):
            f = replace(f, first_row_id=next_id, min_sequence=snapshot_id, max_sequence=snapshot_id)
            next_id += f.row_count
            e = replace(e, file=f)
        done.append(e)
    return tuple(done), next_id


KeyOrder = Callable[[bytes], Any]


def folded(message: CommitMessage) -> tuple[CommitMessage, tuple[DataFileMeta, ...]]:
    """The message with its compaction folded into `new_files`, and the files that it no longer names.

    Files that were there before stay in `compact_before`; changelog and index files become those of one
    snapshot too.
    """
    written = {(f.file_name, f.level) for f in message.new_files}
    gone = {(f.file_name, f.level) for f in message.compact_before}
    kept = [f for f in message.new_files if (f.file_name, f.level) not in gone]
    new = (*kept, *message.compact_after)
    names = {f.file_name for f in new}
    before = tuple(f for f in message.compact_before if (f.file_name, f.level) not in written)
    dropped = tuple(f for f in message.new_files if f.file_name not in names)
    result = replace(
        message,
        new_files=new,
        changelog_files=(*message.changelog_files, *message.compact_changelog),
        new_index=(*message.new_index, *message.compact_new_index),
        deleted_index=(*message.deleted_index, *message.compact_deleted_index),
        compact_before=before,
        compact_after=(),
        compact_changelog=(),
        compact_new_index=(),
        compact_deleted_index=(),
    )
    return result, dropped


def as_compaction(message: CommitMessage) -> tuple[CommitMessage, tuple[DataFileMeta, ...]]:
    """The message as one compaction, whose result is what was written, and the files that it no longer
    names."""
    as_append, dropped = folded(message)
    result = replace(
        as_append,
        new_files=(),
        changelog_files=(),
        new_index=(),
        deleted_index=(),
        compact_after=as_append.new_files,
        compact_changelog=as_append.changelog_files,
        compact_new_index=as_append.new_index,
        compact_deleted_index=as_append.deleted_index,
    )
    return result, dropped


def upgraded(messages: Iterable[CommitMessage], key: KeyOrder, top: int) -> list[CommitMessage]:
    """The messages with new files at level `top` where their keys do not overlap; all or none of a bucket.
    Only if every file is fresh and in a real bucket."""
    messages = list(messages)
    if any(f.level for m in messages for f in m.new_files) or any(m.bucket < 0 for m in messages):
        return messages
    return [_upgraded(m, key, top) for m in messages]


def _upgraded(message: CommitMessage, key: KeyOrder, top: int) -> CommitMessage:
    ordered = sorted(message.new_files, key=lambda f: key(f.min_key))
    if any(key(a.max_key) >= key(b.min_key) for a, b in pairwise(ordered)):
        return message
    return replace(message, new_files=tuple(replace(f, level=top) for f in ordered))
