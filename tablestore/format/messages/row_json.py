"""Rows ⇄ JSON objects as Flink's `json` format has them, whole columns at a time: each message is a row, one
object; a message without a value is none.

Decimals are numbers with all their digits, dates and times are texts as in SQL, bytes are base64, numbers
that JSON does not have ("NaN", "Infinity") are texts. `encodings.typed` reads all of it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.core.extras import required
from tablestore.format.messages import json_text
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.messages import Changes, Messages, inserted, typed_rows
from tablestore.format.types.data_type import DataField, DataType

_SPECIAL = r'["\\\x00-\x1f\x7f]'
_BARE = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
Values = Callable[[pa.Array, DataType], pa.StringArray]
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def require_writable(columns: Sequence[DataField]) -> None:
    """Raise Unsupported naming the first column that no message can hold."""
    for f in columns:
        _require(f.type, f.name)


def _require(t: DataType, name: str) -> None:
    if t.root in ("ROW", "ARRAY"):
        for child in t.children if t.root == "ROW" else ():
            _require(child.type, name)
        if t.root == "ARRAY":
            _require(t.element, name)
    elif not (t.root in (*_BARE, *_TIMES, "FLOAT", "DOUBLE") or t.is_string or t.is_binary):
        raise Unsupported(f"column {name!r} of type {t} in messages")


def json_objects(
    rows: pa.RecordBatch, columns: Sequence[DataField], values: Values | None = None
) -> pa.StringArray:
    """An object for each row, with these columns in their order; their values as `values` writes them, None:
    as `json_values`."""
    arrays = [rows.column(f.name) for f in columns]
    return _object(arrays, columns, rows.num_rows, values or json_values)


def _object(
    arrays: Sequence[pa.Array], columns: Sequence[DataField], rows: int, values: Values
) -> pa.StringArray:
    if not columns:
        return pa.array(["{}"] * rows, pa.string())
    names = _quoted(pa.array([f.name for f in columns], pa.string())).to_pylist()
    pieces: list[pa.Array | pa.Scalar] = []
    for i, (array, name, f) in enumerate(zip(arrays, names, columns, strict=True)):
        pieces.append(pa.scalar(("{" if i == 0 else ",") + name + ":"))
        pieces.append(values(array, f.type))
    return pc.binary_join_element_wise(*pieces, "}", "")


def json_values(values: pa.Array, t: DataType) -> pa.StringArray:
    """Each value as JSON; NULL as null."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = _values(values, t)
    return texts if not texts.null_count else pc.fill_null(texts, "null")


def _values(values: pa.Array, t: DataType) -> pa.StringArray:
    if t.root in _BARE:
        return values.cast(pa.string())
    if t.root in ("FLOAT", "DOUBLE"):
        texts, finite = values.cast(pa.string()), pc.is_finite(values)
        if pc.all(finite).as_py() is not False:
            return texts
        return pc.if_else(finite, texts, _between('"', _spelled(texts), '"'))
    if t.root in _TIMES:
        return _between('"', values.cast(pa.string()), '"')
    if t.is_string:
        return _quoted(values.cast(pa.string()))
    if t.is_binary:
        return _between('"', _by_duckdb("SELECT to_base64(v) FROM kept", values.cast(pa.binary())), '"')
    if t.root == "ROW":
        children = [pc.struct_field(values, [i]) for i in range(len(t.children))]
        objects = _object(children, t.children, len(values), json_values)
        return pc.if_else(values.is_valid(), objects, pa.scalar(None, pa.string()))
    if t.root == "ARRAY":
        return _lists(values, t.element)
    raise Unsupported(f"{t} columns in messages")


def _spelled(texts: pa.Array) -> pa.Array:
    """NaN and the infinities as Java spells them."""
    return pc.replace_substring(pc.replace_substring(texts, "nan", "NaN"), "inf", "Infinity")


def _between(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _lists(values: pa.Array, element: DataType) -> pa.StringArray:
    if isinstance(values, pa.LargeListArray):
        values = values.cast(pa.list_(values.type.value_type))
    texts = json_values(pc.list_flatten(values), element)
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    return pc.if_else(values.is_valid(), _between("[", joined, "]"), pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.StringArray:
    """Texts in quotes; those with characters that JSON escapes by DuckDB."""
    special = pc.match_substring_regex(texts, _SPECIAL)
    if not pc.any(special).as_py():
        return _between('"', texts, '"')
    escaped = _by_duckdb("SELECT to_json(v)::VARCHAR FROM kept", texts.filter(special.fill_null(False)))
    plain = _between('"', texts, '"')
    return pc.replace_with_mask(plain, special.fill_null(False), escaped)


def _by_duckdb(query: str, values: pa.Array) -> pa.StringArray:
    duckdb = required("duckdb", by="messages in JSON")
    with duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False}) as connection:
        connection.register("kept", pa.table({"v": values}))
        return connection.sql(query).to_arrow_table().column(0).combine_chunks().cast(pa.string())


@dataclass(frozen=True)
class PlainJson:
    """Rows as JSON objects."""

    columns: tuple[DataField, ...]
    appends: bool = True

    def of(self, columns: tuple[DataField, ...]) -> PlainJson:
        return replace(self, columns=columns)

    def decode(self, messages: Messages) -> Changes:
        texts = messages.values.drop_null()
        objects = json_text.parsed(texts, json_text.shape(self.columns))
        rows = json_text.images(objects, self.columns, texts, lambda message, _: message)
        return typed_rows(inserted(rows), self.columns, [Encoding()] * len(self.columns))
