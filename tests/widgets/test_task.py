"""Tasks: what is asked, what a click means, what stays hidden until the engine is asked; no browser."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from notebooks import course
from widgets.kit.svg import Figure, text
from widgets.task.model import Ruler, Score, TaskQuestion, Verdict, options_of, run_names
from widgets.task.picture import picture_figure
from widgets.task.words import bare, segments

XSS = "<img src=x onerror=alert(1)>"
SECRET = "the very answer"


def judge(value: object) -> Verdict:
    state = "seen" if value is None else "right" if value == "b" else "wrong"
    return Verdict(state, str(value), SECRET, own="b", remark="not that", reason="because of **this**")


def asked(**more: object) -> TaskQuestion:
    said = {"kind": "one", "options": options_of({"a": "words", "b": "more"}), "hint": "think"} | more
    return TaskQuestion("runs", "How many `runs`?", **said)


def levels() -> course.RunPicture:
    table = course.orders_table(course.lake())
    table.write(course.orders(200))
    table.compact(full=True)
    for first in (50, 120):
        table.write(course.orders(60, first=first))
    return course.RunPicture(table.inspect.levels(), key=130)


GRID = course.Grid(
    ("name", "price"),
    (
        (
            "newest",
            (course.Cell("null", "a1", group="name", tone="null"), course.Cell("30", "a2", group="price")),
        ),
        ("oldest", (course.Cell("lamp", "b1", group="name"), course.Cell("25", "b2", group="price"))),
    ),
)


def test_nothing_of_the_answer_is_in_the_browser_before_the_commit() -> None:
    task = widgets.Task(asked(), judge)
    state = {name: value for name, value in task.get_state().items() if name != "assets"}
    assert SECRET not in json.dumps(state, default=str) + task.text() + task.to_svg()
    task.commit("a")
    assert task.frame["verdict"]["state"] == task.verdict.state == "again"
    assert "not that" in task.text()
    assert "not that" in task.to_svg()
    state = {name: value for name, value in task.get_state().items() if name != "assets"}
    shown = json.dumps(state, default=str) + task.text() + task.to_svg()
    assert SECRET not in shown, "a try is left"
    assert "because of" not in shown
    task.commit("c")
    assert SECRET in json.dumps(task.frame)
    assert task.frame["verdict"]["state"] == "wrong"
    task.again()
    assert task.asked == 0
    assert (task.value, task.verdict, SECRET in json.dumps(task.frame)) == (None, None, False)


def test_a_row_of_a_grid_that_is_one_spot_is_named_by_its_label() -> None:
    cells = tuple(course.Cell(at, "B") for at in ("20 ms", "45 ms"))
    grid = course.Grid(("logged", "seen"), (("A", (None, None)), ("B", cells)))
    assert asked(kind="spots", picture=grid).named(["B"]) == "B"


def test_a_veil_shows_what_can_only_be_drawn() -> None:
    class Drawing:
        def figure(self, *, width: float) -> Figure:
            return Figure(width, 20, text(4, 14, SECRET), SECRET)

        def __str__(self) -> str:
            return SECRET

    task = widgets.Task(asked(), judge)
    veil = widgets.Veil(task, Drawing())
    assert SECRET not in json.dumps(veil.frame) + veil.text() + veil.to_svg()
    task.commit("a")
    assert SECRET not in json.dumps(veil.frame) + veil.text(), "a try is left"
    task.commit("a")
    assert SECRET in veil.frame["svg"]
    assert SECRET in veil.to_svg()
    assert veil.text() == SECRET
    with pytest.raises(ts.InvalidRequest, match="a view, a drawing or a text"):
        widgets.Veil(task, 3)


def test_a_veil_holds_a_workbench(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"])
    table.write({"k": [1, 2, 3]})
    task = widgets.Task(asked(), judge)
    bench = widgets.Workbench(table).wait(240)
    veil = widgets.Veil(task, bench)
    assert veil.child is bench
    assert "d.t" not in json.dumps(veil.frame) + veil.text() + veil.to_svg()
    task.commit("b")
    assert veil.text() == bench.text()
    assert "d.t" in veil.to_svg()
    assert "svg" not in veil.frame, "the page shows the workbench itself"
    bench.close()


def test_a_veil_opens_with_its_task_and_closes_again() -> None:
    task = widgets.Task(asked(), judge)
    veil = widgets.Veil(task, SECRET, note="what came of **it**")
    assert SECRET not in json.dumps(veil.frame) + veil.text() + veil.to_svg()
    task.commit("b")
    assert veil.committed
    assert veil.text() == f"what came of it\n{SECRET}"
    task.again()
    assert SECRET not in json.dumps(veil.frame)
    veil.committed = True  # "show anyway"
    assert task.verdict is not None
    assert task.verdict.state == "seen"


def test_a_judge_that_fails_is_an_error_in_the_view() -> None:
    def fails(_value: object) -> Verdict:
        raise OSError("the table is gone")

    task = widgets.Task(asked(), fails).commit("a")
    assert "the table is gone" in task.frame["error"]["text"]


@pytest.mark.parametrize(
    ("question", "part", "whole"),
    [
        (asked(), None, "a"),
        (asked(kind="line", options=(), ruler=Ruler(0, 10)), None, 4),
        (asked(kind="each", options=(), picture=GRID), ["a1"], ["a1", "b2"]),
        (asked(kind="field", options=()), "", "41"),
    ],
    ids=lambda each: each.kind if isinstance(each, TaskQuestion) else "",
)
def test_an_answer_is_ready_when_it_is_whole(question: TaskQuestion, part: object, whole: object) -> None:
    assert not question.ready(part)
    assert question.ready(whole)


def test_runs_and_cells_are_spots_with_words_for_a_screen_reader() -> None:
    picture = levels()
    question = asked(kind="spots", options=(), picture=picture)
    assert [spot.id for spot in question.spots] == list(run_names(picture.files)) == ["#4", "#3", "L5"]
    assert question.spots[2].label.startswith("L5, level 5, ")
    assert "keys 1 to 200" in question.spots[2].label
    grid = asked(kind="each", options=(), picture=GRID)
    assert [spot.label for spot in grid.spots][:2] == ["name of newest: null", "price of newest: 30"]
    assert grid.named(["b2", "a1"]) == "null, 25"


@pytest.mark.parametrize("width", [660, 900, 1440])
def test_every_spot_is_in_the_picture_and_large_enough_to_hit(width: int) -> None:
    for picture in (levels(), GRID):
        question = asked(kind="spots", options=(), picture=picture)
        drawn = picture_figure(question, [question.spots[0].id], None, width=width)
        root = ET.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg">{drawn.body}</svg>')
        spots = [g for g in root.iter() if g.get("class") == "spot"]
        assert [g.get("data-spot") for g in spots] == [spot.id for spot in question.spots]
        for g in spots:
            assert min(float(g[0].get("width")), float(g[0].get("height"))) >= 22
        assert [g.get("aria-checked") for g in spots].count("true") == 1
        assert "runs to read" not in drawn.body, "the strip of overlaps would give answers away"


def test_the_engines_spots_are_marked_after_the_commit_only() -> None:
    question = asked(kind="spots", options=(), picture=levels())
    verdict = Verdict("wrong", "#4", "#3, L5", own=["#3", "L5"])
    before = picture_figure(question, ["#4"], None, width=900).body
    after = picture_figure(question, ["#4"], verdict, width=900).body
    assert "✓" not in before
    assert (after.count("✓"), after.count("✗")) == (2, 1)


def test_a_ruler_has_a_place_for_each_number_and_not_too_many() -> None:
    drawn = picture_figure(asked(kind="line", options=(), ruler=Ruler(0, 600, 10, "%")), 120, None, width=900)
    assert drawn.meta["ruler"][2:5] == [0, 600, 10]
    assert "120 %" in drawn.body
    with pytest.raises(ts.InvalidRequest, match="at most 240 steps"):
        Ruler(0, 1000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "guess"}, "none of one, many"),
        ({"kind": "spots"}, "needs a picture"),
        ({"kind": "order", "options": ()}, "needs options"),
        ({"kind": "line"}, "needs a ruler"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(ts.InvalidRequest, match=said):
        asked(**more)


def test_markup_is_code_bold_and_italics_and_the_rest_is_text() -> None:
    assert segments(f"`a` **b** *c* {XSS}") == [
        ("code", "a"), ("", " "), ("bold", "b"), ("", " "), ("italic", "c"), ("", f" {XSS}"),
    ]  # fmt: skip
    assert bare("`a` **b** *c* 2 * 3 * 4") == "`a` b c 2 * 3 * 4"


def test_a_score_counts_what_is_right_and_is_cleared_by_its_button() -> None:
    called = []
    view = widgets.TaskList(
        Score("Lesson", (("a", "right"), ("b", "wrong")), 1, "/state/x.json"), clear=lambda: called.append(1)
    )
    assert (
        view.text() == "Lesson: 1 of 2 tasks solved, 1 at the first try\n  ✓ a · ✗ b\n  kept in /state/x.json"
    )
    view._on_verb(view, {"verb": "clear"}, None)
    assert called == [1]
    assert view.data()["state"].to_pylist() == ["right", "wrong"]
