"""IngestProgress in a real JupyterLab: pause, resume, stop, retry; chunks by hover, click and keys."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

JOB = """
import tempfile, threading, time
import pyarrow as pa
import tablestore as ts, widgets

orders = ts.connect(tempfile.mkdtemp()).create_table(
    "shop.orders", schema={"id": ts.BIGINT, "v": ts.BIGINT}, primary_key=["id"],
    options={"bucket": 1, "write-only": True},
)
orders.write(pa.table({"id": [0], "v": [0]}))


class Chunk:
    def __init__(self, number):
        self.rows, self.lo, self.hi = 1000, number * 1000, number * 1000 + 999


gate, runs = threading.Event(), []


def job(progress):
    runs.append(1)
    progress.describe([Chunk(number) for number in range(12)], key="id")
    for number in range(12):
        progress.update(chunk=(number, "reading", 0.5), rows=number * 1000)
        while not (gate.is_set() or progress.stopped.is_set() or number < 3):
            progress.proceed()
            gate.wait(0.02)
        if not progress.proceed():
            return
        ids = pa.array(range(number * 1000, number * 1000 + 1000))
        commit = orders.write(pa.table({"id": ids, "v": ids})).snapshot
        progress.mark(f"chunk {number}", low=number * 10, high=number * 10 + 30, committed=True)
        progress.update(chunk=(number, "committed"), committed=number * 1000 + 1000, commit=commit)
"""
SHOW = """
timeline = widgets.SnapshotTimeline(orders)
progress = widgets.IngestProgress("shop.orders", total=12_000)
progress.link(timeline)
progress.run(job)
progress
"""

PLACE = "node => node.querySelector('svg').getBoundingClientRect().toJSON()"


def test_a_running_job_is_watched_paused_stopped_and_retried(lab: Lab) -> None:
    notebook = lab.open([JOB, SHOW, "timeline"])
    view = lab.page.locator(".lw-ingest")
    picture = view.locator(".lw-pic")
    notebook.expect("dict(progress.progress.counts)", {"committed": 3, "reading": 1, "waiting": 8})
    notebook.expect("(len(timeline.model), timeline.snapshot)", [4, 4])  # it followed the commits by itself

    view.get_by_role("button", name="pause").click()
    notebook.expect("(progress.progress.state, progress.progress.waits)", ["paused", True])
    view.get_by_role("button", name="resume").click()
    notebook.expect("progress.progress.state", "running")

    place = picture.evaluate(PLACE)  # asked at once: the job goes on, and each report draws anew
    grid = notebook.kernel("progress.frame['meta']['grid']")
    scale = place["width"] / notebook.kernel("progress.width")
    x, y = place["x"] + (grid["x"] + 4.5 * grid["pitch"]) * scale, place["y"] + (grid["y"] + 12) * scale
    lab.page.mouse.move(x, y)
    notebook.expect("progress.hovered", "4")
    view.locator(".lw-card", has_text="4,000 … 4,999").wait_for()
    lab.page.mouse.click(x, y)
    notebook.expect("progress.selected", [4])
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("Shift+ArrowLeft")
    notebook.expect("progress.selected", [0])
    assert picture.get_attribute("aria-valuetext") == "chunk 0, committed"
    lab.page.keyboard.press("Escape")
    notebook.expect("progress.selected", [])

    view.get_by_role("button", name="stop").click()
    notebook.expect("progress.progress.state", "stopped")
    assert notebook.kernel("orders.refresh().scan().count()") == 3000
    notebook.kernel("gate.set()")
    view.get_by_role("button", name="retry").click()
    notebook.expect("(progress.progress.state, len(runs))", ["done", 2])
    notebook.expect("len(timeline.model)", 16)
    assert notebook.kernel("orders.refresh().scan().count()") == 12_000
    view.get_by_role("button", name="stop", disabled=True).wait_for()
    notebook.check()


def test_an_error_shows_with_the_next_step_and_wait_raises_it(lab: Lab) -> None:
    failing = "progress.run(lambda report: 1 / 0)\nprogress"
    notebook = lab.open(["import widgets\nprogress = widgets.IngestProgress('<b>orders')", failing])
    notebook.expect("progress.progress.state", "failed")
    view = lab.page.locator(".lw-ingest")
    view.locator("svg text", has_text="ZeroDivisionError: division by zero").wait_for()
    assert view.locator("svg text", has_text="then Retry").count() == 1
    assert view.locator("h3").text_content() == "<b>orders"
    view.get_by_role("button", name="retry", disabled=False).wait_for()
    assert notebook.kernel("progress._failure is not None") is True
    notebook.check()
