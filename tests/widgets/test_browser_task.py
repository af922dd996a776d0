"""Tasks without a kernel in a real browser: answered by keys alone, by dragging, and veiled until then."""

from __future__ import annotations

from pathlib import Path

import pytest

import widgets
from notebooks import course
from tests.browsing import Page, needs_browser
from tests.widgets.test_task import GRID

pytestmark = needs_browser


@pytest.fixture(autouse=True)
def fresh_lesson():
    course.begin()
    yield
    course.begin()


def said(**more: object) -> dict[str, object]:
    return {"hint": "think of the trigger", "why": "every write is a run", **more}


def test_every_kind_is_answered_by_keys_alone(page: Page, tmp_path: Path) -> None:
    tasks = [
        course.task("one", "How many?", answer=3, options=[1, 2, 3], **said()),
        course.task("line", "How many?", answer=course.Number(20), ruler=(0, 100, 10), **said()),
        course.task("each", "Which?", answer=course.Each(("a1", "b2")), picture=GRID, **said()),
        course.task("order", "In order?", answer=course.Order({"x": "", "y": "", "z": ""}), **said()),
    ]
    veil = tasks[0].then("three runs")
    path = tmp_path / "tasks.html"
    path.write_text(widgets.page("t", [tasks[0].view, veil, *[task.view for task in tasks[1:]]]), "utf-8")
    page.open(path)
    cards, press = page.page.locator(".lw-task"), page.page.keyboard.press
    assert "three runs" not in page.page.locator("main").inner_text()
    cards.nth(0).locator('button[data-id="3"]').focus()
    press("Space")
    cards.nth(1).get_by_role("slider").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        press(key)
    assert cards.nth(1).get_by_role("slider").get_attribute("aria-valuetext") == "20"
    cards.nth(2).locator(".spot").first.focus()
    for key in ("Enter", "ArrowRight", "ArrowDown", "Space"):
        press(key)
    for at, name in enumerate("xyz"):
        row = cards.nth(3).locator(f'[data-id="{name}"]')
        row.focus()
        for _ in range(3):
            press("Home")
        for _ in range(at):
            press("ArrowDown")
    for at in range(4):
        cards.nth(at).locator(".lw-primary").focus()
        press("Enter")
    assert cards.evaluate_all("cards => cards.map((card) => card.dataset.state)") == ["right"] * 4
    assert "three runs" in page.page.locator("main").inner_text()
    cards.nth(0).get_by_role("button", name="take the answer back").focus()
    press("Enter")
    assert "three runs" not in page.page.locator("main").inner_text(), "veiled again"


def test_a_wrong_choice_is_ringed_in_the_picture(page: Page, tmp_path: Path) -> None:
    each = course.task("each", "Which?", answer=course.Each(("a1", "b2")), picture=GRID, **said())
    line = course.task("line", "How many?", answer=course.Number(20), ruler=(0, 100, 10), **said())
    path = tmp_path / "tasks.html"
    path.write_text(widgets.page("t", [each.view, line.view]), "utf-8")
    page.open(path)
    card, ruler = page.page.locator(".lw-task").nth(0), page.page.locator(".lw-task").nth(1)
    for name in ("a1", "a2"):
        card.locator(f'.spot[data-spot="{name}"]').click()
    card.locator(".lw-primary").click()
    result = card.locator(".lw-task-result")
    assert card.locator(".lw-task-state").text_content() == "↻ one more try"
    assert "think of the trigger" in result.text_content()
    assert "every write is a run" not in result.text_content(), "a try is left"
    assert card.locator(".pick[stroke-dasharray]").count() == 0
    card.get_by_role("button", name="Ask again").click()
    assert "every write is a run" in result.text_content()
    rings = card.locator(".spot").evaluate_all(
        """spots => {
            const dashed = (ring) => ring.hasAttribute("stroke-dasharray") ? " dashed" : "";
            const said = (ring) => ring.getAttribute("stroke") + dashed(ring);
            const rings = (spot) => [...spot.querySelectorAll(".pick")].map(said);
            return Object.fromEntries(spots.map((spot) => [spot.dataset.spot, rings(spot)]));
        }"""
    )
    shown = {name: ring for name, ring in rings.items() if ring}
    assert shown == {"a1": ["var(--lw-ok)"], "a2": ["var(--lw-err)"], "b2": ["var(--lw-ok) dashed"]}
    assert card.locator('.spot[data-spot="a2"]').get_attribute("aria-label").endswith(", not it")
    assert card.locator('.spot[data-spot="a2"] text').text_content() == "✗"
    ruler.get_by_role("slider").press("End")
    ruler.locator(".lw-primary").click()
    assert "100 is too high." in ruler.locator(".lw-task-result").text_content()
    ruler.get_by_role("slider").press("ArrowLeft")
    ruler.locator(".lw-primary").click()
    assert ruler.locator("path.guess").get_attribute("fill") == "var(--lw-err)"
    page.check()


def test_an_order_is_dragged(page: Page, tmp_path: Path) -> None:
    task = course.task("order", "In order?", answer=course.Order({"x": "", "y": "", "z": ""}), **said())
    page.open(task.view.to_html(tmp_path / "order.html"))
    rows = page.page.locator(".lw-task-row")
    names = "rows => rows.map((row) => row.dataset.id)"
    before = rows.evaluate_all(names)
    first, last = rows.nth(0).bounding_box(), rows.nth(2).bounding_box()
    page.page.mouse.move(first["x"] + 200, first["y"] + 15)
    page.page.mouse.down()
    page.page.mouse.move(last["x"] + 200, last["y"] + last["height"] - 2, steps=5)
    page.page.mouse.up()
    assert rows.evaluate_all(names) == [*before[1:], before[0]]
