"""Rounds whose splits are read by processes of this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.core.errors import CommitConflict, RoundStopped, Unavailable
from tablestore.flow.local import TaskWorkers
from tablestore.tiering.cluster import ClusterTable, ReadStep
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.readers import SplitTask, tasks_of
from tablestore.tiering.round import RoundParts
from tablestore.tiering.runner import PoolRunner
from tablestore.tiering.service import ServiceSettings, TieringService
from tablestore.tiering.splits import TieringLogSplit, TieringSplit
from tests.tiering.memory import MemoryCluster
from tests.tiering.waiting import until

ROWS = 1000
NOWHERE = "fluss://127.0.0.1:1"


def filled(kind: type[MemoryCluster] = MemoryCluster, **more: Any) -> Any:
    cluster = kind(buckets=3, **more)
    for bucket in range(3):
        cluster.append(bucket, ROWS)
    return cluster


@pytest.fixture
def runner() -> Iterator[PoolRunner]:
    created = PoolRunner(TaskWorkers(2))
    yield created
    created.close()


def tasks(cluster: MemoryCluster, lake: ts.Lake, parallel: int = 3) -> list[SplitTask]:
    factory, table = PaimonTieringFactory(lake), cluster.table("db.t")
    factory.prepare(table)
    splits = [TieringLogSplit(table_path="db.t", table_id=1, bucket=b, start=0, stop=ROWS) for b in range(3)]
    return tasks_of(cluster, factory, table, splits, replaces=False, parallel=parallel)


def require_no_file(lake: ts.Lake) -> None:
    """The table has no data file that no snapshot names."""
    files = lake.table("db.t").remove_orphans(older_than="0s", dry_run=True, force=True).files
    assert [name for name in files if "data-" in str(name)] == []


def test_processes_read_the_splits_and_this_one_commits(tmp_path: Path):
    cluster, lake, journal = filled(), ts.connect(tmp_path), TieringJournal()
    for rows in (3 * ROWS, 3 * ROWS + 7):
        parts = RoundParts(cluster, PaimonTieringFactory(lake), PoolRunner(TaskWorkers(2)), journal, SYSTEM)
        assert TieringService(parts, ServiceSettings(once=True)).start().wait(240)
        assert journal.report().tables[0].reason == ""
        assert lake.table("db.t").scan().count() == rows
        cluster.append(0, 7)
    report = journal.report().rounds[-1]
    assert (report.outcome, report.rows, report.splits[0].offset) == ("committed", 7, ROWS + 7)
    assert lake.table("db.t").check() == []


def test_a_round_that_is_given_up_leaves_no_file(tmp_path: Path, runner: PoolRunner):
    lake = ts.connect(tmp_path)
    with pytest.raises(CommitConflict, match="stopped"):
        runner.run(tasks(filled(), lake), observe=lambda _: None, stopped=lambda: True)
    require_no_file(lake)


class Endless(MemoryCluster):
    """Its logs give rows for ever."""

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        while True:
            for step in super().read_log(table, splits):
                Path(self.prepares or "", f"reading {step.table_bucket.bucket}").touch()
                yield step


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.sample(1)
def test_processes_hear_that_their_round_is_given_up(tmp_path: Path, runner: PoolRunner, parallel: int):
    """Also where the only task is done by this process."""
    lake, seen = ts.connect(tmp_path / "lake"), tmp_path / "seen"
    seen.mkdir()

    def reading() -> bool:
        return len(list(seen.iterdir())) >= min(parallel, 2)

    given = tasks(filled(Endless, prepares=str(seen)), lake, parallel)
    with pytest.raises(RoundStopped):
        runner.run(given, observe=lambda _: None, stopped=reading)
    require_no_file(lake)


class OneBucketFails(MemoryCluster):
    """Nobody can read its bucket 1."""

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        if any(split.bucket == 1 for split in splits):
            raise Unavailable("bucket 1 stalls")
        yield from super().read_log(table, splits)


@pytest.mark.large
def test_an_error_of_one_task_deletes_the_files_of_the_others(tmp_path: Path, runner: PoolRunner):
    lake = ts.connect(tmp_path)
    with pytest.raises(Unavailable, match="bucket 1 stalls"):
        runner.run(tasks(filled(OneBucketFails), lake), observe=lambda _: None, stopped=lambda: False)
    require_no_file(lake)


@dataclass
class WaitingTask:
    """Leaves a mark of its process in a folder, and waits there for the file `go`."""

    folder: str

    def __call__(self, number: int) -> int:
        Path(self.folder, str(os.getpid())).touch()
        until(Path(self.folder, "go").exists)
        return os.getpid()


@pytest.mark.large
def test_rounds_at_once_share_the_processes_of_one_pool(tmp_path: Path):
    pool, processes = TaskWorkers(2), list[int]()
    threads = [
        threading.Thread(target=lambda: processes.extend(pool.run(WaitingTask(str(tmp_path)), range(4))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(list(tmp_path.iterdir())) >= 2)
    (tmp_path / "go").touch()
    for thread in threads:
        thread.join()
    pool.close()
    assert len(processes) == 12
    assert len(set(processes)) == 2


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"processes": 2}, "processes= is of engine="),
        ({"engine": "local", "threads": 2}, "threads= read splits without an engine"),
        ({"engine": "local", "processes": 0}, "processes 0 must be a number above 0"),
        ({"engine": "spark", "processes": 2}, "processes= is of engine="),
        ({"threads": 0}, "threads 0 must be at least 1"),
        ({"engine": "flink"}, "engine 'flink'"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, how: dict[str, Any], why: str):
    with pytest.raises((ts.InvalidRequest, ts.NotFound), match=why):
        ts.connect(tmp_path / "lake").tier(NOWHERE, wait="0s", **how)
    assert not (tmp_path / "lake").exists()


def test_without_java_tiering_by_spark_names_the_engine_that_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ts.NotFound, match=r'no Java: none in PATH; .*engine="local"'):
        ts.connect(tmp_path / "lake").tier(NOWHERE, engine="spark")
