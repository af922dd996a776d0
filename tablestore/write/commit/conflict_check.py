"""The conflict check of a commit: is the basis of its changes still there, and do its files fit the live
ones?

Reads the snapshots and manifests that the rules of `conflict_rules.py` need and no others: an APPEND without
index files reads none. Each check raises CommitConflict, which names the conflicting snapshot. Called for
each try of a commit, with the then newest snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.errors import CommitConflict, NotFound
from tablestore.core.options.table_options import MergeEngine
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.format.snapshot import APPEND, OVERWRITE, Snapshot
from tablestore.log import offsets
from tablestore.meta.store import Store
from tablestore.write.commit import conflict_rules
from tablestore.write.commit.changes import SnapshotChanges
from tablestore.write.commit.compaction_basis import compacted_files
from tablestore.write.commit.request import Basis, LogMoved, LogRange


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
