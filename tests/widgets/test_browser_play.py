"""CompactionPlay without a kernel, in a real browser: keys, captions and Play walk through the scenes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browsing import Page, needs_browser
from tests.widgets.test_play import table_at
from widgets import CompactionPlay

pytestmark = needs_browser


@pytest.mark.large
def test_scenes_by_keys_captions_and_play(page: Page, tmp_path: Path) -> None:
    table = table_at(tmp_path / "lake")
    table.with_options({"write-only": "false"}).compact()
    play = CompactionPlay(table)
    said = play.data()["says"].to_pylist()
    page.open(play.to_html(tmp_path / "play.html"))
    slider = page.page.get_by_role("slider", name="scene of the compaction")
    tall = slider.bounding_box()["height"]
    assert slider.get_attribute("aria-valuetext") == f"Rule. {said[0]}"
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    assert page.text(".lw-says") == f"Takes. {said[1]}"
    page.page.locator('.caption[data-caption="2"]').click()
    assert slider.get_attribute("aria-valuenow") == "3"
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press(" ")
    page.page.locator('[role=slider][aria-valuenow="8"]').wait_for(timeout=120_000)
    assert page.text(".lw-says") == f"Before → after. {said[-1]}"
    assert slider.bounding_box()["height"] == tall
    assert page.page.get_by_role("button", name="one scene on").is_disabled()
