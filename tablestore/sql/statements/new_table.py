"""What CREATE TABLE says beside that a table is made: of its buckets, and of what SET gave to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tablestore.core.errors import TablestoreError
from tablestore.sql.settings import TABLE_STORAGE
from tablestore.table.table import Table
from tablestore.write.supported import warning_of


@contextmanager
def of_settings(defaults: Mapping[str, str]) -> Iterator[None]:
    """An error that names an option which SET gave says so."""
    try:
        yield
    except TablestoreError as e:
        concerned = [key for key in defaults if key in str(e)]
        if concerned and e.args and isinstance(e.args[0], str):
            given = ", ".join(f"{key!r} = {defaults[key]!r}" for key in concerned)
            undone = "; ".join(f"RESET '{TABLE_STORAGE}{key}'" for key in concerned)
            e.args = (f"{e.args[0]}\n  (SET gave {given}; {undone} takes it back)", *e.args[1:])
        raise


def note_of(table: Table, *, by_default: bool) -> str:
    """What to know of the buckets of a table that was made. `by_default`: nothing that was written or set
    says how many there are."""
    found = ""
    schema, options = table.store.schema, table.store.options
    if by_default and schema.primary_keys and options.bucket == 1:
        found += f", with 1 bucket: SET '{TABLE_STORAGE}bucket' = '-1' before it gives Paimon's default"
    warning = warning_of(schema, options)
    return found + (f"; {warning}" if warning else "")
