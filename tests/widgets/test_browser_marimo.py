"""The cockpit in a notebook of marimo: shown, live both ways, and following commits of another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browsing import needs_browser
from tests.peers import marimo_env
from tests.suite import counterparts
from tests.tables import KEYED

pytestmark = [*needs_browser, pytest.mark.large]


def test_a_cockpit_is_live_in_marimo(browser, tmp_path: Path) -> None:
    counterparts.need("marimo")
    table = KEYED.create(tmp_path, {"bucket": 1, "num-sorted-run.compaction-trigger": 3, "write-only": True})
    for i in range(4):
        table.refresh().write({"k": range(i, 900, 3 + i), "v": [f"v{k}" for k in range(i, 900, 3 + i)]})
    complaints: list[str] = []
    with marimo_env.serving(str(table.location), tmp_path) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        bench, levels = page.locator(".lw-bench"), page.locator(".lw-bench .lw-levels")
        levels.get_by_text("Levels at #4").wait_for()
        bench.locator(
            ".lw-amplification .lw-pic svg"
        ).wait_for()  # the history, which is read once it is shown
        page.locator(".lw-timeline").get_by_role("slider").press("ArrowLeft")
        levels.get_by_text("Levels at #3").wait_for()
        bench.get_by_text("After #3").wait_for()
        bench.get_by_role("button", name="Back to now").click()
        levels.get_by_text("Levels at #4").wait_for()
        table.refresh().write({"k": [1], "v": ["another process"]})
        bench.get_by_role("button", name="1 newer commit").click()
        levels.get_by_text("Levels at #5").wait_for()
        for tool, view in (("Merge", "merge"), ("Files", "files")):  # no cell runs
            bench.get_by_role("button", name=tool, exact=True).click()
            bench.locator(f".lw-drawer .lw-part-{view} .lw-pic svg").first.wait_for()
        assert bench.get_attribute("data-tool") == "files"
        assert bench.locator(".lw-error:visible").count() == 0
        assert complaints == []
        context.close()
