"""What a table is: its place, columns, keys, options, log and what works on it.

The base of `Table`, whose other halves read, write and keep it. Safe to share: immutable.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from tablestore import doors
from tablestore.core.arguments import checked_but
from tablestore.core.options.secrets import hidden
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store
from tablestore.table import writes
from tablestore.table.columns import shown
from tablestore.table.handle import Handle
from tablestore.table.log_view import LogView

if TYPE_CHECKING:
    from tablestore.doors import Inspect

from collections.abc import Callable
from dataclasses import astuple, dataclass

from tablestore.core.arguments import checked
from tablestore.core.errors import TablestoreError
from tablestore.core.options import rules as option_rules
from tablestore.io.confined import roots_of
from tablestore.io.paths import ExternalPaths
from tablestore.log.settings import require_own_rows
from tablestore.lsm.merge import validate
from tablestore.read.changes.streamable import require_streamable, require_tracked
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
    """Whether read, stream, write, delete and compact work, in this order: the functions that refuse a verb
    at the table are asked, before a byte of data is read. Permissions of the storage are not checked."""
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


_COLUMNS = {
    "option": pa.string(),
    "value": pa.string(),
    "default": pa.string(),
    "is_set": pa.bool_(),
    "status": pa.string(),
    "meaning": pa.string(),
    "places": pa.string(),
}


@checked
class StoredOptions(dict[str, str]):
    """Options by name, as text."""

    def describe(self, *, set_only: bool = False) -> pa.Table:
        """Every known option (with `set_only` those that the table stores), by name: the value in force and
        the default, in units people write; whether the table stores it; its status: implemented, ignored (the
        meaning says why), refused (the meaning says why) or unknown; where it may be set, of create, alter
        and scan (for one use)."""
        facts = [astuple(f) for f in option_rules.describe(self) if f.is_set or not set_only]
        columns = zip(*facts, strict=True) if facts else [[] for _ in _COLUMNS]
        arrays = [pa.array(c, t) for c, t in zip(columns, _COLUMNS.values(), strict=True)]
        return pa.table(arrays, names=list(_COLUMNS))


@checked_but("name")
class TableFacts:
    """A table as it was when it was opened."""

    def __init__(self, store: Store, name: str, *, at: Snapshot | None = None) -> None:
        self.store, self.name = store, name
        self._handle = Handle(store, name, at)

    @classmethod
    def _of(cls, handle: Handle) -> Self:
        table = cls(handle.store, handle.name, at=handle.at)
        table._handle = handle
        return table

    @property
    def location(self) -> str:
        """Directory of the table."""
        return self.store.paths.root

    @property
    def schema(self) -> pa.Schema:
        """Columns as an Arrow schema; metadata of fields has comments and types that Arrow does not know."""
        return shown(self.store.schema.shown.fields)

    @property
    def comment(self) -> str | None:
        """What the table is for."""
        return self.store.schema.comment or None

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Primary key columns."""
        return self.store.schema.shown.primary_keys

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Partition columns."""
        return self.store.schema.partition_keys

    @property
    def options(self) -> StoredOptions:
        """Options as stored, but for secrets that another engine put there (`***`); `options.describe()` says
        what each of all options does."""
        return StoredOptions(hidden(self.store.schema.options))

    @cached_property
    def inspect(self) -> Inspect:
        """Metadata as Arrow tables: snapshots, files, levels, … After `at` those of that snapshot, if no
        other is named."""
        return doors.inspect(self.store, at=self._handle.at)

    @property
    def log(self) -> LogView | None:
        """The log of the table: its offsets per bucket, its size, `finish`; None for a table without one."""
        committer = writes.with_log(self._handle)
        return None if committer is None else LogView(committer, lambda: writes.finish_log(self._handle))

    @property
    def past(self) -> bool:
        """Whether this is the table as it was, chosen by `at`: read-only."""
        return self._handle.at is not None

    def abilities(self) -> tuple[Ability, ...]:
        """Which verbs (read, stream, write, delete, compact) work on this table, and why others do not.

        >>> [a.verb for a in orders.abilities() if a.works]
        ['read', 'stream', 'write', 'delete', 'compact']
        """
        return abilities(self.store)
