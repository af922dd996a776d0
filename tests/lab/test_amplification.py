"""AmplificationChart in a real JupyterLab: click, keys and hover, and what the kernel then holds."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import tempfile
import pyarrow as pa
import tablestore as ts, widgets
orders = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"], options={"bucket": 1}
)
for at in range(12):
    orders.write(pa.table({"id": range(at * 10, at * 10 + 50), "v": pa.array([at] * 50, pa.int32())}))
rows = orders.scan().to_arrow().sort_by("id")
timeline = widgets.SnapshotTimeline(orders)
chart = widgets.AmplificationChart(orders).wait(60)
timeline.link(chart)
"""


def test_the_charts_choose_the_snapshot_of_all_that_is_linked(lab: Lab) -> None:
    notebook = lab.open([SETUP, "chart"])
    newest = notebook.kernel("chart.snapshot")
    picture = lab.page.locator(".lw-amplification .lw-pic > svg")
    assert picture.locator(".cursor text").count() == 3

    lab.page.locator(".lw-amplification [role=slider]").focus()
    lab.page.keyboard.press("ArrowLeft")
    notebook.expect("(timeline.snapshot, chart.snapshot)", [newest - 1, newest - 1])
    lab.page.keyboard.press("Home")
    notebook.expect("timeline.index", 0)
    lab.page.locator(".lw-amplification [role=slider][aria-valuetext^='#1 APPEND']").wait_for()

    box = picture.bounding_box()
    lab.page.mouse.move(box["x"] + box["width"] * 0.12, box["y"] + 60)
    lab.page.locator(".lw-amplification .lw-card").wait_for()
    notebook.expect("chart.hovered != ''", True)
    hovered = notebook.kernel("(chart.hovered, int(chart.hovered), timeline.index)")
    assert hovered[2] == 0
    lab.page.mouse.click(box["x"] + box["width"] * 0.12, box["y"] + 60)
    notebook.expect("timeline.index", hovered[1])
    assert notebook.kernel("orders.scan().to_arrow().sort_by('id').equals(rows)")
    notebook.check()
