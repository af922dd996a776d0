"""What the cluster has dropped, partitions and former tables of a name, and what becomes of their rows in the
lake.

A partition is dropped by a user or, once a day, by the retention of its table. The lake keeps its rows, or
drops them, too, as the service was told; a table that is not made again it keeps. Which partitions it has
rows of the lake itself says, by their names: one that the cluster no longer has loses its name there by a
commit of its own, before the round reads anything, so that it is told once. Its offsets go with the name once
the cluster says by its id, too, that it is gone: ids never come back. A service that still sees the partition
goes by them until then, and readers of the log by those that snapshots keep beside. Rows that no round had
brought are gone with it; how many is known as far as the end of its log was looked at before. A round that
meets any of this never counts as `committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tablestore.core.errors import CommitConflict, NotFound, Unavailable
from tablestore.core.quantities import many
from tablestore.tiering.cluster import ClusterTable, LakeCommit, LakeCommitter, LakeState, TieringCluster
from tablestore.tiering.lake_offsets import lake_state
from tablestore.tiering.report import BucketMarks, TableState, TieringEvent
from tablestore.tiering.splits import TieredBucket

KEEP, DROP = "keep", "drop"
DROPPED = (KEEP, DROP)
"""What the lake does with rows of partitions and tables that the cluster has dropped."""


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """What a service does about them: whether rows in the lake are dropped, too, what its journal knows of
    the table, and who is told, before it is done."""

    drops: bool = False
    known: TableState | None = None
    tell: Callable[[TieringEvent], None] = lambda _: None


def without_dropped(
    cluster: TieringCluster,
    committer: LakeCommitter,
    table: ClusterTable,
    there: Mapping[int, str],
    how: DroppedRows,
) -> tuple[LakeState, tuple[TieringEvent, ...]]:
    """The state of the lake once it knows no partition that the cluster has dropped, and what was told.
    `there` are the names of the partitions by id.

    Raises Unavailable where rows would be dropped and the cluster does not agree with itself, CommitConflict
    where the lake moved.
    """
    lake = lake_state(cluster, committer, table)
    if lake.snapshot_id is None or not table.partition_keys:
        return lake, ()
    gone = {id: name for id, name in lake.partition_names.items() if id not in there}
    ids = {place.partition_id for place in lake.offsets if place.partition_id is not None}
    forgotten = {id for id in ids if id not in there and _is_gone(cluster, table, id)}
    if how.drops:
        for partition_id, name in gone.items():
            _require_gone(cluster, table, partition_id, name)
    if gone or forgotten:
        _require_same(cluster, table)
    events = [_event(table, lake, id, name, how) for id, name in gone.items()]
    events += _never_brought(table, {*lake.partition_names.values(), *there.values()}, how)
    for event in events:
        how.tell(event)
    if not (gone or forgotten):
        return lake, tuple(events)
    left = {id: name for id, name in lake.partition_names.items() if id in there}
    drops = tuple(name for name in gone.values() if name not in left.values()) if how.drops else ()
    offsets = {place: at for place, at in lake.offsets.items() if place.partition_id not in forgotten}
    marks = {place: mark for place, mark in lake.marks.items() if place in offsets}
    prepared = cluster.prepare_lake_snapshot(table, offsets)
    commit = LakeCommit(*(lake, table.table_id, offsets, left), marks=marks, drops=drops, prepared=prepared)
    committer.commit(committer.to_committable([]), commit)
    return committer.state(), tuple(events)


def replaced_table(table: ClusterTable, lake: LakeState, how: DroppedRows) -> TieringEvent:
    """That the rows of a former table of this name go."""
    last_state = how.known
    missing = None if last_state is None or last_state.table_id != lake.table_id else last_state.lag_rows
    kept = "they are gone" if how.drops else "a tag, or an older snapshot, keeps them"
    text = (
        f"{table.path} was dropped and made again: the lake's rows of table id {lake.table_id} make room for "
        f"those of {table.table_id}, {kept}; {_lacked(missing)}"
    )
    return TieringEvent(table.path, "table replaced", text, offsets=missing)


def dropped_table(path: str, last_state: TableState | None) -> TieringEvent:
    """That a table is gone, with what was `last_state` of it until then. The lake keeps its own whatever the
    service does about rows: to drop a table of the lake is for its user."""
    missing = None if last_state is None else last_state.lag_rows
    text = f"{path} was dropped in the cluster: the lake keeps its table; {_lacked(missing)}"
    return TieringEvent(path, "table dropped", text, offsets=missing)


def dropped_while_read(table: ClusterTable, partition: str | None, missing: int) -> TieringEvent:
    """That splits of a round lost their partition."""
    text = f"partition {partition} was dropped while a round read it; {_lacked(missing)}"
    return TieringEvent(table.path, "partition dropped", text, partition, missing)


def _event(
    table: ClusterTable, lake: LakeState, partition_id: int, name: str, how: DroppedRows
) -> TieringEvent:
    ends = {mark.bucket: mark.end for mark in _marks(table, how) if mark.partition == name}
    missing = sum(
        max(end - lake.offsets.get(TieredBucket(partition_id, bucket), 0), 0) for bucket, end in ends.items()
    )
    lacks = missing if ends else None
    rows = "drops its rows, too" if how.drops else "keeps its rows"
    text = f"partition {name} was dropped in the cluster: the lake {rows}; {_lacked(lacks)}"
    return TieringEvent(table.path, "partition dropped", text, name, lacks)


def _never_brought(table: ClusterTable, named: set[str], how: DroppedRows) -> list[TieringEvent]:
    """Partitions of which no round had brought anything."""
    ends: dict[str, int] = {}
    for mark in _marks(table, how):
        if mark.partition is not None and mark.partition not in named and mark.tiered is None:
            ends[mark.partition] = ends.get(mark.partition, 0) + mark.lag_rows
    return [
        TieringEvent(
            *(table.path, "partition dropped"),
            f"partition {name} was dropped in the cluster before any round; {_lacked(missing)}",
            *(name, missing),
        )
        for name, missing in ends.items()
        if missing
    ]


def _marks(table: ClusterTable, how: DroppedRows) -> Sequence[BucketMarks]:
    last_state = how.known
    return () if last_state is None or last_state.table_id != table.table_id else last_state.marks


def _lacked(missing: int | None) -> str:
    """How much went that the lake never had."""
    if missing is None:
        return "rows that no round had brought are gone, how many is not known"
    if not missing:
        return "when its log was last looked at, the lake had all of it"
    return f"up to {many(missing, 'row')} that no round had brought are gone"


def _require_gone(cluster: TieringCluster, table: ClusterTable, partition_id: int, name: str) -> None:
    """Raise Unavailable if somebody still leads the partition."""
    if _is_gone(cluster, table, partition_id):
        return
    raise Unavailable(
        f"{table.path}: partition {name} is listed no more, and still led: looked at again later"
    )


def _require_same(cluster: TieringCluster, table: ClusterTable) -> None:
    """Raise CommitConflict if the partitions were those of another table of this name, NotFound if there is
    none: what was asked before is true of `table` only if it is still there."""
    now = cluster.table(table.path).table_id
    if now != table.table_id:
        text = f"the table was dropped and made again: its id is {now}, and was {table.table_id}"
        raise CommitConflict(f"{table.path}: {text}")


def _is_gone(cluster: TieringCluster, table: ClusterTable, partition_id: int) -> bool:
    try:
        cluster.leader_epochs(table, [TieredBucket(partition_id, 0)])
    except NotFound:
        return True
    return False
