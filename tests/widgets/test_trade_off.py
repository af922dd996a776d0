"""The trade-off map: the simulator's numbers, every setting is reached, nothing is simulated twice."""

from __future__ import annotations

from xml.etree import ElementTree

import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.insight.simulator import Workload
from tests.browsing import Page, needs_browser
from widgets import LsmLevels, TradeOff
from widgets.trade_off import trails
from widgets.trade_off.figure import map_figure, places, skeleton

SMALL = {"flushes": 40, "triggers": [3, 5], "ratios": [1, 200], "multipliers": [2, 10], "samples": 100}
WORKLOAD = Workload("time-series", rows=1_000, updates=0.5, lag=5_000)


@pytest.fixture(scope="module")
def view() -> TradeOff:
    return TradeOff(WORKLOAD, title="orders", **SMALL).wait(120)


def test_every_setting_has_what_the_simulator_measures(view: TradeOff) -> None:
    assert len(view.model) == 8
    for at in range(8):
        view.index = at
        course = view.simulator().inspect.amplification("snapshot")
        row = view.data().slice(at, 1).to_pylist()[0]
        assert row["write_amplification"] == course["write_amplification"][-1].as_py()
        assert row["mean_runs"] == pytest.approx(pc.mean(course["runs"]).as_py())
        assert row["space_amplification"] == pytest.approx(pc.mean(course["space_amplification"]).as_py())
        assert row["most_runs"] == pc.max(course["runs"]).as_py()


def test_a_spot_opens_the_tree_of_its_simulation_at_its_fullest(view: TradeOff) -> None:
    view.choose("leveled", trigger=5, ratio=2)
    outcome = view.model.outcomes[view.index]
    levels = LsmLevels(view.simulator(), snapshot=outcome.snapshot)
    assert levels.data() == outcome.levels
    tree = view.model.tree(view.index)
    assert tree.runs == outcome.most_runs
    assert f"#{outcome.snapshot}" in view.now["opened"]


def test_what_is_unbeaten_is_beaten_by_none(view: TradeOff) -> None:
    outcomes = view.model.outcomes
    for at, outcome in enumerate(outcomes):
        better = [
            o
            for o in outcomes
            if all(a <= b for a, b in zip(o.costs, outcome.costs, strict=True)) and o.costs != outcome.costs
        ]
        assert (at in view.model.unbeaten) == (not better)
    hollow = next(at for at in range(8) if at not in view.model.unbeaten)
    named = view.model.standing(hollow).rpartition(": ")[2].rstrip(".")
    assert any(o.setting.text == named and o.beats(outcomes[hollow]) for o in outcomes)


def test_it_starts_at_paimons_defaults_and_compares_with_them() -> None:
    view = TradeOff(WORKLOAD, **SMALL).wait(120)
    assert (view.setting.strategy, view.setting.trigger, view.setting.ratio) == ("universal", 5, 1)
    assert view.now["against"] == "These are Paimon's defaults."
    view.choose("universal", trigger=3, ratio=1)
    outcome, reference = view.model.outcomes[view.index], view.model.outcomes[view.model.reference]
    assert f"write +{round(100 * (outcome.write / reference.write - 1))} %" in view.now["against"]
    with pytest.raises(ts.InvalidRequest, match="is not on the map"):
        view.choose("universal", trigger=7, ratio=1)


def test_the_workload_is_skewed_unless_another_is_chosen() -> None:
    view = TradeOff(**SMALL).wait(120)
    assert (view.workload, view.workloads) == ("zipf", ["zipf", "uniform", "time-series"])
    skewed = view.data()
    view.choose("leveled", trigger=3, ratio=10)
    view.workload = "time-series"
    view.wait(120)
    assert view.data() != skewed
    assert view.setting.text == "leveled, trigger 3, level ×10", "the setting stays"
    assert "time-series, 10,000 rows" in view.frame["subtitle"]
    assert view.now["says"] == view.model.sentence(view.index)
    tree = view.model.tree(view.index)
    assert any(file.hi - file.lo < 0.5 for file in tree.files), "keys in the order of time: narrow boxes"
    with pytest.raises(ts.InvalidRequest, match="workload 'often' is none of zipf, uniform, time-series"):
        view.workload = "often"
    view.workload = "zipf"
    assert view.data() == skewed


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        (Workload("zipf", rows=50, deletes=0.7), ["zipf", "uniform", "time-series"]),
        (Workload("sequential", rows=50), ["sequential", "zipf", "uniform", "time-series"]),
        (WORKLOAD, ["zipf", "uniform", "time-series"]),
        (Workload("uniform", keys=1_000), ["zipf", "uniform", "time-series"]),
    ],
)
def test_other_workloads_have_the_same_sizes(given: Workload, kinds: list[str]) -> None:
    actual = trails.workloads(given)
    assert list(actual) == kinds
    assert actual[given.kind] == given
    assert {(outcome.rows, outcome.row_bytes, outcome.deletes) for outcome in actual.values()} == {
        (given.rows, given.row_bytes, given.deletes)
    }


def test_nothing_is_simulated_twice(view: TradeOff, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr(trails, "_outcome", refused)
    assert TradeOff(WORKLOAD, **SMALL).wait(120).data() == view.data()


def test_a_failure_is_said_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(trails, "_outcome", fail)
    view = TradeOff(Workload("uniform", rows=10), **SMALL).wait(120)
    assert view.frame["error"]["text"] == "OSError: no room"
    assert view.progress == {}
    assert view.figure(width=900).label == skeleton(900).label


@pytest.mark.parametrize("width", [1040, 860, 660, 324])
def test_the_picture_is_well_formed_and_stays_inside(view: TradeOff, width: int) -> None:
    figure = view.figure(width=width)
    tree = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    assert all(0 <= float(element.get("x", 0)) <= width for element in tree.iter("text"))
    drawn = map_figure(view.model, width=width)
    for x, y, other_x, other_y in places(view.model, width):
        assert 0 < min(x, other_x) <= max(x, other_x) < width
        assert 0 < min(y, other_y) <= max(y, other_y) < drawn.height
    assert drawn.height == skeleton(width).height


def test_the_text_form_has_a_line_a_setting(view: TradeOff) -> None:
    lines = view.text().splitlines()
    assert len([line for line in lines if ", trigger " in line and ":" not in line]) == 8
    assert len([line for line in lines if line.startswith(">")]) == 1


class TestInTheBrowser:
    pytestmark = needs_browser

    def test_sliders_keys_and_clicks_choose_a_setting(self, view: TradeOff, page: Page, tmp_path) -> None:
        view.workload = "zipf"
        view.wait(120).workload = "time-series"
        view.choose("universal", trigger=5, ratio=1)
        page.open(view.to_html(tmp_path / "map.html"))
        shown = page.page.locator(".lw-costs b")
        assert shown.text_content() == view.model.sentence(view.index)
        page.page.get_by_role("slider", name="trigger").press("ArrowLeft")
        assert "universal, trigger 3, size-ratio 1 %" in shown.text_content()
        page.page.get_by_role("button", name="leveled").click()
        assert "leveled, trigger 3, level ×2" in shown.text_content()
        page.page.locator(".lw-trade_off .lw-pic").first.press("ArrowUp")
        assert "leveled, trigger 3, level ×10" in page.text(".lw-says")
        assert "leveled, trigger 3, level ×10" in page.text(".lw-opened")
        box = page.page.locator(".lw-trade_off .lw-pic svg").first.bounding_box()
        meta = view._drawn(1040)["meta"]
        at = next(
            i
            for i, s in enumerate(meta["spots"])
            if view.model.outcomes[i].setting.text.startswith("universal, trigger 3, size-ratio 200")
        )
        scale = box["width"] / 1040
        page.page.mouse.click(
            box["x"] + meta["spots"][at][2] * scale, box["y"] + meta["spots"][at][3] * scale
        )
        assert "universal, trigger 3, size-ratio 200 %" in shown.text_content()
        assert page.page.locator(".lw-trade_off .chosen").count() == 1
        assert page.page.get_by_role("button", name="uniform").is_disabled(), "it was not simulated"
        page.page.get_by_role("button", name="zipf").click()
        assert page.text(".lw-sub").startswith("orders · zipf(0.99) over")
        assert "universal, trigger 3, size-ratio 200 %" in shown.text_content()
        page.page.locator(".lw-trade_off .lw-pic").first.press("w")
        assert page.text(".lw-sub").startswith("orders · time-series, 1,000 rows")
        page.check()
