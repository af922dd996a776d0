"""LakeHealth: every table of a lake by health, the worst first; one that is broken is a row."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from widgets.lake_health.model import SHOWN, LakeModel, TableRow, ordered


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    """One table that waits, one healthy, one empty, one damaged."""
    lake = ts.connect(tmp_path)
    columns = {"k": ts.BIGINT, "v": ts.STRING}
    for name, commits in (("busy", 7), ("fine", 1), ("empty", 0), ("damaged", 1)):
        table = lake.create_table(
            f"d.{name}", schema=columns, primary_key=["k"], options={"write-only": True}
        )
        for number in range(commits):
            table.write([{"k": n + number, "v": "x"} for n in range(20)])
    Path(lake.table("d.damaged").location, "schema", "schema-0").write_text("{")
    return lake


def test_tables_are_ordered_by_health_in_the_words_of_the_engine(lake: ts.Lake) -> None:
    view = widgets.LakeHealth(lake).wait(120)
    rows = view.data().to_pylist()
    assert [row["table"] for row in rows] == ["d.damaged", "d.busy", "d.fine", "d.empty"]
    assert rows[0]["verdict"].startswith("Corrupt: ")
    for row in rows[1:]:
        health = lake.table(row["table"]).inspect.health()
        assert (row["verdict"], row["state"]) == (health.verdict, health.state)
        assert (row["files"], row["bytes"], row["snapshot"]) == (health.files, health.bytes, health.snapshot)
    assert view.verdict == "4 tables: 1 cannot be read, 1 wait for compaction, 1 healthy, 1 empty"
    drawn = view.to_svg()
    for row in rows:
        assert row["table"] in drawn
        assert row["table"] in str(view)
    assert view.model.progress == ""
    assert view.model_id, "it reaches the browser"
    view.close()


def test_a_click_opens_the_table_in_a_workbench(lake: ts.Lake) -> None:
    view = widgets.LakeHealth(lake).wait(120)
    view._on_verb(view, {"verb": "open", "table": "d.busy"}, [])
    first = view.bench
    assert first is not None
    assert "d.busy" in first.text()
    assert "Workbench" in view.code
    assert view.table == "d.busy"
    assert view.open_table("d.damaged") is None
    assert view.frame["trouble"].startswith("d.damaged: Corrupt")
    assert first.comm is None, "the workbench before is closed"
    assert view.open_table("d.fine") is view.bench is not None
    assert view.frame["trouble"] == ""
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
    view = widgets.LakeHealth(lake)
    assert reading.wait(120)
    assert view.busy
    assert view.model.reading
    view.stop()
    gate.set()
    view.wait(120)
    assert len(view.model.rows) < 4
    assert "not read" in view.model.progress
    view.refresh().wait(120)
    assert len(view.model.rows) == 4
    view.close()


def test_a_lake_without_tables_and_one_with_many(tmp_path: Path) -> None:
    view = widgets.LakeHealth(ts.connect(tmp_path)).wait(120)
    assert view.verdict == "no tables yet"
    assert "no tables yet" in view.to_svg()
    view.close()
    rows = ordered([TableRow(f"d.t{n:03}", "healthy", "healthy: 1 bucket") for n in range(SHOWN + 5)])
    model = LakeModel("lake", len(rows), rows)
    assert model.verdict == f"{SHOWN + 5} tables: {SHOWN + 5} healthy"
    assert LakeModel("lake", 9, rows[:3], reading=True).progress == "reading 4 of 9 tables …"
