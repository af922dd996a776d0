"""`canal-json` and `maxwell-json`: changes of MySQL rows, whose `old` has only what an update changed.

canal:   {"type": "INSERT" | "UPDATE" | "DELETE" | …, "database", "table", "data": [row, …], "old": [part, …]
| null} maxwell: {"type": "insert" | "update" | "delete" | "bootstrap-insert" | …, "database", "table",
"data": row, "old": part}

Bytes are characters of Latin-1 in canal, base64 in maxwell. A column that `old` does not name is as in
`data`; one that it names with null was NULL. Canal's CREATE, and what begins and ends Maxwell's bootstrap,
hold no rows; other statements (TRUNCATE, ALTER, …) are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.messages import json_text
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.messages import Changes, Messages, merged, require_image, typed_rows
from tablestore.format.types.data_type import DataField

_CANAL_OPS = MappingProxyType({"INSERT": "c", "UPDATE": "u", "DELETE": "d", "CREATE": "-", "QUERY": "-"})
_MAXWELL_OPS = MappingProxyType(
    {
        "insert": "c",
        "update": "u",
        "delete": "d",
        "bootstrap-insert": "r",
        "bootstrap-start": "-",
        "bootstrap-complete": "-",
    }
)


@dataclass(frozen=True)
class ChangedRows:
    """Changes of the rows of one table; with `database` or `table`, of those whose whole name matches it."""

    columns: tuple[DataField, ...]
    listed: bool  # canal's lists of rows
    database: str | None = None
    table: str | None = None
    appends: bool = False

    def of(self, columns: tuple[DataField, ...]) -> ChangedRows:
        return replace(self, columns=columns)

    def decode(self, messages: Messages) -> Changes:
        texts = messages.values.drop_null()
        row = [json_text.JSON] if self.listed else json_text.JSON
        named = {"type": json_text.TEXT, "database": json_text.TEXT, "table": json_text.TEXT}
        objects = json_text.parsed(texts, {**named, "data": row, "old": row})
        if self.database is not None or self.table is not None:
            wanted = self._wanted(objects)
            objects, texts = objects.filter(wanted), texts.filter(wanted)
        ops = ops_of(objects.field("type"), _CANAL_OPS if self.listed else _MAXWELL_OPS)
        live = pc.not_equal(ops, "-")
        objects, texts, ops = objects.filter(live), texts.filter(live), ops.filter(live)
        data, old = objects.field("data"), objects.field("old")
        places = np.zeros(len(ops), np.int64)  # of a row in its message
        if self.listed:
            data, old, rows, places = _unlisted(data, old)
            texts, ops = texts.take(pa.array(rows)), ops.take(pa.array(rows))
        require_image(ops, ("c", "r", "u", "d"), data, "data")
        require_image(ops, ("u",), old, "old")
        after = self._image(data, texts, "data", places)
        before = self._before(ops, after, old, texts, places)
        encoding = Encoding(binary="latin-1" if self.listed else "base64")
        encodings = [encoding] * len(self.columns)
        return typed_rows(merged(ops, before, after), self.columns, encodings)

    def _wanted(self, messages: pa.StructArray) -> pa.Array:
        keep = pa.array(np.ones(len(messages), bool))
        for name, pattern in (("database", self.database), ("table", self.table)):
            if pattern is not None:
                matches = pc.match_substring_regex(messages.field(name), f"^(?:{pattern})$").fill_null(False)
                keep = pc.and_(keep, matches)
        return keep

    def _image(self, objects: pa.Array, texts: pa.Array, side: str, places: np.ndarray) -> pa.RecordBatch:
        row_objects = json_text.parsed(objects, json_text.shape(self.columns))

        def pick(message: Any, row: int) -> Any:
            return message[side][places[row]] if self.listed else message[side]

        return json_text.images(row_objects, self.columns, texts, pick)

    def _before(
        self, ops: pa.Array, after: pa.RecordBatch, old: pa.Array, texts: pa.Array, places: np.ndarray
    ) -> pa.RecordBatch:
        """Rows before: of an update what `old` names, and else what is there after it; of a delete `data`."""
        updates = pc.equal(ops, "u")
        if not len(ops) or not pc.any(updates).as_py():
            return after
        parts = pc.if_else(updates, old, pa.scalar(None, pa.string()))
        part = self._image(parts, texts, "old", places)
        named = json_text.has_fields(parts, [f.name for f in self.columns])
        columns = [
            pc.if_else(has, was, now)
            for has, was, now in zip(named, part.columns, after.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=after.schema.names)


def ops_of(types: pa.Array, ops: Mapping[str, str], tombstones: pa.Array | None = None) -> pa.Array:
    """Types of changes as Debezium's ops, `-` for what holds no rows, as tombstones do. Raises SchemaMismatch
    or Unsupported for a message that says none of these types."""
    codes = pc.index_in(types, value_set=pa.array(list(ops)))
    strange = codes.is_null() if tombstones is None else pc.and_not(codes.is_null(), tombstones)
    if pc.any(strange).as_py():
        unknown = types[pc.index(strange, True).as_py()].as_py()
        if unknown is None:
            raise SchemaMismatch("the message is no change: it has no 'type'")
        raise Unsupported(f"a change of type {unknown!r}", f"{', '.join(ops)} are read")
    return pa.array(list(ops.values())).take(codes).fill_null("-")


def _unlisted(data: pa.Array, old: pa.Array) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    """(each row of `data`, its part of `old`, its message, its place in the message)."""
    lengths = pc.list_value_length(data).fill_null(0).to_numpy(zero_copy_only=False)
    parts = pc.list_value_length(old).fill_null(0).to_numpy(zero_copy_only=False)
    if ((parts != lengths) & (parts != 0)).any():
        raise SchemaMismatch("'data' and 'old' have different numbers of rows")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    begins = np.cumsum(parts) - parts
    at = pa.array(begins[rows] + places, mask=parts[rows] == 0)
    return pc.list_flatten(data), pc.list_flatten(old).take(at), rows, places
