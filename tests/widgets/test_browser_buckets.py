"""The bucket advisor without a kernel, in a real browser: each number that was tried can be looked at."""

from __future__ import annotations

from pathlib import Path

from tests.browsing import Page, needs_browser
from tests.widgets.test_buckets import advisor

pytestmark = needs_browser


def test_a_press_shows_the_buckets_of_that_number_without_a_kernel(page: Page, tmp_path: Path) -> None:
    view = advisor()
    page.open(view.to_html(tmp_path / "advice.html"))
    rows = page.page.locator(".lw-buckets .tried")
    assert rows.count() == len(view.advice.alternatives)
    rows.nth(0).click()
    first = view.advice.alternatives[0].buckets
    page.page.locator(f'.tried[aria-pressed="true"][data-buckets="{first}"]').wait_for()
    page.page.keyboard.press("ArrowDown")
    second = view.advice.alternatives[1].buckets
    page.page.locator(f'.tried[aria-pressed="true"][data-buckets="{second}"]').wait_for()
    assert page.page.locator(".lw-buckets svg title").count() == second
