"""TieringView: what a service's reports become, and what its buttons ask of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import widgets
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.report import (
    BucketMarks,
    Heartbeat,
    ReportedTable,
    RoundReport,
    SplitReport,
    TableError,
    TableState,
    TieringReport,
)
from tests.widgets import tierings
from widgets.tiering.figure import tiering_figure
from widgets.tiering.model import TieringModel, shown_tables, text_form, tiering_model


def model(report: TieringReport, *, now: float = 20.0, **chosen: object) -> TieringModel:
    return tiering_model(report, title="shop", now=now, **chosen)


def table(name: str, state: str = "Tiered", **fields: object) -> TableState:
    return replace(TableState(name, 1, state, 10.0, 2, 5.0, 15.0, 0), **fields)


def split(bucket: int, start: int, stop: int, **fields: object) -> SplitReport:
    return replace(SplitReport(None, bucket, start, stop), **fields)


def test_tables_are_counted_by_state_and_lag() -> None:
    view_model = model(
        TieringReport(
            (
                table("a", "Initialized"),
                table("b", "Tiering", lag_rows=70, tiered_at=12.0),
                table("c", "Failed", lag_rows=30, tiered_at=None, reason="disk full"),
            ),
            state="running",
        )
    )
    assert dict(view_model.counts) == {"New": 1, "Tiering": 1, "Failed": 1}
    assert view_model.lag_rows == 100
    assert view_model.oldest is view_model.tables[1]
    assert view_model.age(view_model.tables[1]) == 8.0
    assert [view_model.late(table) for table in view_model.tables] == [False, False, False]
    assert model(view_model.report, now=22.5).late(view_model.tables[1])
    words = text_form(view_model)
    assert "✕ c Failed      epoch 2     30 rows behind, never complete, asks 5.0 s: disk full" in words


def test_the_chosen_round_is_the_newest_with_splits() -> None:
    rounds = (
        RoundReport(1, "a", 1, 1, 0, 1.0, "ended", 2.0, (split(0, 0, 9),), "committed", 4),
        RoundReport(2, "a", 1, 2, 0, 3.0, "ended", 3.1, (), "empty"),
        RoundReport(3, "b", 2, 1, 0, 4.0, "ended", 5.0, (split(0, 0, 5, rows=5),), "failed", None, "gone"),
    )
    report = TieringReport((table("a"), table("b")), rounds)
    view_model = model(report)
    assert (view_model.table, view_model.round) == (report.tables[1], rounds[2])
    assert model(report, table="a").round is rounds[0]
    assert model(report, table="a", number=2).round is rounds[1]
    assert model(report, table="a", number=3).round is rounds[0]  # one of another table
    assert "round 3, epoch 1: failed: gone, 0 of 1 split read, 5 rows" in text_form(view_model)
    planning = replace(rounds[1], number=4, ended=None, outcome="", phase="planning")
    assert model(replace(report, rounds=(*rounds, planning)), table="a").round is rounds[0]
    assert model(replace(report, rounds=(planning,)), table="a").round is planning


def test_a_bucket_has_three_marks_and_its_split() -> None:
    marks = (
        BucketMarks(None, 0, end=120, tiered=100, readable=80),
        BucketMarks(None, 1, end=50, start=10),
        BucketMarks(None, 2, end=70),
    )
    splits = (split(0, 100, 110, offset=105, rows=5, started=1.0), split(2, 60, 70, snapshot_id=3))
    report = RoundReport(1, "a", 1, 1, 0, 1.0, "reading", splits=splits)
    view_model = model(TieringReport((table("a", marks=marks),), (report,)))
    assert [(lane.begin, lane.end, lane.tiered, lane.lag_rows) for lane in view_model.lanes] == [
        (80, 120, 100, 20),
        (10, 50, 10, 40),
        (60, 70, 0, 70),
    ]
    drawn = tiering_figure(view_model, width=1040)
    assert drawn.body.count('class="mark"') == 2 + 3 + 2  # the legend, three ends, two of bucket 0
    assert "hidden until a compaction" in drawn.body
    card = next(spot for spot in drawn.meta["spots"] if spot[4] == "bucket 0")
    assert ["readable up to", "80"] in card[5]
    assert ["reads", "log split, offsets 100 … 110"] in card[5]
    assert "50 % read" in drawn.body


def test_heartbeats_that_say_the_same_are_one_line() -> None:
    idle = Heartbeat(1.0, requests_table=True, coordinator_epoch=4)
    error = TableError("a", 50, "another service holds the table")
    lost = Heartbeat(9.0, tiering=(ReportedTable("a", 3),), coordinator_epoch=4, errors=(error,))
    beats = (
        idle,
        replace(idle, time=2.0),
        replace(idle, time=3.0),
        lost,
        Heartbeat(10.0, failed=lost.tiering, reason="refused"),
    )
    beats = (*beats, Heartbeat(12.0, coordinator_epoch=5))
    view_model = model(TieringReport(heartbeats=beats, state="running"))
    assert [(exchange.count, exchange.failed) for exchange in view_model.exchanges] == [
        (3, False),
        (1, True),
        (1, True),
        (1, False),
    ]
    assert view_model.silences == ((10.0, 12.0),), "another service begins"
    assert model(view_model.report, now=40.0).silences[1:] == ((12.0, 40.0),)
    body = tiering_figure(view_model, width=1040).body
    assert "✕ a: another service holds the table (error 50)" in body
    assert "✕ no answer: refused" in body
    assert "00:00:03 ×3" in body


@pytest.mark.parametrize("width", [300, 420, 660, 900, 1040, 1600])
@pytest.mark.parametrize("at", [0.0, 1.3, 30.0, 46.2])
def test_every_picture_has_the_places_of_what_it_shows(width: int, at: float) -> None:
    view_model = model(tierings.report(at), now=tierings.BEGAN + at)
    drawn = tiering_figure(view_model, width=width)
    for x, y, wide, tall, heading, facts, *_ in drawn.meta["spots"]:
        assert -10 <= x <= x + wide <= width + 10
        assert 0 <= y <= y + tall <= drawn.height
        assert heading
        assert all(len(pair) == 2 for pair in facts)
    assert {spot[6] for spot in drawn.meta["spots"]} >= {table.table for table in view_model.tables}


def test_many_tables_and_a_long_run_stay_small() -> None:
    view_model = model(tierings.report(120.0, copies=12), now=tierings.BEGAN + 120)
    assert len(view_model.tables) == 48
    shown = shown_tables(view_model, 12)
    assert {table.table for table in view_model.tables if table.state == "Failed"} <= {
        table.table for table in shown
    }
    drawn = tiering_figure(view_model, width=1040)
    assert "36 more tables" in drawn.body
    assert drawn.height < 1100
    assert len(drawn.body) + len(str(drawn.meta)) < 150_000
    wide = (table("t", marks=tuple(BucketMarks(None, at, end=at) for at in range(10_000))),)
    assert "9,988 more buckets, each 9,987 rows behind at most" in (
        tiering_figure(model(TieringReport(wide)), width=1040).body
    )


def test_a_service_is_followed_until_it_ends() -> None:
    job = tierings.ScriptedTiering(10.0)
    view = widgets.TieringView(job, follow=0.1, clock=lambda: tierings.BEGAN + job.at)
    assert view.watching
    before = len(view.model.rounds)
    job.advance(10)
    _until(lambda: len(view.model.rounds) > before)
    job.running, job.state = False, "stopped"
    _until(lambda: not view.watching)
    assert (view.state, view.frame["state"]) == ("stopped", "stopped")


def test_a_journal_is_read_as_it_grows(tmp_path: Path) -> None:
    view = widgets.TieringView(tmp_path / "shop", follow=0.1)
    assert (view.watching, view.state, view.frame["title"]) == (True, "", "shop")
    journal, given = TieringJournal(str(tmp_path / "shop")), tierings.report(5.0)
    for round_report in given.rounds:
        journal.note_round(round_report)
    for table in given.tables:
        journal.note_table(table)
    journal.note_state("running")
    journal.write(last=True)
    _until(lambda: view.model.rounds == given.rounds)
    journal.note_state("stopped")
    journal.write(last=True)
    _until(lambda: not view.watching)
    assert (view.state, view.model.tables) == ("stopped", given.tables)


def test_the_buttons_ask_the_service() -> None:
    job, killed, next_one = tierings.ScriptedTiering(), list[int](), tierings.ScriptedTiering(20.0)

    def kill() -> None:
        killed.append(1)
        job.running, job.state = False, "failed"

    view = widgets.TieringView(job, kill=kill, start=lambda: next_one, follow=0)
    assert view.frame["can"] == ["pause", "stop", "kill", "start"]
    view._handle_custom_msg({"verb": "pause"}, [])
    assert view.state == "paused"
    view._handle_custom_msg({"verb": "resume"}, [])
    assert view.state == "running"
    view._handle_custom_msg({"verb": "kill"}, [])
    assert (view.state, killed) == ("killed", [1])
    assert view.model.silences[-1][1] == view.model.now
    view._handle_custom_msg({"verb": "start"}, [])
    assert view.model.rounds == next_one.rounds()
    view._handle_custom_msg({"verb": "stop"}, [])
    view.wait(60).refresh()
    assert (job.asked, next_one.asked) == (["pause", "resume"], ["stop"])
    assert view.state == "stopped"
    assert widgets.TieringView(tierings.report(3.0)).frame["can"] == []


def test_what_a_button_raised_is_shown() -> None:
    def kill() -> None:
        raise OSError("no such <process>")

    view = widgets.TieringView(tierings.ScriptedTiering(), kill=kill, follow=0).kill()
    assert "OSError: no such &lt;process&gt;" in view.frame["svg"]
    assert "error: OSError: no such <process>" in view.text()


def test_what_ended_a_service_is_shown() -> None:
    job = tierings.ScriptedTiering()
    job.running, job.state, job.error = False, "failed", OSError("the cluster is gone")
    view = widgets.TieringView(job)
    assert "The service has ended" in view.frame["svg"]
    assert "error: OSError: the cluster is gone" in view.text()


def test_a_choice_is_drawn_at_once() -> None:
    view = widgets.TieringView(tierings.report(20.0), table="shop.events")
    assert "Buckets of shop.events" in view.frame["svg"]
    view.table = "shop.parts"
    assert "Buckets of shop.parts" in view.frame["svg"]
    first = next(round_report for round_report in view.model.rounds if round_report.table == "shop.orders")
    view.round = first.number
    view.table = "shop.orders"
    assert view.model.round is first
    view.table = "shop.gone"
    assert view.table != "shop.gone"


def test_a_page_has_a_frame_a_table() -> None:
    view = widgets.TieringView(tierings.report(20.0), table="shop.events")
    created = view.export(widths=(700,))
    assert list(created["frames"]["700"]) == [table.table for table in view.model.tables]
    assert "Buckets of shop.parts" in created["frames"]["700"]["shop.parts"]["svg"]
    assert widgets.TieringView(TieringReport()).export(widths=(700,))["frames"]["700"][""]["svg"]


def test_tables_as_data() -> None:
    data = widgets.TieringView(tierings.report(20.0)).data()
    assert data["table"].to_pylist() == ["shop.customers", "shop.events", "shop.orders", "shop.parts"]
    assert data["reason"].to_pylist()[3] == tierings.DISK_FULL


def test_reports_that_cannot_be_read_leave_the_last_picture() -> None:
    job = tierings.ScriptedTiering()
    view = widgets.TieringView(job, follow=0)
    before = view.frame["svg"]
    job.rounds = lambda: 1 / 0
    view.refresh()
    assert view.frame["error"]["text"].startswith("ZeroDivisionError")
    assert view.frame["svg"] == before


def _until(done: Callable[[], bool]) -> None:
    for _ in range(4_800):  # 240 s
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")
