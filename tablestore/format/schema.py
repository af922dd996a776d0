"""Schema files (`schema/schema-N`, JSON): TableSchema ⇄ bytes (FORMAT.md 2.1).

Field ids are assigned once and never reused (I9). Options are the stored strings; `core/options` parses them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tablestore.core.errors import (
    Corrupt,
    InvalidRequest,
    NotFound,
    SchemaMismatch,
    TablestoreError,
    Unsupported,
    brief,
)
from tablestore.format import checksums
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.format.types.data_type import DataField, highest_id, renumbered
from tablestore.format.types.type_text import parse_field

VERSION = 3
ROW_COUNT_OPTION = "tablestore.row-count-field"
RESERVED = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind")


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's columns, keys and options."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # may contain secrets that another engine stored
    comment: str | None = None
    time_millis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def __reduce__(self) -> Any:
        return from_json, (to_json(self), f"schema-{self.id}")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.id, self.fields))

    @cached_property
    def by_name(self) -> Mapping[str, DataField]:
        """Columns by name."""
        return {f.name: f for f in self.fields}

    @cached_property
    def by_id(self) -> Mapping[int, DataField]:
        """Columns by field id."""
        return {f.id: f for f in self.fields}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def arrow(self) -> pa.Schema:
        """Arrow schema of the table's rows."""
        return arrow_schema(self.fields)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key without partition columns: the key of the LSM tree."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """`bucket-key`, else the trimmed primary key, else every column (FORMAT.md 2.4)."""
        given = self.options.get("bucket-key", "")
        named = tuple(k.strip() for k in given.split(",") if k.strip())
        return named or self.trimmed_primary_keys or self.names

    def columns(self, names: tuple[str, ...]) -> tuple[DataField, ...]:
        """Fields of these names, in their order; raises NotFound for an unknown name."""
        for name in names:
            if name not in self.by_name:
                raise NotFound.among("column", name, self.names)
        return tuple(self.by_name[n] for n in names)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """Fields of the trimmed primary key."""
        return self.columns(self.trimmed_primary_keys)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """Fields of the partition keys."""
        return self.columns(self.partition_keys)

    @cached_property
    def row_count_field(self) -> str | None:
        """The column of counts, in change-log tables without a primary key; None in others."""
        named = self.options.get(ROW_COUNT_OPTION)
        return named if named in self.by_name else None

    @cached_property
    def shown(self) -> TableSchema:
        """The schema that users see: without the column of counts, and without the key that counting
        needs."""
        count = self.row_count_field
        if count is None:
            return self
        return replace(self, fields=tuple(f for f in self.fields if f.name != count), primary_keys=())

    def with_options(self, options: Mapping[str, str | None]) -> TableSchema:
        """The same schema with options set (a value) or removed (None); id and time stay."""
        merged = {**self.options, **options}
        return replace(self, options={k: v for k, v in merged.items() if v is not None})


def to_json(schema: TableSchema) -> bytes:
    """The bytes of a schema file, with their checksum."""
    body: dict[str, Any] = {
        "version": VERSION,
        "id": schema.id,
        "fields": [f.to_json() for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        body["comment"] = schema.comment
    body["timeMillis"] = schema.time_millis
    return checksums.sealed(json.dumps(body, indent=2, ensure_ascii=False).encode())


def from_json(data: bytes, path: str) -> TableSchema:
    """Read a schema file of any version up to 3 (FORMAT.md 2.2); raises Corrupt naming `path`."""
    try:
        body = json.loads(checksums.require_intact(data, path))
        version = int(body.get("version", 1))
        if version > VERSION:
            raise Corrupt(path, f"schema version {version}; versions up to {VERSION} are known")
        options = {str(k): str(v) for k, v in (body.get("options") or {}).items()}
        if version <= 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        fields = tuple(parse_field(item, i) for i, item in enumerate(body["fields"]))
        schema = TableSchema(
            id=int(body["id"]),
            fields=fields,
            highest_field_id=max(int(body.get("highestFieldId", -1)), highest_id(fields)),
            partition_keys=tuple(body.get("partitionKeys") or ()),
            primary_keys=tuple(body.get("primaryKeys") or ()),
            options=options,
            comment=body.get("comment"),
            time_millis=int(body.get("timeMillis") or 0),
        )
        require_encodable([json.dumps(body, ensure_ascii=False)])
        _require_coherent(schema)
        return schema
    except Corrupt:
        raise
    except (
        TablestoreError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as e:
        raise Corrupt(path, f"not a schema file: {brief(e)}") from e


def require_encodable(texts: Iterable[str]) -> None:
    """Raise UnicodeEncodeError for a text with a lone surrogate, which JSON may hold and UTF-8 cannot."""
    for text in texts:
        text.encode()


def _require_coherent(schema: TableSchema) -> None:
    """Raise ValueError for duplicate names and ids, and for keys that are not columns."""
    for what, values in (("name", schema.names), ("id", [f.id for f in schema.fields])):
        twice = next((x for i, x in enumerate(values) if x in values[:i]), None)
        if twice is not None:
            raise ValueError(f"two columns with the {what} {twice!r}")
    for key in (*schema.primary_keys, *schema.partition_keys):
        if key not in schema.by_name:
            raise ValueError(f"key {key!r} is not a column")


def numbered(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """The columns of a new table with ids from 0: each column gets the next id, then the ROW fields in it
    (FORMAT.md 2.3)."""
    ids = itertools.count()
    given = []
    for f in fields:
        own = next(ids)
        given.append(replace(f, id=own, type=renumbered(f.type, ids.__next__)))
    return tuple(given)


def create_schema(
    fields: tuple[DataField, ...],
    *,
    primary_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    options: Mapping[str, str],
    comment: str | None,
    time_millis: int,
) -> TableSchema:
    """schema-0 of a new table, checked: names unique, keys exist, key columns made NOT NULL.

    Raises SchemaMismatch for columns and keys that do not fit, InvalidRequest for a key that is only
    partition columns.
    """
    for what, keys in (("primary key", primary_key), ("partition key", partition_by)):
        for key in keys:
            if list(keys).count(key) > 1:
                raise SchemaMismatch(f"{what} names {key!r} twice")
    keyed = tuple(
        replace(f, type=f.type.not_null()) if f.name in primary_key else f for f in numbered(fields)
    )
    schema = TableSchema(
        0, keyed, highest_id(keyed), partition_by, primary_key, options, comment, time_millis
    )
    require_sound(schema)
    return schema


def require_sound(schema: TableSchema) -> None:
    """Raise SchemaMismatch or InvalidRequest for columns and keys that cannot be a table."""
    names = schema.names
    if not names:
        raise SchemaMismatch("a table needs at least one column")
    for name in names:
        if names.count(name) > 1:
            raise SchemaMismatch(f"duplicate column {name!r}")
        if not name or name.startswith("_KEY_") or name in RESERVED:
            raise SchemaMismatch(f"column name {name!r} is reserved or empty")
    for what, keys in (("primary key", schema.primary_keys), ("partition key", schema.partition_keys)):
        for key in keys:
            if key not in names:
                raise SchemaMismatch(f"{what} {key!r} is not a column; columns: {', '.join(names)}")
            if not schema.by_name[key].type.is_scalar:
                raise SchemaMismatch(f"{what} {key!r} is {schema.by_name[key].type}, which cannot be a key")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise InvalidRequest(
            "the primary key holds partition columns only, so each partition would be one row; add a column"
        )


def require_plain_map(schema: TableSchema, column: str) -> None:
    """Raise Unsupported for a MAP whose entries would be separate columns in the files."""
    option = f"fields.{column}.map.storage-layout"
    if schema.options.get(option, "default").strip().lower() != "default":
        raise Unsupported(f"{option} = {schema.options[option]}", "maps are stored as keys and values")
