"""Views whose kernel restarts, dies or is shut down: dimmed, without input, and the words say why."""

import os
import signal

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = needs_browser

TABLE = "import os\nfrom tests.widgets import frames\nimport widgets\ntable = frames.FakeTable(appends=6)"
CELLS = [TABLE, "bench = widgets.Workbench(table)\nbench", "levels = widgets.LsmLevels(table)\nlevels"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("restart", "▲ The kernel was restarted."),
        ("kill", "▲ The kernel died and was started anew."),
        ("shutdown", "▲ The kernel was shut down."),
    ],
)
def test_a_view_whose_kernel_is_gone_says_so_and_takes_no_input(lab: Lab, event: str, words: str) -> None:
    notebook = lab.open(CELLS)
    page = lab.page
    session = f"lwLab.panel({notebook.path!r}).sessionContext"
    assert page.locator(".lw-lost").count() == 0
    if event == "kill":
        os.kill(notebook.kernel("os.getpid()"), signal.SIGKILL)
    else:
        page.evaluate(f"{session}.{'restartKernel' if event == 'restart' else 'shutdown'}()")
    page.locator(".lw-lost-notice b", has_text=words).nth(1).wait_for(timeout=120_000)
    assert page.locator(".lw-lost-notice").count() == 2  # the workbench has one, not one a part
    slider = page.locator(".lw-bench").get_by_role("slider", include_hidden=True).first
    before = slider.get_attribute("aria-valuenow")
    slider.evaluate("node => node.focus()")
    page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuenow") == before
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.lw-bench > .lw-bench-head')).opacity")
        == "0.45"
    )
    page.set_viewport_size({"width": 1300, "height": 1700})  # a new width is not sent to nobody
    page.wait_for_timeout(300)
    page.set_viewport_size({"width": 1500, "height": 1700})
    notebook.check()
