"""A capture without a kernel, in a real browser: cards of chunks and batches, by pointer and by keys."""

from __future__ import annotations

from pathlib import Path

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import captures

pytestmark = needs_browser


def test_chunks_and_batches_say_what_they_are(page: Page, tmp_path: Path) -> None:
    view = widgets.CaptureProgress(captures.reports(batches=20), title="shop")
    page.open(view.to_html(tmp_path / "capture.html"))
    shown, card = page.page.locator(".lw-capture"), page.page.locator(".lw-capture .lw-card")
    assert shown.get_attribute("data-n") == "20"
    assert not shown.get_by_role("button", name="pause").is_visible()  # reports have no job
    picture = shown.locator(".lw-pic")
    picture.hover(position={"x": 320, "y": 130})
    card.wait_for(state="visible")
    assert "followed from" in card.inner_text()
    picture.focus()
    page.page.keyboard.press("End")
    page.page.mouse.move(1, 1)
    page.page.locator('.lw-capture .lw-card code:text-is("batch #19")').wait_for()
    assert "batch 19: visible at" in (picture.get_attribute("aria-valuetext") or "")
    page.page.keyboard.press("Escape")
    card.wait_for(state="hidden")
