"""ChangelogView without a kernel, in a real browser: snapshots, kinds, keys, hover; producers by key."""

from pathlib import Path

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets.test_changelog import WRITES, XSS, table_of

pytestmark = needs_browser


def test_snapshots_kinds_and_keys_answer_without_a_kernel(page: Page, tmp_path: Path) -> None:
    view = widgets.ChangelogView(table_of(tmp_path, "input"))
    page.open(view.to_html(tmp_path / "changes.html"))
    grid = page.page.get_by_role("grid", name="Changelog, producer input")
    page.page.locator('.commit[data-snapshot="5"]').click()
    assert page.text(".lw-says") == "#5 APPEND: 3 changes"
    page.page.keyboard.press("ArrowLeft")
    assert page.text(".lw-says") == "#4 APPEND: 2 changes"
    chips = grid.locator(".chip:visible")
    before = chips.count()
    page.page.get_by_role("button", name="−U", exact=True).click()
    assert chips.count() == before - 3
    page.page.get_by_label("keys that begin with").fill("3")
    assert set(chips.locator("text").all_text_contents()) >= {"+U", "open"}
    assert chips.count() == 2
    page.page.get_by_label("keys that begin with").press("Escape")
    page.page.get_by_role("button", name="−U", exact=True).click()
    grid.focus()
    page.page.keyboard.press("ArrowDown")
    assert page.text(".lw-says").startswith("key 7, snapshot 4: −U open, +U paid")
    page.page.keyboard.press("Escape")
    page.page.locator('.cell[data-cell="31|2"]').hover()
    assert XSS in page.text(".lw-card")
    assert page.page.locator("img").count() == 0


def test_producers_change_key_by_click_and_arrow(page: Page, tmp_path: Path) -> None:
    view = widgets.ChangelogView.producers(WRITES, primary_key="k")
    page.open(view.to_html(tmp_path / "producers.html"))
    assert page.text("h3") == "Key 7 through the four producers"
    page.page.get_by_role("button", name="8", exact=True).click()
    assert page.text("h3") == "Key 8 through the four producers"
    page.page.locator(".lw-changelog .lw-pic").focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.text("h3") == "Key 7 through the four producers"
    assert page.page.locator(".chip").count() == 11
