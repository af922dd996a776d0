"""System tables, which are read like tables: `lake.table("db.t$snapshots").scan(where=…).to_arrow()`.
Read-only.

Those of one table are made by `insight.inspect.system`; those of a whole lake (`sys.tables`,
`sys.partitions`, `sys.all_table_options`) here, from all its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.secrets import hidden
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect import system
from tablestore.insight.inspect.metadata import PARTITIONS, partitions
from tablestore.insight.inspect.system import SystemSource
from tablestore.meta.store import Store
from tablestore.table.identifier import SYSTEM_DATABASE
from tablestore.table.lazy_read import SchemaScan, bind, column_names, limited


@dataclass(frozen=True)
class SystemScan(SchemaScan):
    """A lazy read of a system table."""

    small: ClassVar[bool] = True
    source: SystemSource
    store: Store | None = None

    @property
    def full_schema(self) -> pa.Schema:
        """Its columns."""
        return self.source.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, made one by one."""
        names, bound = self.schema.names, None if self.where is None else bind(self.where, self.full_schema)
        batches = self.source.batches(self.store, self._pushed())  # type: ignore[arg-type]  # None: of the lake
        rows = (b if bound is None else b.filter(evaluate.mask(bound, b)) for b in batches)
        return limited((b.select(names) for b in rows), self.limit)

    def _pushed(self) -> Predicate | None:
        """The condition, if the table that the system table is made of can apply it."""
        if self.where is None or self.store is None or not self.source.filters:
            return None
        return self.where if self.where.columns <= set(self.store.schema.names) else None

    def count(self) -> int:
        """The number of rows of the result."""
        return sum(b.num_rows for b in self.to_batches())

    def __repr__(self) -> str:
        where = f", where {self.where!r}" if self.where is not None else ""
        return f"SystemScan({', '.join(self.columns or self.source.schema.names)}{where})"


class SystemTable:
    """One system table. `scan()` reads it; `table["column"]` is a whole column."""

    def __init__(
        self, name: str, open_source: Callable[[], SystemSource], store: Store | None = None
    ) -> None:
        self.name, self._open, self._store = name, open_source, store

    @property
    def schema(self) -> pa.Schema:
        """Columns as an Arrow schema."""
        return self._open().schema

    def scan(self, columns: Sequence[str] | None = None, where: Predicate | str | None = None) -> SystemScan:
        """A lazy read of the table as it is now."""
        scan = SystemScan(self._open(), self._store, columns=column_names(columns))
        return scan if where is None else scan.filter(where)

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return self.scan().to_arrow()

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self.scan([column]).to_arrow().column(column)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        if name in ("write", "delete", "update", "overwrite", "compact"):
            raise InvalidRequest(f"{self.name} is a system table: it is read-only")
        raise AttributeError(f"SystemTable has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"SystemTable({self.name}: {', '.join(self.schema.names)})"


def system_table(store: Store, table: str, name: str, at: Snapshot | None = None) -> SystemTable:
    """`t$name`, of a snapshot if one was chosen; raises NotFound naming the nearest."""
    if name not in system.NAMES:
        raise NotFound.among("system table", name, system.NAMES)
    return SystemTable(f"{table}${name}", lambda: system.source(store, name, at), store)


# of a whole lake

_TABLES = result_schema(
    "database_name string, table_name string, table_type string, partitioned bool, primary_key bool, "
    "owner string, created_at int64, created_by string, updated_at int64, updated_by string, "
    "record_count int64, file_size_in_bytes int64, file_count int64, last_file_creation_time int64"
)
_ALL_PARTITIONS = result_schema(
    "database_name string, table_name string, partition_name string, record_count int64, "
    "file_size_in_bytes int64, file_count int64, last_file_creation_time int64, done bool"
)
_ALL_OPTIONS = pa.schema(
    {"database_name": pa.string(), "table_name": pa.string(), "key": pa.string(), "value": pa.string()}
)
Opened = tuple[str, str, Store]


def global_table(name: str, tables: Callable[[], Iterable[Opened]]) -> SystemTable:
    """`sys.<name>` of the (database, table, store) triples that `tables` gives; raises NotFound."""
    makers = {
        "tables": (_TABLES, _table_rows),
        "partitions": (_ALL_PARTITIONS, _partition_rows),
        "all_table_options": (_ALL_OPTIONS, _option_rows),
    }
    if name not in makers:
        raise NotFound.among("system table", name, makers)
    schema, rows = makers[name]

    def batches(_: Store, __: Predicate | None) -> Iterator[pa.RecordBatch]:
        yield from table_of(schema, rows(tables())).to_batches()

    return SystemTable(f"{SYSTEM_DATABASE}.{name}", lambda: SystemSource(schema, batches))


def _table_rows(tables: Iterable[Opened]) -> Iterator[tuple[Any, ...]]:
    """A row for each table; owner, times and counts, which a catalog server would keep, are unknown, as in
    Paimon."""
    for database, table, store in tables:
        schema = store.schema
        kind = schema.options.get("type", "table")
        yield database, table, kind, bool(schema.partition_keys), bool(schema.primary_keys), *[None] * 9


def _partition_rows(tables: Iterable[Opened]) -> Iterator[tuple[Any, ...]]:
    for database, table, store in tables:
        entries = store.manifests.stored_entries(store.snapshots.latest())
        by_partition = partitions(store, entries, as_directories=True)
        wanted = ("partition", "record_count", "file_size_in_bytes", "file_count", "last_update_time", "done")
        columns = [by_partition.column(PARTITIONS.get_field_index(n)) for n in wanted]
        columns[4] = columns[4].cast(pa.int64())
        if store.schema.partition_keys:
            yield from (
                (database, table, *row) for row in zip(*(c.to_pylist() for c in columns), strict=True)
            )


def _option_rows(tables: Iterable[Opened]) -> Iterator[tuple[Any, ...]]:
    for database, table, store in tables:
        options = {**hidden(store.schema.options), "path": store.paths.root}
        yield from ((database, table, key, value) for key, value in sorted(options.items()))
