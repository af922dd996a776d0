"""One round of one table: what it has to read is planned, and what was read is committed.

The order of a commit: the lake first, then the cluster, then the service says that the round is finished. (A
cluster of 0.9 gets the offsets before all that, and keeps them for the snapshot that is registered then; the
lake has the path where it keeps them, so that Fluss's own service finds them after a kill of ours.) A kill in
between leaves rows in the lake of which the cluster does not know; every round begins by telling it,
and plans from what the lake holds, so that no row is read twice. The epochs of heartbeats are no condition of
anything here: a round is committed on the very state of the lake from which it was planned, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.core.errors import CommitConflict, NotFound
from tablestore.core.quantities import many
from tablestore.fluss.heartbeat import TieringTable
from tablestore.fluss.log_records import BatchMark
from tablestore.tiering.cluster import ClusterTable, LakeCommit, LakeCommitter, LakeState, TieringCluster
from tablestore.tiering.dropped import DroppedRows, replaced_table, without_dropped
from tablestore.tiering.lake_offsets import LogIdentity, RewrittenLog, lake_state
from tablestore.tiering.report import HoldPhase, TieringEvent
from tablestore.tiering.splits import (
    BucketBounds,
    OffsetGap,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSplit,
    TieringSplitGenerator,
)

log = logging.getLogger(__name__)
_SHOWN = 3
REMEDY = 'lost_rows="skip" (tier --lost-rows skip) goes on without them'


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What a round reads, on top of which state of the lake. `replaces`: the lake has rows of a former table
    of this name, which a tag keeps if `keeps`. `notes` say what a person should know, a cluster that knew
    less; `events` what the cluster has dropped or lost. `passed`: where the log goes on in buckets of which
    rows are lost, which the round commits also where it reads nothing."""

    table: ClusterTable
    lake: LakeState
    bounds: dict[TieredBucket, BucketBounds]
    splits: tuple[TieringSplit, ...] = ()
    partitions: tuple[tuple[int, str], ...] = ()
    replaces: bool = False
    notes: tuple[str, ...] = ()
    keeps: bool = True
    events: tuple[TieringEvent, ...] = ()
    passed: Offsets = field(default_factory=dict)

    @property
    def commits(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.splits or self.replaces or self.passed or self.takes_over)

    @property
    def takes_over(self) -> bool:
        """Whether Fluss's own service made the newest round of the lake."""
        return self.lake.offsets_path is not None


@dataclass(frozen=True, slots=True)
class SplitResult:
    """A split that was read up to its end: the writer's result, None where there was no row, how many rows it
    holds, and the batch of the log that was read last."""

    split: TieringSplit
    result: Any
    rows: int
    mark: BatchMark | None = None


@dataclass(frozen=True, slots=True)
class RoundCommitted:
    """What a round put into the lake: the snapshot, None if there was nothing to commit, and its rows."""

    snapshot_id: int | None = None
    rows: int = 0


def plan_round(
    cluster: TieringCluster,
    committer: LakeCommitter,
    table: ClusterTable,
    *,
    identity: LogIdentity | None = None,
    skips_lost_rows: bool = False,
    dropped: DroppedRows | None = None,
) -> RoundPlan:
    """What a round of `table` has to read. Before that the lake learns what the cluster has `dropped`, and
    the cluster what the lake holds, if it knows less.

    Raises NotFound where rows that the lake lacks are gone from the log, or the log is another one than the
    lake has the rows of, as `identity` says, unless it `skips_lost_rows`.
    """
    dropped = dropped or DroppedRows()
    lake, events = lake_state(cluster, committer, table), tuple[TieringEvent, ...]()
    replaces = lake.table_id is not None and lake.table_id != table.table_id
    partitions = dict(cluster.partitions(table.path)) if table.partition_keys else {}
    notes: list[str] = []
    if replaces:
        events = (replaced_table(table, lake, dropped),)
        dropped.tell(events[0])
    else:
        lake, events = without_dropped(cluster, committer, table, partitions, dropped)
        notes += _register_newest(cluster, committer, table, lake)
    offsets = {} if replaces else lake.offsets
    bounds = dict(cluster.bounds(table, list(partitions) if table.partition_keys else [None]))
    fresh = {place.partition_id for place in bounds if place not in offsets} if table.primary_keys else set()
    named = {id: None if id is None else partitions[id] for id in fresh}
    snapshots = _key_snapshots(cluster, table, named)
    generator = TieringSplitGenerator(table.path, table.table_id, partitions)
    plan = generator.plan(bounds, lake=offsets, snapshots=snapshots)
    gaps, passed = plan.gaps, {gap.table_bucket: gap.stop for gap in plan.gaps}
    if gaps and skips_lost_rows:  # the plan that begins behind the rows that are lost
        plan = generator.plan(bounds, lake={**offsets, **passed}, snapshots=snapshots)
    elif gaps:
        raise NotFound(f"{_lost(table.path, gaps)}; {REMEDY}")
    behind = [place for place, at in offsets.items() if place in bounds and bounds[place].earliest < at]
    read = {split.table_bucket for split in plan.splits}.intersection(behind)
    others = (identity or LogIdentity()).rewritten(cluster, table, lake, sorted(read), once=skips_lost_rows)
    if others and not skips_lost_rows:
        raise NotFound(f"{_lost(table.path, others)}; {REMEDY}")
    if gaps or others:
        text = _lost(table.path, [*gaps, *others]) + "; they are passed over"
        lost = None if others else sum(gap.rows for gap in gaps)
        events += (TieringEvent(table.path, "rows lost", text, offsets=lost),)
        dropped.tell(events[-1])
    notes += [event.text for event in events]
    for note in notes:
        log.warning("%s: %s", table.path, note)
    marked = read - {other.table_bucket for other in others}
    last = {place: mark for place, mark in lake.marks.items() if place in marked}
    splits = tuple(replace(split, last=last.get(split.table_bucket)) for split in plan.splits)
    return RoundPlan(
        *(table, lake, bounds, splits, tuple(partitions.items()), replaces, tuple(notes)),
        *(not dropped.drops, events, passed),
    )


def _key_snapshots(
    cluster: TieringCluster, table: ClusterTable, partitions: Mapping[int | None, str | None]
) -> dict[TieredBucket, SplitSnapshot]:
    """The newest snapshot of the keys of each bucket of these partitions, named by id."""
    return {
        TieredBucket(partition_id, bucket): snapshot
        for partition_id, name in partitions.items()
        for bucket, snapshot in cluster.kv_snapshots(table, partition_id, name).items()
    }


def _register_newest(
    cluster: TieringCluster, committer: LakeCommitter, table: ClusterTable, lake: LakeState
) -> list[str]:
    """Register what the lake holds, unless the cluster knows; what there is to say of that."""
    registered = cluster.lake_snapshot(table.path)
    if lake.snapshot_id is None:
        if registered is None:
            return []
        return [
            f"the cluster knows lake snapshot {registered.snapshot_id}, "
            "and the lake has none: it is filled anew"
        ]
    at = None if registered is None else registered.snapshot_id
    same = registered is not None and lake.offsets.items() <= registered.offsets.items()
    if not same or (at != lake.snapshot_id and lake.offsets_path is None):
        prepared = cluster.prepare_lake_snapshot(table, lake.offsets)
        _register(cluster, committer, table, lake.snapshot_id, lake.offsets, prepared)
    if same:  # a newer snapshot with the same rows, perhaps: of a compaction
        return []
    return [f"the lake is at snapshot {lake.snapshot_id}, the cluster knew {at or 'none'}: it was registered"]


def _register(
    cluster: TieringCluster,
    committer: LakeCommitter,
    table: ClusterTable,
    snapshot_id: int,
    offsets: Offsets,
    prepared: str | None,
) -> None:
    """Tell the cluster of a snapshot of the lake; of one that was `prepared`, also whether readers see it."""
    readable = prepared is not None and committer.readable(offsets) is None
    cluster.commit_lake_snapshot(table, snapshot_id, offsets, prepared=prepared, readable=readable)


def commit_round(
    cluster: TieringCluster,
    committer: LakeCommitter,
    plan: RoundPlan,
    results: Sequence[SplitResult],
    *,
    still_ours: Callable[[], bool] = lambda: True,
    reached: Callable[[HoldPhase], None] = lambda _: None,
) -> RoundCommitted:
    """Commit what was read: to the lake, then to the cluster. `reached` is called before each of the two.

    Raises CommitConflict, then nothing of the round is in the lake and its files are deleted; any other error
    of the two commits may come with rows that are in the lake, which the next round sees.
    """
    if not (results or plan.replaces or plan.passed or plan.takes_over):
        return RoundCommitted()
    committable = committer.to_committable([result.result for result in results if result.result is not None])
    before = {} if plan.replaces else plan.lake.offsets
    done = {**plan.passed, **{result.split.table_bucket: result.split.stop for result in results}}
    try:
        reached("committing")
        _require_still_ours(cluster, plan, still_ours)
        _require_same_lake(cluster, committer, plan)
        prepared_offsets = {**before, **done} if plan.takes_over else done
        prepared = cluster.prepare_lake_snapshot(plan.table, prepared_offsets)
    except BaseException:
        committer.abort(committable)
        raise
    names = {} if plan.replaces else plan.lake.partition_names
    touched = {place.partition_id for place in done}
    names = {**names, **{id: name for id, name in plan.partitions if id in touched}}
    marks = {p: mark for p, mark in plan.lake.marks.items() if p in before and p not in done}
    marks |= {result.split.table_bucket: result.mark for result in results if result.mark is not None}
    commit = LakeCommit(
        *(plan.lake, plan.table.table_id, {**before, **done}, names, plan.replaces, marks),
        keeps=plan.keeps,
        passed=plan.passed,
        prepared=prepared,
    )
    snapshot_id = committer.commit(committable, commit)
    reached("registering")
    _register(cluster, committer, plan.table, snapshot_id, done, prepared)
    return RoundCommitted(snapshot_id, sum(result.rows for result in results))


def _require_still_ours(cluster: TieringCluster, plan: RoundPlan, still_ours: Callable[[], bool]) -> None:
    """Raise CommitConflict if the table was given to another service, or is another one by now."""
    if not still_ours():
        raise CommitConflict("the table is no longer this service's: nothing was committed")
    now = cluster.table(plan.table.path).table_id
    if now != plan.table.table_id:
        text = f"the table was dropped and made again: its id is {now}, the rows are of {plan.table.table_id}"
        raise CommitConflict(text)


def _require_same_lake(cluster: TieringCluster, committer: LakeCommitter, plan: RoundPlan) -> None:
    """Raise CommitConflict if the lake has a newer round; the cluster is told of that one."""
    missing = lake_state(cluster, committer, plan.table)
    if (missing.table_id, missing.offsets) == (plan.lake.table_id, plan.lake.offsets):
        return
    ours = missing.table_id == plan.table.table_id and missing.offsets_path is None  # Fluss's tells by itself
    if ours and missing.snapshot_id is not None:
        prepared = cluster.prepare_lake_snapshot(plan.table, missing.offsets)
        _register(cluster, committer, plan.table, missing.snapshot_id, missing.offsets, prepared)
    raise CommitConflict(
        f"another service committed snapshot {missing.snapshot_id} to the lake since this round began",
        snapshot=missing.snapshot_id,
    )


def require_same_table(table: ClusterTable, handed_out: TieringTable) -> None:
    """Raise CommitConflict unless the cluster's table is the one that was handed out."""
    if table.table_id != handed_out.table_id:
        text = f"{table.path} has id {table.table_id}, and table {handed_out.table_id} was handed out"
        raise CommitConflict(f"{text}: it was dropped and made again")


def _lost(path: str, gaps: Sequence[OffsetGap | RewrittenLog]) -> str:
    more = f" and {many(len(gaps) - _SHOWN, 'more bucket')}" if len(gaps) > _SHOWN else ""
    return f"ROWS ARE LOST: {'; '.join(map(str, gaps[:_SHOWN]))}{more} of {path}"
