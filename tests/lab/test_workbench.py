"""Workbench in a real JupyterLab: scrub, a step that compacts, a further view, another bucket."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = needs_browser

TABLE = """
import tempfile, tablestore as ts, widgets
options = {"bucket": 2, "write-only": True}
schema = {"k": ts.BIGINT, "v": ts.STRING}
lake = ts.connect(tempfile.mkdtemp())
table = lake.create_table("shop.orders", schema=schema, primary_key=["k"], options=options)
for n in range(6):
    table.write({"k": list(range(n * 40, n * 40 + 100)), "v": ["x"] * 100})
rows = table.scan().to_arrow().sort_by("k")"""
SAME = "table.scan().to_arrow().sort_by('k').equals(rows)"


@pytest.mark.large
def test_the_whole_cockpit_follows_one_snapshot_and_compacts(lab: Lab) -> None:
    notebook = lab.open([TABLE, "bench = widgets.Workbench(table)\nbench"])
    page = lab.page
    timeline = page.locator(".lw-timeline").get_by_role("slider")
    timeline.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    notebook.expect("[view.snapshot for view in bench.views]", [4, 4, 4, 4])
    page.locator(".lw-levels h3", has_text="#4").wait_for()
    page.keyboard.press("End")
    notebook.expect("bench.controls.snapshot", 6)

    page.get_by_role("combobox", name="bucket", exact=True).select_option("/1")
    notebook.expect("(bench.levels.opened, bench.controls.opened)", ["/1", "/1"])
    page.locator(".lw-controls .lw-primary").click()
    notebook.expect("bench.controls.wait(240).busy", False)
    notebook.expect("table.inspect.snapshots().num_rows", 7)
    notebook.expect("bench.timeline.snapshot", 7)
    assert notebook.kernel(SAME)

    page.locator("button[data-tool=findings]").click()
    page.locator(".lw-findings h3", has_text="Doctor").wait_for()
    notebook.expect("bench.tool", "findings")
    assert page.locator(".jp-Cell").count() == 2  # no key of ours reached the notebook
    notebook.check()


@pytest.mark.large
def test_two_moments_side_by_side(lab: Lab) -> None:
    cell = "one, two = widgets.Workbench(table), widgets.Workbench(table)\nwidgets.Beside(one, two)"
    notebook = lab.open([TABLE, cell])
    lab.page.set_viewport_size({"width": 1900, "height": 1700})
    lab.page.get_by_role("slider", name="snapshot").last.focus()
    lab.page.keyboard.press("Home")
    notebook.expect("(one.timeline.snapshot, two.timeline.snapshot)", [6, 1])
    left, right = (bench.bounding_box() for bench in lab.page.locator(".lw-bench").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    notebook.check()


MANY = """
import tempfile, tablestore as ts, widgets
lake = ts.connect(tempfile.mkdtemp())
options = {"bucket": 12, "write-only": True}
table = lake.create_table("shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options=options)
for n in range(6):
    table.write({"k": list(range(n * 40, n * 40 + 100))})"""
OTHER = """
import subprocess, sys
code = f"import tablestore as ts; ts.open({table.location!r}).write({{'k': [3]}})"
def other(): return subprocess.run([sys.executable, "-c", code]).returncode"""


def test_a_displayed_workbench_reads_its_history_and_follows(lab: Lab) -> None:
    """Commits of this kernel and of another process; who looks at the past stays there."""
    notebook = lab.open([MANY + OTHER, "bench = widgets.Workbench(table)\nbench"])
    page = lab.page
    page.get_by_role("tab", name="The whole table").wait_for()  # its health is read without being asked for
    notebook.expect("(len(bench.levels.edits) > 0, bench.reading)", [True, ""])
    newer = page.locator(".lw-newer")
    assert newer.is_hidden()

    notebook.kernel("table.write({'k': [1]}) and table.write({'k': [2]}) and 1")
    newer.filter(has_text="2 newer commits").wait_for()
    newer.click()
    notebook.expect("(bench.timeline.snapshot, bench.newer)", [8, 0])
    newer.wait_for(state="hidden")

    notebook.kernel("bench.timeline.set_trait('index', 3)")
    notebook.kernel("bench.set_trait('watch', True)")
    assert notebook.kernel("other()") == 0
    notebook.expect("(len(bench.timeline.model), bench.timeline.snapshot, bench.newer)", [9, 4, 0])
    notebook.check()
