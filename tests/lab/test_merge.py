"""MergeView in a real JupyterLab: what the kernel holds after keys, clicks, engines, hover and a link."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

TABLE = """
import tempfile
import tablestore as ts, widgets
table = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"k": ts.INT, "status": ts.STRING}, primary_key=["k"],
    options={"bucket": "1", "write-only": "true"})
for number in range(3):
    table.write([{"k": k, "status": f"<b>{number}</b>"} for k in range(number, 24, number + 1)])
table.delete(ts.col("k") == 2)
before = table.scan().to_arrow().to_pylist()
"""


def test_a_merge_is_stepped_clicked_switched_and_hovered(lab: Lab) -> None:
    levels = "levels = widgets.LsmLevels(table); levels"
    view = "view = widgets.MergeView(table); levels.link(view); view"
    notebook = lab.open([TABLE, levels, view])
    root = notebook.page.locator(".lw-merge")
    assert notebook.kernel("view.cursor") == 9
    root.get_by_role("button", name="before the merge").click()
    notebook.expect("view.cursor", -1)
    root.get_by_role("grid").focus()
    for _ in range(3):
        notebook.page.keyboard.press("ArrowRight")
    notebook.expect("view.cursor", 2)
    assert notebook.kernel("view.model.steps[view.cursor].fate") == "dropped"
    root.locator('.cell[data-cell="2|0"]').hover()
    notebook.expect("view.hovered", "2|0")
    root.get_by_role("button", name="first-row").click()
    notebook.expect("view.model.engine", "first-row")
    root.get_by_role("button", name="deduplicate").click()
    root.get_by_role("button", name="Later").click()
    notebook.expect("view.model.steps[0].key", "9")
    assert notebook.page.locator(".lw-merge b").count() == 0, "values are text"
    notebook.kernel("setattr(levels, 'key_range', (0.5, 0.75))")
    notebook.expect("view.model.steps[0].key", "12")
    assert notebook.kernel("table.scan().to_arrow().to_pylist() == before")
    notebook.check()
