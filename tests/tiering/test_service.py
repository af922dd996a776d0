"""The service over a cluster and a lake in memory: rounds, failures, what is told, the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable
from tablestore.fluss.heartbeat import FENCED_TIERING_EPOCH, TieringTable
from tablestore.table.lake import connect
from tablestore.tiering.cluster import ClusterTable, ReadStep
from tablestore.tiering.journal import TieringJournal, read_report
from tablestore.tiering.report import Heartbeat, ReportedTable, RoundReport, TieringReport
from tablestore.tiering.round import RoundParts
from tablestore.tiering.runner import ThreadRunner
from tablestore.tiering.service import ServiceSettings, TieringService
from tablestore.tiering.splits import TieringSplit
from tests.tiering.memory import MemoryCluster, MemoryLake
from tests.tiering.waiting import until

QUICK = ServiceSettings(heartbeat_seconds=0.01, poll_seconds=0.01)


def service(
    cluster: MemoryCluster,
    lake: MemoryLake,
    settings: ServiceSettings = QUICK,
    directory: Path | None = None,
) -> TieringService:
    journal = TieringJournal(None if directory is None else str(directory))
    return TieringService(RoundParts(cluster, lake, ThreadRunner(), journal, SYSTEM), settings)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster.holding(50, 30)


def test_rounds_go_on_until_it_is_stopped(cluster: MemoryCluster, tmp_path: Path):
    lake = MemoryLake()
    with_journal = service(cluster, lake, directory=tmp_path).start()
    until(lambda: len(lake.rows) == 80)
    cluster.append(1, 5)
    until(lambda: len(lake.rows) == 85)
    until(lambda: with_journal.rounds()[-1].outcome == "empty")
    assert with_journal.running
    assert with_journal.stop()
    report = with_journal.report()
    assert (report.state, report.tables[0].state, report.tables[0].lag_rows) == ("stopped", "Tiered", 0)
    assert {round_report.outcome for round_report in report.rounds} >= {"committed", "empty"}
    assert [round_report.rows for round_report in report.rounds if round_report.outcome == "committed"] == [
        80,
        5,
    ]
    assert {mark.end for mark in report.tables[0].marks} == {50, 35}
    assert cluster.heartbeats[-1].request_table is False
    assert not cluster.handed_out
    assert read_report(str(tmp_path)) == report
    assert TieringJournal(str(tmp_path)).assigned_before() == ()


class SlowCluster(MemoryCluster):
    """Its rows come when `go` is set."""

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        self.reading.set()
        for step in super().read_log(table, splits):
            assert self.go.wait(240)
            yield step


def slow(cluster: MemoryCluster) -> SlowCluster:
    created = SlowCluster(logs=cluster.logs)
    created.reading, created.go = threading.Event(), threading.Event()
    return created


def test_a_table_that_is_given_to_another_is_dropped_and_not_committed(cluster: MemoryCluster):
    waiting, lake = slow(cluster), MemoryLake()
    job = service(waiting, lake).start()
    assert waiting.reading.wait(240)
    waiting.error = FENCED_TIERING_EPOCH
    until(lambda: any(heartbeat.errors for heartbeat in job.heartbeats()))
    waiting.go.set()
    until(lambda: any(round_report.outcome == "dropped" for round_report in job.rounds()))
    waiting.error = None
    dropped = next(round_report for round_report in job.rounds() if round_report.outcome == "dropped")
    assert "another service holds the table" in dropped.reason
    assert job.stop()


def test_stopping_gives_up_the_round_and_reports_its_table_as_failed(cluster: MemoryCluster):
    waiting, lake = slow(cluster), MemoryLake()
    job = service(waiting, lake).start()
    assert waiting.reading.wait(240)
    threading.Timer(0.1, waiting.go.set).start()
    assert job.stop()
    assert not lake.rows
    assert [len(heartbeat.failed) for heartbeat in waiting.heartbeats if heartbeat.failed] == [1]
    assert job.rounds()[0].outcome == "failed"
    assert job.state == "stopped"


class FailingCluster(MemoryCluster):
    """Nobody can read its log."""

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        raise Unavailable("bucket 0 stalls")


def test_a_failure_is_shown_and_the_service_goes_on(cluster: MemoryCluster):
    lake, failing = MemoryLake(), FailingCluster(logs=cluster.logs)
    job = service(failing, lake).start()
    until(lambda: job.tables() and job.tables()[0].reason == "bucket 0 stalls")
    assert job.tables()[0].state == "Failed"
    assert job.stop()


def test_once_every_table_has_one_round(cluster: MemoryCluster):
    lake = MemoryLake()
    job = service(cluster, lake, ServiceSettings(once=True)).start()
    assert job.wait(240)
    assert len(lake.rows) == 80
    assert not cluster.heartbeats
    with pytest.raises(NotFound, match=r"no table .* matches x\.\*; there is db\.t$"):
        service(cluster, lake, ServiceSettings(("x.*",), once=True)).start().wait(240)


def test_what_a_killed_service_held_is_given_back(cluster: MemoryCluster, tmp_path: Path):
    waiting = slow(cluster)
    killed = service(waiting, MemoryLake(), directory=tmp_path).start()
    assert waiting.reading.wait(240)
    until(lambda: read_report(str(tmp_path)).rounds)
    cluster.handed_out, cluster.epoch = True, 1
    lake = MemoryLake()
    job = service(cluster, lake, directory=tmp_path).start()
    until(lambda: len(lake.rows) == 80)
    assert cluster.heartbeats[0].failed[0].tiering_epoch == 1
    assert job.stop()
    waiting.go.set()
    assert killed.stop()


class ManyTables(MemoryCluster):
    """Fifty tables, handed out in turn; `db.t7` fails for ever."""

    waiting: list[int]

    def heartbeat(self, request):
        self.waiting += [reported.table_id for reported in (*request.finished, *request.failed)]
        answer = super().heartbeat(request)
        given = None
        if request.request_table and self.waiting:
            number = self.waiting.pop(0)
            self.epochs[number] = self.epochs.get(number, 0) + 1
            given = TieringTable(number, f"db.t{number}", self.epochs[number])
        return type(answer)(0, given, answer.tiering)

    def table(self, table_path: str) -> ClusterTable:
        actual = super().table(table_path)
        return type(actual)(table_path, int(table_path.removeprefix("db.t")), actual.fields, self.buckets)

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        if table.table_id == 7:
            raise Unavailable("it cannot be read")
        return super().read_log(table, splits)


def test_of_fifty_tables_one_fails_for_ever_and_all_others_go_on(cluster: MemoryCluster):
    tables = ManyTables(logs=cluster.logs)
    tables.waiting, tables.epochs = list(range(50)), {}
    lakes: dict[str, MemoryLake] = {}

    class Lakes(MemoryLake):
        def create_committer(self, table: ClusterTable) -> MemoryLake:
            return lakes.setdefault(table.path, MemoryLake())

    job = service(tables, Lakes()).start()
    until(lambda: sum(len(lake_table.rows) == 80 for lake_table in lakes.values()) == 49)
    cluster.append(0, 1)
    until(lambda: sum(len(lake_table.rows) == 81 for lake_table in lakes.values()) == 49)
    assert job.stop()
    failed: TieringReport = job.report()
    assert [table_state.table for table_state in failed.tables if table_state.reason] == ["db.t7"]
    assert tables.epochs[7] <= 6


def test_idle_tables_cost_no_interval():
    """It is an hour here; only the first heartbeat, which asks for no table, is followed by it."""
    tables = ManyTables()
    tables.waiting, tables.epochs = [number for number in range(30) if number != 7], {}
    hourly = replace(QUICK, heartbeat_seconds=3600.0, poll_seconds=3600.0)
    job = service(tables, MemoryLake(), hourly).start()

    def first_is_given() -> bool:
        job.resume()  # the next heartbeat comes at once
        return bool(tables.epochs)

    until(first_is_given)
    until(lambda: len(tables.epochs) == 29)
    assert job.stop()
    assert {round_report.outcome for round_report in job.rounds()} == {"empty"}


def test_how_far_the_lake_is_behind_is_known_between_rounds(cluster: MemoryCluster):
    lake = MemoryLake()
    job = service(cluster, lake).start()
    until(lambda: len(lake.rows) == 80)
    assert job.stop()
    cluster.append(0, 7)
    job._marks.look()
    assert [job.tables()[0].lag_rows, *(mark.lag_rows for mark in job.tables()[0].marks)] == [7, 7, 0]


@pytest.mark.parametrize("silent", [False, True])
def test_a_table_that_is_dropped_is_an_event_once_and_is_no_longer_a_table(
    cluster: MemoryCluster, tmp_path: Path, silent: bool
):
    lake = MemoryLake()
    job = service(cluster, lake, directory=tmp_path).start()
    until(lambda: len(lake.rows) == 80)
    until(lambda: job.rounds()[-1].outcome == "empty")
    assert job.stop()
    cluster.append(0, 7)
    job._marks.look()
    cluster.is_dropped, cluster.is_silent = True, silent
    for _ in range(2):
        job._marks.look()
    if silent:  # it may be there
        assert (job.events(), len(job.tables())) == ((), 1)
        cluster.is_silent = False
        job._marks.look()
    (event,) = job.events()
    assert (event.name, event.table, event.partition) == ("table dropped", "db.t", None)
    assert event.offsets == (None if silent else 7)
    assert "the lake keeps its table; " in event.text
    assert job.tables() == ()
    again = service(cluster, lake, directory=tmp_path).start()
    assert again.stop()
    again._marks.look_for_dropped()
    assert again.events() == (event,)


@pytest.mark.parametrize("once", [False, True])
def test_a_table_that_was_dropped_while_no_service_ran_is_an_event(
    cluster: MemoryCluster, tmp_path: Path, once: bool
):
    lake = MemoryLake()
    assert service(cluster, lake, ServiceSettings(once=True), tmp_path).start().wait(240)
    cluster.is_dropped, cluster.is_silent = True, True
    if not once:
        waits = service(cluster, lake, directory=tmp_path).start()
        waits._marks.look_for_dropped()
        assert waits.stop()
        assert waits.events() == ()
    cluster.is_silent = False
    for _ in range(2):
        job = service(cluster, lake, ServiceSettings(once=once), tmp_path).start()
        until(lambda job=job: len(job.events()) == 1)
        assert job.stop()
        (event,) = read_report(str(tmp_path)).events
        assert (event.name, event.offsets) == ("table dropped", None)


def test_a_round_tells_how_far_it_is(cluster: MemoryCluster):
    waiting = slow(cluster)
    job = service(waiting, MemoryLake()).start()
    assert waiting.reading.wait(240)
    waiting.go.set()
    until(lambda: any(round_report.rows for round_report in job.rounds()))
    assert job.stop()


def test_a_journal_goes_on_where_a_killed_service_left_it(cluster: MemoryCluster, tmp_path: Path):
    before = TieringJournal(str(tmp_path))
    idle = Heartbeat(4.0, requests_table=True, coordinator_epoch=1)
    for at in (1.0, 2.0, 3.0):
        before.note_heartbeat(replace(idle, time=at))
    before.note_heartbeat(replace(idle, assigned=ReportedTable("d.t", 5)))
    before.note_round(RoundReport(7, "d.t", 1, 5, 1, 3.5, "reading"))
    before.note_state("running")
    before.write(now=True)
    lake = MemoryLake()
    job = service(cluster, lake, directory=tmp_path).start()
    until(lambda: len(lake.rows) == 80)
    assert job.stop()
    actual = ts.tiering_report(tmp_path)
    killed, other = actual.rounds[:2]
    assert (killed.number, killed.outcome, killed.reason) == (7, "failed", "the service was killed")
    assert killed.ended == 4.0
    assert other.number == 8
    assert [(heartbeat.time, heartbeat.count, heartbeat.since) for heartbeat in actual.heartbeats[:2]] == [
        (3.0, 3, 1.0),
        (4.0, 1, None),
    ]
    assert actual.heartbeats[2].registers


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"source": "http://h:1"}, "no address of a cluster"),
        ({"source": "fluss://h"}, "no address of a Fluss cluster"),
        ({"poll": "soon"}, "poll 'soon' must be a duration"),
        ({"rounds": 0}, "rounds 0 must be at least 1"),
        ({"lost_rows": "keep"}, "lost_rows 'keep' must be one of fail, skip"),
        ({"dropped": "skip"}, "dropped 'skip' must be one of keep, drop"),
    ],
)
def test_wrong_arguments_of_the_verb_are_said_before_anything_is_made(
    tmp_path: Path, wrong: dict[str, object], text: str
):
    given: dict[str, object] = {"source": "fluss://127.0.0.1:1", **wrong}
    with pytest.raises(InvalidRequest, match=text):
        connect(tmp_path / "lake").tier(**given)
    assert not (tmp_path / "lake").exists()


def test_a_service_that_ends_closes_its_connections(cluster: MemoryCluster):
    ended = service(cluster, MemoryLake()).start()
    assert not cluster.closed
    ended.stop()
    assert cluster.closed
