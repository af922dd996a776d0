"""The reference page: complete, and as the command writes it now."""

from __future__ import annotations

from tablestore.sql import reference
from tablestore.sql.connectors.registry import CONNECTORS
from tablestore.sql.forms import FORMS
from tablestore.sql.query.functions import FUNCTIONS
from tablestore.sql.settings import SETTINGS
from tablestore.sql.statements.call import PROCEDURES


def test_the_page_is_current() -> None:
    written = reference.PAGE.read_text(encoding="utf-8")
    assert written == reference.page(), "run python -m tablestore.sql.reference"


def test_the_page_has_all() -> None:
    text = reference.page()
    assert all(f"### {form.words}\n" in text and form.text in text for form in FORMS)
    assert all(f"`CALL sys.{name}(" in text for name in PROCEDURES)
    assert all(f"`{name}" in text for name in [*FUNCTIONS, *SETTINGS])
    for connector in CONNECTORS.values():
        assert all(f"| `{option.key}` |" in text for option in connector.options)
    for line in text.splitlines():
        if line.startswith("|"):
            cells = line.replace("\\|", "").count("|") - 1
            assert cells in (2, 3), line


def test_every_kind_of_function_has_its_place() -> None:
    assert {function.kind for function in FUNCTIONS.values()} == set(reference._KINDS)
