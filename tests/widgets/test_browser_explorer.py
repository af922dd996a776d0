"""FileExplorer and PruningExplainer from file:// in Chromium: click, keys, hover, what is not in the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets.tables import XSS, months

if TYPE_CHECKING:
    from playwright import sync_api as playwright

pytestmark = needs_browser
WHERE = "month = 2 AND id BETWEEN 100 AND 950 AND quantity > 30"
OUTSIDE = """[...document.querySelectorAll('.lw-pic > svg')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(t => {
    const b = t.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 2;
  }).map(t => t.textContent);
})"""


@pytest.fixture(scope="module")
def files() -> Iterator[dict[str, Path]]:
    """Pages of both views of one table."""
    with tempfile.TemporaryDirectory() as folder:
        table = months(Path(folder) / "lake")
        explorer = widgets.FileExplorer(table, against=5)
        pruning = widgets.PruningExplainer(table, where=WHERE)
        yield {
            "explorer": explorer.to_html(Path(folder) / "explorer.html"),
            "pruning": pruning.to_html(Path(folder) / "pruning.html"),
        }


def test_the_tree_is_walked_by_click_and_keys(page: Page, files: dict[str, Path]) -> None:
    page.open(files["explorer"])
    chosen = page.page.locator('.lw-tree [aria-selected="true"]')
    assert chosen.get_attribute("data-path") == ""
    page.page.locator(".lw-tree .node", has_text="delta manifest list").click()
    assert chosen.get_attribute("data-path") == "delta"
    assert "+1" in page.text(".lw-table .row")
    page.page.keyboard.press("ArrowDown")
    assert chosen.get_attribute("data-path").startswith("delta/manifest-")
    page.page.keyboard.press("End")
    assert chosen.get_attribute("data-path") == "facts"
    assert "commit kind" in page.text(".lw-table svg")
    page.page.locator(".lw-tree .node", has_text="schema-0").click()
    assert "quantity" in page.text(".lw-table svg")


def test_a_file_shows_its_row_groups_and_hovering_its_card(page: Page, files: dict[str, Path]) -> None:
    page.open(files["explorer"])
    row = page.page.locator(".lw-table .row").first
    row.hover()
    card = page.page.locator(".lw-card")
    assert "level 0" in card.text_content()
    assert "month=2/bucket-0" in card.text_content()
    row.click()
    assert page.page.locator(".lw-detail .rg").count() >= 1
    assert "quantity" in page.text(".lw-detail svg")
    assert page.page.locator(".lw-table .ring").count() == 1
    page.page.keyboard.press("Escape")
    assert page.page.locator(".lw-detail svg").count() == 0
    page.page.keyboard.press("ArrowDown")
    assert page.page.locator(".lw-table .ring").count() == 1


def test_what_the_file_does_not_hold_is_said(page: Page, files: dict[str, Path]) -> None:
    page.open(files["explorer"])
    page.page.locator(".lw-tree .node", has_text="data files").click()
    page.page.locator(".lw-tree .node", has_text="base manifest list").click()
    page.page.locator(".lw-table .row").first.click()
    assert page.page.locator(".lw-explorer input[type=text]").is_disabled()
    assert page.page.locator(".lw-explorer select").is_disabled()


def test_clicks_and_arrows_explain_files(page: Page, files: dict[str, Path]) -> None:
    page.open(files["pruning"])
    assert "Skipped by K, key range." in page.text(".lw-panel svg")
    marks = page.page.locator(".lw-lanes .file")
    assert marks.count() == 4
    marks.nth(3).click()
    assert page.text(".lw-panel svg").startswith("Read: ")
    assert page.page.locator(".lw-panel .rg").count() > 3
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowUp")
    assert "kept" in page.text(".lw-panel svg")
    page.page.keyboard.press("Home")
    assert "Skipped by K" in page.text(".lw-panel svg")
    marks.nth(0).hover()
    assert "min 1000 > 950" in page.page.locator(".lw-card").text_content()


def test_bars_by_bytes_and_another_bucket(page: Page, files: dict[str, Path]) -> None:
    page.open(files["pruning"])
    page.page.get_by_role("button", name="bytes", exact=True).click()
    assert "log scale of bytes" in page.text(".lw-rules svg")
    page.page.locator(".lw-buckets .lw-chip", has_text="1/0").click()
    assert page.text(".lw-heading svg").startswith("month=1")
    assert "Skipped by P, partition." in page.text(".lw-panel svg")
    assert page.page.locator(".lw-where").is_disabled()
    assert page.page.locator(".lw-where").input_value() == WHERE


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["explorer", "pruning"])
@pytest.mark.sample(1)
def test_no_width_scrolls_sideways_and_no_label_leaves_its_picture(
    browser: playwright.Browser, files: dict[str, Path], view: str, scheme: str
) -> None:
    for width in (700, 960, 1080):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = Page(context.new_page()).open(files[view])
        if view == "explorer":
            page.page.locator(".lw-table .row").first.click()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.page.evaluate(OUTSIDE) == []
        page.check()
        context.close()


def test_hostile_names_are_shown_as_text(page: Page, tmp_path: Path) -> None:
    table = months(tmp_path / "lake", column=XSS, value=XSS)
    quoted = '"' + XSS.replace('"', '""') + '"'
    explorer = widgets.FileExplorer(table, title=XSS)
    explorer.selected = (explorer.model.listing.rows[0].name,)
    pruning = widgets.PruningExplainer(table, where=f"{quoted} > 'a' AND month = 2", title=XSS)
    path = tmp_path / "hostile.html"
    path.write_text(widgets.page(XSS, [explorer, pruning]), encoding="utf-8")
    page.open(path)
    page.page.locator(".lw-tree .node", has_text="schema-0").click()
    page.page.locator(".lw-table .row").first.hover()
    page.page.locator(".lw-lanes .file").last.click()
    page.page.locator(".lw-rules .rule").nth(4).hover()
    assert page.page.locator("img").count() == 0
    assert page.page.title() == XSS
    assert XSS[:20] in page.text(".lw-where") or page.page.locator(".lw-where").input_value().startswith(
        '"<img'
    )
