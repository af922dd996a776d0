"""The tasks of a lesson in a page that plays: judged, counted and unveiled as in a kernel."""

from __future__ import annotations

import base64
import random
import re
import zlib
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.cli.lesson_page import asking, lesson_page, recipe_of
from notebooks.cli.pages import VIEW, references
from tests.tables import KEYED
from tests.widgets.playground.test_playground import as_sent, driven, unpacked
from widgets import LsmLevels, Task, TaskList, TradeOff, Veil
from widgets.kit import static
from widgets.playground.folder import lesson_scripts
from widgets.playground.lesson import plain_veil
from widgets.playground.recipes import views_of
from widgets.task.answers import Choice, Each, Holds, Members, Number, Order, runs
from widgets.task.judge import TaskJudge, judge_of
from widgets.task.model import Cell, Grid, Ruler, RunPicture, TaskQuestion, options_of
from widgets.trade_off import trails

__all__ = ["unpacked"]
HINT, WHY = "Look **again**.", "Because `it` is so."
GRID = Grid(
    ("left", "right"),
    (
        ("up", (Cell("1", "a", group="up"), Cell("null", "b", group="up", tone="null"))),
        ("down", (Cell("2", "c", group="down"), None)),
    ),
)


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """A bucket with a run at the bottom and two above it."""
    table = KEYED.create(tmp_path_factory.mktemp("levels"), {"bucket": 1, "write-only": True})
    table.write({"k": range(200), "v": ["a"] * 200})
    table.with_options({"write-only": False}).compact(full=True)
    for first in (50, 120):
        table.refresh().write({"k": range(first, first + 60), "v": ["b"] * 60})
    return table.refresh().inspect.levels()


def judges(levels: pa.Table) -> list[TaskJudge]:
    """A task of each kind that is clicked, and one that is typed."""
    fates = {"kept": "it is the newest", "lost": "an older one", "gone": ""}
    asked = {
        "one": (Choice("lost", fates), {"options": options_of(fates)}),
        "many": (Members((("kept",), ("gone",)), noun="fate"), {"options": options_of(fates)}),
        "line": (Number(40, tolerance=5, unit="%"), {"ruler": Ruler(0, 100, 5, "%")}),
        "spots": (runs(levels.slice(0, 2)), {"picture": RunPicture(levels, key=130.0)}),
        "each": (Each(("b", "c")), {"picture": GRID}),
        "order": (Order({"first": "", "second": "then"}), {"options": options_of(["second", "first"])}),
        "field": (Members((("orders",),), noun="name"), {"form": "a name"}),
    }
    wrong = {"kept": "it is older.", "gone": "it is still there."}
    return [
        TaskJudge(
            TaskQuestion(kind, f"Which **{kind}**?", kind, number=at, hint=HINT, **more),
            answer,
            HINT,
            WHY,
            wrong if kind in ("one", "many") else {},
        )
        for at, (kind, (answer, more)) in enumerate(asked.items(), 1)
    ]


def values(judge: TaskJudge, chance: random.Random) -> list[Any]:
    """Answers to a task, as clicks give them, the engine's own among them."""
    question = judge.question
    ids = [option.id for option in question.options] or [spot.id for spot in question.spots]
    some = [chance.sample(ids, chance.randint(1, len(ids))) for _ in range(6)] if ids else []
    by_kind = {"one": ids, "line": [0, 35.0, 50, 100], "field": ["orders", "Orders", "items"]}
    return [*by_kind.get(question.kind, some), judge.own(), None]


def lesson(levels: pa.Table) -> dict[str, Any]:
    """A recipe with every kind of task, a text and a picture behind veils, and the score."""
    created = [Task(judge.question, judge) for judge in judges(levels)]
    veils = [Veil(created[0], "two <b>\nlines", note="*So*."), Veil(created[1], LsmLevels(levels))]
    plain = [{"task": judge.plain()} for judge in judges(levels)]
    plain += [plain_veil("one", "*So*.", veils[0]), plain_veil("many", "", veils[1]), {"score": True}]
    return as_sent({"kind": "lesson", "title": "Lesson 2", "views": plain})


def test_a_judge_that_was_written_down_judges_as_before(levels: pa.Table, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        for judge in judges(levels):
            again = judge_of(as_sent(judge.plain()))
            assert again.plain() == judge.plain()
            states = set()
            for value in values(judge, chance):
                assert as_sent(again(value).__getstate__()) == as_sent(judge(value).__getstate__())
                states.add(judge(value).state)
            assert {"right", "seen"} <= states


def test_a_task_that_asks_a_function_is_in_no_page() -> None:
    question = TaskQuestion("q", "What?", "field")
    holds = TaskJudge(question, Holds(lambda value: value == 3, 3), HINT, WHY, {})
    with pytest.raises(ts.Unsupported, match=r"task 'q' in a page.*its answer is a Holds"):
        holds.plain()
    with pytest.raises(ts.Unsupported, match="its hint or its reason is a function"):
        TaskJudge(question, Number(3), lambda _value: HINT, WHY, {}).plain()


def test_answers_in_a_page_become_what_they_become_in_a_kernel(
    unpacked: Path, levels: pa.Table, seeds: tuple[int, ...]
) -> None:
    recipe = lesson(levels)
    for seed in seeds:
        chance = random.Random(seed)
        acts: list[tuple[int, dict[str, Any]]] = []
        for at, judge in enumerate(judges(levels)):
            given = [value for value in values(judge, chance) if judge.question.ready(value)]
            first, second = chance.choice(given), chance.choice(given)
            acts.append((at, {"value": first, "asked": 1}))
            acts += [] if judge(first).state == "right" else [(at, {"value": second, "asked": 2})]
        acts.append((0, {"committed": False}))
        begun, *answers = driven(
            unpacked,
            ("begin", recipe),
            *(("receive", {"id": f"w{at + 1}", "state": state}) for at, state in acts),
        )
        views = views_of(recipe)
        shown = {each["id"]: each["state"] for each in begun}
        for (at, state), answer in zip(acts, answers, strict=True):
            for name, value in state.items():
                setattr(views[at], name, value)
            for name, changed in answer.items():
                shown[name].update(changed)
            assert [each["frame"] for each in shown.values()] == [as_sent(view.frame) for view in views]
        tasks = [view for view in views if isinstance(view, Task)]
        assert [task.committed for task in tasks] == [False] + [True] * (len(tasks) - 1)
        score = next(view for view in views if isinstance(view, TaskList))
        assert f"{sum(task.verdict.state == 'right' for task in tasks[1:])} of 7" in score.frame["label"]


def test_what_a_lesson_shows_before_it_plays_holds_no_answer(levels: pa.Table) -> None:
    scripts = lesson_scripts(lesson(levels))
    (packed,) = re.findall(r'id="lw-data">([^<]*)<', scripts)
    specs = zlib.decompress(base64.b64decode(packed)).decode()
    assert "Which " in specs
    for secret in ("it is still there", "Because ", "two <b>", '"verdict":{"state"'):
        assert secret not in specs
    assert "it is still there" in scripts
    assert "python.js" in scripts


def test_a_map_in_a_page_has_the_outcomes_of_the_kernel_and_simulates_other_workloads(unpacked: Path) -> None:
    sizes = {"flushes": 12, "samples": 40, "triggers": [3, 5], "ratios": [1], "multipliers": [10]}
    trade_off = TradeOff({"kind": "zipf", "rows": 500}, title="orders", **sizes).wait(240)
    trade_off.choose("leveled", trigger=3, ratio=10)
    recipe = as_sent({"kind": "lesson", "title": "", "views": [{"trade_off": trade_off.recipe()}]})
    acts = [{"index": 0}, {"workload": "uniform"}]
    (begun,), *answers = driven(
        unpacked, ("begin", recipe), *(("receive", {"id": "w1", "state": act}) for act in acts)
    )
    trade_off.redraw()
    assert begun["state"]["frame"] == as_sent(trade_off.frame)
    assert begun["state"]["now"] == as_sent(trade_off.now)
    for act, answer in zip(acts, answers, strict=True):
        for name, value in act.items():
            setattr(trade_off, name, value)
        trade_off.wait(240)
        assert answer["w1"]["now"] == as_sent(trade_off.now)
    assert answers[-1]["w1"]["frame"] == as_sent(trade_off.frame)


def test_a_recorded_map_simulates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"flushes": 12, "samples": 30, "triggers": [3, 5], "ratios": [1], "multipliers": [10]}
    recipe = as_sent(TradeOff("uniform", **sizes).wait(240).recipe())
    trails._outcomes.clear()
    monkeypatch.setattr(trails.Experiment, "simulator", None)
    again = TradeOff(**recipe).wait(240)
    assert as_sent(again.recipe()) == recipe
    assert again.model.unbeaten


def test_a_page_has_a_place_for_each_view_and_else_the_notebook(levels: pa.Table) -> None:
    shown = {VIEW: {"model_id": "m1"}, "text/html": "<p>until then</p>"}
    other = {VIEW: {"model_id": "m9"}, "text/html": "<p>a picture</p>"}
    outputs = [nbformat.v4.new_output("display_data", data=data) for data in (shown, other)]
    shown_cell = nbformat.v4.new_code_cell("secret = 3", outputs=outputs)
    shown_cell.metadata["jupyter"] = {"source_hidden": True}
    begun = nbformat.v4.new_code_cell('course.begin("A lesson")\ncourse.check()')
    machine = {"text/html": f"<p>the machine</p>{static.image(f'<svg>{static.HINT}</svg>', alt='')}"}
    begun.outputs = [nbformat.v4.new_output("display_data", data=machine)]
    outputs.append(nbformat.v4.new_output("display_data", data={"text/html": machine["text/html"][18:]}))
    notebook = nbformat.v4.new_notebook(cells=[begun, shown_cell])
    cell = asking(notebook)
    assert len(notebook.cells) == 3
    bundle = {"ids": ["m0", "m1"], "recipe": lesson(levels)}
    cell.outputs = [nbformat.v4.new_output("execute_result", data={"application/json": bundle})]
    recipe = recipe_of(notebook, cell)
    assert recipe == bundle
    assert len(notebook.cells) == 2
    page = lesson_page(notebook, name="02_t", title="t", recipe=recipe)
    assert "the machine" not in page
    assert "course.begin" not in page
    (picture,) = re.findall(r"svg[+]xml;base64,([A-Za-z0-9+/=]+)", page)
    assert base64.b64decode(picture).decode() == "<svg>a recorded picture</svg>"
    assert '<a href="runs.html">Rows, files, runs</a>' in page
    assert '<a href="index.html">Playground</a>' in page
    assert '<div class="lw-place" data-view="1"></div>' in page
    assert "until then" not in page
    assert "<p>a picture</p>" in page
    assert "secret" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert references(page) == []
