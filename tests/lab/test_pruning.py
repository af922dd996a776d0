"""PruningExplainer in a real JupyterLab: what is typed, clicked and walked is what the kernel holds."""

from typing import Any

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

CELL = """
import tempfile
from pathlib import Path
import tablestore as ts
import widgets
from tests.widgets.tables import months
table = months(Path(tempfile.mkdtemp()))
view = widgets.PruningExplainer(table, where="month = 2 AND id BETWEEN 100 AND 950")
levels = widgets.LsmLevels(table)
view.link(levels)
view
"""


def test_typing_clicking_and_walking_reach_the_kernel(lab: Lab) -> None:
    notebook = lab.open([CELL])
    shown = lab.page.locator(".lw-pruning")
    box = shown.get_by_label("condition")
    box.fill("month = 2 AND quantity > 30")
    notebook.expect("view.where", "month = 2 AND quantity > 30")
    asked = "view.data().equals(table.scan(where=ts.where(view.where)).explain().decisions())"
    notebook.expect(asked, True)
    box.fill("month = 2 AND quantitty > 30")
    box.press("Enter")
    shown.locator(".lw-problem.lw-bad", has_text="did you mean quantity?").wait_for()
    notebook.expect("view.model.read.files", 4)
    box.fill("month = 2 AND id > 1000")
    box.press("Enter")
    notebook.expect("view.model.read.files", 2)
    shown.locator(".lw-problem.lw-bad").wait_for(state="detached")
    shown.locator(".lw-problem .lw-chip", has_text="note").click()
    assert box.input_value().strip().endswith("note")
    box.press("Escape")
    shown.locator(".file").nth(1).click()
    notebook.expect("view.selected == (view.model.files[1].name,)", True)
    notebook.expect("view.frame['says'].startswith('Skipped by K')", True)
    lab.page.keyboard.press("ArrowUp")
    notebook.expect("view.selected == (view.model.files[0].name,)", True)
    lab.page.keyboard.press("ArrowDown")
    notebook.expect("view.selected == (view.model.files[1].name,)", True)
    shown.locator(".file").first.hover()
    notebook.expect("view.hovered == view.model.files[0].name", True)
    shown.locator(".lw-buckets .lw-chip", has_text="1/0").click()
    notebook.expect("(view.opened, levels.opened)", ["month=1/0", "month=1/0"])
    shown.get_by_role("button", name="bytes", exact=True).click()
    notebook.expect("view.mode", "bytes")
    assert notebook.kernel("table.store.snapshots.latest_id()") == 6
    notebook.check()


def pressed(shown: Any, bar: str) -> list[str]:
    """Which bars of `id` are pressed, once that bar is: the kernel answers before it is drawn."""
    bars = ".lw-column:has(b:text-is('id')) .lw-bar"
    shown.locator(f"{bars}:{bar}[aria-pressed=true]").wait_for()
    return shown.locator(bars).evaluate_all("all => all.map(b => b.ariaPressed)")


def test_a_click_on_a_bar_filters_and_the_reason_of_each_file_is_one_click_away(lab: Lab) -> None:
    notebook = lab.open([CELL.replace("month = 2 AND id BETWEEN 100 AND 950", "month = 2")])
    shown = lab.page.locator(".lw-pruning")
    bars = shown.locator(".lw-column", has=lab.page.locator("b", has_text="id")).locator(".lw-bar")
    bars.last.click()
    notebook.expect("view.where", "month = 2 AND id BETWEEN 1191 AND 1299")
    assert pressed(shown, "last-child") == ["false"] * 11 + ["true"]
    shown.locator(".file").nth(1).click()
    notebook.expect("view.frame['says'].startswith('Skipped by K')", True)
    bars.first.click()
    notebook.expect("view.where", "month = 2 AND id BETWEEN 0 AND 108")
    assert pressed(shown, "first-child") == ["true"] + ["false"] * 11
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("Enter")
    notebook.expect("view.where", "month = 2 AND id BETWEEN 109 AND 216")
    assert shown.locator(".lw-glance button[tabindex='0']").count() == 1
    notebook.check()
