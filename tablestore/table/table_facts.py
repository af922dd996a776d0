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
from tablestore.table.abilities import Ability, abilities
from tablestore.table.columns import shown
from tablestore.table.handle import Handle
from tablestore.table.log_view import LogView
from tablestore.table.stored_options import StoredOptions

if TYPE_CHECKING:
    from tablestore.doors import Inspect


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
