"""Workbench in a real JupyterLab: scrub, a step that compacts, a further view, another bucket."""

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
