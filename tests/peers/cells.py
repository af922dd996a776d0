"""Arrow rows in the JSON form in which the golden expectations and the Java driver give and take values.

DECIMAL, DATE, TIME and TIMESTAMP are strings with the type's fraction digits (TIME always 3), local-zone
timestamps in UTC with `Z`, binaries {"hex"}, maps lists of [key, value] sorted by the JSON text of keys,
structs objects, NaN and the infinities strings, FLOAT the shortest text of the float. Used by every test
that compares with Java.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def cells(table: pa.Table, types: Mapping[str, DataType] | None = None) -> list[list[Any]]:
    """One list a row. `types` say how many digits a timestamp shows; without them Arrow's unit does."""
    if not table.num_columns:
        return []
    chosen = types or {}
    columns = [column(table.column(n).combine_chunks(), chosen.get(n)) for n in table.column_names]
    return [list(row) for row in zip(*columns, strict=True)]


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows sorted by their JSON text, as the expectations are."""
    return sorted(rows, key=_text)


def column(array: pa.Array, t: DataType | None) -> list[Any]:
    """The values of one column; `t` may be None."""
    kind = array.type
    children = _children(t)
    if pa.types.is_map(kind):
        keys = column(array.keys, children[0] if children else None)
        values = column(array.items, _map_value(t, children))
        pairs = [list(p) for p in zip(keys, values, strict=True)]
        actual = [sorted(p, key=lambda pair: _text(pair[0])) for p in _sliced(array, pairs)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        actual = _sliced(array, column(array.values, children[0] if children else None))
    elif pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        parts = [column(array.field(i), children[i] if children else None) for i in range(len(names))]
        actual = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    else:
        return _scalars(array, t)
    return [v if ok else None for v, ok in zip(actual, array.is_valid().to_pylist(), strict=True)]


def _children(t: DataType | None) -> list[DataType]:
    return [] if t is None or t.root == "VARIANT" else [child.type for child in t.children]


def _map_value(t: DataType | None, children: list[DataType]) -> DataType | None:
    return children[1] if t is not None and t.root == "MAP" else None


def _sliced(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [values[a:b] for a, b in itertools.pairwise(offsets)]


def _scalars(array: pa.Array, t: DataType | None) -> list[Any]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _scalars(array.dictionary_decode(), t)
    if pa.types.is_timestamp(kind):
        digits = DIGITS[kind.unit] if t is None else t.precision
        raw = array.cast(pa.int64()).to_pylist()
        return [None if v is None else _moment(v, kind, digits) for v in raw]
    if pa.types.is_time(kind):
        raw = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return [None if v is None else _clock_millis(v, DIGITS[kind.unit]) for v in raw]
    if pa.types.is_date(kind):
        return [None if v is None else _day(v) for v in array.cast(pa.int32()).to_pylist()]
    return [None if v is None else _plain(v, kind) for v in array.to_pylist()]


def _plain(v: Any, kind: pa.DataType) -> Any:
    if isinstance(v, bytes):
        return {"hex": v.hex()}
    if pa.types.is_decimal(kind):
        return f"{v:f}"
    if isinstance(v, float):
        if not math.isfinite(v):
            return "NaN" if v != v else "Infinity" if v > 0 else "-Infinity"
        return float(str(np.float32(v))) if pa.types.is_float32(kind) else v
    return v


def _day(days: int) -> str:
    text = str(np.datetime64(days, "D"))
    year, month, day = text.rsplit("-", 2)
    if year.startswith("-"):
        return f"-{int(year[1:]):04d}-{month}-{day}"
    return f"{'+' if int(year) > 9999 else ''}{int(year):04d}-{month}-{day}"


def _clock_millis(v: int, digits: int) -> str:
    millis = v * 10 ** (3 - digits) if digits <= 3 else v // 10 ** (digits - 3)
    return f"{_clock(millis // 1000)}.{millis % 1000:03d}"


def _moment(v: int, kind: pa.DataType, digits: int) -> str:
    stored = DIGITS[kind.unit]
    seconds, rest = divmod(v, 10**stored)
    days, second = divmod(seconds, 86_400)
    fraction = f"{rest * 10 ** (9 - stored):09d}"[:digits]
    zone = "Z" if kind.tz else ""
    return f"{_day(days)} {_clock(second)}{'.' + fraction if fraction else ''}{zone}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
