"""CaptureProgress: what reports of batches become, and what its buttons ask of the job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.report import (
    BatchProgress,
    BatchReport,
    CaptureJournal,
    ChunkReport,
    EventReport,
    PieceProgress,
    TableReport,
)
from tablestore.cdc.capture.source import ChunkFacts
from tests.widgets import captures


def model(*reports: BatchReport, state: str = "", now: float = 100.0) -> ts.CaptureModel:
    return ts.capture_model(reports, title="shop", now=now, state=state)


def batch(number: int, **fields: object) -> BatchReport:
    return replace(
        BatchReport(number, 10.0 + number, 10.1 + number, 11.0 + number, f"b.1:{number}"), **fields
    )


def chunk(low: str | None, high: str | None, *, rows: int = 10, source: str = "shop.a") -> ChunkReport:
    return ChunkReport(source, low, high, high is None, rows, 1.0, 1.5)


def event(kind: str, *, statement: str = "", rows: int | None = None, source: str = "shop.a") -> EventReport:
    return EventReport(kind, source, source.replace("shop", "ods"), statement, "b.1:4", 12, "done", rows)


def test_chunks_fill_the_lane_of_their_table_and_keep_their_watermark() -> None:
    view_model = model(
        batch(0, events=(event("captured", rows=40),), chunks=(chunk(None, "5"),), snapshotting=("shop.a",)),
        batch(1, chunks=(chunk("5", "9"), chunk("9", "12")), snapshotting=("shop.a",)),
    )
    (lane,) = view_model.lanes
    assert (lane.table, lane.rows, lane.remaining, lane.passes) == ("ods.a", 30, 10, 1)
    assert [chunk.position for chunk in lane.chunks] == ["b.1:0", "b.1:1", "b.1:1"]
    assert view_model.snapshotting == 1
    assert view_model.expected == 40


def test_a_snapshot_that_begins_anew_forgets_the_one_before() -> None:
    whole = (chunk(None, "5"), chunk("5", None))
    view_model = model(
        batch(0, chunks=whole),
        batch(1, events=(event("altered", statement="ALTER …", rows=25),)),
        batch(2, chunks=(chunk(None, "7", rows=20),), snapshotting=("shop.a",)),
    )
    (lane,) = view_model.lanes
    assert (lane.passes, lane.rows, lane.remaining) == (2, 20, 5)


@pytest.mark.parametrize(
    ("kind", "words"), [("dropped", "dropped"), ("renamed", "renamed"), ("emptied", "followed")]
)
def test_a_table_that_goes(kind: str, words: str) -> None:
    view_model = model(batch(0, chunks=(chunk(None, None),)), batch(1, events=(event(kind, statement="X"),)))
    assert f" {words}" in view_model.text()
    assert [change.cause for change in view_model.changes] == ["X"]


def test_changes_of_tables_that_share_a_target_belong_to_none_of_them() -> None:
    events = (event("captured"), replace(event("captured", source="crm.a"), table="ods.a"))
    rows = (TableReport("ods.a", changes=7, bad_rows=2, snapshot=3), TableReport("ods.b", changes=1))
    view_model = model(batch(0, events=events, tables=rows))
    assert {lane.source: (lane.changes, lane.bad_rows) for lane in view_model.lanes} == {
        "shop.a": (None, 2),
        "crm.a": (None, 0),
        "ods.b": (1, 0),
    }
    assert view_model.totals["bad_rows"] == 2
    assert view_model.totals["commits"] == 1


def test_a_batch_that_comes_again_counts_once() -> None:
    once = batch(3, tables=(TableReport("t", 5, 2),), commits=((11, 4),))
    assert model(once, once).totals == model(once).totals
    assert model(once, once).freshness.counts.tolist() == [4]


def test_freshness_is_from_the_commit_to_the_snapshot() -> None:
    view_model = model(batch(0, commits=((9, 98), (1, 2))))
    assert (view_model.quantile(0.5), view_model.quantile(0.95), view_model.quantile(0.99)) == (
        2.0,
        2.0,
        10.0,
    )
    assert "freshness p50 2.0 s · p95 2.0 s · p99 0:10" in view_model.text()
    assert model().quantile(0.5) is None


def test_speed_is_that_of_the_last_seconds_while_it_runs() -> None:
    slow = [batch(at, tables=(TableReport("t", changes=10),)) for at in range(30)]
    fast = [batch(at, tables=(TableReport("t", changes=100),)) for at in range(30, 50)]
    assert model(*slow, *fast, state="running", now=51).speed == pytest.approx(100, rel=0.1)
    assert model(*slow, *fast, state="running", now=100).speed == 0
    behind = batch(50, tables=(TableReport("t", changes=100),), bytes_behind=9)
    assert model(*fast, behind, state="running", now=100).speed == pytest.approx(100, rel=0.1)
    assert model(*slow, *fast).speed == pytest.approx(2300 / 50, rel=0.1)


def test_the_statement_of_a_schema_change_is_shown_at_its_time() -> None:
    view = widgets.CaptureProgress(captures.reports())
    assert "ALTER TABLE orders ADD COLUMN note VARCHAR(40)" in view.frame["svg"]
    assert "TRUNCATE TABLE nation" in view.text()
    assert view.data()["events"].to_pylist()[12] == 1
    assert len(view.model.changes) == 4
    assert view.state == ""


@pytest.mark.parametrize("width", [240, 420, 660, 1040, 1600])
@pytest.mark.parametrize("batches", [0, 1, 5, 60])
def test_every_picture_has_the_places_of_what_it_shows(width: int, batches: int) -> None:
    view = widgets.CaptureProgress(captures.reports(batches=batches))
    figure = view.figure(width=width)
    assert len(figure.meta["batches"]) == batches
    places = [*figure.meta["boxes"], *([x, 0, 0, 0] for x, *_ in figure.meta["batches"])]
    assert all(0 <= x <= width and x + wide <= width for x, _, wide, *_ in places)
    assert sum(lane.rows for lane in view.model.lanes) > 0 or not batches


def test_many_tables_and_a_long_run_stay_small() -> None:
    tables = {f"t{at}": 100_000 for at in range(200)}
    view = widgets.CaptureProgress(captures.reports(batches=900, tables=tables))
    assert "188 more tables" in view.frame["svg"]
    assert view.figure(width=1040).height < 1000
    assert len(str(view.frame)) < 250_000


def test_reports_that_come_are_drawn_and_the_end_ends_the_watch() -> None:
    job = captures.ScriptedCapture(captures.reports())
    view = widgets.CaptureProgress(job, follow=0.1, clock=lambda: captures.BEGAN + 100)
    assert view.watching
    job.advance(5)
    _until(lambda: len(view.model.reports) == 6)
    job.running, job.state = False, "ended"
    _until(lambda: not view.watching)
    assert view.state == "ended"
    assert view.frame["state"] == "ended"


def test_the_batch_under_way_counts_as_read_until_its_report_comes() -> None:
    given = captures.reports()
    job = captures.ScriptedCapture(given, shown=2)
    view = widgets.CaptureProgress(job, follow=0, clock=lambda: captures.BEGAN + 3)
    rows, chunk = view.model.totals["snapshot_rows"], given[2].chunks[0]
    facts = ChunkFacts(SourceName("shop", chunk.source.partition(".")[2]), chunk.low, chunk.high)
    pieces = (PieceProgress(facts, chunk.rows), PieceProgress(facts), PieceProgress(None, 7))
    job.under_way = BatchProgress(2, captures.BEGAN + 2, {}, {}, pieces)
    shown = view.refresh().model
    assert shown.totals["snapshot_rows"] == rows + chunk.rows
    [last] = [lane.chunks[-1] for lane in shown.lanes if lane.source == chunk.source]
    assert (last.report.rows, last.committed) == (chunk.rows, False)
    assert "2 of 3 pieces of the next written" in view.words(width=600)["subtitle"]
    assert "not committed yet" in str(view.figure(width=600).meta["boxes"])
    job.advance()
    assert view.refresh().model.under_way is None
    assert view.model.totals["snapshot_rows"] == rows + sum(c.rows for c in given[2].chunks)


def test_a_checkpoint_is_read_as_it_grows(tmp_path: Path) -> None:
    journal, given = CaptureJournal(str(tmp_path / "shop")), captures.reports(batches=5)
    for report in given[:3]:
        journal.note(report)
    view = widgets.CaptureProgress(tmp_path / "shop")
    assert view.model.reports == tuple(given[:3])
    for report in given[3:]:
        journal.note(report)
    assert view.refresh().model.reports == tuple(given)
    assert view.frame["title"] == "shop"


def test_the_buttons_ask_the_job_and_show_what_was_asked() -> None:
    now = captures.BEGAN + 10
    job = captures.ScriptedCapture(captures.reports(), shown=8)
    view = widgets.CaptureProgress(job, follow=0, clock=lambda: now)
    view._handle_custom_msg({"verb": "pause"}, [])
    assert view.wait(240).state == "paused"
    now += 3
    view._handle_custom_msg({"verb": "resume"}, [])
    assert view.wait(240).state == "running"
    assert view.model.paused == ((captures.BEGAN + 10, captures.BEGAN + 13),)
    assert "paused" in view.figure(width=1040).body
    view._handle_custom_msg({"verb": "stop"}, [])
    view.wait(240).refresh()
    assert job.asked == ["pause", "resume", "stop"]
    assert view.state == "stopped"
    view.stop().pause().resume()
    assert job.asked == ["pause", "resume", "stop"]


def test_what_ended_a_job_is_shown() -> None:
    job = captures.ScriptedCapture(captures.reports(), shown=3)
    job.running, job.error = False, OSError("the server is <gone>")
    view = widgets.CaptureProgress(job)
    assert view.state == "failed"
    assert "OSError: the server is &lt;gone&gt;" in view.frame["svg"]
    assert "error: OSError: the server is <gone>" in view.text()


def test_reports_that_cannot_be_read_leave_the_last_picture() -> None:
    job = captures.ScriptedCapture(captures.reports(), shown=3)
    view = widgets.CaptureProgress(job, follow=0)
    before = view.frame["svg"]
    job.reports = lambda: 1 / 0
    view.refresh()
    assert view.frame["error"]["text"].startswith("ZeroDivisionError")
    assert view.frame["svg"] == before


def _until(done: Callable[[], bool]) -> None:
    for _ in range(4_800):  # 240 s
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")
