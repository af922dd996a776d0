"""A newcomer at a notebook: runs all cells, then answers every task by clicks alone, one at the second try.

What to click is asked of the kernel, where the engine's answers are; the clicks are those of a hand: options,
spots of a picture, places of a ruler, arrows of an order, then *Ask the engine*. Called by tests of the
course.
"""

from __future__ import annotations

import json
from typing import Any

from tests.lab.jupyter import Notebook

TASKS = "__import__('notebooks.course.tasks', fromlist=['_lesson'])._lesson.tasks"
WAIT = 120_000


def play(notebook: Notebook) -> tuple[int, int]:
    """Answer each task of a notebook that was run; the number of tasks, all of them right in the end, and
    how many of them at the first try."""
    page = notebook.page
    own = notebook.kernel(f"[[name, task.question.kind, task.judge.own()] for name, task in {TASKS}.items()]")
    slips = next((name for name, kind, _ in own if kind == "one"), "")
    for at, (name, kind, value) in enumerate(own):
        card = page.locator(".lw-task").nth(at)
        assert card.locator(".lw-head .lw-sub").first.text_content() == name
        card.scroll_into_view_if_needed(timeout=WAIT)
        assert card.get_attribute("data-state") == "open", f"{name} is answered before anybody clicked"
        if name == slips:
            slip(card, value)
        answer(card, kind, value)
        card.get_by_role("button", name="compare with the engine's answer").click()
        card.locator(".lw-task-pair > div + div").wait_for(timeout=WAIT)
        assert card.get_attribute("data-state") == "right", f"{name}: {card.text_content()}"
    return len(own), len(own) - bool(slips)


def slip(card: Any, value: str) -> None:
    """A first wrong choice: the hint comes, and nothing of the engine's answer."""
    ids = card.locator("button[data-id]").evaluate_all("all => all.map((each) => each.dataset.id)")
    answer(card, "one", next(each for each in ids if each != value))
    card.get_by_role("button", name="compare with the engine's answer").click()
    card.locator(".lw-task-pair").wait_for(timeout=WAIT)
    assert card.get_attribute("data-state") == "again"
    assert card.locator("button.lw-right").count() == 0, "the engine's answer is shown before the second try"


def answer(card: Any, kind: str, value: Any) -> None:
    """Click an answer."""
    assert kind != "field", "a newcomer clicks and does not type"
    if kind in ("one", "many"):
        for each in [value] if kind == "one" else value:
            card.locator(f"button[data-id={json.dumps(each, ensure_ascii=False)}]").click()
    elif kind in ("spots", "each"):
        for each in value:
            card.locator(f".spot[data-spot={json.dumps(each, ensure_ascii=False)}]").click()
    elif kind == "line":
        place(card, value)
    else:
        for at, each in enumerate(value):
            up = card.get_by_title(f"move {each} up", exact=True)
            for _ in range(len(value)):
                rows = card.locator(".lw-task-row").evaluate_all("rows => rows.map((row) => row.dataset.id)")
                if rows.index(each) > at:
                    up.click()


def place(card: Any, value: float) -> None:
    """Click the ruler where a number is."""
    ruler = card.get_by_role("slider")
    svg = ruler.locator("svg")
    low, high = (float(ruler.get_attribute(f"aria-value{end}")) for end in ("min", "max"))
    box, view = (
        svg.bounding_box(),
        svg.evaluate("svg => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height]"),
    )
    x = 28 + (value - low) / (high - low) * (view[0] - 56)
    svg.click(position={"x": x * box["width"] / view[0], "y": 44 * box["height"] / view[1]})
