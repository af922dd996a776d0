"""The words that have a card: one meaning each, found in any form, shown on hover in a page."""

from __future__ import annotations

import pytest

from widgets.kit import assets, glossary


def test_each_form_names_one_term_and_every_meaning_is_short() -> None:
    forms = [form for term in glossary.TERMS for form in (term.name, *term.forms)]
    assert len(forms) == len(set(forms))
    assert all(term.meaning.endswith(".") and len(term.meaning) < 220 for term in glossary.TERMS)
    assert glossary.meaning("Sorted runs") == glossary.meaning("run")
    with pytest.raises(KeyError):
        glossary.meaning("told")


def test_terms_are_found_as_words_and_the_longest_first() -> None:
    names = [term.name for term in glossary.found("Lift level 0 fires: 7 sorted runs, no prune, no overdue")]
    assert names == ["lift level 0", "run"]


def test_the_script_of_every_page_has_the_table_once() -> None:
    assert assets.library().count("const LW_TERMS = ") == 1
    assert next(iter(glossary.for_page())) == "lift level 0"
