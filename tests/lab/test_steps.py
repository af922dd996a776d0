"""StepLanes in a real JupyterLab: a race of real commits is walked through; what the kernel then holds."""

from __future__ import annotations

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

RACE = """
from notebooks import course
import widgets
table = course.orders_table(course.lake())
table.write(course.orders(50))
race = course.Race(table, {"A": lambda t: t.write(course.orders(5)), "B": lambda t: t.compact(full=True)})
race.run("A", until="publish"); race.run("B"); race.run("A")
view, levels = race.view(), widgets.LsmLevels(table)
view.link(levels)
view"""


def test_a_race_is_walked_through_and_the_levels_follow(lab: Lab) -> None:
    notebook = lab.open([RACE, "levels"])
    assert notebook.kernel("(view.snapshot, levels.snapshot)") == [3, 3]
    slider = notebook.page.get_by_role("slider", name="step")
    slider.focus()
    notebook.page.keyboard.press("Home")
    notebook.expect("(view.index, view.snapshot, levels.snapshot)", [0, 1, 1])
    notebook.page.keyboard.press("ArrowRight")
    notebook.expect("view.index", 1)
    lost = notebook.kernel("[step.state for step in view.model.steps].index('lost')")
    notebook.page.locator(f'.step[data-step="{lost}"]').click()
    notebook.expect("(view.index, levels.snapshot)", [lost, 2])
    shown = '[role="slider"][aria-valuetext*="finds #2 taken"]'
    notebook.page.locator(shown).wait_for(state="attached")  # the page draws a moment after the kernel knows
    notebook.page.locator('.step[data-step="2"]').hover()
    notebook.expect("view.hovered", "2")
    assert notebook.kernel("table.scan().count()") == 50
    notebook.check()


LIVE = """
from notebooks import course
table = course.orders_table(course.lake())
table.write(course.orders(50))
def adds(first):
    return lambda t: t.write(course.orders(5, first=first))
race = course.Race(table, {"A": adds(900), "B": adds(950)})
view = race.live()
view"""


def test_a_race_is_driven_by_its_buttons(lab: Lab) -> None:
    notebook = lab.open([LIVE])
    a, b = (notebook.page.get_by_role("button", name=f"one step of {name}") for name in "AB")
    for steps in range(5):
        b.click()
        notebook.expect("view.index", steps)
    notebook.expect("view.actions", ["A"])
    assert notebook.kernel("str(race.outcome('B'))") == "committed #2"
    assert b.is_disabled()
    a.focus()
    notebook.page.keyboard.press("Enter")
    notebook.expect("(view.index, table.scan().count())", [5, 55])
    assert a.evaluate("node => node === document.activeElement"), "the button keeps the focus"
    notebook.kernel("race.close()")
    notebook.check()
