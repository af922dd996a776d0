"""What this version can do with a table, decided from schema and options before a byte of data is read.

Calls the same functions that refuse a verb at the table, so the answer cannot differ from what happens.
Permissions of the storage are not checked. Behind `Table.abilities`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tablestore.core.errors import TablestoreError
from tablestore.io.confined import roots_of
from tablestore.io.external_paths import ExternalPaths
from tablestore.log.settings import require_own_rows
from tablestore.lsm.merge import validate
from tablestore.meta.store import Store
from tablestore.read.changes.streamable import require_streamable
from tablestore.read.changes.tracked import require_tracked
from tablestore.read.supported import require_readable
from tablestore.write import delete
from tablestore.write.supported import require_writable


@dataclass(frozen=True, slots=True)
class Ability:
    """One verb, whether it works on the table, and if not, why."""

    verb: str
    works: bool
    why: str = ""


def abilities(store: Store) -> tuple[Ability, ...]:
    """Whether read, stream, write, delete and compact work, in this order."""
    return tuple(_asked(verb, check, store) for verb, check in _CHECKS)


def _asked(verb: str, check: Callable[[Store], None], store: Store) -> Ability:
    try:
        check(store)
    except TablestoreError as error:
        return Ability(verb, False, str(error))
    return Ability(verb, True)


def _read(store: Store) -> None:
    require_readable(store.schema, store.options)
    ExternalPaths.of(store.options).require(roots_of(store.io))


def _stream(store: Store) -> None:
    _read(store)
    require_streamable(store)
    require_tracked(store)


def _write(store: Store) -> None:
    require_writable(store.schema, store.options, roots=roots_of(store.io))


def _write_rows(store: Store) -> None:
    _write(store)
    require_own_rows(store.options, "a write")


def _delete(store: Store) -> None:
    _write_rows(store)
    if store.schema.shown.primary_keys:
        validate.require_deletable(store.options)
    elif store.schema.row_count_field is None:
        delete.require_deletable(store)


_CHECKS: tuple[tuple[str, Callable[[Store], None]], ...] = (
    ("read", _read),
    ("stream", _stream),
    ("write", _write_rows),
    ("delete", _delete),
    ("compact", _write),
)
