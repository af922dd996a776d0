"""`inspect.stays()`: for each data file the snapshots between which it was live, by columns.

Deltas are read some hundred snapshots together and matched by Arrow, without an object for a file: 200,000
files take about a second. Starts with what was live before the oldest snapshot there is; after a gap in the
ids, which a rollback to an expired snapshot leaves, with the newest part. Memory: a row a file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store

STAYS = pa.schema(
    {
        "partition": pa.string(),
        "bucket": pa.int32(),
        "level": pa.int32(),
        "bytes": pa.int64(),
        "rows": pa.int64(),
        "added": pa.int64(),
        "removed": pa.int64(),
    }
)
_FILE = ["partition", "bucket", "level", "file_name", "file_size", "row_count"]
_AT_ONCE = 500  # snapshots whose manifests are decoded together


def stays(store: Store) -> pa.Table:
    """A row a file that any snapshot holds; `added` is NULL for what was there before the oldest one,
    `removed` for what is live."""
    snapshots = _without_gap(store)
    if not snapshots:
        return STAYS.empty_table()
    base = store.manifests.read_manifests(store.manifests.read_list(snapshots[0].base_manifest_list)).live()
    nothing = pa.nulls(len(base), pa.int64())
    parts = [pa.table([*_columns(base.table), nothing, nothing], names=[*_FILE, "added", "removed"])]
    for at in range(0, len(snapshots), _AT_ONCE):
        parts.append(_deltas(store, snapshots[at : at + _AT_ONCE]))
    found = pa.concat_tables(parts).group_by(_FILE).aggregate([("added", "max"), ("removed", "max")])
    codes = found["partition"].combine_chunks().dictionary_encode()
    texts = pa.array([store.partition_text(p) for p in codes.dictionary.to_pylist()], pa.string())
    columns = [
        texts.take(codes.indices),
        *(found[name] for name in ("bucket", "level", "file_size", "row_count", "added_max", "removed_max")),
    ]
    return pa.table([c.cast(f.type) for c, f in zip(columns, STAYS, strict=True)], schema=STAYS)


def _deltas(store: Store, snapshots: list[Snapshot]) -> pa.Table:
    """What these snapshots added and removed: one row an entry."""
    manifests = store.manifests
    lists = manifests.read_lists([s.delta_manifest_list for s in snapshots])
    entries = manifests.read_manifests([m for some in lists for m in some])
    counts = [sum(m.num_added + m.num_deleted for m in some) for some in lists]
    ids = np.repeat([s.id for s in snapshots], counts)
    adds = entries.numbers("kind") == ADD
    when = [pa.array(ids, pa.int64(), mask=gone) for gone in (~adds, adds)]
    return pa.table([*_columns(entries.table), *when], names=[*_FILE, "added", "removed"])


def _columns(table: pa.Table) -> list[pa.ChunkedArray]:
    return [table.column(name) for name in _FILE]


def _without_gap(store: Store) -> list[Snapshot]:
    """The newest snapshots whose ids have no gap, oldest first; without those that expire meanwhile."""
    ids = np.array(store.snapshots.ids(), np.int64)
    gaps = np.flatnonzero(np.diff(ids) != 1)
    found: list[Snapshot] = []
    for snapshot_id in ids[gaps[-1] + 1 if len(gaps) else 0 :].tolist():
        try:
            found.append(store.snapshots.get(snapshot_id))
        except NotFound:
            found.clear()  # expired meanwhile: what came before, too
    return found
