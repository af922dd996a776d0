"""What a client asks of a server before it asks for rows: catalogs, databases, tables, keys, itself; and the
messages of Flight SQL that the server reads and writes, as classes of protobuf.

Source: the Flight SQL protocol of Apache Arrow, package `arrow.flight.protocol.sql`. A message travels in a
`google.protobuf.Any`, whose type names it. A name with `%` and `_` is a pattern, as in LIKE; the catalog of a
lake is `lake`, its schemas are the databases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.extras import required
from tablestore.table.lake import Lake

CATALOG = "lake"
TABLE, VIEW = "TABLE", "VIEW"
_TEXT = pa.string()
_INFO_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)


def _schema(*names: str, empty: Sequence[str] = ()) -> pa.Schema:
    return pa.schema([pa.field(name, _TEXT, nullable=name in empty) for name in names])


CATALOGS = _schema("catalog_name")
DATABASES = _schema("catalog_name", "db_schema_name", empty=["catalog_name"])
TABLES = _schema(
    *("catalog_name", "db_schema_name", "table_name", "table_type"), empty=["catalog_name", "db_schema_name"]
)
TABLES_WITH_SCHEMA = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TYPES = _schema("table_type")
KEYS = pa.schema(
    [
        *_schema(
            *("catalog_name", "db_schema_name", "table_name", "column_name"),
            empty=["catalog_name", "db_schema_name"],
        ),
        pa.field("key_sequence", pa.int32(), nullable=False),
        pa.field("key_name", _TEXT),
    ]
)
INFO = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _INFO_VALUE, False)])
_SERVER_NAME, _SERVER_VERSION, _ARROW_VERSION, _READ_ONLY = range(4)


def catalogs() -> pa.Table:
    """The one catalog."""
    return pa.table([[CATALOG]], schema=CATALOGS)


def table_types() -> pa.Table:
    """What a table may be."""
    return pa.table([[TABLE, VIEW]], schema=TYPES)


def databases(lake: Lake, asked: Any) -> pa.Table:
    """The databases that are asked for, sorted."""
    names = _databases(lake, asked.catalog, asked.db_schema_filter_pattern)
    return pa.table([[CATALOG] * len(names), names], schema=DATABASES)


def tables(lake: Lake, asked: Any) -> pa.Table:
    """The tables and views that are asked for, sorted; with their columns where these are asked for."""
    like = _like(asked.table_name_filter_pattern)
    kinds = set(asked.table_types) or {TABLE, VIEW}
    schema = TABLES_WITH_SCHEMA if asked.include_schema else TABLES
    rows = [
        (CATALOG, database, name, kind)
        for database in _databases(lake, asked.catalog, asked.db_schema_filter_pattern)
        for name, kind in _tables(lake, database)
        if kind in kinds and like.fullmatch(name)
    ]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 4
    if asked.include_schema:
        columns.append([_columns(lake, database, name, kind) for _, database, name, kind in rows])
    return pa.table(columns, schema=schema)


def primary_keys(lake: Lake, asked: Any) -> pa.Table:
    """The columns of a table's primary key, in order."""
    key = lake.table(f"{asked.db_schema}.{asked.table}").primary_key
    count = len(key)
    names = [[CATALOG] * count, [asked.db_schema] * count, [asked.table] * count, list(key)]
    return pa.table([*names, list(range(1, count + 1)), [None] * count], schema=KEYS)


def server_info(asked: Any, *, version: str, read_only: bool) -> pa.Table:
    """Name and version of the server, and whether it takes statements that change something."""
    infos: dict[int, tuple[int, Any]] = {
        _SERVER_NAME: (0, "tablestore"),
        _SERVER_VERSION: (0, version),
        _ARROW_VERSION: (0, pa.__version__),
        _READ_ONLY: (1, read_only),
    }
    wanted = [number for number in (asked.info or infos) if number in infos]
    kinds = [infos[number][0] for number in wanted]
    places = [kinds[:place].count(kind) for place, kind in enumerate(kinds)]
    of_kind = [[infos[n][1] for n in wanted if infos[n][0] == kind] for kind in range(_INFO_VALUE.num_fields)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(some, field.type) for some, field in zip(of_kind, _INFO_VALUE, strict=True)],
        [field.name for field in _INFO_VALUE],
    )
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays([pa.array(wanted, pa.uint32()), values], schema=INFO)]
    )


def _databases(lake: Lake, catalog: str, pattern: str) -> list[str]:
    if catalog not in ("", CATALOG):
        return []
    like = _like(pattern)
    return sorted(name for name in lake.databases() if like.fullmatch(name))


def _tables(lake: Lake, database: str) -> Iterator[tuple[str, str]]:
    views = set(lake.views(database))
    names = sorted({*lake.tables(database), *views})
    return ((name, VIEW if name in views else TABLE) for name in names)


def _columns(lake: Lake, database: str, name: str, kind: str) -> bytes:
    """The columns as the bytes of an Arrow schema; none of a view, whose query would have to be planned."""
    schema = lake.table(f"{database}.{name}").schema if kind == TABLE else pa.schema([])
    return schema.serialize().to_pybytes()


def _like(pattern: str) -> re.Pattern[str]:
    """A pattern of LIKE; the empty one takes everything."""
    text = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in pattern or "%")
    return re.compile(text, re.DOTALL)


PACKAGE = "arrow.flight.protocol.sql"
_PREFIX = "type.googleapis.com/"
_BY = "a server of Flight SQL"
_TYPES = {
    "text": "TYPE_STRING",
    "bytes": "TYPE_BYTES",
    "flag": "TYPE_BOOL",
    "int64": "TYPE_INT64",
    "uint32": "TYPE_UINT32",
}
_MESSAGES: dict[str, str] = {
    "CommandGetSqlInfo": "info 1 uint32*",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "catalog 1 text, db_schema_filter_pattern 2 text",
    "CommandGetTables": (
        "catalog 1 text, db_schema_filter_pattern 2 text, table_name_filter_pattern 3 text, "
        "table_types 4 text*, include_schema 5 flag"
    ),
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": "catalog 1 text, db_schema 2 text, table 3 text",
    "CommandStatementQuery": "query 1 text, transaction_id 2 bytes",
    "CommandStatementUpdate": "query 1 text, transaction_id 2 bytes",
    "TicketStatementQuery": "statement_handle 1 bytes",
    "CommandPreparedStatementQuery": "prepared_statement_handle 1 bytes",
    "CommandPreparedStatementUpdate": "prepared_statement_handle 1 bytes",
    "ActionCreatePreparedStatementRequest": "query 1 text, transaction_id 2 bytes",
    "ActionCreatePreparedStatementResult": (
        "prepared_statement_handle 1 bytes, dataset_schema 2 bytes, parameter_schema 3 bytes"
    ),
    "ActionClosePreparedStatementRequest": "prepared_statement_handle 1 bytes",
    "DoPutUpdateResult": "record_count 1 int64",
    "DoPutPreparedStatementResult": "prepared_statement_handle 1 bytes",
}
"""Fields of each message: name, number, type; a star: as often as one likes."""


@cache
def _classes() -> dict[str, Any]:
    """The class of each message. Raises MissingPackage without protobuf."""
    described = required("google.protobuf.descriptor_pb2", by=_BY)
    field_of = described.FieldDescriptorProto
    file = described.FileDescriptorProto(name="tablestore/flight_sql.proto", package=PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for field in filter(None, fields.split(", ")):
            name, number, kind = field.split()
            label = field_of.LABEL_REPEATED if kind.endswith("*") else field_of.LABEL_OPTIONAL
            of_type = getattr(field_of, _TYPES[kind.rstrip("*")])
            added.field.add(name=name, number=int(number), type=of_type, label=label)
    # a pool of its own: another package may know the same names
    pool = required("google.protobuf.descriptor_pool", by=_BY).DescriptorPool()
    pool.Add(file)
    class_of = required("google.protobuf.message_factory", by=_BY).GetMessageClass
    return {name: class_of(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES}


def _any() -> Any:
    return required("google.protobuf.any_pb2", by=_BY).Any


def new(name: str, **fields: Any) -> Any:
    """A message of that name."""
    return _classes()[name](**fields)


def packed(name: str, **fields: Any) -> bytes:
    """The bytes of a message in an Any."""
    value = new(name, **fields).SerializeToString()
    return _any()(type_url=f"{_PREFIX}{PACKAGE}.{name}", value=value).SerializeToString()


def unpacked(data: bytes) -> tuple[str, Any]:
    """The name and the message of an Any. Raises InvalidRequest for bytes that are none, Unsupported for a
    message that this server does not know."""
    try:
        outer = _any().FromString(data)
    except Exception:  # DecodeError, and what protobuf raises for text that is no UTF-8
        raise InvalidRequest("this is no command of Flight SQL") from None
    name = outer.type_url.removeprefix(f"{_PREFIX}{PACKAGE}.")
    if not outer.type_url.startswith(_PREFIX):
        raise InvalidRequest("this is no command of Flight SQL")
    if name not in _MESSAGES:
        raise Unsupported(f"{name[:60]} of Flight SQL")
    try:
        return name, _classes()[name].FromString(outer.value)
    except Exception:
        raise InvalidRequest(f"{name} of Flight SQL cannot be read") from None
