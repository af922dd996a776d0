"""FileExplorer in a real JupyterLab: what clicks, keys and the search leave in the kernel."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

CELL = """
import tempfile
from pathlib import Path
import widgets
from tests.widgets.tables import months
table = months(Path(tempfile.mkdtemp()))
before = table.scan().to_arrow()
explorer = widgets.FileExplorer(table)
explorer
"""


def test_tree_table_search_and_difference_reach_the_kernel(lab: Lab) -> None:
    notebook = lab.open([CELL])
    view = lab.page.locator(".lw-explorer")
    view.locator(".node", has_text="data files").click()
    notebook.expect("(explorer.path, 'files' in explorer.expanded)", ["files", True])
    view.locator(".node", has_text="month=2/0").click()
    notebook.expect("explorer.opened", "month=2/0")
    notebook.expect("len(explorer.model.listing.rows)", 4)
    view.locator(".sort", has_text="size").click()
    notebook.expect("explorer.sort", "size")
    view.locator(".row").last.click()
    largest = (
        "max(table.inspect.levels(partition='month=2').to_pylist(), key=lambda f: f['bytes'])['file_name']"
    )
    notebook.expect(f"explorer.selected == ({largest},)", True)
    view.locator(".lw-detail .rg").nth(1).click()
    notebook.expect("explorer.model.detail.chosen", 1)
    lab.page.locator(".lw-explorer .lw-table").focus()
    lab.page.keyboard.press("ArrowUp")
    notebook.expect(f"explorer.selected == ({largest},)", False)
    view.locator(".row").first.hover()
    notebook.expect("explorer.hovered.startswith('data-')", True)
    view.get_by_label("compare with snapshot").select_option("3")
    notebook.expect("explorer.against", 3)
    notebook.expect("set(explorer.data()['change'].to_pylist()) == {'added', 'kept'}", True)
    view.get_by_role("button", name="all files").click()
    notebook.expect("(explorer.mode, explorer.model.listing.found)", ["all", 4])
    find = view.get_by_label("find in the table")
    find.fill("no such file")
    find.press("Enter")
    notebook.expect("(explorer.search, explorer.model.listing.found)", ["no such file", 0])
    find.press("Escape")
    notebook.expect("explorer.model.listing.found", 4)
    lab.page.locator(".lw-explorer .lw-tree").focus()
    lab.page.keyboard.press("Home")
    notebook.expect("explorer.path", "")
    assert (
        notebook.kernel("table.scan().to_arrow().equals(before) and table.store.snapshots.latest_id()") == 6
    )
    notebook.check()
