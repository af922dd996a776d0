"""Both sides of a what-if: the same commits, the same rows, the engine's numbers and words."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import tablestore as ts
from tablestore.insight.simulator import Workload, simulate
from tests.insight.simulator.test_history_replay import BYTES, TABLES, TRIGGER, live
from widgets import SnapshotTimeline, WhatIf
from widgets.what_if.figure import course_part, levels_part, signed
from widgets.what_if.model import levels_pair, what_if_model

WORKLOAD = Workload("uniform", rows=500, keys=5_000, deletes=0.1)
LEVELED = {
    "tablestore.compaction.strategy": "leveled",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "60 kb",
    "target-file-size": "30 kb",
}
XSS = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ts.Table:
    """A small real table with a history."""
    return live(BYTES.create(tmp_path_factory.mktemp("lake"), TABLES["universal"]), 3)


def test_rows_stay_where_they_are_at_every_commit_on_both_sides() -> None:
    answer = ts.what_if(WORKLOAD, LEVELED, {"target-file-size": "30 kb"}, flushes=40)
    model = what_if_model(answer)
    lanes, heights = set(), set()
    for commit in range(40):
        pair = levels_pair(model, answer, commit)
        lanes.add(tuple(tuple(lane.level for lane in side.lanes) for side in pair))
        assert len(pair[0].lanes) == len(pair[1].lanes)
        heights.add(levels_part(model, pair, width=1040).height)
    assert len(lanes) == len(heights) == 1


def test_levels_without_a_row_are_named(table: ts.Table) -> None:
    answer = table.what_if({TRIGGER: 8})
    model = what_if_model(answer)
    pair = levels_pair(model, answer, len(model) - 1)
    deepest = [side.num_levels - 1 for side in model.sides]
    assert deepest[0] < deepest[1]
    assert [drawn.lanes[-1].level for drawn in pair] == deepest
    assert "not drawn: A L1" in levels_part(model, pair, width=1040).body
    absent = [lane for lane in pair[0].lanes if lane.note == "not in A"]
    assert all(not lane.count and not lane.label for lane in absent)


def test_the_model_says_the_engines_numbers(table: ts.Table) -> None:
    answer = table.what_if({TRIGGER: 8})
    model = what_if_model(answer, title="d.t")
    rows = answer.changed.commits(("", 0))
    assert model.ids.tolist() == [row.snapshot for row in rows]
    assert [kind == "COMPACT" for kind in model.b.kinds].count(True) <= rows[-1].compactions
    assert model.b.numbers.value(1, 5) == rows[5].runs
    assert model.verdict == answer.verdict("B")
    assert model.reproduced is True
    assert [(c.name, c.value) for c in model.b.chips if c.differs] == [("trigger", "8")]
    assert model.form["trigger"] == "8"


def test_changes_carry_their_sign() -> None:
    assert [signed(by) for by in (-0.31, 0.26, 0.001, None)] == ["−31 %", "+26 %", "±0", "–"]


@pytest.mark.parametrize("width", [1040, 700, 420])
def test_the_picture_is_well_formed_and_stays_inside(width: int) -> None:
    view = WhatIf(WORKLOAD, {TRIGGER: 8}, flushes=30).wait(240)
    figure = view.figure(width=width)
    tree = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    assert all(0 <= float(element.get("x", 0)) <= width for element in tree.iter("text"))
    words = " ".join("".join(element.itertext()) for element in tree.iter("text"))
    assert "B compacts" in words
    assert "trigger 8" in words


def test_many_commits_are_drawn_as_density() -> None:
    answer = ts.what_if(Workload("uniform", rows=50, keys=5_000), {TRIGGER: 8}, flushes=1_500)
    figure = course_part(what_if_model(answer), width=1040)
    assert len(figure.body) < 60_000


def test_scrubbing_shows_the_levels_of_that_commit_and_a_timeline_follows(table: ts.Table) -> None:
    view, timeline = WhatIf(table, {TRIGGER: 8}).wait(240), SnapshotTimeline(table)
    timeline.link(view)
    view.index = 4
    assert timeline.snapshot == view.snapshot == view.model.ids[4]
    newest = view.now["levels"]
    timeline.snapshot = int(view.model.ids[9])
    assert view.index == 9
    assert view.now["levels"] != newest
    between = int(view.model.ids[9]) + 1
    if between not in view.model.ids:
        timeline.snapshot = between
        assert (view.index, timeline.snapshot) == (9, between)


def test_b_can_be_changed_and_a_stays(table: ts.Table) -> None:
    view = WhatIf(table, {TRIGGER: 8}).wait(240)
    first = view.comparison
    view._on_verb(view, {"verb": "replay", "form": {**view.form, "trigger": "3"}}, [])
    view.wait(240)
    assert view.options == {TRIGGER: "3"}
    assert view.comparison.actual is first.actual
    assert view.comparison.differences == table.what_if({TRIGGER: 3}).differences
    assert view.progress == {}
    view.replay({**view.options, **LEVELED}).wait(240)
    assert view.form["strategy"] == "leveled"
    assert (view.form["level0"], view.form["base"], view.form["multiplier"]) == ("4", "60 kb", "5")
    form = {**view.form, "level0": "2", "base": "3 kb", "multiplier": "3"}
    view._on_verb(view, {"verb": "replay", "form": form}, [])
    view.wait(240)
    assert view.form == form
    assert view.options["tablestore.compaction.leveled.max-bytes-for-level-base"] == "3 kb"


def test_options_that_are_wrong_are_said_and_the_picture_stays(table: ts.Table) -> None:
    view = WhatIf(table, {TRIGGER: 8}).wait(240)
    good = view.frame["svg"]
    view.replay({TRIGGER: "few"}).wait(240)
    assert "InvalidOption" in view.frame["error"]["text"]
    assert view.frame["svg"] == good
    view.replay({TRIGGER: "8"}).wait(240)
    assert "error" not in view.frame


class Blocked:
    """A table whose replay waits until it is cancelled or let go."""

    def __init__(self) -> None:
        self.go, self.reported = threading.Event(), threading.Event()

    def what_if(self, options: Any, *, baseline: Any = None, progress: Any = None) -> Any:
        for done in range(10_000):
            progress(done, 10_000)
            self.reported.set()
            if self.go.wait(0.01):
                break
        return ts.what_if(WORKLOAD, options, baseline, flushes=10)


def test_a_replay_is_cancelled_at_once_and_says_so() -> None:
    blocked = Blocked()
    view = WhatIf(blocked, {TRIGGER: 8})
    assert blocked.reported.wait(240)
    assert view.busy
    assert view.progress["busy"]
    view.cancel().wait(240)
    assert not view.busy
    assert "cancelled" in view.progress["text"]
    assert view.model is None
    blocked.go.set()
    view.refresh().wait(240)
    assert len(view.model) == 10


def test_a_baseline_stands_for_a() -> None:
    view = WhatIf(WORKLOAD, {TRIGGER: 8}, baseline={TRIGGER: 3}, flushes=20).wait(240)
    assert view.comparison.actual.options.trigger == 3
    assert view.data()["variant"].unique().to_pylist() == ["A", "B"]
    assert view.code == f"ts.what_if(workload, {{'{TRIGGER}': '8'}}, baseline={{'{TRIGGER}': 3}}, flushes=20)"


def test_a_simulation_as_a_source() -> None:
    run = simulate(WORKLOAD, {TRIGGER: 4}, flushes=20)
    view = WhatIf(run, {TRIGGER: 8}).wait(240)
    assert (len(view.model), view.comparison.actual.options.trigger) == (20, 4)
    assert view.model.a.numbers.series[0][-1] == pytest.approx(run.summary.write_amplification)


def test_another_bucket_can_be_opened() -> None:
    view = WhatIf(WORKLOAD, {TRIGGER: 8}, flushes=20, buckets=3).wait(240)
    assert len(view.frame["places"]) == 3
    other = next(place for place in view.frame["places"] if place != view.opened)
    view.opened = other
    assert view.model.opened == other
    assert view.opened == other


def test_names_from_data_are_only_text() -> None:
    view = WhatIf(WORKLOAD, {TRIGGER: 8}, flushes=10, title=XSS).wait(240)
    for text in (view.to_svg(), view.frame["svg"], view._repr_mimebundle_()[0]["text/html"]):
        assert "<img src=x" not in text
    assert XSS in view.text()


def test_the_text_form_has_verdict_state_and_trust(table: ts.Table) -> None:
    said = WhatIf(table, {TRIGGER: 8}, title="d.t").wait(240).text()
    assert said.splitlines()[0].startswith("d.t  what if  ")
    assert "B compacts" in said
    assert "write amplification" in said
    assert "ends with the same files" in said


@pytest.mark.large
def test_a_page_holds_a_bounded_number_of_levels(tmp_path: Path) -> None:
    view = WhatIf(WORKLOAD, {TRIGGER: 8}, flushes=150).wait(240)
    spec = view.export(widths=(660,))
    assert (spec["first"], len(spec["levels"]["660"])) == (30, 120)
    assert "newest 120 commits" in spec["frames"]["660"]["subtitle"]


def test_a_history_that_cannot_be_read_again_leaves_the_last_picture(tmp_path: Path) -> None:
    class Source:
        lost = False

        def what_if(self, options: Any, **more: Any) -> Any:
            if self.lost:
                raise ts.NotFound("the table is gone")
            return ts.what_if(WORKLOAD, options, flushes=10, **more)

    source = Source()
    view = WhatIf(source, {TRIGGER: 8}).wait(240)
    before = view.figure(width=1040).body
    source.lost = True
    view.refresh().wait(240)
    assert "the table is gone" in view.frame["error"]["text"]
    assert view.figure(width=1040).body == before
    source.lost = False
    view.refresh().wait(240)
    assert view.frame.get("error") is None


def test_a_table_without_rows_has_nothing_to_replay(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.INT}, primary_key=["k"])
    view = WhatIf(table, {TRIGGER: 8}).wait(240)
    assert view.frame["error"]["text"] == "NotFound: nothing was written yet, so there is nothing to replay"
    assert "not replayed" in view.text()


def test_a_linked_view_that_moves_meanwhile_is_no_failure(
    table: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = WhatIf(table, {TRIGGER: 8}).wait(240)
    timeline = SnapshotTimeline(table)
    timeline.link(view)
    view.index = len(view.model) - 1
    settle, first = view._settle, int(timeline.model.ids[0])

    moved: list[int] = []

    def move(_change: Any) -> None:
        if not moved:
            moved.append(first)
            other = threading.Thread(target=lambda: setattr(timeline, "snapshot", first), daemon=True)
            other.start()
            other.join(60)
            assert not other.is_alive()

    def settle_meanwhile(index: int) -> None:
        monkeypatch.setattr(view, "_settle", settle)
        timeline.observe(move, "snapshot")
        settle(index - 1)

    monkeypatch.setattr(view, "_settle", settle_meanwhile)
    view.replay({TRIGGER: 6}).wait(240)
    assert view.frame.get("error") is None
    assert moved == [first]
    assert (timeline.snapshot, view.snapshot) == (first, first)
    assert view.index == view.model.index_at(first)
    assert view.comparison.to_arrow().num_rows == view.data().num_rows
