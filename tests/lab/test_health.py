"""The health of tables in a real JupyterLab: buckets are compacted, a table of a lake is opened."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import tempfile
import pyarrow as pa
import tablestore as ts, widgets
lake = ts.connect(tempfile.mkdtemp())
orders = lake.create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.INT}, primary_key=["id"],
    options={"bucket": 4, "write-only": True},
)
for at in range(6):
    orders.write(pa.table({"id": range(80), "v": pa.array([at] * 80, pa.int32())}))
health = widgets.TableHealth(orders)
health
"""
LAKE = "tables = widgets.LakeHealth(lake)\ntables"


def test_chosen_buckets_are_compacted_and_a_table_is_opened(lab: Lab) -> None:
    notebook = lab.open([SETUP, LAKE])
    view = lab.page.locator(".lw-health")
    view.locator("svg text", has_text="4 of 4 buckets wait for compaction").wait_for()
    row = view.locator(".bad").first
    row.click(position={"x": 14, "y": 12})
    view.locator(".lw-health-says", has_text="1 bucket chosen: ≈ ").wait_for()
    view.get_by_role("button", name="compact the buckets chosen").click()
    view.locator("svg text", has_text="3 of 4 buckets wait for compaction").wait_for()
    assert notebook.kernel("orders.refresh().inspect.health().due") == 3

    tables = lab.page.locator(".lw-lake")
    tables.locator(".table").first.click()
    tables.locator(".lw-bench h2", has_text="shop.orders").wait_for()
    notebook.check()
