"""Findings: what the doctor says as a picture, and mending from it: preview, decision, result."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from tablestore.insight.doctor import Diagnosis, Finding, MendingCall

WRITE_ONLY = {"bucket": 1, "write-only": True}


def made(path: Path, *, runs: int = 7, **options: object) -> ts.Table:
    table = ts.connect(str(path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options=WRITE_ONLY | options
    )
    for at in range(runs):
        table.write(pa.table({"k": pa.array(range(50), pa.int32()), "v": [str(at)] * 50}))
    return table


def press(view: widgets.Findings, verb: str, at: int | None = None) -> None:
    """As the page does, and wait."""
    view._on_verb(view, {"verb": verb, "at": at}, [])
    view.wait(240)


def at(view: widgets.Findings, kind: str) -> int:
    return [row.kind for row in view.model.rows].index(kind)


def test_each_call_has_its_place_and_its_decision(tmp_path: Path) -> None:
    view = widgets.Findings(made(tmp_path, **{"ignore-delete": True}))
    figure = view.figure(width=1080)
    assert list(figure.meta["calls"]) == ["0", "1"]
    assert all(row.what.split()[0] in figure.body for row in view.model.rows)
    assert "decide: from then on deletes take rows away" in figure.body
    assert view.frame["mendable"] == len(view.model.rows) == 2
    assert (view.frame["plan"], view.frame["off"], view.frame["busy"]) == (None, "", False)


def test_a_preview_changes_nothing_and_the_second_press_mends(tmp_path: Path) -> None:
    table = made(tmp_path)
    timeline = widgets.SnapshotTimeline(table)
    view = widgets.Findings(table)
    timeline.link(view)
    press(view, "preview", at(view, "sorted runs"))
    asked = view.frame["plan"]
    assert asked["state"] == "asked"
    assert asked["code"] == "table.compact(until_quiet=True)"
    assert asked["effect"].startswith("the first round; ")
    assert table.refresh().inspect.commits().num_rows == 7
    press(view, "mend")
    did = view.frame["plan"]
    assert (did["state"], did["asks"]) == ("done", "")
    assert did["effect"].endswith("the doctor now: sound")
    assert view.frame["subtitle"] == "sound"
    assert view.done[0].after.sound
    assert table.refresh().inspect.commits()["commit_kind"].to_pylist()[-1] == "COMPACT"
    assert timeline.model.ids[-1] == 8
    press(view, "leave")
    assert view.frame["plan"] is None


def test_nothing_is_mended_that_was_not_previewed(tmp_path: Path) -> None:
    view = widgets.Findings(made(tmp_path))
    press(view, "mend")
    press(view, "preview", 99)
    press(view, "run")
    assert (view.plan, view.done) == (None, ())
    press(view, "preview", at(view, "sorted runs"))
    press(view, "leave")
    press(view, "mend")
    assert (view.plan, view.done) == (None, ())


def test_what_is_given_up_is_said_before_it_is_decided(tmp_path: Path) -> None:
    table = made(tmp_path, runs=1, **{"ignore-delete": True})
    view = widgets.Findings(table)
    press(view, "preview", at(view, "dropped deletes"))
    asked = view.frame["plan"]
    assert "those that were dropped do not come back" in asked["asks"]
    assert asked["effect"] == "option ignore-delete: true → not set"
    press(view, "mend")
    assert "ignore-delete" not in table.refresh().options


def test_all_at_once_leaves_what_asks(tmp_path: Path) -> None:
    table = made(tmp_path, **{"ignore-delete": True})
    view = widgets.Findings(table)
    press(view, "preview", -1)
    assert "left alone: dropped deletes" in view.frame["plan"]["effect"]
    press(view, "mend")
    assert [f.kind for f in view.done[0].remaining] == ["dropped deletes"]
    assert [row.kind for row in view.model.rows] == ["dropped deletes"]


def test_the_past_is_read_only(tmp_path: Path) -> None:
    table = made(tmp_path)
    timeline, view = widgets.SnapshotTimeline(table), widgets.Findings(table)
    timeline.link(view)
    timeline.snapshot = 6
    assert view.frame["off"] == "viewing the past: read-only"
    press(view, "preview", 0)
    assert view.plan is None
    timeline.snapshot = 7
    assert view.frame["off"] == ""
    assert widgets.Findings(table, snapshot=6).frame["off"] != ""


def test_a_call_that_fails_is_reported(tmp_path: Path) -> None:
    table = made(tmp_path)
    view = widgets.Findings(table)
    press(view, "preview", at(view, "sorted runs"))
    for file in Path(table.location, "bucket-0").iterdir():
        file.unlink()
    with pytest.raises(ts.TablestoreError):
        press(view, "mend")
    failed = view.frame["plan"]
    assert failed["state"] == "failed"
    assert "data-" in failed["effect"]
    assert view.done == ()


class ForeignMetadata:
    """A table of another engine: its metadata can be read, and nothing more."""

    name = "d.t"

    def __init__(self) -> None:
        calls = (MendingCall("compact"),)
        finding = Finding("sorted runs", "slow", "bucket-0", "many to merge", calls, {"runs": 9})
        self.inspect = SimpleNamespace(doctor=lambda snapshot: Diagnosis("d.t", 1, (finding,), ()))


def test_other_engines_tables_are_shown_without_buttons() -> None:
    view = widgets.Findings(ForeignMetadata())
    assert view.model.rows[0].kind == "sorted runs"
    assert view.frame["off"] == "only tables of this engine are mended from here"
    press(view, "preview", 0)
    assert view.plan is None


def test_readers_that_would_go_wrong_are_shown_and_mended(tmp_path: Path) -> None:
    table = made(tmp_path)
    rows = table.scan().to_arrow().sort_by("k")
    view = widgets.Findings(table, readers=True)
    assert view.code == "table.inspect.readers()"
    assert "unmerged keys" in [row.kind for row in view.model.rows]
    assert "ClickHouse" in view.frame["svg"]
    assert "pypaimon, 2.1.0: compared with this engine" in view.frame["svg"]
    assert view.frame["title"].startswith("Readers")
    press(view, "preview", -1)
    press(view, "mend")
    assert view.done[0].after == table.refresh().inspect.readers()
    assert "unmerged keys" not in [row.kind for row in view.model.rows]
    assert table.refresh().scan().to_arrow().sort_by("k") == rows
