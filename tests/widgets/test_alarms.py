"""LakeAlarms: the engine's alarms of every table as lines over one axis of time, and a table's figures."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from widgets.alarms.figure import alarms_figure
from widgets.alarms.model import SHOWN, AlarmLine, AlarmsModel, lined, value_text

POINTS = ((0.0, 1), (60.0, 6), (120.0, 2), (180.0, 8), (240.0, 8))


def alarm(began: float, ended: float | None, table: str = "d.t") -> AlarmLine:
    return AlarmLine(
        *(table, "slow", "sorted runs", "bucket-0", "8 sorted runs", "table.compact()", True, "most_runs"),
        points=POINTS,
        limit=5,
        worst=8,
        began=began,
        ended=ended,
    )


def model(*alarms: AlarmLine) -> AlarmsModel:
    ordered = tuple(sorted(alarms, key=lambda line: line.order))
    return AlarmsModel("lake", 1, ordered, lined(ordered), {"d.t": {"most_runs": POINTS}}, 300.0, 1)


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    """One table that waits for compaction, one that did, one without rows, one damaged."""
    lake = ts.connect(tmp_path)
    columns = {"k": ts.BIGINT, "v": ts.STRING}
    for name, commits in (("busy", 7), ("fine", 7), ("empty", 0), ("damaged", 1)):
        table = lake.create_table(
            f"d.{name}", schema=columns, primary_key=["k"], options={"write-only": True}
        )
        for number in range(commits):
            table.write([{"k": n + number, "v": "x"} for n in range(20)])
    lake.table("d.fine").with_options({"write-only": False}).compact(full=True)
    Path(lake.table("d.damaged").location, "schema", "schema-0").write_text("{")
    return lake


def test_the_alarms_are_those_of_the_engine(lake: ts.Lake) -> None:
    view = widgets.LakeAlarms(lake).wait(120)
    rows = view.data().to_pylist()
    for name in ("d.busy", "d.fine", "d.empty"):
        own = lake.table(name).inspect.alarms().to_arrow().to_pylist()
        same = ("kind", "severity", "where", "what", "began", "ended", "measure", "limit", "worst", "remedy")
        mine = [{n: row[n] for n in same} for row in rows if row["table"] == name]
        assert sorted(mine, key=str) == sorted(({n: row[n] for n in same} for row in own), key=str)
    [damaged] = [row for row in rows if row["table"] == "d.damaged"]
    assert (damaged["kind"], damaged["ended"]) == ("cannot be read", None)
    assert damaged["what"].startswith("Corrupt: ")
    holding = [row["table"] for row in rows if row["ended"] is None]
    assert holding == [row["table"] for row in rows[: len(holding)]], "what holds comes first"
    assert set(holding) == {"d.busy", "d.damaged"}
    assert view.model.progress == ""
    text, drawn = view.text(), view.to_svg()
    for words in ("d.busy", "sorted runs", "Corrupt: ", "mend: table.compact(until_quiet=True)"):
        assert words in text
    assert "table.compact(until_quiet=True)" in drawn
    assert view.model_id, "it reaches the browser"
    view.close()


def test_the_alarm_that_is_marked_chooses_the_figures(lake: ts.Lake) -> None:
    view = widgets.LakeAlarms(lake, freshness="1 d").wait(120)
    over = next(line for line in view.model.lines if line.table == "d.fine")
    view.alarm = over.id
    assert view.model.shown_table(view.alarm) == "d.fine"
    assert 'aria-selected="true"' in view.frame["svg"]
    assert "table('d.fine').inspect.alarms(freshness='1 d', moments=32)" in view.code
    view.close()


def test_one_table_and_the_record_of_maintenance(lake: ts.Lake) -> None:
    one_table = widgets.LakeAlarms(lake.table("d.busy")).wait(120)
    assert {row["table"] for row in one_table.data().to_pylist()} == {"d.busy"}
    lake.maintain(tables="d.damaged", follow=False).wait(120)
    view = widgets.LakeAlarms(lake).wait(120)
    assert "unreadable" in view.data()["kind"].to_pylist()
    one_table.close()
    view.close()


def test_reading_goes_on_in_the_background_and_stops(lake: ts.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, reading = threading.Event(), threading.Event()
    real = ts.Lake.table

    def slow(self: ts.Lake, name: str) -> ts.Table:
        if name == "d.empty":
            reading.set()
            assert gate.wait(120)
        return real(self, name)

    monkeypatch.setattr(ts.Lake, "table", slow)
    view = widgets.LakeAlarms(lake)
    assert reading.wait(120)
    assert view.busy
    view.stop()
    gate.set()
    view.wait(120)
    assert "not read" in view.model.progress
    view.refresh().wait(120)
    assert view.model.progress == ""
    view.close()


def test_a_lake_without_tables(tmp_path: Path) -> None:
    view = widgets.LakeAlarms(ts.connect(tmp_path)).wait(120)
    assert view.verdict == "no tables yet"
    assert "no tables yet" in view.to_svg()
    view.close()


def test_times_of_one_alarm_are_one_line() -> None:
    lines = model(alarm(180.0, None), alarm(60.0, 120.0)).lines
    [line] = lines
    assert (line.began, line.ended, line.before) == (180.0, None, ((60.0, 120.0),))
    assert model(alarm(180.0, None), alarm(60.0, 120.0)).verdict == "1 alarm in 1 table: 1 slow; 1 has ended"
    drawn = alarms_figure(model(alarm(180.0, None), alarm(60.0, 120.0)), width=1000).body
    assert drawn.count('class="held"') == 2
    assert drawn.count('class="alarm"') == 1


def test_a_tint_is_as_long_as_the_alarm_held() -> None:
    figure = alarms_figure(model(alarm(150.0, 300.0)), width=400).body
    left, right = 16 + 22, 400 - 16 - 84
    assert f'x="{(left + right) / 2:g}"' in figure
    assert f'width="{(right - left) / 2:g}"' in figure


def test_many_alarms_are_counted_and_not_drawn() -> None:
    many = model(*(alarm(60.0, None, f"d.t{n}") for n in range(SHOWN + 3)))
    figure = alarms_figure(many, width=900)
    assert figure.body.count('class="alarm"') == SHOWN
    assert "3 more alarms" in figure.body


@pytest.mark.parametrize("width", [240, 400, 760, 1280])
def test_words_stay_inside_the_picture(width: int) -> None:
    figure = alarms_figure(model(alarm(60.0, 120.0), alarm(180.0, None)), width=width)
    assert figure.width == width
    assert "sorted runs" in figure.body


@pytest.mark.parametrize(
    ("measure", "value", "words"),
    [
        ("kept_bytes", 2048, "2.00 KiB"),
        ("age_seconds", 61.0, "1:01"),
        ("share", 0.25, "25 %"),
        ("most_runs", 12, "12"),
        ("write_amplification", 2.0, "2.00"),
        ("opened_runs", 2.5, "2.50"),
        ("rows", None, "–"),
    ],
)
def test_a_value_has_the_unit_of_its_figure(measure: str, value: float | None, words: str) -> None:
    assert value_text(measure, value) == words
