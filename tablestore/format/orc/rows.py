"""ORC row by row, for timestamps that Arrow's ORC cannot handle: fractions of a millisecond before 1970 when
writing, years outside 1677..2262 when reading (FORMAT.md 3.3).

Slower than whole columns, so only tables with TIMESTAMP of more than milliseconds are written so, and only
files with such years are read so. Memory: one batch of rows and the stripe. Used by `orc/data.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.core.extras import required
from tablestore.format.rebuild import rebuilt
from tablestore.format.types.arrow_types import DataField, DataType

_SECOND = 10**9
_NANOS = {"s": _SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
_PLAIN = {
    "BOOLEAN": "Boolean",
    "TINYINT": "TinyInt",
    "SMALLINT": "SmallInt",
    "INT": "Int",
    "BIGINT": "BigInt",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "CHAR": "String",
    "VARCHAR": "String",
    "BINARY": "Binary",
    "VARBINARY": "Binary",
    "DATE": "Date",
    "TIME": "Int",
    "TIMESTAMP": "Timestamp",
    "TIMESTAMP_LTZ": "TimestampInstant",
}
_CODECS = {"zstd": "ZSTD", "snappy": "SNAPPY", "lz4": "LZ4", "zlib": "ZLIB", "uncompressed": "NONE"}


class _Nanos:
    """Converter of timestamps to nanoseconds as Python integers."""

    @staticmethod
    def to_orc(value: int, zone: Any) -> tuple[int, int]:
        """(seconds, nanoseconds of the second)."""
        return divmod(value, _SECOND)

    @staticmethod
    def from_orc(seconds: int, nanos: int, zone: Any) -> int:
        """Nanoseconds since the epoch."""
        return seconds * _SECOND + nanos


class _Days:
    """Converter of dates to days."""

    @staticmethod
    def to_orc(value: int) -> int:
        """The same."""
        return value

    @staticmethod
    def from_orc(value: int) -> int:
        """The same."""
        return value


def library() -> Any:
    """The module pyorc; raises MissingPackage if it is not installed."""
    return required("pyorc", by="ORC timestamps beyond Arrow's reader")


def _converters(pyorc: Any) -> dict[Any, Any]:
    kinds = pyorc.TypeKind
    return {kinds.TIMESTAMP: _Nanos, kinds.TIMESTAMP_INSTANT: _Nanos, kinds.DATE: _Days}


class OrcRowWriter:
    """Writes an ORC file into `sink`, like Arrow's writer but with timestamps that Java reads correctly."""

    def __init__(self, sink: Any, columns: Sequence[DataField], *, codec: str, stripe_bytes: int) -> None:
        self._columns = tuple(columns)
        pyorc = library()
        self._writer = pyorc.Writer(
            sink,
            _struct(pyorc, columns),
            stripe_size=stripe_bytes,
            compression=getattr(pyorc.CompressionKind, _CODECS[codec]),
            struct_repr=pyorc.StructRepr.TUPLE,
            converters=_converters(pyorc),
        )

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows of the columns."""
        cells = [
            _cells(c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c, f.type)
            for c, f in zip(rows.columns, self._columns, strict=True)
        ]
        self._writer.writerows(zip(*cells, strict=True))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _struct(pyorc: Any, fields: Sequence[DataField]) -> Any:
    return pyorc.Struct(**{f.name: _kind(pyorc, f.type) for f in fields})


def _kind(pyorc: Any, t: DataType) -> Any:
    if t.root == "DECIMAL":
        return pyorc.Decimal(precision=t.precision, scale=t.scale)
    if t.root == "ARRAY":
        return pyorc.Array(_kind(pyorc, t.element))
    if t.root == "MAP":
        return pyorc.Map(*(_kind(pyorc, f.type) for f in t.children))
    if t.root == "MULTISET":
        return pyorc.Map(_kind(pyorc, t.element), pyorc.Int())
    if t.root == "ROW":
        return _struct(pyorc, t.children)
    return getattr(pyorc, _PLAIN[t.root])()


def _cells(array: pa.Array, t: DataType) -> list[Any]:
    """Values as pyorc takes them."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        unit = _NANOS[kind.unit]
        return [None if v is None else v * unit for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_map(kind):
        value = t.children[1].type if t.root == "MAP" else DataType("INT")
        keys, values = _cells(array.keys, t.children[0].type), _cells(array.items, value)
        return _cut(array, [dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in _spans(array)])
    if pa.types.is_list(kind):
        values = _cells(array.values, t.element)
        return _cut(array, [values[a:b] for a, b in _spans(array)])
    if pa.types.is_struct(kind):
        parts = [_cells(array.field(i), f.type) for i, f in enumerate(t.children)]
        return _cut(array, list(zip(*parts, strict=True)))
    return array.to_pylist()


def _spans(array: pa.Array) -> Iterator[tuple[int, int]]:
    bounds = array.offsets.to_pylist()
    return pairwise(bounds)


def _cut(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [v if ok else None for v, ok in zip(values, array.is_valid().to_pylist(), strict=True)]


def read_stripe(
    source: Any, number: int, columns: Sequence[DataField], batch_rows: int
) -> Iterator[list[pa.Array]]:
    """Batches of columns of a stripe."""
    names = [f.name for f in columns]
    pyorc = library()
    reader = pyorc.Reader(
        source, column_names=names, struct_repr=pyorc.StructRepr.DICT, converters=_converters(pyorc)
    )
    stripe = reader.read_stripe(number)
    while rows := stripe.read(batch_rows):
        yield [_array([r[f.name] for r in rows], f) for f in columns]


def _array(values: list[Any], f: DataField) -> pa.Array:
    wanted = f.arrow.type
    try:
        array = pa.array(_raw(values, wanted), _raw_type(wanted))
    except OverflowError as e:
        refused = "timestamps above microseconds outside 1677-09-21..2262-04-11"
        raise Unsupported(refused, f"column {f.name!r}: {e}") from e
    return rebuilt(array, wanted)


def _raw(values: list[Any], t: pa.DataType) -> list[Any]:
    """Timestamps in their unit, maps as pairs."""
    if pa.types.is_timestamp(t):
        return [None if v is None else v // _NANOS[t.unit] for v in values]
    if pa.types.is_list(t):
        return [None if v is None else _raw(v, t.value_type) for v in values]
    if pa.types.is_map(t):
        return [
            None if v is None else list(zip(v.keys(), _raw(list(v.values()), t.item_type), strict=True))
            for v in values
        ]
    if pa.types.is_struct(t):
        return [None if v is None else {f.name: _raw([v[f.name]], f.type)[0] for f in t} for v in values]
    return values


def _raw_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.int64()
    if pa.types.is_date(t) or pa.types.is_time(t):
        return pa.int32()
    if pa.types.is_list(t):
        return pa.list_(_raw_type(t.value_type))
    if pa.types.is_map(t):
        return pa.map_(_raw_type(t.key_type), _raw_type(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _raw_type(f.type)) for f in t])
    return t
