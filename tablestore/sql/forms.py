"""All kinds of statements: the grammar that the parser, help, completion and the reference share."""

from __future__ import annotations

from tablestore.sql.form import Form
from tablestore.sql.statements import catalogs, create_table, queries, settings

FORMS: tuple[Form, ...] = (
    *queries.FORMS,
    *catalogs.FORMS,
    *create_table.FORMS,
    *settings.FORMS,
)


def first_words() -> list[str]:
    """The words with which statements begin, sorted."""
    return sorted({form.words.split()[0] for form in FORMS})
