"""StepLanes: a story of steps as model, picture, text and widget; no browser."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from widgets import StepLanes
from widgets.steps.figure import steps_figure
from widgets.steps.model import LOST, REFUSED, StepsModel, StoryStep, Track, table, text_form

XSS = "<img src=x onerror=alert(1)>"


def story(**more: object) -> StepsModel:
    """B is first, A loses its try and is refused."""
    steps = (
        StoryStep(0, "read", "looks at #3", snapshot=3, mark="#3"),
        StoryStep(0, "manifest", "writes 3 manifests", "no snapshot names them", snapshot=3),
        StoryStep(1, "publish", "publishes #4", commit="COMPACT", snapshot=4, mark="#4"),
        StoryStep(0, "publish", "finds #4 taken", state=LOST, snapshot=4, mark="#4"),
        StoryStep(
            0, "end", "is refused", "deleted twice: it is not live any more", REFUSED, snapshot=4, against=4
        ),
    )
    return StepsModel("Two writers", "shop.orders", ("A", "B"), steps, before=3, **more)


def killed() -> StepsModel:
    steps = tuple(
        StoryStep(0, kind, f"killed before {kind}", snapshot=3) for kind in ("data", "manifest", "publish")
    )
    last = StoryStep(0, "end", "nobody was killed", snapshot=4, mark="✓", facts=(("orphans", "0"),))
    tracks = (Track("found", ("#3", "#3", "#3", "#4")), Track("orphans", (0, 1, 4, 0)))
    return StepsModel("Killing it", "", ("operations",), (*steps, last), tracks=tracks, fatal=True)


def test_the_text_form_has_a_column_a_step_and_the_chosen_one_in_words() -> None:
    lines = text_form(story(), 4).splitlines()
    assert lines[1] == "A      R M    P× ✕"
    assert lines[2] == "B          P"
    assert lines[3] == "table      #4"
    assert lines[5] == "5 of 5 · A · is refused"
    assert "deleted twice" in lines[6]


def test_in_a_killed_story_the_chosen_step_did_not_happen() -> None:
    assert "D M✕ P ✓" in text_form(killed(), 1)
    assert "D M P ✓" in text_form(killed(), 3)


def test_the_height_does_not_depend_on_the_chosen_step() -> None:
    for model in (story(), killed()):
        for width in (1080, 960, 700):
            heights = {steps_figure(model, index=at, width=width).height for at in range(len(model.steps))}
            assert len(heights) == 1


@pytest.mark.parametrize("width", [1080, 960, 700])
def test_boxes_stand_side_by_side_within_the_picture(width: int) -> None:
    steps = tuple(StoryStep(at % 2, "read", "looks", snapshot=1) for at in range(60))
    figure = steps_figure(StepsModel("t", "", ("A", "B"), steps, before=1), index=0, width=width)
    boxes = [
        (float(x), float(w))
        for x, w in re.findall(
            r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="24"[^>]*class="box"', figure.body
        )
    ]
    assert len(boxes) == 60
    ordered = sorted(boxes)
    assert all(a + w <= b + 0.2 for (a, w), (b, _) in pairwise(ordered))
    assert ordered[-1][0] + ordered[-1][1] <= width - 16


def test_text_is_shown_as_text() -> None:
    step = StoryStep(0, "read", XSS, XSS, snapshot=1, mark=XSS, facts=((XSS, XSS),))
    model = StepsModel(XSS, XSS, (XSS,), (step,), before=1, tracks=(Track(XSS, (XSS,)),))
    view = StepLanes(model)
    for shown in (view.to_svg(), view.to_svg(width=2000), str(view._repr_mimebundle_()[0]["text/html"])):
        assert "<img src=x" not in shown


def test_the_figure_gives_the_page_the_places_of_its_steps() -> None:
    meta = steps_figure(story(), index=2, width=1000).meta
    assert meta["count"] == 5
    assert meta["says"][2] == "3 of 5 · B · publishes #4"
    assert steps_figure(StepsModel("t", "", ("A",), ()), index=0, width=800).meta["count"] == 0


def growing() -> StepLanes:
    """A story of two lanes that one makes by hand; B ends after one step."""
    collected: list[StoryStep] = []

    def act(name: str) -> tuple[StepsModel, tuple[str, ...]]:
        collected.append(
            StoryStep("AB".index(name), "read", f"{name} looks", "at it", snapshot=1, facts=(("x", "1"),))
        )
        return StepsModel("t", "", ("A", "B"), tuple(collected), before=1, room=8), (
            "A",
        ) if "B" in name else (
            "A",
            "B",
        )

    return StepLanes(StepsModel("t", "", ("A", "B"), (), before=1, room=8), act=act, actions=("A", "B"))


def test_a_story_that_is_made_by_hand_grows_and_its_steps_stay_where_they_are() -> None:
    view = growing()
    assert (view.index, view.snapshot, view.live) == (-1, 1, True)
    assert "nothing has happened yet" in view.text()
    frames = [view.frame["svg"]]
    for name in ("A", "A", "B"):
        view.act(name)
        frames.append(view.frame["svg"])
    assert (view.index, view.actions) == (2, ("A",))
    assert view.act("B").index == 2, "B is at its end"
    heights = {re.search(r'height="([\d.]+)"', svg).group(1) for svg in frames}
    assert len(heights) == 1, "the picture is as tall before the first step as after the last"
    first = {
        re.search(r'<g class="step" data-step="0"><rect x="([\d.]+)"', svg).group(1) for svg in frames[1:]
    }
    assert len(first) == 1


def test_a_step_that_fails_shows_in_the_view_and_the_story_stays() -> None:
    view = growing()
    view.act("A")
    view._act = lambda _name: 1 / 0
    view._on_verb(None, {"verb": "act", "name": "A"}, None)
    assert "ZeroDivisionError" in view.frame["error"]["text"]
    assert view.index == 0


def test_a_track_has_one_value_a_step() -> None:
    with pytest.raises(AssertionError, match="one value a step"):
        story(tracks=(Track("orphans", (1,)),))


def test_the_traits_say_the_same_step() -> None:
    view = StepLanes(story(code="race.run('A')"))
    assert (view.index, view.snapshot, view.selected) == (4, 4, (4,))
    view.index = 1
    assert (view.snapshot, view.selected) == (3, (1,))
    view.snapshot = 4
    assert view.index == 2, "the first step at which #4 is there"
    view.index = 99
    assert view.index == 4
    assert view.code == "race.run('A')"
    assert len(str(view.frame)) < 20_000


def test_the_code_of_a_killed_story_names_the_chosen_step() -> None:
    view = StepLanes(
        StepsModel("t", "", ("A",), killed().steps, code="lab.kill_at({index})", fatal=True), index=2
    )
    assert view.code == "lab.kill_at(2)"


def test_the_steps_come_as_arrow() -> None:
    rows = table(story()).to_pylist()
    assert [row["lane"] for row in rows] == ["A", "A", "B", "A", "A"]
    assert rows[2]["commit"] == "COMPACT"
    assert StepLanes(story()).data().num_rows == 5
