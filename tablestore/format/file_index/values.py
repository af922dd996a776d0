"""Values in file indexes: cells of a column, and literals in the same form (FORMAT.md 16.2).

Numbers, dates and times become int64 *ordinals* that sort as Java's values do: floats by their bits, -0.0
below 0.0, NaN greatest. Timestamps are milliseconds up to precision 3, microseconds above. Text is bytes.
Each kind of value has one width in an index file. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.rebuild import decimal_low_words
from tablestore.format.types.arrow_types import DataType

_WIDTHS = {
    "BOOLEAN": ">i1",
    "TINYINT": ">i1",
    "SMALLINT": ">i2",
    "INT": ">i4",
    "DATE": ">i4",
    "TIME": ">i4",
    "FLOAT": ">i4",
    "BIGINT": ">i8",
    "DOUBLE": ">i8",
    "DECIMAL": ">i8",
    "TIMESTAMP": ">i8",
    "TIMESTAMP_LTZ": ">i8",
}
_SIGN32, _SIGN64 = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000


@dataclass(frozen=True, slots=True)
class IndexedCells:
    """Cells of a column: `ordinals` int64 (undefined where not `valid`), or `texts` for strings and bytes."""

    valid: np.ndarray
    ordinals: np.ndarray | None
    texts: pa.Array | None


def cells(array: pa.Array, t: DataType) -> IndexedCells:
    """The cells of a column of type `t`."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if t.is_string or t.is_binary:
        return IndexedCells(valid, None, array.cast(pa.binary()))
    return IndexedCells(valid, _ordinals(array, t), None)


def _ordinals(array: pa.Array, t: DataType) -> np.ndarray:
    if t.root == "DECIMAL":
        return decimal_low_words(array)
    if t.root in ("DATE", "TIME"):
        array = array.cast(pa.int32())
    elif t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        array = array.cast(pa.int64())
    elif t.root == "BOOLEAN":
        array = array.cast(pa.int8())
    filled = pc.fill_null(array, pa.scalar(0, array.type)) if array.null_count else array
    numbers = filled.to_numpy(zero_copy_only=False)
    if t.root == "FLOAT":
        bits = np.where(np.isnan(numbers), _NAN32, numbers.view(np.int32)).astype(np.int64)
        return np.where(bits >= 0, bits, bits ^ _SIGN32)
    if t.root == "DOUBLE":
        bits = np.where(np.isnan(numbers), _NAN64, numbers.view(np.int64))
        return np.where(bits >= 0, bits, bits ^ _SIGN64)
    numbers = numbers.astype(np.int64)
    return numbers // 1000 if is_nanos(t) else numbers


def is_nanos(t: DataType) -> bool:
    """Whether indexes round the cells: timestamps of more than microseconds."""
    return t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and t.precision > 6


def bits(ordinals: np.ndarray, t: DataType) -> np.ndarray:
    """Ordinals as the int64 that a bloom filter hashes: numbers themselves, IEEE bits of floats."""
    if t.root == "FLOAT":
        return np.where(ordinals >= 0, ordinals, ordinals ^ _SIGN32)
    if t.root == "DOUBLE":
        return np.where(ordinals >= 0, ordinals, ordinals ^ _SIGN64)
    return ordinals


def as_float(ordinal: int, t: DataType) -> float:
    """The float that has this ordinal."""
    whole = int(bits(np.array([ordinal], dtype=np.int64), t)[0])
    if t.root == "FLOAT":
        return float(struct.unpack("<f", struct.pack("<i", whole))[0])
    return float(struct.unpack("<d", struct.pack("<q", whole))[0])


def literals(raw: Any, t: DataType) -> list[Any]:
    """A predicate's raw value in the form of cells: ordinals or bytes, two for a float's zero."""
    if t.is_string or t.is_binary:
        return [raw.encode() if isinstance(raw, str) else raw]
    if t.root in ("FLOAT", "DOUBLE"):
        zeros = (-0.0, 0.0) if raw == 0 else (raw,)
        return [_float_ordinal(v, t) for v in zeros]
    if is_nanos(t):
        return [raw // 1000]
    return [int(raw)]


def _float_ordinal(value: float, t: DataType) -> int:
    kind = pa.float32() if t.root == "FLOAT" else pa.float64()
    return int(_ordinals(pa.array([value], kind), t)[0])


def packed(ordinals: np.ndarray, t: DataType) -> bytes:
    """Numbers in the form of index files, one after another."""
    return bits(ordinals, t).astype(_WIDTHS[t.root]).tobytes()


def pack(value: Any, t: DataType) -> bytes:
    """One value in the form of index files: text with its length, a number in its width."""
    if isinstance(value, bytes):
        return struct.pack(">i", len(value)) + value
    return packed(np.array([value], dtype=np.int64), t)


def unpack(data: bytes, at: int, t: DataType) -> tuple[Any, int]:
    """(the value at a place, where the next begins); raises ValueError beyond the end."""
    if t.is_string or t.is_binary:
        (length,) = struct.unpack_from(">i", data, at)
        end = at + 4 + length
        if length < 0 or end > len(data):
            raise ValueError(f"text of {length} bytes at {at} of {len(data)}")
        return data[at + 4 : end], end
    width = np.dtype(_WIDTHS[t.root]).itemsize
    if not 0 <= at <= len(data) - width:
        raise ValueError(f"{width} bytes wanted at {at} of {len(data)}")
    return int(unpacked(data[at : at + width], t)[0]), at + width


def unpacked(data: bytes, t: DataType) -> np.ndarray:
    """int64 ordinals of consecutive numbers of an index file."""
    numbers = np.frombuffer(data, dtype=_WIDTHS[t.root]).astype(np.int64)
    return bits(numbers, t)  # which is its own inverse


@dataclass(frozen=True, slots=True)
class DistinctCells:
    """The values of a whole column: `values` ascending (ints or bytes), `codes` int32 a row, -1 for NULL."""

    values: list[Any]
    codes: np.ndarray

    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows ordered by code, NULL first; where each code's rows begin, from -1 on, and the end)."""
        order = np.argsort(self.codes, kind="stable")
        bounds = np.searchsorted(self.codes[order], np.arange(-1, len(self.values) + 1))
        return order, bounds


class CellBuffer:
    """Cells of all batches of a file: 8 bytes a row, or 4 and each distinct text of a batch."""

    def __init__(self, t: DataType) -> None:
        self._type = t
        self._parts: list[IndexedCells] = []

    def add(self, part: IndexedCells) -> None:
        """Add the cells of the next rows."""
        if part.texts is not None:
            part = IndexedCells(part.valid, None, part.texts.dictionary_encode())
        self._parts.append(part)

    def distinct(self) -> DistinctCells:
        """All distinct values, in Java's order."""
        if self._type.is_string or self._type.is_binary:
            return self._distinct_texts()
        numbers, valid = self.numbers()
        values, inverse = np.unique(numbers[valid], return_inverse=True)
        codes = np.full(len(numbers), -1, dtype=np.int32)
        codes[valid] = inverse
        return DistinctCells(values.tolist(), codes)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """(ordinals of all rows, which are valid)."""
        none, no = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
        numbers = [p.ordinals for p in self._parts if p.ordinals is not None]
        return np.concatenate([none, *numbers]), np.concatenate([no, *(p.valid for p in self._parts)])

    def _distinct_texts(self) -> DistinctCells:
        parts = [p.texts for p in self._parts]
        if not parts:
            return DistinctCells([], np.zeros(0, dtype=np.int32))
        whole = pa.chunked_array(parts).unify_dictionaries()
        words = whole.chunk(0).dictionary
        order = pc.sort_indices(words).to_numpy()
        place = np.empty(len(words), dtype=np.int32)
        place[order] = np.arange(len(words))
        codes = np.full(len(whole), -1, dtype=np.int32)
        valid = np.concatenate([p.valid for p in self._parts])
        indices = np.concatenate([pc.fill_null(c.indices, 0).to_numpy() for c in whole.chunks])
        codes[valid] = place[indices[valid]]
        return DistinctCells([words[i].as_py() for i in order.tolist()], codes)
