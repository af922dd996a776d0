"""LsmLevels in a real JupyterLab: hover, click, keys, zoom, modes, and what the kernel then holds."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = needs_browser

SETUP = """
import tempfile
import pyarrow as pa
import tablestore as ts, widgets
import pytest
orders = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"], partition_by=[],
    options={"bucket": 2, "write-only": True},
)
def flush(low, high):
    orders.write(pa.table({"id": range(low, high), "v": pa.array([low] * (high - low), pa.int32())}))
flush(0, 4000)
orders.compact(full=True)
for at in range(3):
    flush(at * 1000, at * 1000 + 1500)
rows = orders.scan().to_arrow().sort_by("id")
levels = widgets.LsmLevels(orders)
"""


@pytest.mark.large
def test_files_are_hovered_chosen_and_zoomed_to(lab: Lab) -> None:
    notebook = lab.open([SETUP, "levels"])
    page, root = notebook.page, notebook.page.locator(".lw-levels")
    first = notebook.kernel("levels.opened")
    other = "/1" if first == "/0" else "/0"
    root.locator(f'.cell[data-bucket="{other}"]').click()
    notebook.expect("levels.opened", other)
    newest, deepest = notebook.kernel("[f.name for f in (levels.model.files[0], levels.model.files[-1])]")
    root.locator(f'.file[data-name="{newest}"]').hover()
    notebook.expect("levels.hovered", newest)
    root.locator(".lw-card", has_text="rows").wait_for()
    root.locator(f'.file[data-name="{newest}"]').click()
    notebook.expect("list(levels.selected)", [newest])
    notebook.expect("levels.file['level']", 0)
    notebook.expect("repr(levels.selected[0]) in levels.code", True)
    root.locator(".lw-strip code", has_text=newest).wait_for()
    page.keyboard.press("z")
    notebook.expect("len(levels.key_range)", 2)
    zoomed = notebook.kernel("list(levels.key_range)")
    page.keyboard.press("0")
    notebook.expect("list(levels.key_range)", [])
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    notebook.expect("list(levels.selected)", [deepest])
    page.keyboard.press("Enter")
    notebook.expect("levels.entered", deepest)
    page.keyboard.press("Escape")
    notebook.expect("list(levels.selected)", [])
    box = root.locator(".lw-pic > svg").bounding_box()
    left, _, wide, _ = notebook.kernel("levels.frame['meta']['plot']")
    axis, _ = notebook.kernel("levels.frame['meta']['axis']")
    page.mouse.move(box["x"] + left + wide * 0.25, box["y"] + axis + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + left + wide * 0.75, box["y"] + axis + 8, steps=5)
    page.mouse.up()
    notebook.expect("[round(4 * end) for end in levels.key_range]", [1, 3])
    assert zoomed[0] < zoomed[1]
    root.get_by_role("button", name="show all keys").click()
    root.get_by_role("button", name="bytes", exact=True).first.click()
    notebook.expect("levels.mode", "bytes")
    root.get_by_role("button", name="age", exact=True).click()
    notebook.expect("levels.fill_by", "origin")
    notebook.expect("orders.scan().to_arrow().sort_by('id').equals(rows)", True)
    notebook.check()
