"""What carrying out decisions over the live files of a bucket would read, move and write.

The decisions are the engine's own; this adds the forecast of each, from metadata and from what the newest
compactions of the table gave. Used by `table.dry_run`.
"""

from __future__ import annotations

from itertools import islice

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.estimate import UNKNOWN, Merge, SizeModel
from tablestore.insight.explain.forecast import Forecast, combined, forecast
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.levels.bucket import Bucket
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

_SNAPSHOTS_READ = 64  # in which compactions to learn from are looked for
_MERGES_LEARNED = 64


def of_keyed(
    bucket: Bucket,
    decision: Decision,
    *,
    expired: frozenset[str] = frozenset(),
    model: SizeModel = UNKNOWN,
) -> Forecast | None:
    """The forecast of a decision over a bucket of a table with a primary key; None if nothing is done."""
    if decision.unit is None:
        return None
    gone = _deleted(bucket) if bucket.options.deletion_vectors else None
    types, levels = [f.type for f in bucket.schema.key_fields], bucket.levels
    return forecast(decision.unit, levels, bucket.options, types, expired=expired, gone=gone, model=model)


def of_append(portion: Bucket) -> Forecast:
    """The forecast of combining files of an append table."""
    return combined(portion.files, _deleted(portion))


def _deleted(bucket: Bucket) -> dict[str, int]:
    """How many rows of each file are marked deleted."""
    return BucketDeletions(bucket).counts({f.file_name: f.row_count for f in bucket.files})


def learned(store: Store, at: Snapshot | None = None) -> SizeModel:
    """What the newest compactions of the table, up to a snapshot, say of the next ones."""
    merges: list[Merge] = []
    latest = at.id if at is not None else store.snapshots.latest_id() or 0
    for snapshot_id in range(latest, max(0, latest - _SNAPSHOTS_READ), -1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
        except NotFound:
            break
        if snapshot.commit_kind == COMPACT:
            merges += _merges(store.manifests.delta_entries(snapshot))
        if len(merges) >= _MERGES_LEARNED:
            break
    return SizeModel.learned(merges, store.key_types)


def _merges(entries: Entries) -> list[Merge]:
    """The first merges of a commit: files read and written, by bucket."""
    found: dict[tuple[bytes, int], tuple[list[DataFileMeta], list[DataFileMeta]]] = {}
    for e in entries:
        read, written = found.setdefault((e.partition, e.bucket), ([], []))
        (written if e.kind == ADD else read).append(e.file)
    pairs: list[Merge] = []
    for read, written in islice(found.values(), _MERGES_LEARNED):
        moved = {f.file_name for f in read} & {f.file_name for f in written}
        one = [[f for f in files if f.file_name not in moved] for files in (read, written)]
        if one[0] and one[1]:
            pairs.append((one[0], one[1]))
    return pairs
