"""Statements of the grammar with words taken out, doubled, exchanged, made up: only our errors come back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tablestore.core.errors import TablestoreError
from tablestore.sql import Session
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.form import Form
from tablestore.sql.forms import FORMS, statement_of
from tablestore.sql.settings import SETTINGS

EXAMPLES = [form.example for form in FORMS if form.example]
WORDS = sorted({word for form in FORMS for word in form.words.split()})
SIGNS = [
    "(",
    ")",
    ",",
    ".",
    "=",
    "'",
    "`",
    '"',
    ";",
    "*",
    "-",
    "--",
    "/*",
    "?",
    ":p",
    "''",
    "``",
    "$",
    "1",
    "1e5",
    "NULL",
]
pieces_of_text = st.sampled_from(
    [*WORDS, *SIGNS, "t", "orders", "shop.orders", "INT", "ROW<", ">", "AS", "x'0'"]
) | st.text(max_size=3)


@st.composite
def statements(draw: Any) -> str:
    words = (
        draw(st.sampled_from(EXAMPLES)).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
    )
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(words) - 1, 0)))
        what = draw(st.sampled_from(["out", "twice", "other", "new", "cut"]))
        if what == "out":
            del words[at : at + 1]
        elif what == "twice":
            words[at:at] = words[at : at + 2]
        elif what == "other":
            words[at : at + 1] = [draw(pieces_of_text)]
        elif what == "new":
            words.insert(at, draw(pieces_of_text))
        else:
            words = words[:at]
    return " ".join(words)


@settings(max_examples=400, deadline=None)
@given(statements())
@example("CREATE TABLE")
@example("ALTER TABLE t ADD (")
@example("SELECT `")
def test_a_text_is_read_or_refused(text: str) -> None:
    with suppress(TablestoreError):
        for piece in pieces(text):
            statement_of(piece)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statements())
def test_a_text_is_carried_out_or_refused(session: Session, text: str) -> None:
    with suppress(TablestoreError):
        for result in session.script(text):
            result.to_arrow()
    for name in SETTINGS:
        session.settings.reset(name)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
@pytest.mark.sample(20)
def test_every_beginning_of_a_statement_is_read_or_refused(form: Form) -> None:
    text = form.example or form.words
    for end in range(len(text)):
        with suppress(TablestoreError):
            for piece in pieces(text[:end]):
                statement_of(piece)
