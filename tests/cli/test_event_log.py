"""`--log json`: each line of standard output is an event, up to the error that ends a command."""

from __future__ import annotations

import io
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.report import BatchReport, EventReport, TableReport
from tablestore.cli import event_log
from tablestore.cli.cdc import command as cdc
from tablestore.cli.cdc import options as cdc_options
from tablestore.cli.door import Door, ExitCode
from tablestore.cli.maintain import command as maintain
from tablestore.cli.maintain import options as maintain_options
from tablestore.cli.tier import command as tier
from tablestore.cli.tier import options as tier_options
from tablestore.tiering.report import RoundReport, SplitReport, TableState, TieringReport


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The events on standard output; nothing may be on standard error."""
    said = capsys.readouterr()
    assert said.err == ""
    return [json.loads(line) for line in said.out.splitlines()]


def of(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == name]


def test_maintenance_writes_a_line_for_each_piece_of_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lake = ts.connect(tmp_path)
    table = lake.create_table(
        "shop.a", schema={"id": ts.BIGINT}, primary_key=["id"], options={"bucket": 1, "write-only": True}
    )
    for n in range(4):
        table.write([{"id": n}])
    arguments = ["--warehouse", str(tmp_path), "--runs", "1", "--once", "--log", "json"]
    assert maintain.main(maintain_options.parsed(arguments, Door())) == ExitCode.DONE
    events = lines(capsys)
    work = of(events, "work")
    assert {event["command"] for event in events} == {"maintain"}
    assert all(set(event) >= {"time", "level", "event", "message"} for event in events)
    assert [(w["table"], w["kind"]) for w in work if w["kind"] == "compact"] == [("shop.a", "compact")]
    assert work[0]["written_bytes"] > 0
    assert "error" not in work[0]
    assert of(events, "message"), "the summary is an event, too"


def test_what_is_refused_is_an_event_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--from", "mysql://me:very-secret@127.0.0.1/shop", "--warehouse", str(tmp_path)]
    asked = cdc_options.parsed([*arguments, "--engine", "local", "--log", "json"], Door())
    assert cdc.main(asked) == ExitCode.REFUSED
    (event,) = lines(capsys)
    assert (event["event"], event["level"], event["command"]) == ("refused", "error", "cdc")
    assert "holds a password" in event["error"]
    assert "very-secret" not in json.dumps(event)


def test_a_server_that_is_away_is_no_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--from", "mysql://me@127.0.0.1:1/shop", "--warehouse", str(tmp_path)]
    password = tmp_path / "password"
    password.write_text("very-secret")
    arguments += ["--password-file", str(password), "--engine", "local", "--log", "json"]
    assert cdc.main(cdc_options.parsed(arguments, Door())) == ExitCode.FAILED
    (event,) = lines(capsys)
    assert (event["event"], event["level"]) == ("failed", "error")
    assert "127.0.0.1:1" in event["error"]
    assert "very-secret" not in json.dumps(event)


class EndedJob:
    """A capture that has ended, by an error where there is one."""

    name, state, running = "capture", "ended", False

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def reports(self) -> list[BatchReport]:
        return []


@pytest.mark.parametrize("error", [None, ts.Unavailable(0, "the server is gone")])
def test_batches_of_a_capture_are_a_line_for_each_table(error: Exception | None):
    tables = (TableReport("ods.a", 10, 4, 2, 7), TableReport("ods.b"))
    event = EventReport("altered", "shop.a", "ods.a", "ALTER TABLE a …", "pos 1", 9, "added a column")
    report = BatchReport(3, 10.0, 10.5, 12.0, "pos 1", commits=((9, 3),), tables=tables, events=(event,))
    out = io.StringIO()
    with event_log.screen_for("cdc", "json", out) as screen:
        code = cdc.show(EndedJob(error), [report], screen, None)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert code == (ExitCode.FAILED if error else ExitCode.DONE)
    (batch,) = of(events, "batch")
    expected = {"table": "ods.a", "snapshot": 7, "rows": 14, "bad_rows": 2, "batch": 3}
    assert {name: batch[name] for name in expected} == expected
    assert batch["freshness_seconds"] == 3
    (altered,) = of(events, "altered")
    assert (altered["table"], altered["source"]) == ("ods.a", "shop.a")
    assert [e["error"] for e in of(events, "failed")] == ([str(error)] if error else [])


class EndedService:
    """A tiering service after two rounds."""

    running, state = False, "stopped"

    def report(self) -> TieringReport:
        split = SplitReport(None, 0, 0, 70, offset=70, rows=70, bytes=700)
        how = {"phase": "ended", "ended": 9.0, "splits": (split,)}
        done = RoundReport(1, "shop.a", 1, 1, 0, 8.0, **how, outcome="committed", snapshot_id=5)
        failed = RoundReport(2, "shop.b", 2, 1, 0, 8.0, **how, outcome="failed", reason="bucket 0 stalls")
        return TieringReport((TableState("shop.a", 1, "Tiered", 9.0),), (done, failed), (), "stopped")

    def stop(self) -> None: ...


def test_rounds_of_tiering_are_lines():
    out = io.StringIO()
    with event_log.screen_for("tier", "json", out) as screen:
        tier.show(EndedService(), screen, once=False)
    rounds = of([json.loads(line) for line in out.getvalue().splitlines()], "round")
    assert [(r["table"], r["outcome"], r["rows"], r.get("snapshot")) for r in rounds] == [
        ("shop.a", "committed", 70, 5),
        ("shop.b", "failed", 70, None),
    ]
    assert [(r["level"], r.get("error")) for r in rounds] == [("info", None), ("error", "bucket 0 stalls")]


def test_warnings_of_the_engine_come_as_lines_and_only_meanwhile():
    out, root = io.StringIO(), logging.getLogger("tablestore")
    before = (list(root.handlers), root.propagate)
    with event_log.screen_for("cdc", "json", out):
        logging.getLogger("tablestore.flow.job").warning("job %s: again", 'a "b"\nc')
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("tablestore.maintenance.service").exception("it has failed")
        thread = threading.Thread(target=event_log.emit, args=("batch", "from a thread"))
        thread.start()
        thread.join()
    assert (list(root.handlers), root.propagate) == before
    warning, failed, batch = map(json.loads, out.getvalue().splitlines())
    assert (warning["level"], warning["message"]) == ("warning", 'job a "b"\nc: again')
    assert warning["logger"] == "tablestore.flow.job"
    assert (failed["level"], failed["error"]) == ("error", "broken")
    assert batch["message"] == "from a thread"
    event_log.emit("batch", "nobody listens")
    assert len(out.getvalue().splitlines()) == 3


@pytest.mark.parametrize(
    ("parsed", "arguments"),
    [
        (cdc_options.parsed, ["--from", "mysql://me@127.0.0.1/shop", "--plan"]),
        (maintain_options.parsed, ["--plan"]),
        (maintain_options.parsed, ["--advise", "shop.a"]),
    ],
)
def test_a_question_has_no_log(parsed: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        parsed([*arguments, "--log", "json"], Door())
    assert ended.value.code == ExitCode.REFUSED
    assert "leave --log out" in capsys.readouterr().err


def test_a_coordinator_may_log():
    asked = tier_options.parsed(["--serve", "--warehouse", "lake", "--log", "json"], Door())
    assert asked.log == "json"
