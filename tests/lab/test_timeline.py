"""SnapshotTimeline in a real JupyterLab: clicks, drags, keys, jump, range, and what the kernel holds."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import tempfile
import pyarrow as pa
import tablestore as ts, widgets
orders = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"],
    options={"bucket": 1, "write-only": True},
)
def flush(at):
    orders.write(pa.table({"id": range(at * 10, at * 10 + 50), "v": pa.array([at] * 50, pa.int32())}))
for at in range(12):
    flush(at)
    if at == 7:
        orders.compact(full=True)
orders.tags.create("nightly", snapshot=4)
rows = orders.scan().to_arrow().sort_by("id")
"""
SHOW = "timeline, levels = widgets.SnapshotTimeline(orders), widgets.LsmLevels(orders)\ntimeline.link(levels)"


def test_time_travel_zoom_and_watching(lab: Lab) -> None:
    notebook = lab.open([SETUP, SHOW, "levels"])
    page, slider = notebook.page, notebook.page.get_by_role("slider", name="snapshot")
    both = "[timeline.snapshot, levels.snapshot]"
    notebook.expect(both, [13, 13])
    assert slider.get_attribute("aria-valuetext") == "13, APPEND, 50 rows"
    box = page.locator(".lw-timeline .lw-pic > svg").bounding_box()
    first = notebook.kernel("[timeline.frame['meta']['regions'][0][k] for k in ('x', 'step')]")

    def x(position: int) -> float:
        return box["x"] + first[0] + (position + 0.5) * first[1]

    page.mouse.click(x(8), box["y"] + 90)  # the compaction
    notebook.expect(both, [9, 9])
    page.locator(".lw-timeline .cursor text", has_text="#9 COMPACT").wait_for()
    page.locator(".lw-timeline .lw-chip", has_text="viewing the past").wait_for()
    page.mouse.move(x(8), box["y"] + 90)
    page.mouse.down()
    page.mouse.move(x(3), box["y"] + 90, steps=5)
    page.mouse.up()
    notebook.expect(both, [4, 4])
    notebook.expect("levels.model.runs", 4)
    for key, seen in (("ArrowRight", 5), ("Shift+ArrowRight", 13), ("Home", 1), ("End", 13)):
        page.keyboard.press(key)
        notebook.expect(both, [seen, seen])
    page.keyboard.press("/")
    page.keyboard.type("nightly")
    page.keyboard.press("Enter")
    notebook.expect(both, [4, 4])
    page.keyboard.press("+")
    notebook.expect("list(timeline.range)", [1, 6])
    notebook.expect("timeline.data()['snapshot_id'].to_pylist()", [1, 2, 3, 4, 5, 6])
    page.keyboard.press("0")
    notebook.expect("list(timeline.range)", [])
    page.keyboard.down("Shift")
    page.mouse.move(x(5), box["y"] + 90)
    page.mouse.down()
    page.mouse.move(x(9), box["y"] + 90, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    notebook.expect("list(timeline.range)", [6, 10])
    page.get_by_role("button", name="show all commits").click()
    notebook.expect("list(timeline.range)", [])
    page.mouse.move(x(6), box["y"] + 90)
    notebook.expect("timeline.hovered", "6")
    page.get_by_role("button", name="go to the latest snapshot").click()
    notebook.expect("timeline.watch(0.1).snapshot", 13)
    notebook.kernel("flush(12)")
    notebook.expect(both, [14, 14])
    notebook.kernel("timeline.unwatch().snapshot")
    notebook.expect("orders.at(snapshot=13).scan().to_arrow().sort_by('id').equals(rows)", True)
    notebook.check()
