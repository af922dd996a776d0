"""Fluss's own service of 0.9 and ours on one lake table, in turns: each goes on where the other stopped, also
where that one was killed between its commit to the lake and the word to the cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, Corrupt, Unavailable
from tablestore.meta import positions
from tablestore.tiering.cluster import COMMIT_USER
from tablestore.tiering.committer import RoundPlan, SplitResult, commit_round, plan_round
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.splits import TieredBucket
from tests.tiering.memory import MemoryCluster, PreparingCluster, remade
from tests.tiering.paimon.test_rounds import round_of

FIRST, SECOND = TieredBucket(None, 0), TieredBucket(None, 1)


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    return ts.connect(tmp_path)


@pytest.fixture
def cluster() -> PreparingCluster:
    return PreparingCluster.holding(5, 3)


def foreign(lake: ts.Lake, rows: Sequence[int], path: str) -> int:
    """A snapshot with these rows as Fluss's own service makes it; its id."""
    table = lake.table("db.t")
    table.write([{"x": row} for row in rows])
    snapshots = table.store.snapshots
    ours = snapshots.latest()
    snapshots.delete(ours.id)
    written = {"properties": {"fluss-offsets": path}, "writer_version": None, "uuid": None}
    theirs = replace(ours, commit_user=COMMIT_USER, commit_identifier=2**63 - 1, **written)
    assert snapshots.publish(theirs)
    return theirs.id


def theirs(cluster: PreparingCluster, lake: ts.Lake, *, is_killed: bool = False) -> None:
    """A round of Fluss's own service. It believes the cluster, but for a snapshot in the lake that the
    cluster does not know: that it registers by the path in it, and begins anew."""
    table = cluster.table("db.t")
    registered = 0 if cluster.known is None else cluster.known.snapshot_id
    snapshots = lake.table("db.t").store.snapshots
    missing = snapshots.latest()
    while missing is not None and missing.commit_user != COMMIT_USER:
        missing = snapshots.get(missing.id - 1) if missing.id > 1 else None
    if missing is not None and missing.id > registered:
        path = missing.properties["fluss-offsets"]
        assert "{" not in path, "offsets as of 0.8, which that service cannot read"
        cluster.commit_lake_snapshot(table, missing.id, {}, prepared=path)
        return theirs(cluster, lake, is_killed=is_killed)
    tiered_to = {} if cluster.known is None else cluster.known.offsets
    places = {TieredBucket(None, bucket): rows for bucket, rows in cluster.logs.items()}
    read = {place: rows[tiered_to.get(place, 0) :] for place, rows in places.items()}
    if not any(read.values()):
        return None
    offsets = {place: len(rows) for place, rows in places.items() if read[place]}
    path = cluster.prepare_lake_snapshot(table, offsets)
    created = foreign(lake, [row for rows in read.values() for row in rows], path)
    if not is_killed:
        cluster.commit_lake_snapshot(table, created, {}, prepared=path)
    return None


def ours(cluster: PreparingCluster, lake: ts.Lake, *, is_killed: bool = False) -> None:
    """A round of ours, which makes the table where it is not there yet."""
    cluster.lost_answers = int(is_killed)
    try:
        round_of(cluster, PaimonTieringFactory(lake))
    except ConnectionError:
        assert is_killed
    cluster.lost_answers = 0


def require_log_in_lake(cluster: PreparingCluster, lake: ts.Lake) -> None:
    actual = sorted(lake.table("db.t").scan().to_arrow()["x"].to_pylist())
    assert actual == sorted(row for rows in cluster.logs.values() for row in rows)
    assert lake.table("db.t").check() == []


def written(factory: PaimonTieringFactory, cluster: PreparingCluster, plan: RoundPlan) -> SplitResult:
    """The rows of the first split of a plan."""
    split = plan.splits[0]
    writer = factory.create_writer(plan.table, split)
    for step in cluster.read_log(plan.table, [split]):
        writer.write(step.batch)
    return SplitResult(split, writer.complete(), split.stop - split.log_start)


def newest(lake: ts.Lake) -> dict[str, str]:
    return lake.table("db.t").store.snapshots.latest().properties


def test_a_round_for_a_cluster_of_0_9_says_the_path_and_the_offsets(lake: ts.Lake, cluster: PreparingCluster):
    ours(cluster, lake)
    said = newest(lake)
    assert cluster.files[said["fluss-offsets"]] == {FIRST: 5, SECOND: 3}
    listed = json.loads(said["tablestore.fluss-offsets"])
    assert listed == [{"bucket": 0, "offset": 5}, {"bucket": 1, "offset": 3}]
    table = lake.table("db.t")
    table.compact(full=True)  # a commit of ours carries both
    assert {key: newest(lake)[key] for key in (positions.OFFSETS, positions.OWN_OFFSETS)} == {
        key: said[key] for key in (positions.OFFSETS, positions.OWN_OFFSETS)
    }
    cluster.files.clear()  # which nobody needs
    cluster.append(0, 2)
    ours(cluster, lake)
    require_log_in_lake(cluster, lake)


def test_a_list_of_a_cluster_that_prepares_nothing_counts_over_an_older_one(
    lake: ts.Lake, cluster: PreparingCluster
):
    ours(cluster, lake)
    older = MemoryCluster(logs=cluster.logs, known=cluster.known)
    older.append(1, 4)
    round_of(older, PaimonTieringFactory(lake))
    assert newest(lake)[positions.OFFSETS] == '[{"bucket":0,"offset":5},{"bucket":1,"offset":7}]'
    older.append(0, 1)
    assert round_of(older, PaimonTieringFactory(lake)).rows == 1
    require_log_in_lake(older, lake)


def test_both_services_take_turns_and_each_may_be_killed(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        rng, lake, cluster = np.random.default_rng(seed), ts.connect(tmp_path / str(seed)), PreparingCluster()
        PaimonTieringFactory(lake).prepare(cluster.table("db.t"))
        cluster.append(0, 1)
        for _ in range(10):
            cluster.append(int(rng.integers(2)), int(rng.integers(0, 5)))
            service = ours if rng.integers(2) else theirs
            service(cluster, lake, is_killed=rng.integers(3) == 0)
            if rng.integers(3) == 0:
                lake.table("db.t").compact(full=True)
        for killed, service in ((ours, theirs), (theirs, ours)):
            cluster.append(0, 1)
            killed(cluster, lake, is_killed=True)
            cluster.append(1, 1)
            service(cluster, lake)
            require_log_in_lake(cluster, lake)
            wanted = {TieredBucket(None, bucket): len(rows) for bucket, rows in cluster.logs.items() if rows}
            assert cluster.known.offsets == wanted


def test_the_first_round_after_fluss_s_service_commits_also_without_rows(
    lake: ts.Lake, cluster: PreparingCluster
):
    PaimonTieringFactory(lake).prepare(cluster.table("db.t"))
    theirs(cluster, lake)
    ours(cluster, lake)
    assert newest(lake)[positions.OWN_OFFSETS] == '[{"bucket":0,"offset":5},{"bucket":1,"offset":3}]'
    assert cluster.known.snapshot_id == lake.table("db.t").store.snapshots.latest().id == 2
    ours(cluster, lake)
    assert lake.table("db.t").store.snapshots.latest().id == 2
    require_log_in_lake(cluster, lake)


def test_a_file_that_cannot_be_read_is_made_up_for_by_the_cluster(lake: ts.Lake, cluster: PreparingCluster):
    PaimonTieringFactory(lake).prepare(cluster.table("db.t"))
    theirs(cluster, lake)
    cluster.files.clear()
    cluster.append(1, 1)
    ours(cluster, lake)
    require_log_in_lake(cluster, lake)
    cluster.append(1, 1)
    theirs(cluster, lake, is_killed=True)
    cluster.files.clear()
    with pytest.raises(
        Unavailable, match=r"of Fluss's own tiering service.*knows snapshot 2; let that service"
    ):
        ours(cluster, lake)


def test_rows_of_a_former_table_by_fluss_s_service_are_replaced(lake: ts.Lake, cluster: PreparingCluster):
    PaimonTieringFactory(lake).prepare(cluster.table("db.t"))
    theirs(cluster, lake)
    remade(cluster)
    cluster.files.clear()
    cluster.append(0, 2)
    ours(cluster, lake)
    require_log_in_lake(cluster, lake)
    assert lake.table("db.t").at(tag="fluss-table-1").scan().count() == 8


def test_of_both_services_at_once_the_later_is_refused_and_says_nothing(
    lake: ts.Lake, cluster: PreparingCluster
):
    factory, table = PaimonTieringFactory(lake), cluster.table("db.t")
    factory.prepare(table)
    committer = factory.create_committer(table)
    plan = plan_round(cluster, committer, table)
    theirs(cluster, lake, is_killed=True)
    with pytest.raises(CommitConflict, match="another service committed snapshot 1"):
        commit_round(cluster, committer, plan, [written(factory, cluster, plan)])
    assert cluster.known is None  # Fluss's service says it, or its next round
    theirs(cluster, lake)
    require_log_in_lake(cluster, lake)


def test_a_text_that_is_no_path_of_offsets_is_damage(lake: ts.Lake, cluster: PreparingCluster):
    factory, table = PaimonTieringFactory(lake), cluster.table("db.t")
    factory.prepare(table)
    foreign(lake, [1], "/etc/passwd")
    with pytest.raises(Corrupt, match="'/etc/passwd' is no list of offsets and no file of them"):
        factory.create_committer(table).state()
