"""Views whose kernel restarts, dies or is shut down: dim, without input, in words why; then restored."""

from __future__ import annotations

import os
import signal

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab, Notebook

pytestmark = [*needs_browser, pytest.mark.large]

TABLE = "import os\nfrom tests.widgets import frames\nimport widgets\ntable = frames.FakeTable(appends=6)"
CELLS = [TABLE, "levels = widgets.LsmLevels(table)\nlevels", "bench = widgets.Workbench(table)\nbench"]
NOBODY_OFFERS = """window.lwNobody = (event) => event.stopPropagation();
  window.addEventListener("tablestore-lost", window.lwNobody, true);"""


def is_lost(notebook: Notebook, words: str) -> None:
    """The workbench and the levels say `words`, are dim and take no input."""
    page = notebook.page
    page.locator(".lw-lost-notice b", has_text=words).nth(1).wait_for(timeout=120_000)
    assert page.locator(".lw-lost-notice").count() == 2  # one of the workbench, none of its parts
    assert page.evaluate("Number(getComputedStyle(document.querySelector('.lw-bench-head')).opacity)") < 1
    slider = page.locator(".lw-bench .lw-timeline [role=slider]").first
    before = slider.get_attribute("aria-valuenow")
    slider.evaluate("node => node.focus()")
    page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuenow") == before


def is_restored(notebook: Notebook, button: str) -> None:
    """`button` of the workbench runs its cell, which is then live."""
    notebook.page.locator(".lw-bench .lw-lost-notice").get_by_text(button, exact=True).click()
    notebook.page.locator(".lw-bench:not(.lw-lost)").wait_for(timeout=120_000)


def test_a_view_whose_kernel_is_gone_says_so_and_comes_back(lab: Lab) -> None:
    notebook = lab.open(CELLS)
    session = f"lwLab.panel({notebook.path!r}).sessionContext"
    assert lab.page.locator(".lw-lost").count() == 0
    notebook.expect("len(bench.levels.edits) > 0", True)  # what the page asks for when it shows it

    lab.page.evaluate(f"() => {{ {NOBODY_OFFERS} }}")  # as without the extension
    lab.page.evaluate(f"{session}.restartKernel()")
    is_lost(notebook, "▲ The kernel was restarted.")
    assert lab.page.locator(".lw-lost-notice", has_text="Run the cell again to go live.").count() == 2
    lab.page.set_viewport_size({"width": 1300, "height": 1700})  # a new width is sent to nobody
    lab.page.wait_for_timeout(300)
    lab.page.set_viewport_size({"width": 1500, "height": 1700})
    lab.page.evaluate("() => { window.removeEventListener('tablestore-lost', window.lwNobody, true); }")
    notebook.run_all()
    lab.page.locator(".lw-bench:not(.lw-lost)").wait_for(timeout=120_000)

    os.kill(notebook.kernel("os.getpid()"), signal.SIGKILL)
    dialog = lab.page.locator(".jp-Dialog", has_text="appears to have died")
    dialog.get_by_role("button").last.click(timeout=120_000)
    is_lost(notebook, "▲ The kernel died and was started anew.")
    is_restored(notebook, "Restart and restore")
    notebook.expect("bench.timeline.snapshot", 6)

    lab.page.evaluate(f"{session}.shutdown()")
    is_lost(notebook, "▲ The kernel was shut down.")
    is_restored(notebook, "Restart and restore")
    notebook.run_all()
    notebook.check()
