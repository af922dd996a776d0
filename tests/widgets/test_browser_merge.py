"""MergeView without a kernel, in a real browser: step, click, keys, hover, both pictures; nothing is run."""

from pathlib import Path

import pytest

import widgets
from tests.browsing import Page, needs_browser

pytestmark = needs_browser
XSS = "<img src=x onerror=\"document.title='owned'\">"
NEW = [{"k": 1, "rowkind": "-D", "v": XSS, "n": 1}, {"k": 2, "rowkind": "+I", "v": "y", "n": 1}]
OLD = [{"k": 1, "v": "a", "n": 7}, {"k": 2, "v": "a", "n": 9}, {"k": 3, "v": XSS, "n": 2}]


@pytest.fixture
def shown(page: Page, tmp_path: Path) -> Page:
    view = widgets.MergeView.of([NEW, OLD], primary_key="k", title=XSS)
    return page.open(view.to_html(tmp_path / "merge.html"))


def test_keys_clicks_and_buttons_step_through_the_merge(shown: Page) -> None:
    grid = shown.page.get_by_role("grid", name="Merge deduplicate")
    root = shown.page.locator(".lw-merge")
    assert root.get_attribute("data-cursor") == "2"
    shown.page.get_by_role("button", name="before the merge").click()
    assert root.get_attribute("data-cursor") == "-1"
    assert shown.text(".lw-at") == "not merged yet"
    assert "Nothing is merged yet" in grid.text_content()
    tall = grid.bounding_box()["height"]
    grid.focus()
    shown.page.keyboard.press("ArrowRight")
    assert shown.text(".lw-at") == "key 1 of 3"
    assert "key 1: sequence 3 > 0: the newest row, of L0 #2, is −D." in shown.text(".lw-says")
    assert grid.bounding_box()["height"] == tall
    shown.page.locator('.cell[data-cell="1|out"]').click()
    assert shown.text(".lw-at") == "key 2 of 3"
    shown.page.keyboard.press("End")
    assert shown.text(".lw-at") == "key 3 of 3"
    shown.page.keyboard.press("c")
    assert (
        shown.page.get_by_role("button", name="columns", exact=True).get_attribute("aria-pressed") == "true"
    )
    assert shown.page.locator('.cell[data-cell="2|1|n"]').count() == 1


def test_hover_shows_the_whole_row_as_text(shown: Page) -> None:
    card = shown.page.locator(".lw-card")
    shown.page.locator('.cell[data-cell="0|0"]').hover()
    assert card.is_visible()
    assert XSS in card.text_content()
    assert "−D" in card.text_content()
    shown.page.mouse.move(5, 5)
    assert card.is_hidden()
    shown.page.get_by_role("button", name="before the merge").click()
    shown.page.get_by_role("grid").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        shown.page.keyboard.press(key)
    assert "became" in card.text_content()
    assert shown.text(".lw-says") == "key 1, L0 #1, v a, sequence 0, superseded"
    shown.page.keyboard.press("Escape")
    assert card.is_hidden()
    assert shown.page.title() == "Merge"
    assert shown.page.locator("img").count() == 0


@pytest.mark.large
def test_play_goes_to_the_last_key(shown: Page) -> None:
    shown.page.get_by_role("button", name="play", exact=True).click()
    shown.page.locator('.lw-merge[data-cursor="2"]').wait_for()
    shown.page.get_by_role("button", name="play", exact=True).wait_for()
