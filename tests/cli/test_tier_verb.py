"""`./workbench tier`: its options, its picture, its lines."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import tablestore as ts
from tablestore.cli.door import Door
from tablestore.cli.running import FAILED, REFUSED
from tablestore.cli.tier import command as tier
from tablestore.cli.tier import options
from tablestore.cli.tier.screen import fresh_rounds, picture, round_line, summary
from tablestore.flow.runner import ENGINES
from tablestore.tiering.coordinator.coordinator import HOST
from tablestore.tiering.coordinator.table_states import TableFreshness, TableStatus, TieringState
from tablestore.tiering.dropped import DROPPED
from tablestore.tiering.opening import LOST_ROWS
from tablestore.tiering.report import (
    BucketMarks,
    Heartbeat,
    ReportedTable,
    RoundReport,
    SplitReport,
    TableState,
    TieringEvent,
    TieringReport,
)

SPLIT = SplitReport(None, 0, 0, 100, offset=50, rows=50, started=10.0)
UNDER_WAY = RoundReport(2, "shop.orders", 1, 4, 0, 10.0, phase="reading", splits=(SPLIT,))
DONE = RoundReport(
    1,
    "shop.clicks",
    2,
    3,
    0,
    8.0,
    phase="ended",
    ended=9.0,
    splits=(SplitReport(None, 0, 0, 70, offset=70, rows=70),),
    outcome="committed",
    snapshot_id=5,
)
REPORT = TieringReport(
    (
        TableState("shop.clicks", 2, "Tiered", 9.0, 3, 5.0, 8.0, lag_rows=0),
        TableState("shop.orders", 1, "Tiering", 10.0, 4, marks=(BucketMarks(None, 0, 100),), lag_rows=100),
        TableState("shop.bad", 3, "Failed", 9.5, 9, reason="bucket 0 stalls"),
    ),
    (DONE, UNDER_WAY),
    (Heartbeat(10.0, tiering=(ReportedTable("shop.orders", 4),), coordinator_epoch=0),),
    "running",
)


def tier_verb(*arguments: str) -> int:
    return tier.main(options.parsed(arguments, Door()))


def test_the_words_of_options_are_those_of_the_engine() -> None:
    ours = (options.HOST, options.DROPPED, options.LOST_ROWS, options.ENGINES)
    assert ours == (HOST, DROPPED, LOST_ROWS, ENGINES)


def shown(report: TieringReport) -> str:
    screen = Console(width=160, record=True, file=io.StringIO())
    screen.print(picture(report, title="tier", now=12.0))
    return screen.export_text()


def test_the_picture_has_states_lags_splits_and_reasons() -> None:
    text = shown(REPORT)
    assert "tier  running  1 round 70 rows" in text
    assert text.index("shop.bad") < text.index("shop.orders") < text.index("shop.clicks")
    for part in ("bucket 0 stalls", "4.0 s ago of 5.0 s", "epoch 4: reading", "[0, 100)", "never"):
        assert part in text, part


def test_a_round_is_a_line_once() -> None:
    seen: set[int] = set()
    assert [round_report.number for round_report in fresh_rounds(REPORT, seen)] == [1]
    assert list(fresh_rounds(REPORT, seen)) == []
    assert round_line(DONE) == "shop.clicks committed 70 rows in snapshot 5, 1.0 s, 70 rows/s"


def test_the_summary_names_what_failed() -> None:
    assert summary(REPORT) == "70 rows in 1 round of 3 tables\nshop.bad failed: bucket 0 stalls"


def test_the_summary_names_what_the_cluster_dropped_meanwhile() -> None:
    lost = replace(DONE, outcome="incomplete")
    events = tuple(
        TieringEvent("shop.clicks", "partition dropped", f"day {day} is gone", time=time)
        for day, time in (("a", lost.started - 9.0), ("b", lost.started + 0.1))
    )
    actual = summary(TieringReport((), (lost,), events=events))
    assert actual == "70 rows in 1 round of 0 tables\nshop.clicks partition dropped: day b is gone"


def test_options_are_those_of_the_verb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    collected: dict[str, object] = {}
    monkeypatch.setattr("tablestore.table.lake.Lake.tier", lambda _, source, **given: collected.update(given))
    written = ["--from", "fluss://h:1", "--tables", "a.*", "--warehouse", str(tmp_path), "--once"]
    more = ["--lost-rows", "skip", "--dropped", "drop", "--log-columns"]
    tier.started(options.parsed([*written, *more], Door()), {"engine": "local", "processes": 3})
    assert (collected["tables"], collected["follow"], collected["lost_rows"]) == ("a.*", False, "skip")
    assert collected["dropped"] == "drop"
    assert collected["log_columns"] is True
    assert (collected["engine"], collected["processes"]) == ("local", 3)


def test_nobody_there_is_said_and_nothing_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    assert tier_verb("--from", "fluss://127.0.0.1:1", "--warehouse", str(lake), "--wait", "0s") == FAILED
    assert "tier:" in capsys.readouterr().err
    assert tier_verb("--from", "http://x", "--warehouse", str(lake)) == REFUSED
    assert not lake.exists()


def status(number: int, state: TieringState, *, due_ms: int | None = None, failures: int = 0) -> TableStatus:
    table = TableFreshness(number, f"shop.t{number}", 5_000)
    return TableStatus(table, state, 3, 1_000, None, due_ms, None, 2, failures)


def test_a_coordinator_shows_which_table_is_due() -> None:
    screen = Console(width=120, record=True, file=io.StringIO())
    tables = [status(1, TieringState.SCHEDULED, due_ms=14_000), status(2, TieringState.PENDING)]
    screen.print(tier.coordinator_picture(tables, "127.0.0.1:9123", epoch=4, now=12.0))
    text = screen.export_text()
    assert "coordinator at fluss://127.0.0.1:9123, epoch 4  2 tables" in text
    assert text.index("shop.t2") < text.index("shop.t1")
    assert "in 2.0 s" in text
    assert "pending for 11.0 s" in text


def test_changes_of_states_are_lines() -> None:
    before = {
        table_status.table.table_id: table_status
        for table_status in (status(1, TieringState.PENDING), status(2, TieringState.TIERING))
    }
    now = [status(1, TieringState.TIERING, failures=1), status(3, TieringState.SCHEDULED)]
    assert list(tier.changes(before, now)) == [
        "shop.t1 Pending → Tiering, epoch 3, 2 rounds, 1 failure",
        "shop.t3 Scheduled, epoch 3",
        "shop.t2 is gone",
    ]
    assert list(tier.changes(before, list(before.values()))) == []


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (["--serve", "--once"], "not --once"),
        (["--serve", "--log-columns"], "not --log-columns"),
        (["--from", "fluss://h:1", "--port", "1"], "--port is of --serve"),
        (["--from", "fluss://h:1", "--host", "h"], "--host is of --serve"),
        (["--serve", "--from", "fluss://h:1"], "not allowed with"),
        (["--from", "fluss://h:1", "--cores", "2"], "--cores is of --engine"),
        (
            ["--from", "fluss://h:1", "--engine", "local", "--master", "spark://h:7"],
            "--master is of --engine spark",
        ),
        (["--from", "fluss://h:1", "--master", "spark://h:7"], "--master is of --engine spark"),
        (["--serve", "--engine", "local"], "not --engine"),
        ([], "one of the arguments"),
    ],
)
def test_options_of_one_side_are_not_of_the_other(
    written: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options.parsed(written, Door())
    assert why in capsys.readouterr().err


def test_a_host_that_others_reach_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert tier_verb("--serve", "--host", "0.0.0.0", "--warehouse", str(lake)) == REFUSED
    assert "ssh -L PORT:127.0.0.1:PORT" in " ".join(capsys.readouterr().err.split())
    assert not lake.exists()


@pytest.mark.large
def test_a_service_of_another_process_brings_rows_into_files_through_the_coordinator(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    lake = ts.connect(tmp_path)
    options = {
        "log.system": "embedded",
        "tablestore.tiering.enabled": True,
        "tablestore.tiering.freshness": "1 s",
    }
    table = lake.create_table("shop.orders", schema={"id": ts.BIGINT}, primary_key=["id"], options=options)
    table.write([{"id": 1}, {"id": 2}])
    command = [sys.executable, "-m", "tablestore.cli", "tier", "--serve", "--warehouse", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        try:
            address = served.stdout.readline().strip()
            service = lake.tier(address, poll="50ms")
            until = time.monotonic() + 120
            while table.log.in_files != table.log.end and time.monotonic() < until:
                time.sleep(0.05)
            service.stop()
        finally:
            served.send_signal(signal.SIGINT)
            out, err = served.communicate(timeout=120)
    assert table.log.in_files == table.log.end
    assert served.returncode == 130, err
    assert "shop.orders Scheduled" in out
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.large
def test_once_by_processes_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("google.protobuf")
    lake = ts.connect(tmp_path)
    tiered = {"log.system": "embedded", "tablestore.tiering.enabled": True, "bucket": 2}
    table = lake.create_table("shop.orders", schema={"id": ts.BIGINT}, primary_key=["id"], options=tiered)
    table.write([{"id": n} for n in range(100)])
    with lake.coordinator() as coordinator:
        local = ("--engine", "local", "--cores", "2", "--once")
        code = tier_verb("--from", f"fluss://{coordinator.address}", "--warehouse", str(tmp_path), *local)
    assert (code, table.log.in_files) == (0, table.log.end)
    assert "shop.orders committed 100 rows" in capsys.readouterr().out
    assert table.check() == []
