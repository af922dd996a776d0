"""ChangelogView in a real JupyterLab: snapshot, kinds and keys the kernel holds after acts in the page."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

TABLE = """
import tempfile
import tablestore as ts, widgets
table = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"k": ts.INT, "status": ts.STRING}, primary_key=["k"], options={"bucket": "1"})
table.write([{"k": k, "status": "new"} for k in range(20)])
table.write([{"k": k, "status": "paid"} for k in range(3)])
table.delete(ts.col("k") == 1)
batches = [[{"k": 1, "n": 1}], [{"k": 1, "n": 2}], [{"k": 2, "n": 9}]]
"""


def test_changes_are_filtered_paged_and_linked_to_the_timeline(lab: Lab) -> None:
    timeline = "timeline = widgets.SnapshotTimeline(table); timeline"
    view = "view = widgets.ChangelogView(table); timeline.link(view); view"
    both = "both = widgets.ChangelogView.producers(batches, primary_key='k'); both"
    notebook = lab.open([TABLE, timeline, view, both])
    root = notebook.page.locator(".lw-changelog").first
    root.locator('.commit[data-snapshot="2"]').click()
    notebook.expect("[view.snapshot, timeline.snapshot]", [2, 2])
    notebook.page.keyboard.press("ArrowRight")
    notebook.expect("timeline.snapshot", 3)
    root.locator('.cell[data-cell="1|3"]').hover()
    notebook.expect("view.hovered", "1|3")
    root.get_by_role("button", name="+I", exact=True).click()
    notebook.expect("list(view.kinds)", ["−U", "+U", "−D"])
    notebook.expect("view.frame['svg'].count('chip')", 7)
    root.get_by_role("button", name="+I", exact=True).click()
    root.get_by_role("button", name="further keys").click()
    notebook.expect("view.page", 1)
    root.get_by_label("keys that begin with").fill("12")
    notebook.expect("view.frame['shown']", "keys 1–1 of 1")
    root.get_by_role("button", name="as written").click()
    notebook.expect("view.mode", "raw")
    sides = notebook.page.locator(".lw-changelog").last
    sides.get_by_role("button", name="2", exact=True).click()
    notebook.expect("both.key", "2")
    notebook.check()
