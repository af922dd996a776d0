"""PaimonTieringFactory: tables of this engine as the lake that rounds write to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.log_store import LogSystem
from tablestore.table.lake import Lake
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.tiering.cluster import ClusterTable
from tablestore.tiering.factory import LakeCommitter
from tablestore.tiering.paimon.committer import PaimonLakeCommitter
from tablestore.tiering.paimon.definition import lake_table
from tablestore.tiering.paimon.own_table import OwnTableCommitter, OwnTableWriter, is_own
from tablestore.tiering.paimon.writer import PaimonLakeWriter
from tablestore.tiering.splits import TieringSplit


class PaimonTieringFactory:
    """Writes to tables of `lake` of the same names as the cluster's. `log_columns`: lake tables of log tables
    get `__bucket`, `__offset`, `__timestamp` when they are made; `options` are those of all that are made.
    `read_from`: addresses of the Fluss cluster; lake tables that are made say so, and reads of them with the
    log see what no round has brought yet.

    Picklable: without the lake it makes writers of tables that were prepared before.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        log_columns: bool = False,
        options: Mapping[str, Any] | None = None,
        read_from: str | None = None,
    ) -> None:
        self._lake: Lake | None = lake
        self._read_from = read_from
        self._log_columns, self._options = log_columns, dict(options or {})
        self._places: dict[str, TablePlace] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lake": None, "_places": dict(self._places)}  # other rounds add to it

    def prepare(self, table: ClusterTable) -> None:
        """Make the lake table if it is not there, or bring its columns up to date."""
        if self._lake is None:
            raise InvalidRequest("tables are prepared where the lake is, not in a task")
        own = self._own(table)
        if own is not None:
            self._places[table.path] = TablePlace.of(own)
            return
        options = {**_log_options(table, self._read_from), **self._options}
        in_lake = lake_table(self._lake, table, log_columns=self._log_columns, options=options)
        self._places[table.path] = TablePlace.of(in_lake)

    def _own(self, table: ClusterTable) -> Table | None:
        """The lake table, if it is the very table of the cluster, whose log is tiered into its own files."""
        assert self._lake is not None, "where the lake is"
        in_lake = self._lake.table(table.path) if table.path in self._lake else None
        return in_lake if in_lake is not None and is_own(in_lake, table) else None

    def opened(self, table: ClusterTable) -> Table:
        """The lake table as it is now."""
        if self._lake is not None:
            return self._lake.table(table.path)
        return self._places[table.path].opened()

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> PaimonLakeWriter:
        """The writer of one split."""
        opened = self.opened(table)
        kind = OwnTableWriter if is_own(opened, table) else PaimonLakeWriter
        return kind(opened, table, split, replaces=replaces)

    def create_committer(self, table: ClusterTable) -> LakeCommitter:
        """The committer of one table."""
        opened = self.opened(table)
        return OwnTableCommitter(opened) if is_own(opened, table) else PaimonLakeCommitter(opened)


def _log_options(table: ClusterTable, servers: str | None) -> dict[str, str]:
    """The options by which a lake table knows where its rows come from."""
    if servers is None:
        return {}
    return {
        "log.system": LogSystem.FLUSS.value,
        "tablestore.fluss.bootstrap.servers": servers,
        "tablestore.fluss.table": table.path,
    }
