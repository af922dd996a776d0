"""What the lake holds, also where Fluss's own service has committed last.

From 0.9 on that service puts offsets into a file of the cluster, and the path of the file into its snapshot.
The cluster removes the file when the next snapshot is registered. So a service that takes over reads it
before it tells the cluster anything, and its first round commits, even without rows: from then on the lake
says its offsets by itself.
"""

from __future__ import annotations

from dataclasses import replace

from tablestore.core.errors import NotFound, Unavailable, Unsupported
from tablestore.tiering.cluster import ClusterTable, TieringCluster
from tablestore.tiering.factory import LakeCommitter, LakeState
from tablestore.tiering.splits import Offsets


def lake_state(cluster: TieringCluster, committer: LakeCommitter, table: ClusterTable) -> LakeState:
    """What the lake holds, with its offsets. Of rows of a former table of this name they stay unknown.
    Raises Unavailable where neither the file of the offsets nor the cluster says them."""
    lake = committer.state()
    if lake.offsets_path is None or lake.table_id != table.table_id:
        return lake
    offsets = _offsets(cluster, table, lake, lake.offsets_path)
    now = dict(cluster.partitions(table.path)) if table.partition_keys else {}
    names = {**lake.partition_names, **now}  # the lake knows those that were dropped since
    there = {place.partition_id for place in offsets}
    return replace(
        lake, offsets=offsets, partition_names={id: name for id, name in names.items() if id in there}
    )


def _offsets(cluster: TieringCluster, table: ClusterTable, lake: LakeState, path: str) -> Offsets:
    try:
        return cluster.prepared_offsets(table, path)
    except (NotFound, Unavailable, Unsupported) as e:
        registered = cluster.lake_snapshot(table.path)
        at = None if registered is None else registered.snapshot_id
        if registered is not None and at == lake.snapshot_id:
            return registered.offsets
        text = (
            f"{table.path}: lake snapshot {lake.snapshot_id} is of Fluss's own tiering service, whose "
            f"offsets are in {path}, which cannot be read here ({e}), and the cluster knows snapshot "
            f"{at or 'none'}"
        )
        raise Unavailable(
            f"{text}; let that service tier the table once more, or run where remote.data.dir can be read"
        ) from e
