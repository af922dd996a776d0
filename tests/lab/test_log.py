"""The log and the lake in a real JupyterLab: the picture follows, a bucket is chosen, read again."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import tempfile
import tablestore as ts, widgets
visits = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.visits", schema={"k": ts.INT}, primary_key=["k"],
    options={"bucket": 2, "write-only": True, "log.system": "embedded", "log.consistency": "eventual"},
)
for at in range(3):
    visits.write({"k": list(range(10 * at, 10 * at + 10))})
lanes = widgets.LogAndLake(visits, follow=0.2)
lanes
"""


def test_the_lanes_follow_the_table(lab: Lab) -> None:
    notebook = lab.open([SETUP])
    view = lab.page.locator(".lw-log")
    view.locator("svg text", has_text="newest #3 names").wait_for()
    notebook.kernel("visits.write({'k': [99]}).snapshot")
    view.locator("svg text", has_text="newest #4 names").wait_for()
    end = notebook.kernel("visits.log.end[1]")
    view.get_by_label("bucket", exact=True).select_option("1")
    view.locator("svg text", has_text=f"names {end}; every row").wait_for()
    notebook.expect("lanes.bucket", 1)
    notebook.kernel("lanes.unwatch() and None")
    notebook.kernel("visits.write({'k': [100]}).snapshot")
    view.get_by_role("button", name="refresh").click()
    view.locator("svg text", has_text="newest #5 names").wait_for()
    notebook.check()
