"""Terms in pages: what a word means is shown where the pointer is."""

from __future__ import annotations

import re
from pathlib import Path

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import frames
from widgets.kit import glossary

pytestmark = needs_browser


def test_a_caption_marks_a_term_and_hover_shows_its_meaning(page: Page, tmp_path: Path) -> None:
    page.open(widgets.LsmLevels(frames.FakeTable(appends=6)).to_html(tmp_path / "levels.html"))
    caption = page.page.locator(".lw-head .lw-sub").first
    words = caption.text_content()
    term = caption.locator(".lw-term")
    assert re.search(r"\bruns?\b", words)
    assert term.count() == len(glossary.found(words))
    term.first.hover()
    card = page.page.locator(".lw-term-card")
    assert glossary.meaning("run") in card.text_content()
    assert card.is_visible()
    page.page.mouse.move(1, 1)
    assert card.count() == 0
    assert caption.text_content() == words


def test_a_label_of_a_picture_has_the_card_too(page: Page, tmp_path: Path) -> None:
    page.open(widgets.LsmLevels(frames.FakeTable(appends=6)).to_html(tmp_path / "levels.html"))
    label = page.page.locator(".lw-pic svg text .lw-term").first
    (word,) = glossary.found(label.text_content())
    assert page.page.locator(".lw-pic .file text .lw-term").count() == 0
    label.hover()
    card = page.page.locator(".lw-term-card")
    assert card.text_content() == f"{word.name} {word.meaning}"
    page.page.mouse.move(1, 1)
    assert card.count() == 0
