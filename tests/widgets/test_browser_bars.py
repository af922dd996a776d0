"""Bars without a kernel, in a real browser: each page can be looked at, by buttons, the list and keys."""

from __future__ import annotations

from pathlib import Path

from tests.browsing import Page, needs_browser
from tests.widgets.test_bars import chart

pytestmark = needs_browser


def test_the_pages_are_turned_by_button_list_and_key(page: Page, tmp_path: Path) -> None:
    page.open(chart().to_html(tmp_path / "bars.html"))
    view, shown = page.page.locator(".lw-bars"), page.page.locator(".lw-bars .row")
    assert [row.get_attribute("data-name") for row in shown.all()] == ["PERU", "FRANCE"]
    view.get_by_role("button", name="the next group").click()
    page.page.locator('.lw-bars .row[data-name=""]').wait_for()
    view.get_by_role("combobox").select_option("1995")
    page.page.locator('.lw-bars .row[data-name="FRANCE"]').wait_for()
    view.locator(".lw-pic").focus()
    page.page.keyboard.press("End")
    page.page.locator('.lw-bars .row[data-name=""]').wait_for()
    assert view.get_by_role("button", name="the next group").is_disabled()
