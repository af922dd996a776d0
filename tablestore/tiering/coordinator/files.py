"""Files of the coordinator: epochs that only grow, and which files go once their table is dropped.

    <directory>/coordinator/<epoch>            made at each start of a coordinator
    <directory>/tables/<table id>/<epoch>      made when the table becomes Pending

An epoch is that of the coordinator, or one a table. Each file is made put-if-absent, and only then its epoch
is used: a kill in between loses a number, and two coordinators never give out the same one. Older files go,
but for the last few, which a listing that runs meanwhile may need.

Files are listed before tables, so a table made meanwhile keeps its files. A table counts as dropped when two
looks do not find it: one that is renamed may be missing in a single one. After a kill the next coordinator
removes the rest, since each look begins with the files.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tablestore.core.env import Env
from tablestore.core.errors import CommitConflict, TablestoreError, brief
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import join
from tablestore.tiering.coordinator.served_tables import ServedTables

_KEPT, _TRIES = 8, 1_000


class FileEpochs:
    """The epochs of one coordinator, which begins with the next `coordinator` epoch. Belongs to one
    thread."""

    def __init__(self, io: FileIO, directory: str) -> None:
        self._io, self._directory = io, directory
        self._newest: dict[str, int] = {}
        self.coordinator = self._claim(join(directory, "coordinator"))

    def next(self, table_id: int) -> int:
        """An epoch of a table greater than all that any coordinator gave out before."""
        return self._claim(self._place(table_id))

    def table_ids(self) -> set[int]:
        """The tables that have files."""
        names = (entry.name for entry in self._io.list(join(self._directory, "tables")))
        return {int(name) for name in names if name.isdecimal()}

    def drop(self, table_id: int) -> None:
        """Remove the files of a table that was dropped: its id never comes again."""
        self._io.delete_tree(self._place(table_id))

    def _place(self, table_id: int) -> str:
        return join(self._directory, "tables", str(table_id))

    def _claim(self, place: str) -> int:
        """The next number of a place, made as a file that survives a loss of power."""
        epoch = self._newest.get(place)
        if epoch is None:
            names = (entry.name for entry in self._io.list(place))
            epoch = max((int(name) for name in names if name.isdecimal()), default=0)
        for _ in range(_TRIES):
            epoch += 1
            if self._io.write_new(join(place, f"{epoch:020d}"), b"", after=Sync(self._directory)):
                self._newest[place] = epoch
                if epoch > _KEPT:
                    self._io.delete(join(place, f"{epoch - _KEPT:020d}"))
                return epoch
        raise CommitConflict(f"{place}: others were first {_TRIES} times; retry later")


log = logging.getLogger(__name__)
_RETRY_SECONDS = 60.0


class TableFiles(Protocol):
    """Files that are kept for tables."""

    def table_ids(self) -> set[int]:
        """The tables that have files."""

    def drop(self, table_id: int) -> None:
        """Remove the files of a table."""


class DroppedTableFiles:
    """The files in `kept` of tables that the lake does not have. Belongs to one thread."""

    def __init__(self, tables: ServedTables, *kept: TableFiles, env: Env) -> None:
        self._tables, self._kept, self._env = tables, kept, env
        self._seen: set[int] | None = None
        self._missing: set[int] = set()
        self._not_before = 0.0

    def remove(self) -> None:
        """Look for them where tables came or went since the last look; errors are logged, and it is looked
        again a minute later."""
        if self._env.monotonic() < self._not_before:
            return
        try:
            self._remove()
        except (TablestoreError, OSError) as e:
            log.warning("files of dropped tables are not removed yet: %s", brief(e))
            self._not_before = self._env.monotonic() + _RETRY_SECONDS

    def _remove(self) -> None:
        served = {table.table_id for table in self._tables.all().values()}
        if served == self._seen:
            return
        with_files = {table_id for kept in self._kept for table_id in kept.table_ids()} - served
        missing = with_files - self._tables.ids_in_lake() if with_files else set()
        for table_id in sorted(missing & self._missing):
            for kept in self._kept:
                kept.drop(table_id)
        self._missing = missing - self._missing
        if not self._missing:
            self._seen = served
