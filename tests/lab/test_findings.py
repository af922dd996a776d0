"""Findings in a real JupyterLab: a press previews, the second one mends, the page stays where it was."""

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
    options={"bucket": 1, "write-only": True, "ignore-delete": True},
)
for at in range(6):
    orders.write(pa.table({"id": range(50), "v": pa.array([at] * 50, pa.int32())}))
found = widgets.Findings(orders)
found
"""


def test_a_finding_is_mended_by_two_presses(lab: Lab) -> None:
    notebook = lab.open([SETUP])
    view = lab.page.locator(".lw-findings")
    button = view.locator(".lw-buttons button")
    button.first.wait_for()
    call = view.locator("svg text", has_text="table.compact(until_quiet=True)").bounding_box()
    place = button.first.bounding_box()
    assert place["y"] - 8 < call["y"] < place["y"] + place["height"]

    button.first.click()
    strip = view.locator(".lw-mend")
    strip.locator("pre", has_text="the first round; ").wait_for()
    assert notebook.kernel("orders.inspect.commits().num_rows") == 6
    strip.get_by_role("button", name="carry it out").click()
    strip.locator("pre", has_text="the doctor now: 1 finding").wait_for()
    assert notebook.kernel("orders.refresh().inspect.commits().num_rows") == 7

    button.last.click()
    strip.locator(".lw-asks", has_text="do not come back").wait_for()
    strip.get_by_role("button", name="carry it out").wait_for()  # it has the focus from then on
    lab.page.keyboard.press("Escape")
    strip.wait_for(state="hidden")
    assert notebook.kernel("orders.refresh().options['ignore-delete']") == "true"
    notebook.check()
