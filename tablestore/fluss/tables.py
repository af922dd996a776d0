"""Tables of a cluster as frozen values: columns, keys, buckets, properties, how long rows stay; their JSON.

table JSON  {"version": 1, "schema": {"version": 1, "columns": [{"name", "data_type", "comment"?}, …],
             "highest_field_id"?, "primary_key"?: […]}, "comment"?, "partition_key": […],
             "bucket_key": […], "bucket_count", "properties": {…}, "custom_properties": {…}}
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt, NotFound, Unsupported, brief
from tablestore.core.options.names import UUID
from tablestore.core.options.values import duration_ms
from tablestore.fluss.types import arrow_type, type_json, type_of_json
from tablestore.format.types.arrow_types import DataType

Milliseconds = int
MOST_BUCKETS = 1 << 18
"""Of a table with all its partitions; clusters allow 128,000 by default."""
LAKE_ENABLED, LAKE_FRESHNESS = "table.datalake.enabled", "table.datalake.freshness"
LAKE_FORMAT = "table.datalake.format"
_FRESHNESS, _COMPRESSION = "3min", "ZSTD"


@dataclass(frozen=True, slots=True, order=True)
class TablePath:
    """Database and name of a table; `str` gives `database.table`."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TablePath:
        """The path of `database.table`; raises NotFound for another form."""
        database, point, table = text.partition(".")
        if not (database and point and table):
            raise NotFound(f"no table {text!r}: a table of a cluster is named database.table")
        return cls(database, table)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True, order=True)
class TableBucket:
    """A bucket: of which table, of which of its partitions (None: it has none), which one."""

    table_id: int
    partition_id: int | None
    bucket: int

    def __str__(self) -> str:
        partition = "" if self.partition_id is None else f" partition {self.partition_id}"
        return f"table {self.table_id}{partition} bucket {self.bucket}"


@dataclass(frozen=True, slots=True)
class FlussColumn:
    """A column: `type` is ours, of the same meaning; `arrow` that of its values in log batches."""

    name: str
    type: DataType
    comment: str | None = None

    @property
    def arrow(self) -> pa.Field:
        """The field of the column in log batches."""
        return pa.field(self.name, arrow_type(self.type), nullable=self.type.nullable)


def schema_json(columns: Sequence[FlussColumn], primary_key: Sequence[str]) -> dict[str, Any]:
    """Columns and key as the JSON of a table or of its schema has them. Where fields of a ROW have ids behind
    those of columns, it says the highest one."""
    ids = itertools.count(len(columns))
    described = [
        {"name": c.name, "data_type": type_json(c.type, ids)} | ({"comment": c.comment} if c.comment else {})
        for c in columns
    ]
    schema: dict[str, Any] = {"version": 1, "columns": described}
    if (highest := next(ids) - 1) >= len(columns):
        schema["highest_field_id"] = highest
    if primary_key:
        schema["primary_key"] = list(primary_key)
    return schema


@dataclass(frozen=True, slots=True)
class TableDescriptor:
    """What a table is made of. `buckets` None: as the cluster's default says; an empty `bucket_keys` of a
    keyed table: the primary key without the partition keys."""

    columns: tuple[FlussColumn, ...]
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    buckets: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    custom_properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def to_json(self) -> bytes:
        """As CreateTable takes it."""
        schema = schema_json(self.columns, self.primary_key)
        described: dict[str, Any] = {"version": 1, "schema": schema}
        if self.comment:
            described["comment"] = self.comment
        described["partition_key"] = list(self.partition_keys)
        if self.buckets is not None or self.bucket_keys:
            described["bucket_key"] = list(self.bucket_keys)
        if self.buckets is not None:
            described["bucket_count"] = self.buckets
        described |= {"properties": dict(self.properties), "custom_properties": dict(self.custom_properties)}
        return json.dumps(described).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> TableDescriptor:
        """What GetTableInfo says; raises Corrupt, naming `where`, for what cannot be read."""
        with _readable(where, "a description"):
            described = json.loads(data)
            columns, key = _schema(described["schema"])
            buckets = described.get("bucket_count")
            if buckets is not None and not (type(buckets) is int and 0 < buckets <= MOST_BUCKETS):
                raise ValueError(f"{buckets!r} buckets")
            return cls(
                columns,
                key,
                _names(described.get("partition_key", ()), columns),
                _names(described.get("bucket_key", ()), columns),
                buckets,
                _texts(described.get("properties", {})),
                _texts(described.get("custom_properties", {})),
                _comment(described),
            )


@contextmanager
def _readable(where: str, what: str) -> Iterator[None]:
    """A context that raises Corrupt for JSON that is none, is nested without end, or says something else."""
    try:
        yield
    except Unsupported:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(where, f"{what} that cannot be read: {brief(e)}") from e


def _schema(schema: Any) -> tuple[tuple[FlussColumn, ...], tuple[str, ...]]:
    columns = tuple(
        FlussColumn(_text(column["name"]), type_of_json(column["data_type"]), _comment(column))
        for column in schema["columns"]
    )
    if not columns or len({column.name for column in columns}) < len(columns):
        raise ValueError("no columns, or two of one name")
    return columns, _names(schema.get("primary_key", ()), columns)


def _names(names: Any, columns: tuple[FlussColumn, ...]) -> tuple[str, ...]:
    """The names of columns in a list, each once."""
    of_table = {column.name for column in columns}
    if isinstance(names, str) or len(set(names)) < len(names) or not of_table.issuperset(names):
        raise ValueError(f"{names!r} are no columns of the table")
    return tuple(names)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(texts: Any) -> dict[str, str]:
    return {_text(key): value if value == "" else _text(value) for key, value in dict(texts).items()}


def _comment(described: Any) -> str | None:
    comment = described.get("comment")
    return comment if comment is None or comment == "" else _text(comment)


def columns_of_schema(data: bytes, where: str) -> tuple[FlussColumn, ...]:
    """The columns in a schema's JSON; raises Corrupt, naming `where`."""
    with _readable(where, "a schema"):
        return _schema(json.loads(data))[0]


@dataclass(frozen=True, slots=True)
class FlussTable:
    """A table as the cluster knows it now. `table_id` is never given to another table of the same name."""

    path: TablePath
    table_id: int
    schema_id: int
    descriptor: TableDescriptor
    created_ms: Milliseconds = 0
    modified_ms: Milliseconds = 0

    @property
    def columns(self) -> tuple[FlussColumn, ...]:
        return self.descriptor.columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Empty for a log table."""
        return self.descriptor.primary_key

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Empty for a table without partitions."""
        return self.descriptor.partition_keys

    @property
    def keeps_batches(self) -> bool:
        """Whether batches of its log come as they were stored: a lake that serves a table of its own makes
        them for each answer, from where it is asked."""
        return UUID not in self.descriptor.custom_properties

    @property
    def physical_primary_key(self) -> tuple[str, ...]:
        """The primary key without the partition keys: what tells rows of a partition apart."""
        return tuple(name for name in self.primary_key if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns whose values say the bucket; empty where rows go to any bucket."""
        return self.descriptor.bucket_keys or self.physical_primary_key

    @property
    def buckets(self) -> int:
        """How many buckets each partition has."""
        return self.descriptor.buckets or 1

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of its log batches; raises Unsupported for a type that Fluss has no Arrow form for."""
        return pa.schema([column.arrow for column in self.columns])

    @property
    def properties(self) -> Mapping[str, str]:
        return self.descriptor.properties

    @property
    def lake_enabled(self) -> bool:
        """Whether it is to be tiered."""
        return self.properties.get(LAKE_ENABLED, "false").lower() == "true"

    @property
    def lake_format(self) -> str | None:
        """Whose keys and buckets it has: `paimon`; None for those of Fluss."""
        return self.properties.get(LAKE_FORMAT)

    @property
    def freshness_ms(self) -> Milliseconds:
        """How late the lake may be."""
        return duration_ms(self.properties.get(LAKE_FRESHNESS, _FRESHNESS))

    @property
    def compression(self) -> str:
        """The codec of its log batches: NONE, LZ4_FRAME or ZSTD."""
        return self.properties.get("table.log.arrow.compression.type", _COMPRESSION).upper()


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """The newest snapshot of a bucket of a keyed table: its rows just before `log_offset`."""

    bucket: TableBucket
    snapshot_id: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class KvSnapshotFiles:
    """Where the files of a snapshot are, as (remote path, name in the directory of a RocksDB)."""

    snapshot: KvSnapshot
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """What the cluster knows of the lake's table: its newest snapshot, and per bucket the offset behind
    the last row that is in it."""

    table_id: int
    snapshot_id: int
    offsets: Mapping[TableBucket, int]


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition: its id, which no other ever has, and the values of the partition keys."""

    partition_id: int
    values: Mapping[str, str]

    @property
    def name(self) -> str:
        """The values joined by `$`, as the protocol names it."""
        return "$".join(self.values.values())


TTL = "table.log.ttl"
_TTL = "7d"


def kept_ms(properties: Mapping[str, str]) -> int | None:
    """Milliseconds from the append of a row on; None: for ever."""
    try:
        kept = duration_ms(properties.get(TTL, _TTL))
    except ValueError:  # such as -1
        return None
    return kept if kept > 0 else None
