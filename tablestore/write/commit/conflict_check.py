"""What refuses a commit: is the basis of its changes still there, do its files fit the live ones, are they
still there themselves, and has nobody else changed what a user has looked at (strict mode, FORMAT.md 17.3)?

Reads the snapshots and manifests that the rules of `conflict_rules.py` need and no others: an APPEND without
index files reads none. Each check raises CommitConflict, which names the conflicting snapshot. Called for
each try of a commit, with the then newest snapshot; what reads for a commit gets the same error where its
snapshot expires meanwhile (`conflict_if_expired`).

Where files above level 0 are read without a merge, a commit refuses a compaction that did not know another
one's files. A writer that prepares again knows its own, which are in its levels: so its `CompactionBasis`
moves past snapshots in which nobody else added files above level 0 to the buckets that it compacts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tablestore.core.errors import CommitConflict, Corrupt, NotFound
from tablestore.core.options.table_options import MergeEngine
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from tablestore.log import offsets
from tablestore.meta.snapshots import is_missing
from tablestore.meta.store import Store
from tablestore.write.commit import conflict_rules
from tablestore.write.commit.changes import SnapshotChanges
from tablestore.write.commit.request import Basis, LogMoved, LogRange

Place = tuple[bytes, int]


def compacted_files(store: Store, since: int, until: int) -> Iterator[tuple[int, list[ManifestEntry] | None]]:
    """(snapshot id, files that it added above level 0) of each snapshot after `since`, up to `until`; None
    for the files of one that has expired."""
    for snapshot_id in range(since + 1, until + 1):
        try:
            entries = store.manifests.delta_entries(store.snapshots.get(snapshot_id))
        except NotFound:
            yield snapshot_id, None
            continue
        above = (entries.numbers("kind") == ADD) & (entries.numbers("level") > 0)
        yield snapshot_id, list(entries.filter(above)) if above.any() else []


@dataclass(slots=True)
class CompactionBasis:
    """The writer knows all files of `snapshot`, and those of its `own` compactions since, by bucket."""

    store: Store
    snapshot: int
    own: dict[Place, set[str]] = field(default_factory=dict)

    def stamped(self, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
        """The messages; those that compact say which snapshot they were made from."""
        messages = list(messages)
        if self.own:
            self._advance()
        for m in messages:
            if m.compact_after:
                names = self.own.setdefault((m.partition, m.bucket), set())
                names.update(f.file_name for f in m.compact_after)
        compacts = (m.compact_before or m.compact_after for m in messages)
        return [
            replace(m, compacted_from=self.snapshot) if compacts_files else m
            for m, compacts_files in zip(messages, compacts, strict=True)
        ]

    def _advance(self) -> None:
        """Move to the newest snapshot before which nobody else compacted these buckets."""
        latest = self.store.snapshots.latest_id() or 0
        for snapshot_id, files in compacted_files(self.store, self.snapshot, latest):
            if files is None or any(not self._knows(e) for e in files):
                return
            self.snapshot = snapshot_id

    def _knows(self, e: ManifestEntry) -> bool:
        """Whether this writer's own compaction added a file."""
        return e.file.file_name in self.own.get((e.partition, e.bucket), ())


@contextmanager
def conflict_if_expired(store: Store, snapshot_id: int | None) -> Iterator[None]:
    """A context that raises CommitConflict where a file is missing because `snapshot_id`, which it is read
    from, expired.

    A damaged file is still Corrupt, a table that is gone still NotFound.
    """
    try:
        yield
    except (Corrupt, NotFound) as e:
        if isinstance(e, Corrupt) and not is_missing(store.io, e.path):
            raise
        if snapshot_id is None or not has_expired(store, snapshot_id):
            raise
        text = f"snapshot {snapshot_id}, which this commit was made from, expired meanwhile; do it again"
        raise CommitConflict(text, snapshot=snapshot_id) from e


def read_for_commit(
    store: Store, batches: Iterable[pa.RecordBatch], snapshot: Snapshot | None
) -> Iterator[pa.RecordBatch]:
    """The batches; CommitConflict where `snapshot`, which they are read from, expired meanwhile."""
    with conflict_if_expired(store, None if snapshot is None else snapshot.id):
        yield from batches


def has_expired(store: Store, snapshot_id: int) -> bool:
    """Whether a snapshot is gone while newer ones are there."""
    latest = store.snapshots.latest_id()
    return latest is not None and latest > snapshot_id and not store.snapshots.exists(snapshot_id)


YOUNG_MS = 60_000
"""Orphans are older than that (see `write.retention.orphans`)."""


def require_no_conflict(
    store: Store, kind: str, latest: Snapshot | None, changes: SnapshotChanges, schema_ids: Sequence[int]
) -> None:
    """Raise CommitConflict if the changes conflict with what is live in `latest`; `schema_ids`: of all
    schemas."""
    if latest is None:
        return
    conflict = _bucket_counts(store, kind, latest, changes, schema_ids) or _conflict(
        store, kind, latest, changes
    )
    if conflict is not None:
        who = f"snapshot {latest.id} ({latest.commit_kind} by {latest.commit_user})"
        raise CommitConflict(
            f"{conflict.rule}: {conflict.text}; found at {who}", files=conflict.files, snapshot=latest.id
        )


def _bucket_counts(
    store: Store, kind: str, latest: Snapshot, changes: SnapshotChanges, schema_ids: Sequence[int]
) -> conflict_rules.Conflict | None:
    """The conflict of a partition with another bucket count, looked for where the table was rescaled."""
    if kind == OVERWRITE or not changes.entries or not store.rescaled_by(schema_ids):
        return None
    live = store.manifests.live_entries(latest, partitions=changes.partitions)
    return conflict_rules.bucket_counts(live, changes.entries, store.partition_text)


def _conflict(
    store: Store, kind: str, latest: Snapshot, changes: SnapshotChanges
) -> conflict_rules.Conflict | None:
    """The first conflict, of data files, then of index files, with the live ones of the same buckets."""
    vectors = any(e.file.index_type == DELETION_VECTORS for e in changes.index)
    live: list[ManifestEntry] = []
    if vectors or (kind != APPEND and changes.entries):
        buckets = {(e.partition, e.bucket) for e in changes.entries}
        buckets |= {(e.partition, e.bucket) for e in changes.index}
        entries = store.manifests.live_entries(latest, partitions=changes.partitions)
        live = [e for e in entries if (e.partition, e.bucket) in buckets]
        conflict = conflict_rules.files(live, changes.entries, store.key_order)
        if conflict is not None:
            return conflict
    added = {e.file.file_name for e in changes.entries if e.kind == ADD}
    gone = {e.file.file_name for e in changes.entries if e.kind == DELETE} - added
    if not changes.index and not (gone and store.options.deletion_vectors):
        return None
    names = {e.file.file_name for e in live} - gone | added
    bucketed = bool(store.schema.primary_keys) or store.options.bucket > 0
    index = store.manifests.index_entries(latest)
    return conflict_rules.index_files(index, changes.index, names, gone=gone, bucketed=bucketed)


def require_basis(store: Store, latest: Snapshot | None, basis: Basis, changes: SnapshotChanges) -> None:
    """Raise CommitConflict if what these changes were made from is no longer in the table."""
    snapshots, based_on = store.snapshots, basis.snapshot
    if based_on is not None and (
        latest is None or latest.id < based_on.id or snapshots.find(based_on.id) not in (None, based_on)
    ):
        text = f"the table was rolled back behind snapshot {based_on.id}, which this commit was made from"
        raise CommitConflict(f"{text}; do it again", snapshot=latest.id if latest else 0)
    since = based_on.id if based_on is not None else 0
    for snapshot_id in range(since + 1, (latest.id if latest else 0) + 1):
        try:
            changed = _changed(store, snapshots.get(snapshot_id), basis, changes)
        except NotFound:
            changed = _changed(store, None, basis, changes)
        if changed:
            text = f"snapshot {snapshot_id} changed rows that this commit was made from; do it again"
            raise CommitConflict(text, snapshot=snapshot_id)


def _changed(store: Store, later: Snapshot | None, basis: Basis, changes: SnapshotChanges) -> bool:
    """Whether a later snapshot (None: it has expired) conflicts with changes made from the basis."""
    if not (basis.appends or basis.buckets):
        return later is None or later.commit_kind in (APPEND, OVERWRITE)
    if later is None:
        return not basis.appends
    if later.commit_kind == OVERWRITE:
        return not changes.partitions.isdisjoint(store.manifests.delta_entries(later).partitions()[0])
    if later.commit_kind != APPEND or basis.appends:
        return False
    places = {(e.partition, e.bucket) for e in changes.entries}
    return any((e.partition, e.bucket) in places for e in store.manifests.delta_entries(later))


def require_log_range(store: Store, latest: Snapshot | None, rows: LogRange) -> None:
    """Raise LogMoved unless the files of the table end where these rows begin in its log."""
    at = offsets.known(latest, store.snapshots.get)
    for bucket, start in rows.start.items():
        if at.get(bucket, 0) != start:
            text = f"bucket {bucket} of the files ends at offset {at.get(bucket, 0)} of the log, not {start}"
            raise LogMoved(text, snapshot=latest.id if latest else 0)


def require_compaction_basis(
    store: Store, latest: Snapshot | None, since: int, changes: SnapshotChanges
) -> None:
    """Raise CommitConflict if the same bucket was compacted after snapshot `since`, or that is not known any
    more, where files above level 0 are read without a merge: neither compaction has marked or dropped the
    other's rows."""
    options, keyed = store.options, bool(store.schema.primary_keys)
    unmerged = options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW
    if latest is None or not (keyed and unmerged):
        return
    places = {(e.partition, e.bucket) for e in changes.entries}
    for snapshot_id, files in compacted_files(store, since, latest.id):
        if files is None:
            text = f"snapshot {snapshot_id} expired, which may have compacted the same bucket; do it again"
            raise CommitConflict(text, snapshot=snapshot_id)
        for e in files:
            if (e.partition, e.bucket) in places:
                text = f"bucket {e.bucket} was compacted meanwhile, by snapshot {snapshot_id}; do it again"
                raise CommitConflict(text, files=(e.file.file_name,), snapshot=snapshot_id)


def require_present(store: Store, changes: SnapshotChanges) -> None:
    """Raise CommitConflict if a file that the changes add is gone."""
    moved = {e.file.file_name for e in changes.entries if e.kind == DELETE}
    added = [e for e in (*changes.entries, *changes.changelog) if e.kind == ADD]
    new = [e for e in added if e.file.file_name not in moved]
    created, now = (e.file.creation_time_ms for e in new), store.env.local_now_ms()
    if not any(at is None or now - at > YOUNG_MS for at in created):
        return
    wanted: dict[str, set[str]] = defaultdict(set)
    for e in new:
        folder, _, name = store.file_path(e.partition, e.bucket, e.file).rpartition("/")
        wanted[folder].update((name, *e.file.extra_files))
    for i in changes.index:
        if i.kind == ADD:
            folder, _, name = store.index_path(i.partition, i.bucket, i.file).rpartition("/")
            wanted[folder].add(name)
    for folder, names in sorted(wanted.items()):
        gone = sorted(names - {s.name for s in store.io.list(folder)})
        if gone:
            more = f" and {len(gone) - 1} more" if gone[1:] else ""
            raise CommitConflict(
                f"{folder}/{gone[0]}{more} is gone: remove_orphans() took files of this writer, open for "
                "longer than its older_than; nothing was committed, write the rows again",
                files=tuple(gone),
            )


OPTION = "commit.strict-mode.last-safe-snapshot"


def require_no_other_user(
    store: Store, since: Iterable[int], user: str, partitions: frozenset[bytes], *, overwrites: bool
) -> None:
    """Raise CommitConflict if one of these snapshots, of another user, conflicts with a commit to these
    partitions. One that has expired does, since what it changed is unknown."""
    for snapshot_id in since:
        try:
            other = store.snapshots.get(snapshot_id)
            touched = _touched(store, other, overwrites) if other.commit_user != user else set()
        except NotFound as e:
            text = f"snapshot {snapshot_id}, which {OPTION!r} asks about, has expired; name a later one"
            raise CommitConflict(text, snapshot=snapshot_id) from e
        if not partitions.isdisjoint(touched):
            who = f"snapshot {other.id} ({other.commit_kind} by {other.commit_user})"
            text = f"{who} changed a partition of this commit, and {OPTION!r} is set; look at it first"
            raise CommitConflict(text, snapshot=other.id)


def _touched(store: Store, other: Snapshot, overwrites: bool) -> set[bytes]:
    """The partitions that nobody else may have written since."""
    if other.commit_kind not in ((APPEND, COMPACT, OVERWRITE) if overwrites else (COMPACT, OVERWRITE)):
        return set()
    appends = other.commit_kind == APPEND
    entries = store.manifests.delta_entries(other)
    partitions = {e.partition for e in entries if e.bucket >= 0 or not appends}
    if appends:
        return partitions
    return partitions | _indexed(store, other)


def _indexed(store: Store, other: Snapshot) -> set[bytes]:
    """The partitions whose index files, deletion vectors among them, a snapshot changed."""
    manifests, before = store.manifests, other.id - 1
    earlier = store.snapshots.find(before)
    if earlier is None:
        return {e.partition for e in manifests.index_entries(other)}
    if earlier.index_manifest == other.index_manifest:
        return set()
    old, new = ({(e.partition, e.file) for e in manifests.index_entries(s)} for s in (earlier, other))
    return {partition for partition, _ in old ^ new}
