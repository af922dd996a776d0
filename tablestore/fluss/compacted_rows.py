"""Compacted rows, in which keyed tables keep and take their rows: whole columns to and from them.

    row    null bits, ceil(columns / 8) bytes, bit i set: column i is NULL | the values that are not NULL
    value  BOOLEAN, TINYINT 1 byte · SMALLINT, FLOAT, DOUBLE fixed, little-endian · INT, DATE, TIME (ms)
           varint of 32 bits, BIGINT of 64 · text and bytes: varint length, bytes · DECIMAL p ≤ 18 varint of
           its 64 bits, else length, big-endian bytes · TIMESTAMP varint of ms; p > 3: and varint of the
           nanoseconds of it
    key    the values of its columns, without null bits
A varint has 7 bits a byte, the lowest first; negative numbers are taken as unsigned.

Values are found by positions: one step a column over all rows, never one a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.fluss.types import arrow_type
from tablestore.format.binary_row import decimal_words
from tablestore.format.types.arrow_types import filled, valid_mask
from tablestore.format.types.data_type import DataType

_FIXED = {"BOOLEAN": "<u1", "TINYINT": "<i1", "SMALLINT": "<i2", "FLOAT": "<f4", "DOUBLE": "<f8"}
_PADDING = 16  # bytes behind the last row that may be looked at
_PER_MILLI = {"s": 1, "ms": 1, "us": 1_000, "ns": 1_000_000}
_SEVEN, _MORE = np.uint64(0x7F), np.uint64(0x80)
_INT, _LONG = 5, 10  # the longest varints


# ---- columns to rows


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> pa.Array:
    """The compacted rows (binary) of columns in the Arrow types of log batches. Raises Unsupported for nested
    types."""
    _require_plain(types)
    return joined([_null_bits(columns), *_values(columns, types)])


def encode_keys(columns: Sequence[pa.Array], types: Sequence[DataType]) -> pa.Array:
    """The compacted keys (binary) of key columns, which have no NULLs."""
    return joined(_values(columns, types))


def _require_plain(types: Sequence[DataType]) -> None:
    for t in types:
        if t.is_nested:
            raise Unsupported(f"{t} in rows of a keyed table of Fluss", "its log alone can be read")


def joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """Row by row the bytes of all pieces, one behind the other; NULL has none."""
    if len(pieces) == 1:
        return pieces[0].fill_null(b"")
    empty = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*pieces, empty, null_handling="replace", null_replacement=b"")


def varints(values: np.ndarray) -> pa.Array:
    """Unsigned numbers (uint64) as varints."""
    lengths = np.ones(len(values), np.int64)
    rest = values >> np.uint64(7)
    while rest.any():
        lengths += rest != 0
        rest = rest >> np.uint64(7)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    rows, rest = np.arange(len(values)), values
    for i in range(int(lengths.max(initial=0))):
        more = lengths[rows] > i + 1
        data[offsets[rows] + i] = (rest & _SEVEN) | np.where(more, _MORE, np.uint64(0))
        rows, rest = rows[more], rest[more] >> np.uint64(7)
    return binary_array(offsets, data)


def binary_array(offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    """Binary values from int32 offsets (one more than values) into uint8 data."""
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    )


def fixed_array(values: np.ndarray) -> pa.Array:
    """The bytes of numbers as binary values."""
    width = values.dtype.itemsize
    offsets = np.arange(len(values) + 1, dtype=np.int32) * width
    return binary_array(offsets, np.ascontiguousarray(values).view(np.uint8))


def _null_bits(columns: Sequence[pa.Array]) -> pa.Array:
    rows, width = len(columns[0]), (len(columns) + 7) // 8
    bits = np.zeros((rows, width), np.uint8)
    for i, column in enumerate(columns):
        if column.null_count:
            bits[:, i // 8] |= (~valid_mask(column)).astype(np.uint8) << np.uint8(i % 8)
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return binary_array(offsets, bits.reshape(-1))


def _values(columns: Sequence[pa.Array], types: Sequence[DataType]) -> list[pa.Array]:
    pieces: list[pa.Array] = []
    for column, t in zip(columns, types, strict=True):
        encoded = _encoded(column, t)
        if column.null_count:
            encoded = [
                pc.if_else(column.is_valid(), piece, pa.scalar(None, pa.binary())) for piece in encoded
            ]
        pieces += encoded
    return pieces


def _encoded(column: pa.Array, t: DataType) -> list[pa.Array]:
    """The bytes of each value, in one piece or in two; anything where it is NULL."""
    if t.root in _FIXED:
        plain = column.cast(pa.uint8()) if t.root == "BOOLEAN" else column
        return [fixed_array(filled(plain).astype(_FIXED[t.root]))]
    if t.is_string or t.is_binary:
        return _with_length(column.cast(pa.binary()))
    if t.root == "DECIMAL":
        low, high = decimal_words(column)
        return [varints(low)] if t.precision <= 18 else _with_length(_big_endian(low, high))
    if t.root in ("INT", "DATE"):
        return [varints(filled(column.cast(pa.int32())).view(np.uint32).astype(np.uint64))]
    if t.root == "BIGINT":
        return [varints(filled(column).view(np.uint64))]
    values, unit = (
        filled(column.cast(pa.int32() if pa.types.is_time32(column.type) else pa.int64())),
        column.type.unit,
    )
    values = values.astype(np.int64)
    millis = values * 1_000 if unit == "s" else values // _PER_MILLI[unit]
    if t.root == "TIME":
        return [varints(millis.astype(np.int32).view(np.uint32).astype(np.uint64))]
    pieces = [varints(millis.view(np.uint64))]
    if t.precision > 3:
        nanos = (values - millis * _PER_MILLI[unit]) * (1_000_000 // _PER_MILLI[unit])
        pieces.append(varints(nanos.view(np.uint64)))
    return pieces


def _with_length(values: pa.Array) -> list[pa.Array]:
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    return [varints(lengths.astype(np.uint64)), values]


def _big_endian(low: np.ndarray, high: np.ndarray) -> pa.Array:
    """128-bit numbers in as few big-endian bytes as hold their sign, as Java writes them."""
    size = high ^ (high >> 63), low ^ (high >> 63).view(np.uint64)  # without the sign, both at least 0
    bits = np.where(size[0] != 0, 64 + _bit_length(size[0].view(np.uint64)), _bit_length(size[1]))
    lengths = bits // 8 + 1
    words = np.stack([high, low.view(np.int64)], axis=1).byteswap()
    data = words.view(np.uint8).reshape(-1, 16)
    keep = np.arange(16) >= (16 - lengths)[:, None]
    offsets = np.zeros(len(low) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return binary_array(offsets, data[keep])


def _bit_length(values: np.ndarray) -> np.ndarray:
    lengths = np.zeros(len(values), np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        more = (values >> np.uint64(shift)) != 0
        lengths += np.where(more, shift, 0)
        values = np.where(more, values >> np.uint64(shift), values)
    return lengths + (values != 0)


# ---- rows to columns


def decode_rows(
    rows: pa.Array, schema: pa.Schema, types: Sequence[DataType], *, skip: int, where: str
) -> pa.RecordBatch:
    """The columns of compacted rows (binary, without NULL), whose first `skip` bytes are something else.
    Raises Corrupt, naming `where`, for rows that end elsewhere than their values, Unsupported for nested
    types."""
    _require_plain(types)
    cells = _Cells(rows, skip, len(types))
    arrays = [cells.next(i, t) for i, t in enumerate(types)]
    if (cells.at != cells.ends).any():
        row = int(np.flatnonzero(cells.at != cells.ends)[0])
        raise Corrupt(where, f"row {row} has {cells.ends[row] - cells.at[row]} bytes more than its values")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def decode_keyed(records: pa.Array, *, skip: int, where: str) -> tuple[pa.Array, pa.Array]:
    """Keys and rows (binary) of records that hold both, the keys behind their lengths. `skip` bytes of each
    are something else. Raises Corrupt, naming `where`."""
    cells = _Cells(records, skip, 0)
    lengths, start = cells.varints_at(cells.at, _INT)
    behind = start + lengths.astype(np.int64)
    if (behind > cells.ends).any():
        raise Corrupt(where, "a key that is longer than its record")
    return cells.bytes_at(start, behind - start), cells.bytes_at(behind, cells.ends - behind)


class _Cells:
    """A place in every row, moved on column by column."""

    def __init__(self, rows: pa.Array, skip: int, columns: int) -> None:
        offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        self.data = np.zeros(last - first + _PADDING, np.uint8)
        if last > first:
            self.data[: last - first] = np.frombuffer(rows.buffers()[2], np.uint8)[first:last]
        bounds = offsets.astype(np.int64) - first
        self.ends = bounds[1:]
        self._nulls = bounds[:-1] + skip
        self.at = self._nulls + (columns + 7) // 8
        self._words = self._view("<u8")

    def _view(self, kind: str) -> np.ndarray:
        """The data as values of a kind that begin at every byte."""
        width = np.dtype(kind).itemsize
        return np.ndarray((len(self.data) - width + 1,), kind, self.data, 0, (1,))

    def next(self, column: int, t: DataType) -> pa.Array:
        """The values of the next column; its place is behind them then."""
        null = (self.data[self._nulls + column // 8] >> np.uint8(column % 8)) & 1
        rows = None if not null.any() else np.flatnonzero(null == 0)
        at = self.at if rows is None else self.at[rows]
        values, behind = self._read(at, t)
        if rows is None:
            self.at = behind
            return values
        self.at[rows] = behind
        places = np.cumsum(null == 0) - 1
        return values.take(pa.array(places, mask=null == 1))

    def _read(self, at: np.ndarray, t: DataType) -> tuple[pa.Array, np.ndarray]:
        """The values of a type at these places, and the places behind them."""
        arrow = arrow_type(t)
        if t.root in _FIXED:
            values = self._view(_FIXED[t.root])[self._inside(at)]
            cells = (
                pa.array(values != 0)
                if t.root == "BOOLEAN"
                else pa.array(values.astype(values.dtype.newbyteorder("=")))
            )
            return cells.cast(arrow), at + values.dtype.itemsize
        if t.is_string or t.is_binary or (t.root == "DECIMAL" and t.precision > 18):
            lengths, start = self.varints_at(at, _INT)
            lengths = lengths.astype(np.int64)
            if t.root == "DECIMAL":
                return self._wide_decimals(start, lengths, arrow), start + lengths
            return self.bytes_at(start, lengths).cast(arrow), start + lengths
        longest = _INT if t.root in ("INT", "DATE", "TIME") else _LONG
        unsigned, behind = self.varints_at(at, longest)
        if longest == _INT:
            values = unsigned.astype(np.uint32).view(np.int32)
            if t.root == "INT":
                return pa.array(values), behind
            return (pa.array(values).cast(arrow) if t.root == "DATE" else _times(values, arrow)), behind
        values = unsigned.view(np.int64)
        if t.root == "BIGINT":
            return pa.array(values), behind
        if t.root == "DECIMAL":
            return _decimals(values.view(np.uint64), values >> 63, arrow), behind
        if t.precision > 3:
            nanos, behind = self.varints_at(behind, _INT)
            values = values * _PER_MILLI[arrow.unit] + nanos.view(np.int64) // (
                1_000_000 // _PER_MILLI[arrow.unit]
            )
        elif arrow.unit == "s":
            values = values // 1_000
        return pa.array(values).cast(arrow), behind

    def _inside(self, at: np.ndarray) -> np.ndarray:
        """The places, none behind the data: a damaged length must not reach past it."""
        return np.minimum(at, len(self.data) - _PADDING)

    def varints_at(self, at: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
        at = self._inside(at)
        words = self._words[at]
        values, lengths = words & _SEVEN, np.ones(len(at), np.int64)
        more = (words & _MORE) != 0
        for i in range(1, longest):
            if not more.any():
                break
            if i == 8:
                words = np.where(more, self._words[at + 8], np.uint64(0)) if more.any() else words
            byte = (words >> np.uint64(8 * (i % 8))) & np.uint64(0xFF)
            values |= np.where(more, (byte & _SEVEN) << np.uint64(7 * i), np.uint64(0))
            lengths += more
            more &= (byte & _MORE) != 0
        return values, at + lengths

    def bytes_at(self, start: np.ndarray, lengths: np.ndarray) -> pa.Array:
        """The bytes at these places: taken from an array of which every second value lies between them."""
        limit = len(self.data) - _PADDING
        bounds = np.empty(2 * len(start), np.int32)
        bounds[0::2], bounds[1::2] = np.minimum(start, limit), np.minimum(start + lengths, limit)
        if not len(bounds):
            return pa.array([], pa.binary())
        if (np.diff(bounds) < 0).any():
            raise Corrupt("compacted rows", "a length points outside its row")
        return binary_array(bounds, self.data).take(pa.array(np.arange(0, len(bounds), 2)))

    def _wide_decimals(self, start: np.ndarray, lengths: np.ndarray, arrow: pa.DataType) -> pa.Array:
        start = self._inside(start)
        if len(lengths) and (lengths.max() > 16 or lengths.min() < 1):
            raise Corrupt("compacted rows", f"a decimal of {lengths.max()} bytes")
        places = start[:, None] + (lengths[:, None] - 1 - np.arange(16))  # the lowest byte first
        sign = np.where(self.data[start] >= 128, np.uint8(255), np.uint8(0))
        cells = np.where(places >= start[:, None], self.data[np.maximum(places, 0)], sign[:, None])
        words = np.ascontiguousarray(cells).view("<u8")
        return _decimals(words[:, 0], words[:, 1].view(np.int64), arrow)


def _times(millis: np.ndarray, arrow: pa.DataType) -> pa.Array:
    if arrow.unit == "s":
        return pa.array(millis // 1_000).cast(arrow)
    return pa.array(millis if arrow.unit == "ms" else millis.astype(np.int64) * _PER_MILLI[arrow.unit]).cast(
        arrow
    )


def _decimals(low: np.ndarray, high: np.ndarray, arrow: pa.DataType) -> pa.Array:
    words = np.stack([low.view(np.int64), high], axis=1)
    return pa.Array.from_buffers(arrow, len(low), [None, pa.py_buffer(np.ascontiguousarray(words))])
