"""Files of the coordinator that outlive their table: they go once the table is dropped.

Files are listed before tables, so a table made meanwhile keeps its files. A table counts as dropped when two
looks do not find it: one that is renamed may be missing in a single one. After a kill the next coordinator
removes the rest, since each look begins with the files.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError, brief
from tablestore.tiering.coordinator.served_tables import ServedTables

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
