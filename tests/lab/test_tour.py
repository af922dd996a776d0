"""A tour of a cockpit in a real JupyterLab: by keys alone, while it reads, and over a long history."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

MANY = """
import tempfile, threading, tablestore as ts, widgets
lake = ts.connect(tempfile.mkdtemp())
options = {"bucket": 12, "write-only": True}
table = lake.create_table("shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options=options)
for n in range(6):
    table.write({"k": list(range(n * 40, n * 40 + 100))})
table = table.with_options({"write-only": False})"""
COCKPIT = "bench = widgets.Workbench(table)\nbench"
STOPS = """() => {
  const able = "button:not(:disabled), input:not(:disabled), select, [tabindex='0']";
  const shown = (node) => node.getClientRects().length && node.tabIndex >= 0;
  const all = [...document.querySelector(".lw-bench").querySelectorAll(able)];
  const stops = all.filter(shown);
  stops.forEach((node, at) => { node.dataset.stop = at; });
  return stops.length;
}"""
FOCUSED = """() => {
  const node = document.activeElement;
  if (!node || !node.closest(".lw-bench")) return null;
  const style = getComputedStyle(node);
  const name = node.getAttribute("aria-label") || node.textContent;
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [Number(node.dataset.stop), name.trim(), seen];
}"""
MOST_STOPS = 120
"""Presses of Tab before the page counts as one without an end."""


def tab_to(lab: Lab, name: str) -> None:
    """Press Tab until an element whose name begins so has the focus."""
    passed = []
    for _ in range(MOST_STOPS):
        lab.page.keyboard.press("Tab")
        focused = lab.page.evaluate(FOCUSED)
        if focused and focused[1].startswith(name):
            return
        passed += [focused[1]] if focused else []
    raise AssertionError(f"Tab does not come to {name!r}, but to {passed}")


def test_a_cockpit_is_walked_and_worked_by_keys_alone(lab: Lab) -> None:
    """Every stop once, in order, with its focus seen, and out at the end; then a moment, the bucket, a
    compaction and a further view. No key of ours reaches the notebook."""
    notebook = lab.open([MANY, COCKPIT])
    page = lab.page
    page.get_by_role("tab", name="The whole table").wait_for()
    notebook.expect("(bench.reading, bench.parts['health'].busy)", ["", False])
    page.keyboard.press("Escape")  # out of the cell's editor
    stops = page.evaluate(STOPS)
    reached = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None and reached:
            break
        if focused is not None:
            assert focused[2], f"the focus is seen on {focused[1]!r}"
            reached.append(focused[0])
    else:
        raise AssertionError("Tab does not leave the cockpit")
    assert reached == sorted(set(reached)), "each once, in the order of the page"
    assert len(reached) == stops > 12

    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED)[0] == reached[-1], "and in again"
    page.locator("body").evaluate("node => { node.tabIndex = -1; node.focus(); }")
    tab_to(lab, "snapshot")
    page.keyboard.press("ArrowLeft")
    notebook.expect("[view.snapshot for view in bench.views]", [5] * 5)
    page.keyboard.press("End")
    notebook.expect("bench.controls.snapshot", 6)
    tab_to(lab, "The whole table")
    page.keyboard.press("ArrowRight")
    page.locator(".lw-part-controls .lw-primary").wait_for()
    tab_to(lab, "Step: carry out this compaction")
    page.keyboard.press("Enter")
    notebook.expect("(bench.controls.wait(240).busy, bench.timeline.snapshot)", [False, 7])
    tab_to(lab, "Doctor")
    page.keyboard.press("Enter")
    notebook.expect("bench.tool", "findings")
    page.locator(".lw-findings h3", has_text="Doctor").wait_for()
    assert page.locator(".jp-Cell").count() == 2
    notebook.check()


HELD = """
gate = threading.Event()
bench = widgets.Workbench(table)
read = bench.levels.read_history
bench.levels.read_history = lambda: gate.wait(120) and read()
bench"""


def test_the_head_says_what_is_read_until_it_is_read(lab: Lab) -> None:
    notebook = lab.open([MANY, HELD])
    words = lab.page.locator(".lw-reading")
    words.filter(has_text="reading the history, 2 of 5: the files of each commit").wait_for()
    assert words.is_visible()
    assert lab.page.locator(".lw-timeline .lw-pic svg").count() == 1, "the first picture is there meanwhile"
    notebook.kernel("gate.set()")
    notebook.expect("bench.reading", "")
    words.wait_for(state="hidden")
    notebook.check()


LONG = """
import tempfile, widgets
from pathlib import Path
from tests.widgets.histories import long_table
table = long_table(Path(tempfile.mkdtemp()), snapshots=1_200, buckets=60)
newest = table.inspect.latest_snapshot_id()"""


def test_home_goes_to_the_oldest_of_a_long_history(lab: Lab) -> None:
    """More snapshots than a first picture reads, and than the page is sent at once."""
    notebook = lab.open([LONG, COCKPIT])
    page = lab.page
    notebook.expect("bench.reading", "")
    notebook.expect("len(bench.timeline.model) == table.inspect.snapshot_count() >= 1_200", True)
    page.get_by_role("tab", name="Bucket").click()
    timeline = page.locator(".lw-timeline").get_by_role("slider")
    timeline.focus()
    page.keyboard.press("Home")
    notebook.expect("sorted({view.snapshot for view in bench.views})", [1])
    page.locator(".lw-levels h3", has_text="#1").wait_for()
    notebook.expect(
        "sorted(bench.levels.data()['file_name'].to_pylist())"
        " == sorted(table.inspect.levels(1)['file_name'].to_pylist())",
        True,
    )
    timeline.focus()
    page.keyboard.press("End")
    notebook.expect("{view.snapshot for view in bench.views} == {newest}", True)
    notebook.check()


CHART = """
import tempfile, tablestore as ts
lake = ts.connect(tempfile.mkdtemp())
lake.create_table("shop.orders", schema={"status": ts.STRING, "paid": ts.INT})
lake.table("shop.orders").write({"status": ["new", "sent", "paid"], "paid": [5, 9, 2]})
get_ipython().run_line_magic("load_ext", "tablestore")"""


def test_the_bars_of_a_query_are_drawn(lab: Lab) -> None:
    query = "%%sql --lake lake --plot --x status --y paid --kind bars\nSELECT status, paid FROM shop.orders"
    notebook = lab.open([CHART, query])
    figure = lab.page.locator(".js-plotly-plot")
    figure.locator(".bars .point path").nth(2).wait_for()
    assert figure.locator(".bars .point path").count() == 3
    heights = [bar.bounding_box()["height"] for bar in figure.locator(".bars .point path").all()]
    assert sorted(heights)[-1] > 100, "bars of some size"
    assert {text.strip() for text in figure.locator(".xtick text").all_text_contents()} == {
        "new",
        "sent",
        "paid",
    }
    notebook.check()
