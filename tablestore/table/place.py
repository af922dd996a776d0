"""TablePlace: where a table is, as tasks of an engine get it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tablestore.io.confined import roots_of
from tablestore.io.routed import reach_of
from tablestore.table.lake import open_table
from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table is and how another process reaches it: the directories that its files may lie in outside
    its own, and the options of its store, with secrets packed and never shown."""

    path: str
    roots: tuple[str, ...] = ()
    store: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, table: Table) -> TablePlace:
        """That of an open table."""
        reach = {key: value for key, value in reach_of(table.store.io).items() if key != "roots"}
        return cls(table.location, tuple(roots_of(table.store.io)), tuple(sorted(reach.items())))

    def opened(self) -> Table:
        """The table."""
        return open_table(self.path, options=dict(self.store), roots=self.roots)
