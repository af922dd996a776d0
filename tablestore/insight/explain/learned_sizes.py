"""What the newest compactions of a table tell of the sizes of the next ones. Reads delta manifests."""

from __future__ import annotations

from itertools import islice

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.merge_size import Merge, SizeModel
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

_SNAPSHOTS_READ = 64  # in which compactions to learn from are looked for
_MERGES_LEARNED = 64


def learned_sizes(store: Store, at: Snapshot | None = None) -> SizeModel:
    """The model that fits the newest compactions of the table, up to a snapshot."""
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
