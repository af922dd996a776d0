"""Rounds of tiering whose splits are read by Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.core.errors import CommitConflict, InvalidRequest
from tablestore.flow.runner import SparkRunner
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.readers import tasks_of
from tablestore.tiering.round import RoundParts
from tablestore.tiering.runner import PoolRunner
from tablestore.tiering.service import ServiceSettings, TieringService
from tablestore.tiering.splits import TieringLogSplit
from tests.tiering.memory import MemoryCluster

pytestmark = pytest.mark.large


@pytest.fixture
def cluster() -> MemoryCluster:
    created = MemoryCluster(buckets=3)
    for bucket in range(3):
        created.append(bucket, 1000 + bucket)
    return created


def test_tasks_of_spark_read_the_splits_and_the_driver_commits(
    spark: SparkSession, tmp_path: Path, cluster: MemoryCluster
):
    lake = ts.connect(tmp_path)
    journal = TieringJournal()
    parts = RoundParts(
        cluster, PaimonTieringFactory(lake), PoolRunner(SparkRunner(spark).pool()), journal, SYSTEM
    )
    for rows in (3003, 3010):
        assert TieringService(parts, ServiceSettings(once=True)).start().wait(240)
        assert journal.report().tables[0].reason == ""
        assert lake.table("db.t").scan().count() == rows
        cluster.append(0, 7)
    round_report = journal.report().rounds[-1]
    assert (round_report.outcome, round_report.rows) == ("committed", 7)
    assert lake.table("db.t").check() == []


def test_a_round_that_is_stopped_leaves_no_file(spark: SparkSession, tmp_path: Path, cluster: MemoryCluster):
    lake = ts.connect(tmp_path)
    factory, table = PaimonTieringFactory(lake), cluster.table("db.t")
    factory.prepare(table)
    splits = [TieringLogSplit(table_path="db.t", table_id=1, bucket=b, start=0, stop=1000) for b in range(3)]
    runner = PoolRunner(SparkRunner(spark).pool())
    tasks = tasks_of(cluster, factory, table, splits, replaces=False, parallel=runner.parallel)
    with pytest.raises(CommitConflict, match="stopped"):
        runner.run(tasks, observe=lambda _: None, stopped=lambda: True)
    files = lake.table("db.t").remove_orphans(older_than="0s", dry_run=True, force=True).files
    assert not [name for name in files if "data-" in str(name)]


def test_what_is_done_is_known_where_another_task_failed(spark: SparkSession) -> None:
    """Whoever runs the tasks deletes the files of those that are done."""
    done: dict[int, int] = {}
    with pytest.raises(InvalidRequest, match="no 1"):
        SparkRunner(spark).pool().run(_but_one, [0, 1, 2, 1, 4], done=done.__setitem__)
    assert done == {0: 0, 2: 2, 4: 4}


def _but_one(number: int) -> int:
    if number == 1:
        raise InvalidRequest("no 1")
    return number
