"""The log and the lake without a kernel, in a real browser: cards of files and snapshots."""

from __future__ import annotations

from pathlib import Path

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import logs

pytestmark = needs_browser


def test_files_and_snapshots_say_what_they_are(page: Page, tmp_path: Path) -> None:
    view = widgets.LogAndLake(logs.visits(tmp_path, buckets=1), follow=0)
    page.open(view.to_html(tmp_path / "log.html"))
    shown, card = page.page.locator(".lw-log"), page.page.locator(".lw-log .lw-card")
    spots = view.frame["meta"]["spots"]
    assert shown.get_attribute("data-n") == str(len(spots))
    assert not shown.get_by_role("button", name="refresh").is_visible()  # nobody could read again
    picture = shown.locator(".lw-pic")
    picture.focus()
    page.page.keyboard.press("End")
    card.wait_for(state="visible")
    assert "snapshot #6" in card.inner_text()
    assert "till-1" in card.inner_text()
    assert "names offsets" in (picture.get_attribute("aria-valuetext") or "")
    page.page.keyboard.press("Home")
    assert "1.log" in card.inner_text()
    assert "till-0 · batch 0" in card.inner_text()
    page.page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    picture.hover(position={"x": 400, "y": 145})
    card.wait_for(state="visible")
    assert "transactions" in card.inner_text()
    page.check()
