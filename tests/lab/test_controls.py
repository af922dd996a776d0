"""CompactionControls in a real JupyterLab: buttons, keys and inputs, and what the kernel then holds."""

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
for at in range(6):
    orders.write(pa.table({"id": range(at * 10, at * 10 + 50), "v": pa.array([at] * 50, pa.int32())}))
rows = orders.scan().to_arrow().sort_by("id")
"""
SHOW = """
timeline, levels = widgets.SnapshotTimeline(orders), widgets.LsmLevels(orders)
controls = widgets.CompactionControls(orders)
timeline.link(levels); controls.link(levels); timeline.link(controls)
controls
"""
TRIGGER = "num-sorted-run.compaction-trigger"
IDLE_STEP = ".lw-primary:disabled"
SAME_ROWS = "orders.refresh().scan().to_arrow().sort_by('id').equals(rows)"


def test_the_panel_plans_previews_and_compacts(lab: Lab) -> None:
    notebook = lab.open([SETUP, SHOW])
    panel = lab.page.locator(".lw-controls")
    panel.locator("svg text", has_text="Size amplification").wait_for()
    assert notebook.kernel("len(levels.plan['inputs'])") == 6

    trigger = panel.locator(f"input[data-key='{TRIGGER}']")
    trigger.fill("9")
    trigger.press("Enter")
    notebook.expect("controls.asked", {TRIGGER: "9"})
    panel.locator(".lw-strip-preview code", has_text="table.alter(ts.set_options(").wait_for()
    panel.locator(IDLE_STEP).wait_for()
    panel.get_by_role("button", name="back to the table's own settings").click()
    notebook.expect("controls.asked", {})
    assert notebook.kernel(f"'{TRIGGER}' in orders.refresh().options") is False

    trigger.fill("few")
    trigger.press("Enter")
    panel.locator(".lw-strip-err", has_text=TRIGGER).wait_for()

    panel.get_by_role("button", name="Leveled*").click()
    panel.locator(".lw-strip-warn", has_text="not Paimon's").wait_for()
    panel.get_by_role("button", name="Universal", exact=True).click()
    notebook.expect("controls.asked", {})
    panel.locator(".lw-primary:enabled").wait_for()

    panel.get_by_role("button", name="plan again, writes nothing (D)").focus()
    lab.page.keyboard.press("d")
    assert notebook.kernel("orders.inspect.commits().num_rows") == 6
    lab.page.keyboard.press("s")
    notebook.expect("[d.committed.snapshot for d in controls.done]", [7])
    notebook.expect("(timeline.snapshot, levels.snapshot, controls.busy)", [7, 7, False])
    assert notebook.kernel("controls.done[0].picks[0].decision.rule") == "size amplification"
    assert notebook.kernel(SAME_ROWS) is True
    panel.locator(IDLE_STEP).wait_for()
    notebook.kernel("setattr(timeline, 'index', 2)")
    panel.locator(".lw-hint", has_text="viewing the past: read-only").wait_for()
    notebook.check()


SIMULATION = """
import widgets
from tablestore.insight.simulator import Schedule, Simulator, Workload
simulator = Simulator(Workload("uniform", rows=200, keys=2_000), {"num-sorted-run.compaction-trigger": 3},
                      schedule=Schedule(write_only=True))
controls = widgets.CompactionControls(simulator, every_ms=60)
controls
"""


def test_a_simulation_is_flushed_and_runs_by_itself_until_paused(lab: Lab) -> None:
    notebook = lab.open([SIMULATION])
    panel = lab.page.locator(".lw-controls")
    flush = panel.get_by_role("button", name="write one flush (F)")
    places, heights = set(), []
    for number in (1, 2, 3, 4):
        flush.click()
        notebook.expect("simulator.flushes", number)
        panel.locator("svg text", has_text=f"{number} run").first.wait_for()
        box, whole = flush.bounding_box(), panel.bounding_box()
        assert box
        assert whole
        places.add((box["x"], box["y"]))
        heights.append(whole["height"])
    assert len(places) == 1, "a button stays under the pointer whether or not a rule fires"
    assert heights[0] < heights[-1], "no room is kept where no rule fires"
    panel.get_by_role("button", name="compact every bucket until no rule fires").click()
    notebook.expect("len(controls.done)", 1)
    panel.locator("svg text", has_text="1 run").first.wait_for()
    quiet = panel.bounding_box()
    assert quiet
    assert quiet["height"] >= heights[-1], "what stands below does not come back up"
    panel.locator(".lw-foot input[type=checkbox]").check()
    notebook.expect("len(controls.done) > 2", True)
    panel.get_by_role("button", name="stop at once; what is not committed is given up").click()
    notebook.expect("(controls.auto, controls.busy)", [False, False])
    assert notebook.kernel("simulator.inspect.compactions().num_rows == len(controls.done)") is True
    notebook.check()
