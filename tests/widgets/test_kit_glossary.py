"""The words that have a card: one meaning each, found in any form, shown on hover in a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import frames
from widgets.kit import assets, glossary


def test_each_form_names_one_term_and_every_meaning_is_short() -> None:
    forms = [form for term in glossary.TERMS for form in (term.name, *term.forms)]
    assert len(forms) == len(set(forms))
    assert all(term.meaning.endswith(".") and len(term.meaning) < 220 for term in glossary.TERMS)
    assert glossary.meaning("Sorted runs") == glossary.meaning("run")
    with pytest.raises(KeyError):
        glossary.meaning("told")


def test_terms_are_found_as_words_and_the_longest_first() -> None:
    found = [term.name for term in glossary.found("Lift level 0 fires: 7 sorted runs, no prune, no overdue")]
    assert found == ["lift level 0", "run"]


def test_the_script_of_every_page_has_the_table_once() -> None:
    assert assets.library().count("const LW_TERMS = ") == 1
    assert next(iter(glossary.for_page())) == "lift level 0"


@needs_browser[1]
@pytest.mark.browser
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


@needs_browser[1]
@pytest.mark.browser
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
