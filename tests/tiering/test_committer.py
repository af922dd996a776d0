"""Rounds over a cluster and a lake in memory: planned from the lake, committed on what they were planned
from."""

from __future__ import annotations

import pytest

from tablestore.core.errors import CommitConflict, NotFound, Unavailable
from tablestore.tiering.committer import RoundPlan, SplitResult, commit_round, plan_round
from tablestore.tiering.lake_offsets import LogIdentity
from tablestore.tiering.splits import TieredBucket
from tests.tiering.memory import MemoryCluster, MemoryLake, remade


def planned(cluster: MemoryCluster, lake: MemoryLake, **options: object) -> RoundPlan:
    return plan_round(cluster, lake, cluster.table("db.t"), **options)


def read(cluster: MemoryCluster, lake: MemoryLake, plan: RoundPlan) -> list[SplitResult]:
    results = []
    for split in plan.splits:
        writer = lake.create_writer(plan.table, split)
        for step in cluster.read_log(plan.table, [split]):
            writer.write(step.batch)
        results.append(SplitResult(split, writer.complete(), split.stop - split.log_start, step.mark))
    return results


def round_of(cluster: MemoryCluster, lake: MemoryLake, **options: object):
    plan = planned(cluster, lake, **options)
    return commit_round(cluster, lake, plan, read(cluster, lake, plan))


def log_rows(cluster: MemoryCluster) -> list[tuple[int, int]]:
    return sorted((bucket, offset) for bucket, rows in cluster.logs.items() for offset in rows)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster.holding(5, 3)


def test_rounds_follow_the_log_and_empty_ones_commit_nothing(cluster: MemoryCluster):
    lake = MemoryLake()
    assert round_of(cluster, lake).rows == 8
    cluster.append(1, 2)
    assert round_of(cluster, lake).rows == 2
    assert round_of(cluster, lake).snapshot_id is None
    assert sorted(lake.rows) == log_rows(cluster)
    assert cluster.known.snapshot_id == 2
    assert cluster.known.offsets == lake.state().offsets


def test_of_two_services_one_is_refused_and_its_files_go(cluster: MemoryCluster):
    lake = MemoryLake()
    slow = planned(cluster, lake)
    results = read(cluster, lake, slow)
    assert round_of(cluster, lake).rows == 8
    with pytest.raises(CommitConflict, match="another service committed snapshot 1"):
        commit_round(cluster, lake, slow, results)
    assert lake.aborted == 1
    assert sorted(lake.rows) == log_rows(cluster)


def test_rows_that_the_cluster_was_not_told_of_are_not_read_again(cluster: MemoryCluster):
    lake = MemoryLake()
    cluster.lost_answers = 1
    with pytest.raises(ConnectionError):
        round_of(cluster, lake)
    assert cluster.known is None
    plan = planned(cluster, lake)
    assert not plan.splits
    assert "it was registered" in plan.notes[0]
    assert cluster.known.snapshot_id == 1
    assert cluster.known.offsets == lake.state().offsets
    assert sorted(lake.rows) == log_rows(cluster)


def test_a_service_that_wakes_late_and_tells_an_old_snapshot_is_corrected(cluster: MemoryCluster):
    lake = MemoryLake()
    round_of(cluster, lake)
    cluster.append(0, 1)
    round_of(cluster, lake)
    cluster.commit_lake_snapshot(cluster.table("db.t"), *cluster.registered[0])
    assert not planned(cluster, lake).splits
    assert cluster.known.snapshot_id == 2
    assert cluster.known.offsets == lake.state().offsets


def test_a_table_that_was_given_away_is_not_committed(cluster: MemoryCluster):
    lake = MemoryLake()
    plan = planned(cluster, lake)
    with pytest.raises(CommitConflict, match="no longer this service's"):
        commit_round(cluster, lake, plan, read(cluster, lake, plan), still_ours=lambda: False)
    assert not lake.rows
    assert lake.aborted == 1


def test_a_table_that_is_made_again_meanwhile_is_not_committed(cluster: MemoryCluster):
    lake = MemoryLake()
    plan = planned(cluster, lake)
    results = read(cluster, lake, plan)
    remade(cluster)
    with pytest.raises(CommitConflict, match="its id is 2, the rows are of 1"):
        commit_round(cluster, lake, plan, results)
    assert not lake.rows


def test_rows_of_a_former_table_of_that_name_are_replaced(cluster: MemoryCluster):
    lake = MemoryLake()
    round_of(cluster, lake)
    remade(cluster)
    cluster.append(1, 4)
    plan = planned(cluster, lake)
    assert plan.replaces
    assert "made again" in plan.notes[0]
    commit_round(cluster, lake, plan, read(cluster, lake, plan))
    assert sorted(lake.rows) == log_rows(cluster)
    assert lake.state().table_id == 2
    assert lake.state().offsets == {TieredBucket(None, 1): 4}


def test_rows_that_retention_took_are_said_and_passed_over_only_on_demand(cluster: MemoryCluster):
    lake = MemoryLake()
    round_of(cluster, lake)
    cluster.append(0, 5)
    cluster.earliest[0] = 8
    with pytest.raises(
        NotFound, match=r"ROWS ARE LOST: bucket 0: offsets \[5, 8\), up to 3 rows, are gone.*skip"
    ):
        planned(cluster, lake)
    assert round_of(cluster, lake, skips_lost_rows=True).rows == 2
    assert lake.state().offsets[TieredBucket(None, 0)] == 10
    assert planned(cluster, lake).events == ()


@pytest.mark.parametrize("rounds", [0, 1])
def test_rows_that_are_gone_with_nothing_behind_them_are_passed_over_once(
    cluster: MemoryCluster, rounds: int
):
    """Also before the first round, and of a bucket that had no row at the rounds before."""
    lake, bucket = MemoryLake(), TieredBucket(None, 1)
    cluster.logs[1] = []
    for _ in range(rounds):
        round_of(cluster, lake)
    cluster.append(1, 4)
    cluster.earliest[1] = 4
    for _ in range(2):
        with pytest.raises(
            NotFound, match=r"ROWS ARE LOST: bucket 1: offsets \[0, 4\), up to 4 rows, are gone"
        ):
            planned(cluster, lake)
    plan = planned(cluster, lake, skips_lost_rows=True)
    assert [(event.name, event.offsets) for event in plan.events] == [("rows lost", 4)]
    assert commit_round(cluster, lake, plan, read(cluster, lake, plan)).snapshot_id == rounds + 1
    assert lake.state().offsets[bucket] == cluster.known.offsets[bucket] == 4
    cluster.append(1, 2)
    assert round_of(cluster, lake).rows == 2
    assert [offset for at, offset in lake.rows if at == 1] == [4, 5]


def test_a_table_all_of_whose_logs_begin_above_0_is_passed_over_by_one_round(cluster: MemoryCluster):
    """Of one older than its lake: a bucket with rows, one whose rows are all gone, one without any."""
    lake = MemoryLake()
    cluster.buckets, cluster.earliest = 3, {0: 2, 1: 3}
    with pytest.raises(NotFound, match=r"bucket 0: offsets \[0, 2\).*; bucket 1: offsets \[0, 3\)"):
        planned(cluster, lake)
    plan = planned(cluster, lake, skips_lost_rows=True)
    assert [(event.name, event.offsets) for event in plan.events] == [("rows lost", 5)]
    commit_round(cluster, lake, plan, read(cluster, lake, plan))
    assert sorted(lake.rows) == [(0, 2), (0, 3), (0, 4)]
    for bucket in range(3):  # from here on nothing has to be passed over, in whichever bucket rows come
        cluster.append(bucket, 1)
        plan = planned(cluster, lake)
        assert plan.events == ()
        assert commit_round(cluster, lake, plan, read(cluster, lake, plan)).rows == 1
    assert sorted(lake.rows)[3:] == [(0, 5), (1, 3), (2, 0)]


def test_a_lake_that_lost_its_table_is_filled_anew(cluster: MemoryCluster):
    round_of(cluster, MemoryLake())
    lake = MemoryLake()
    plan = planned(cluster, lake)
    assert "it is filled anew" in plan.notes[0]
    assert len(plan.splits) == 2
    commit_round(cluster, lake, plan, read(cluster, lake, plan))
    assert sorted(lake.rows) == log_rows(cluster)


def test_the_cluster_gets_the_offsets_before_the_lake_and_the_snapshot_behind_it(cluster: MemoryCluster):
    lake = MemoryLake()
    cluster.prepares = "/offsets/1"
    plan = planned(cluster, lake)
    results = read(cluster, lake, plan)
    lake.commit = lambda *args, commit=lake.commit: cluster.calls.append("lake") or commit(*args)
    commit_round(cluster, lake, plan, results)
    assert cluster.calls == ["prepare", "lake", "register"]
    assert cluster.with_prepared == [("/offsets/1", True)]
    lake.readable = lambda tiered: {}
    cluster.known = None  # it missed that: it is registered again, with offsets that are prepared again
    planned(cluster, lake)
    assert cluster.calls[3:] == ["prepare", "register"]
    assert cluster.with_prepared[1:] == [("/offsets/1", False)]


def test_a_cluster_that_takes_no_offsets_gets_no_rows_into_the_lake(cluster: MemoryCluster):
    lake = MemoryLake()
    plan = planned(cluster, lake)
    cluster.refuses = True
    with pytest.raises(Unavailable):
        commit_round(cluster, lake, plan, read(cluster, lake, plan))
    assert (lake.rows, lake.aborted) == ([], 1)


def test_a_log_that_lost_rows_and_grew_past_the_lake_again_is_noticed(cluster: MemoryCluster):
    lake = MemoryLake()
    round_of(cluster, lake)
    cluster.rewrite(9, 3)
    with pytest.raises(
        NotFound, match="ROWS ARE LOST: bucket 0: the log was cut below offset 5, up to which"
    ):
        planned(cluster, lake)
    plan = planned(cluster, lake, skips_lost_rows=True)
    assert "they are passed over" in plan.notes[0]
    assert [(split.log_start, split.stop, split.last) for split in plan.splits] == [(5, 9, None)]
    commit_round(cluster, lake, plan, read(cluster, lake, plan))
    cluster.append(0, 1)
    assert round_of(cluster, lake).rows == 1  # behind what was passed over it is one log again
    cluster.append(1, 1)
    with pytest.raises(NotFound, match="bucket 1: the log was cut below offset 3"):
        planned(cluster, lake)


def test_batches_are_compared_after_a_start_and_a_change_of_leaders_alone(cluster: MemoryCluster):
    lake, identity = MemoryLake(), LogIdentity()
    for leader in (0, 0, 0, 1, 1):
        cluster.append(0, 2)
        cluster.leader = leader
        round_of(cluster, lake, identity=identity)
    assert cluster.calls.count("batches") == 2
    assert not planned(cluster, lake).splits
    assert cluster.calls.count("batches") == 2  # nothing to read, nothing to compare
    cluster.append(1, 1)
    plan = planned(cluster, lake)
    assert cluster.calls.count("batches") == 3  # as after a start
    assert plan.splits[0].last == lake.state().marks[TieredBucket(None, 1)]
    cluster.rewrite(20, 3)
    for _ in range(2):  # again and again until somebody decides
        with pytest.raises(NotFound, match="ROWS ARE LOST"):
            planned(cluster, lake, identity=identity)
    planned(cluster, lake, identity=identity, skips_lost_rows=True)
    calls = cluster.calls.count("batches")
    planned(cluster, lake, identity=identity, skips_lost_rows=True)
    assert cluster.calls.count("batches") == calls
