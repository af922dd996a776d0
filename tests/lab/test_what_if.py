"""WhatIf in a real JupyterLab: scrub, play, other options for B, and what the kernel then holds."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import tempfile
import pyarrow as pa
import tablestore as ts, widgets
TRIGGER = "num-sorted-run.compaction-trigger"
orders = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"], options={"bucket": 1}
)
for at in range(14):
    orders.write(pa.table({"id": range(at * 10, at * 10 + 50), "v": pa.array([at] * 50, pa.int32())}))
rows, snapshots = orders.scan().to_arrow().sort_by("id"), orders.inspect.commits().num_rows
timeline = widgets.SnapshotTimeline(orders)
view = widgets.WhatIf(orders, {TRIGGER: 8}).wait(240)
timeline.link(view)
"""


def test_one_history_is_scrubbed_under_two_sets_of_options(lab: Lab) -> None:
    notebook = lab.open([SETUP, "view"])
    panel = lab.page.locator(".lw-what_if")
    slider = panel.locator("[role=slider]")
    assert "B compacts" in panel.locator(".lw-verdict b").text_content()
    notebook.expect("view.index", 13)
    slider.focus()
    lab.page.keyboard.press("ArrowLeft")
    notebook.expect("(view.index, timeline.snapshot == view.snapshot)", [12, True])
    box = panel.locator(".lw-pic > svg").bounding_box()
    lab.page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + 24)
    notebook.expect("2 < view.index < 6", True)
    lab.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 24)
    notebook.expect("5 < int(view.hovered or 0) < 9", True)

    trigger = panel.get_by_label("B: runs ≥")
    trigger.fill("3")
    trigger.press("Enter")
    notebook.expect("(view.options, view.busy)", [{"num-sorted-run.compaction-trigger": "3"}, False])
    assert notebook.kernel("view.comparison.changed.options.trigger") == 3
    panel.locator(".lw-levels2 svg tspan", has_text="3").first.wait_for()

    trigger.fill("few")
    trigger.press("Enter")
    panel.locator(".lw-error code", has_text="InvalidOption").wait_for()
    notebook.expect("view.comparison.changed.options.trigger", 3)
    assert notebook.kernel("orders.scan().to_arrow().sort_by('id').equals(rows)")
    assert notebook.kernel("orders.inspect.commits().num_rows == snapshots")
    notebook.check()
