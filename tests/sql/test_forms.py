"""The grammar table: every form says what it is, and its example runs as it stands."""

from __future__ import annotations

import pytest

from tablestore.sql import Session
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.form import Form
from tablestore.sql.forms import FORMS


@pytest.mark.parametrize("form", [f for f in FORMS if f.example], ids=lambda form: form.words)
def test_the_example_of_a_form_runs(session: Session, form: Form) -> None:
    for result in session.script(form.example):
        result.to_arrow()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
def test_a_form_is_described(form: Form) -> None:
    assert form.syntax
    assert form.text.endswith(".")
    assert form.family
    assert (form.parse is None) or (form.build is None)
    assert not form.example or form.words.split()[0] in {
        piece.tokens[0].text.upper() for piece in pieces(form.example)
    }


def test_no_two_forms_begin_with_the_same_words() -> None:
    read = [form.words for form in FORMS if form.parse is not None]
    assert len(set(read)) == len(read)
