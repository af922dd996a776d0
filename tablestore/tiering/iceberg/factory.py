"""IcebergTieringFactory: tables of an Iceberg catalog as the lake that rounds write to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tablestore.core.extras import required
from tablestore.tiering.cluster import ClusterTable
from tablestore.tiering.iceberg.committer import IcebergCommittable, IcebergLakeCommitter
from tablestore.tiering.iceberg.definition import columns_of, prepared
from tablestore.tiering.iceberg.writer import IcebergLakeWriter, IcebergWriteResult
from tablestore.tiering.serializers import BytesSerializer
from tablestore.tiering.splits import TieringSplit


class IcebergTieringFactory:
    """Writes log tables to tables of the same names of a catalog; `properties` are those with which pyiceberg
    loads it (`type`, `uri`, `warehouse`, …). Keyed tables are refused by name. `log_columns`: tables that are
    made get `__bucket`, `__offset`, `__timestamp`. Picklable.

    >>> lake = IcebergTieringFactory({"type": "sql", "uri": "sqlite:///lake.db", "warehouse": "file:///lake"})
    """

    def __init__(self, properties: Mapping[str, str], *, log_columns: bool = False) -> None:
        self._properties, self._log_columns = dict(properties), log_columns

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_catalog"}

    @cached_property
    def _catalog(self) -> Any:
        return required("pyiceberg.catalog", by="tiering into Iceberg").load_catalog(
            "lake", **self._properties
        )

    def prepare(self, table: ClusterTable) -> None:
        """Make the Iceberg table if it is not there, or bring its columns up to date."""
        prepared(self._catalog, table, columns_of(table, log_columns=self._log_columns))

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> IcebergLakeWriter:
        """The writer of one split."""
        columns = columns_of(table, log_columns=self._log_columns)
        return IcebergLakeWriter(self._opened(table), split, columns)

    def _opened(self, table: ClusterTable) -> Any:
        return self._catalog.load_table(tuple(table.path.split(".", 1)))

    def create_committer(self, table: ClusterTable) -> IcebergLakeCommitter:
        """The committer of one table."""
        return IcebergLakeCommitter(self._catalog, table)

    def write_result_serializer(self) -> BytesSerializer[IcebergWriteResult]:
        """Locations of files as bytes."""
        return BytesSerializer(
            "write result of an Iceberg writer",
            lambda value: (value.rows, tuple(file.encode() for file in value.files)),
            lambda rows, parts: IcebergWriteResult(tuple(part.decode() for part in parts), rows),
        )

    def committable_serializer(self) -> BytesSerializer[IcebergCommittable]:
        """Locations of files as bytes."""
        return BytesSerializer(
            "committable of an Iceberg committer",
            lambda value: (0, tuple(file.encode() for file in value.files)),
            lambda _, parts: IcebergCommittable(tuple(part.decode() for part in parts)),
        )
