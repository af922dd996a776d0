"""DESCRIBE, DESCRIBE DETAIL TABLE, SHOW CREATE TABLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.names import UUID
from tablestore.format.computed_columns import ComputedColumn
from tablestore.format.result_tables import result_schema
from tablestore.format.types.arrow_types import DataField, DataType, from_arrow
from tablestore.format.types.type_text import parse_type
from tablestore.sql.dialect.parser import Parser, read_query
from tablestore.sql.form import Form, FunctionStatement, of_family, reading
from tablestore.sql.query.embedded import run_query
from tablestore.sql.result import Result
from tablestore.sql.scope import NamedQuery, RecordMetadata, TableDefinition, shape_of, stored_table
from tablestore.sql.session import Session
from tablestore.sql.statements.partitions import PartitionFiles, partition_files, require_partition
from tablestore.sql.text import Name, full_name_text, literal_text, name_text, names_text, options_text
from tablestore.table.table import Table

_DESCRIBED = result_schema(
    "name string, type string, null bool, key string, extras string, watermark string, comment string"
)
_DETAILS = result_schema(
    "name string, log.kafka.bootstrap.servers texts, log.retention string, file.path string, "
    "log.kafka.topic string, watermark ms, file.format string, bucket int32",
    texts=pa.map_(pa.string(), pa.string()),
)
_FILES = result_schema(
    "partition string, file.path string, last-modified ms, compacted bool, change-tracking bool, "
    "num-files int64"
)
_NO_WATERMARK = -(1 << 63)
_OWN_OPTIONS = (UUID, "path")


def described(session: Session, name: Name) -> pa.Table:
    """A row a column, as Flink's DESCRIBE: comments only where there are any."""
    view = session.view(name)
    if view is not None:
        shape = _of_view(session, name, view)
    elif session.temporary_table(name) is None and not isinstance(session.table(name), Table):
        shape = _of_rows(session.table(name).schema)
    else:
        shape = shape_of(session, name)
    columns: dict[str, DataField | ComputedColumn] = {f.name: f for f in shape.columns}
    columns |= {c.name: c for c in shape.computed}
    rows = [_row(shape, columns[name]) for name in shape.names]
    table = pa.Table.from_pylist(rows, _DESCRIBED)
    return table if any(row["comment"] for row in rows) else table.drop_columns(["comment"])


def _of_rows(schema: pa.Schema) -> TableDefinition:
    return TableDefinition(
        tuple(DataField(0, f.name, from_arrow(f.type, nullable=f.nullable)) for f in schema)
    )


def _of_view(session: Session, name: Name, view: NamedQuery) -> TableDefinition:
    """What a view gives, with its comments."""
    text = f"SELECT * FROM {full_name_text(part for part in session.full_name(name) if part)}"
    columns = _of_rows(run_query(session, read_query(text), text).schema).columns
    if view.columns:
        commented = zip(columns, view.column_comments, strict=True)
        columns = tuple(replace(f, description=comment) for f, comment in commented)
    return TableDefinition(columns)


def type_text(t: DataType) -> str:
    """A type as DESCRIBE shows it: without NOT NULL, and TIMESTAMP_LTZ in short."""
    text = str(t.as_nullable())
    for p in range(10):
        text = text.replace(f"TIMESTAMP({p}) WITH LOCAL TIME ZONE", f"TIMESTAMP_LTZ({p})")
    return text


def _row(shape: TableDefinition, column: DataField | ComputedColumn) -> dict[str, Any]:
    row: dict[str, Any] = {"name": column.name}
    if isinstance(column, DataField):
        t = column.type
        row |= {"type": type_text(t), "null": t.nullable, "comment": column.description}
        if column.default is not None:
            row["extras"] = f"DEFAULT {literal_text(column.default)}"
        of_records = next((of_column for of_column in shape.metadata if of_column.name == column.name), None)
        if of_records is not None:
            row["extras"] = metadata_text(of_records)
    else:
        column_type = parse_type(column.type) if column.type else None
        of_now = " *PROCTIME*" if column.expression.upper() == "PROCTIME()" else ""
        row |= {"type": None if column_type is None else type_text(column_type) + of_now}
        row |= {"null": None if column_type is None else column_type.nullable, "comment": column.comment}
        row |= {"extras": f"AS {column.expression}"}
    if column.name in shape.primary_key:
        row["key"] = f"PRI({', '.join(shape.primary_key)})"
    if shape.watermark is not None and shape.watermark.column == column.name:
        row["watermark"] = shape.watermark.expression
    return row


def _describe(name: Name, session: Session) -> Result:
    """DESCRIBE table or view."""
    return Result(described(session, name))


def _parse_describe(p: Parser) -> FunctionStatement:
    p.accept("EXTENDED")
    name = p.name()
    return reading(_describe, name)


def _describe_detail(name: Name, partition: Mapping[str, Any] | None, session: Session) -> Result:
    """DESCRIBE DETAIL TABLE: where it is and how it is kept; of a partition, or of a table without any: its
    files."""
    table = stored_table(session, name)
    if partition is None:
        details = pa.Table.from_pylist([_details(table)], _DETAILS)
        if not table.partition_by:
            files = _files(_whole(table)).drop_columns(["partition", "file.path"])
            for f in files.schema:
                details = details.append_column(f, files.column(f.name))
        return Result(details)
    if not table.partition_by:
        raise InvalidRequest(f"table {name} is not partitioned")
    require_partition(table, partition)
    of_partition = partition_files(table, partition)
    if not of_partition:
        raise NotFound(f"no partition {_spec(partition)} of {name} holds files")
    return Result(_files(of_partition))


def _whole(table: Table) -> list[PartitionFiles]:
    none = PartitionFiles("", table.location, (), table.store.change_tracking.of_table)
    return partition_files(table) or [none]


def _spec(partition: Mapping[str, Any]) -> str:
    return "/".join(f"{k}={v}" for k, v in partition.items())


def _details(table: Table) -> dict[str, Any]:
    snapshot = table.store.snapshots.latest()
    mark = None if snapshot is None else snapshot.watermark
    options = table.store.options
    servers = {"bootstrap.servers": options.kafka_servers} if options.kafka_servers else None
    return {
        "name": table.name,
        "log.kafka.bootstrap.servers": servers,
        "log.retention": table.options.get("log.retention"),
        "log.kafka.topic": options.kafka_topic,
        "file.path": table.location,
        "watermark": None if mark is None or mark == _NO_WATERMARK else mark,
        "file.format": str(table.store.options.file_format),
        "bucket": table.store.options.bucket,
    }


def _files(partitions: list[PartitionFiles]) -> pa.Table:
    rows = []
    for files in partitions:
        rows.append(
            {
                "partition": files.name,
                "file.path": files.directory,
                "last-modified": files.modified_ms,
                "compacted": files.compacted,
                "change-tracking": files.tracks_changes,
                "num-files": len(files.entries),
            }
        )
    return pa.Table.from_pylist(rows, _FILES)


def _show_create_table(name: Name, session: Session) -> Result:
    """SHOW CREATE TABLE."""
    shape = shape_of(session, name)
    return Result.of_texts({"result": [create_text(session.full_name(name), shape)]})


def create_text(full_name: tuple[str, ...], shape: TableDefinition) -> str:
    """The statement that makes a table of this definition."""
    columns: dict[str, DataField | ComputedColumn] = {f.name: f for f in shape.columns}
    columns |= {c.name: c for c in shape.computed}
    metadata = {column.name: f" {metadata_text(column)}" for column in shape.metadata}
    lines = [_column_text(columns[name], metadata.get(name, "")) for name in shape.names]
    if shape.watermark is not None:
        mark = shape.watermark
        lines.append(f"WATERMARK FOR {name_text(mark.column)} AS {mark.expression}")
    if shape.primary_key:
        lines.append(f"PRIMARY KEY {names_text(shape.primary_key)} NOT ENFORCED")
    kind = "TEMPORARY TABLE" if shape.temporary else "TABLE"
    text = f"CREATE {kind} {full_name_text(part for part in full_name if part)} (\n  "
    text += ",\n  ".join(lines) + "\n)"
    if shape.comment:
        text += f"\nCOMMENT {literal_text(shape.comment)}"
    if shape.partition_by:
        text += f"\nPARTITIONED BY {names_text(shape.partition_by)}"
    options = _shown_options(shape)
    return text + (f"\nWITH {options_text(options)}" if options else "")


def _shown_options(shape: TableDefinition) -> dict[str, str]:
    """The options that make the same table: a keyed one without `bucket` has -1, a new one would have 1."""
    options = {k: v for k, v in shape.options.items() if k not in _OWN_OPTIONS or shape.temporary}
    if shape.primary_key and not shape.temporary:
        options.setdefault("bucket", "-1")
    return options


def metadata_text(column: RecordMetadata) -> str:
    """`METADATA FROM 'key' VIRTUAL` of a column."""
    return f"METADATA FROM {literal_text(column.key)}" + (" VIRTUAL" if column.virtual else "")


def _column_text(column: DataField | ComputedColumn, metadata: str = "") -> str:
    if isinstance(column, ComputedColumn):
        text, comment = f"{name_text(column.name)} AS {column.expression}", column.comment
    else:
        text, comment = f"{name_text(column.name)} {column.type}{metadata}", column.description
        if column.default is not None:
            text += f" DEFAULT {literal_text(column.default)}"
    return text if comment is None else f"{text} COMMENT {literal_text(comment)}"


FORMS = of_family(
    "tables",
    *(
        Form(
            f"{word} [EXTENDED] table",
            "The columns of a table or view.",
            _parse_describe,
            example=f"{word} shop.orders",
        )
        for word in ("DESCRIBE", "DESC")
    ),
    *(
        Form(
            f"{word} DETAIL TABLE table [PARTITION (column = value, …)]",
            "Where a table is and how it is kept; of a partition: its files.",
            lambda p: reading(_describe_detail, p.name(), p.partition() if p.accept("PARTITION") else None),
            example=f"{word} DETAIL TABLE shop.events PARTITION (day = DATE '2026-01-01')",
        )
        for word in ("DESCRIBE", "DESC")
    ),
    Form(
        "SHOW CREATE TABLE table",
        "The statement that makes an equal table.",
        lambda p: reading(_show_create_table, p.name()),
        example="SHOW CREATE TABLE shop.orders",
    ),
)
