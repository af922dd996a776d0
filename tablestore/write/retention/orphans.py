"""Orphan files: files in a table's directories that no snapshot, tag, branch or changelog names (FORMAT.md
19.3).

Killed writers leave such files: data and manifests of commits that never came, temporary files. The files are
listed first and the metadata is read afterwards, so a commit in between protects its files; the minimum age
protects writers that have not committed yet, and their signs those that are open for longer. If a metadata
file cannot be read, nothing is removed. Other roots (`data-file.external-paths`) may hold files of other
tables too, so they are left alone. Memory: one path a named file, one a candidate.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.format.avro.container import carried_texts
from tablestore.format.manifests.manifest import ManifestEntry, ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.io.fileio import FileStatus
from tablestore.io.paths import join
from tablestore.meta import changelogs, open_writers, refs
from tablestore.meta.open_writers import OpenWriter, Sign
from tablestore.meta.store import Store
from tablestore.write.commit import synced
from tablestore.write.retention import reachable

log = logging.getLogger(__name__)
MIN_AGE_MS = 60_000
_TEMPORARY = re.compile(r"\..+\.tmp")
_NUMBERED = re.compile(r"(snapshot|changelog|schema)-\d+|tag-.+|consumer-.+|EARLIEST|LATEST")


@dataclass(frozen=True, slots=True)
class Orphans:
    """Files that nothing names and that are old enough: (path, bytes). `removed`: whether they are gone.
    `writers`: those that are open for longer than that; files that are newer than their start stay."""

    files: tuple[tuple[str, int], ...] = ()
    removed: bool = False
    writers: tuple[OpenWriter, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum(size for _, size in self.files)

    def __repr__(self) -> str:
        did = "removed" if self.removed else "would be removed: call again with dry_run=False"
        lines = [f"Orphans({quantities.many(len(self.files), 'file')}, {quantities.size(self.bytes)} {did})"]
        lines += [f"  {path} ({size} bytes)" for path, size in self.files[:20]]
        more = len(self.files) - 20
        lines += [f"  … and {more} more"] if more > 0 else []
        lines += [f"  files of a writer that is open stay: {w}" for w in self.writers]
        return "\n".join(lines)


def remove_orphans(store: Store, *, older_than_ms: int, dry_run: bool = True, force: bool = False) -> Orphans:
    """The files older than `older_than_ms` that nothing names; removed unless `dry_run`.

    Files that are newer than the start of an open writer stay. Raises InvalidRequest for an age below a
    minute unless forced: it would take files of running writers. With `force` their signs count for nothing.
    """
    if older_than_ms < MIN_AGE_MS and not force:
        raise InvalidRequest(
            f"older_than of {older_than_ms} ms would remove files of running writers before they commit; "
            "use at least '1 min', or force=True when nobody writes"
        )
    now, signs = store.env.now_ms(), open_writers.signs(store)
    writers = () if force else _longer(signs, now - older_than_ms)
    before = now - open_writers.sparing(older_than_ms, writers, now)
    candidates = {path: s.size for path, s in _listed(store) if s.modified_ms < before}
    left = [s for s in signs if (s.writer is None or force) and s.modified_ms < now - older_than_ms]
    if candidates:
        for path in _named(store):
            candidates.pop(path, None)
    orphans = tuple(sorted([*candidates.items(), *((s.path, s.size) for s in left)]))
    if not dry_run:
        if orphans:
            synced.keep_one(store, 0)
        for path, _ in orphans:
            store.io.delete(path)
        log.info("removed %d orphan files of %s", len(orphans), store.paths.root)
    return Orphans(orphans, removed=not dry_run, writers=writers)


def _longer(signs: list[Sign], before_ms: int) -> tuple[OpenWriter, ...]:
    """The writers that are open since an earlier moment, the oldest first."""
    writers = [s.writer for s in signs if s.writer is not None and s.writer.since_ms < before_ms]
    return tuple(sorted(writers, key=lambda w: w.since_ms))


def _listed(store: Store) -> Iterator[tuple[str, FileStatus]]:
    """Every file that may be an orphan: those of the table's directories."""
    yield from _files(store, join(store.paths.root, "manifest"))
    yield from _files(store, join(store.paths.root, "index"))
    yield from _files(store, join(store.paths.root, "statistics"))
    yield from _files(store, store.paths.checksums_dir)
    for name in (refs.MAIN, *refs.branch_directories(store)):
        paths = refs.branch_paths(store, name)
        own = (paths.schema_dir, paths.snapshot_dir, paths.tag_dir, paths.consumer_dir, paths.changelog_dir)
        for folder in own:
            for path, status in _files(store, folder):
                if _TEMPORARY.fullmatch(status.name) or not _NUMBERED.fullmatch(status.name):
                    yield path, status
    data = join(store.paths.root, store.paths.data_directory)
    yield from _bucket_files(store, data, len(store.schema.partition_keys))


def _files(store: Store, folder: str) -> Iterator[tuple[str, FileStatus]]:
    for status in store.io.list(folder, hidden=True):
        if not status.is_dir:
            yield join(folder, status.name), status


def _bucket_files(store: Store, folder: str, depth: int) -> Iterator[tuple[str, FileStatus]]:
    """The files of all bucket directories below so many levels of partitions."""
    for status in store.io.list(folder):
        path = join(folder, status.name)
        if depth and status.is_dir and "=" in status.name:
            yield from _bucket_files(store, path, depth - 1)
        elif not depth and status.is_dir and status.name.startswith("bucket-"):
            yield from _files(store, path)


def _named(store: Store) -> Iterator[str]:
    """The paths of all files that anything names, also in entries that were deleted since."""
    seen: set[str] = set()
    for branch in (store, *refs.other_branches(store)):
        for snapshot in (*branch.snapshots.all(), *refs.tags(branch).values()):
            try:
                yield from _named_by(store, snapshot, seen)
            except TablestoreError:
                if branch.snapshots.exists(snapshot.id) or snapshot in refs.tags(branch).values():
                    raise
                log.info("snapshot %d expired while its files were looked at", snapshot.id)
        for changelog in changelogs.all_of(branch):
            yield from _named_by(store, changelog, seen, partly=True)


def _named_by(store: Store, snapshot: Snapshot, seen: set[str], *, partly: bool = False) -> Iterator[str]:
    """The files of one snapshot, and what fields of later releases may name beside them; manifests that were
    read already are not read again.

    Of a long-lived changelog (`partly`) all lists may be gone, of a tag its changelog.
    """
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    if not partly:
        indexes = store.manifests.index_entries(snapshot)
        yield from reachable.index_files(store, snapshot, indexes)
        yield from (
            join(store.paths.root, "index", n) for e in indexes for n in carried_texts(e.file.carried)
        )
    for i, name in enumerate(lists):
        if name is None:
            continue
        yield store.paths.manifest(name)
        may_be_gone = partly or i == 2
        for meta in _manifests(store, name, may_be_gone=may_be_gone):
            yield from map(store.paths.manifest, (*meta.names, *carried_texts(meta.carried)))
            if meta.file_name in seen:
                continue
            seen.add(meta.file_name)
            for e in _entries(store, meta.file_name, may_be_gone=may_be_gone):
                paths = reachable.entry_paths(store, e)
                yield from paths
                if later := (*e.carried, *e.file.carried):
                    yield from (
                        join(next(iter(paths)).rpartition("/")[0], name) for name in carried_texts(later)
                    )
                yield join(store.paths.checksums_dir, e.file.file_name)


def _manifests(store: Store, name: str, *, may_be_gone: bool) -> list[ManifestFileMeta]:
    empty: list[ManifestFileMeta] = []
    if not may_be_gone:
        return store.manifests.read_list(name)
    return reachable.lenient(empty, store.manifests.read_list, name)


def _entries(store: Store, name: str, *, may_be_gone: bool) -> list[ManifestEntry]:
    empty: list[ManifestEntry] = []
    if not may_be_gone:
        return store.manifests.read_manifest(name)
    return reachable.lenient(empty, store.manifests.read_manifest, name)
