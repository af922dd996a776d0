"""Rounds that wait before a phase: they are seen there, and so is what a kill would leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.tiering.journal import TieringJournal, read_report
from tablestore.tiering.report import HoldPhase
from tablestore.tiering.round import RoundHold, RoundParts
from tablestore.tiering.runner import ThreadRunner
from tablestore.tiering.service import ServiceSettings, TieringService
from tests.tiering.memory import MemoryCluster, MemoryLake
from tests.tiering.waiting import until

QUICK = ServiceSettings(heartbeat_seconds=0.01, poll_seconds=0.01)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster.holding(50)


@pytest.fixture
def lake() -> MemoryLake:
    return MemoryLake()


@pytest.fixture
def job(cluster: MemoryCluster, lake: MemoryLake, tmp_path: Path) -> Iterator[TieringService]:
    journal = TieringJournal(str(tmp_path / "journal"))
    hold = RoundHold(str(tmp_path / "hold"))
    service = TieringService(RoundParts(cluster, lake, ThreadRunner(), journal, SYSTEM, hold=hold), QUICK)
    yield service
    assert service.stop()


def waits(tmp_path: Path, phase: HoldPhase) -> bool:
    """Whether the journal, as another process reads it, has a round that waits there."""
    return any(
        (round_report.phase, round_report.ended) == (phase, None)
        for round_report in read_report(str(tmp_path / "journal")).rounds
    )


def test_a_round_waits_before_its_commit_to_the_lake(
    cluster: MemoryCluster, lake: MemoryLake, job: TieringService, tmp_path: Path
):
    (tmp_path / "hold").write_text("committing\n")
    job.start()
    until(lambda: waits(tmp_path, "committing"))
    assert (lake.rows, cluster.known) == ([], None)
    assert job.rounds()[-1].rows == 50
    (tmp_path / "hold").unlink()
    until(lambda: cluster.known is not None)
    assert len(lake.rows) == 50


def test_a_round_waits_before_the_cluster_learns_of_its_commit(
    cluster: MemoryCluster, lake: MemoryLake, job: TieringService, tmp_path: Path
):
    (tmp_path / "hold").write_text("registering")
    job.start()
    until(lambda: waits(tmp_path, "registering"))
    assert (len(lake.rows), cluster.known) == (50, None)
    (tmp_path / "hold").write_text("committing")
    until(lambda: cluster.known is not None)


def test_a_service_that_is_stopped_waits_no_longer(lake: MemoryLake, job: TieringService, tmp_path: Path):
    (tmp_path / "hold").write_text("committing")
    job.start()
    until(lambda: waits(tmp_path, "committing"))
    assert job.stop()
    assert job.rounds()[-1].outcome == "failed"
    assert (lake.rows, lake.aborted) == ([], 1)


def test_another_word_is_refused_and_the_files_of_the_round_are_deleted(
    lake: MemoryLake, job: TieringService, tmp_path: Path
):
    (tmp_path / "hold").write_text("soon")
    job.start()
    until(lambda: any(round_report.outcome == "failed" for round_report in job.rounds()))
    failed = next(round_report for round_report in job.rounds() if round_report.outcome == "failed")
    assert failed.reason == f"{tmp_path}/hold says 'soon': rounds can wait before committing or registering"
    assert lake.aborted >= 1
    (tmp_path / "hold").write_text("")
    until(lambda: len(lake.rows) == 50)


def test_who_has_no_file_never_waits(cluster: MemoryCluster, lake: MemoryLake):
    RoundHold().wait("db.t", "committing", lambda: pytest.fail("it waited"))
    with pytest.raises(ts.InvalidRequest, match="hold"):
        ts.connect("x").tier("fluss://127.0.0.1:1", hold=5)
