"""A tiering service without a kernel, in a real browser: cards by pointer and keys, a table is chosen."""

from __future__ import annotations

from pathlib import Path

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import tierings

pytestmark = needs_browser


def test_a_table_is_chosen_and_says_what_it_is(page: Page, tmp_path: Path) -> None:
    view = widgets.TieringView(tierings.report(20.0), title="shop", table="shop.orders")
    page.open(view.to_html(tmp_path / "tiering.html"))
    shown, card = page.page.locator(".lw-tiering"), page.page.locator(".lw-tiering .lw-card")
    assert shown.get_attribute("data-n") == str(len(view.frame["meta"]["spots"]))
    assert not shown.get_by_role("button", name="stop").is_visible()  # a report has no service
    picture = shown.locator(".lw-pic")
    picture.focus()
    page.page.keyboard.press("ArrowDown")
    card.wait_for(state="visible")
    assert "shop.customers" in card.inner_text()
    assert "tiering epoch" in (picture.get_attribute("aria-valuetext") or "")
    page.page.keyboard.press("Enter")
    shown.locator("svg text", has_text="Buckets of shop.customers").wait_for()
    page.page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    shown.locator("svg text", has_text="shop.events").first.click()
    shown.locator("svg text", has_text="Buckets of shop.events").wait_for()
    page.page.keyboard.press("End")
    assert "coordinator" in card.inner_text() or "asks for a table" in card.inner_text()
