"""All kinds of statements: the grammar that the parser, help, completion and the reference share."""

from __future__ import annotations

from tablestore.sql.form import Form
from tablestore.sql.statements import (
    alter_table,
    call,
    catalogs,
    changing,
    create_table,
    databases,
    describe,
    explain,
    insert,
    jobs,
    merge,
    queries,
    refused,
    settings,
    show,
    views,
)

FORMS: tuple[Form, ...] = (
    *queries.FORMS,
    *explain.FORMS,
    *insert.FORMS,
    *jobs.FORMS,
    *changing.FORMS,
    *merge.FORMS,
    *call.FORMS,
    *catalogs.FORMS,
    *databases.FORMS,
    *create_table.FORMS,
    *alter_table.FORMS,
    *describe.FORMS,
    *show.FORMS,
    *views.FORMS,
    *refused.FORMS,
    *settings.FORMS,
)


def first_words() -> list[str]:
    """The words with which statements begin, sorted."""
    return sorted({form.words.split()[0] for form in FORMS})
