"""Comparing rows, whole columns at a time: components of key columns, which sort in the key order of the
format, and whether rows are equal.

A key is split into *components*: int64 arrays that order as the column does (DECIMAL beyond 18 digits
gives two), and text or binary columns unchanged (byte order). Components of a column compare across
batches, so positions can be searched in one batch for a key of another; `codes` packs components into one
int64 that compares within the given rows only. Order: null first, text by UTF-8 bytes, −0.0 before 0.0, NaN
last.

Rows are equal column by column, by the rules of Java's generated comparison: NULL equals NULL; all NaNs are
equal and −0.0 differs from 0.0; nested values are compared by their contents, maps entry by entry in their
order. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format import binary_row
from tablestore.format.data_format import plain
from tablestore.format.types.arrow_types import DataField, DataType


def equal_rows(left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
    """For each row whether all its columns are equal; both have the same columns in the same order."""
    same = np.ones(left.num_rows, dtype=bool)
    for a, b in zip(left.columns, right.columns, strict=True):
        if not same.any():
            break
        same &= equal_values(plain(a), plain(b))
    return same


def equal_values(left: pa.Array, right: pa.Array) -> np.ndarray:
    """For each position whether both values are NULL or equal."""
    valid, other = bools(left.is_valid()), bools(right.is_valid())
    return (valid == other) & (~valid | _equal_present(left, right, valid & other))


def _equal_present(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    """Equality where both have a value; undefined elsewhere."""
    kind = left.type
    if pa.types.is_floating(kind):
        return _bits(left) == _bits(right)
    if pa.types.is_struct(kind):
        same = np.ones(len(left), dtype=bool)
        for a, b in zip(left.flatten(), right.flatten(), strict=True):
            same &= equal_values(a, b)
        return same
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _equal_lists(left, right, both)
    return bools(pc.fill_null(pc.equal(left, right), False))


def _bits(column: pa.Array) -> np.ndarray:
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isnan(values), np.nan, values).view(np.int64)


def _equal_lists(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    """Lists of one length whose elements are equal one by one."""
    same = both.copy()
    starts, counts = _spans(left)
    other_starts, other_counts = _spans(right)
    same &= counts == other_counts
    rows = np.flatnonzero(same & (counts > 0))
    if not len(rows):
        return same
    sizes = counts[rows]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    mine = left.values.take(pa.array(np.repeat(starts[rows], sizes) + within))
    theirs = right.values.take(pa.array(np.repeat(other_starts[rows], sizes) + within))
    equal = equal_values(mine, theirs)
    same[rows] = np.logical_and.reduceat(equal, np.cumsum(sizes) - sizes)
    return same


def _spans(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(where each list starts among the values, its length)."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def bools(mask: pa.BooleanArray) -> np.ndarray:
    """The mask as numpy has it; it has no NULLs."""
    return mask.to_numpy(zero_copy_only=False).astype(bool)


Component: TypeAlias = np.ndarray | pa.Array
_SIGN = np.int64(-(2**63))
_NAN = np.array([np.nan]).view(np.int64)[0]


def components(columns: Sequence[pa.Array], types: Sequence[DataType]) -> list[Component]:
    """The components of key columns, most significant first. Raises SchemaMismatch for a NULL in a NOT NULL
    column."""
    parts: list[Component] = []
    for column, t in zip(columns, types, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if t.nullable:
            parts.append(column.is_valid().cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64))
        elif column.null_count:
            raise SchemaMismatch(f"NULL in a key column of type {t}")
        parts += _of(column, t)
    return parts


def of_batch(batch: pa.RecordBatch, keys: Sequence[DataField]) -> list[Component]:
    """The components of a batch's key columns."""
    return components([batch.column(f.name) for f in keys], [f.type for f in keys])


def of_columns(batches: Sequence[pa.RecordBatch], keys: Sequence[DataField]) -> list[Component]:
    """The components of consecutive batches as if they were one, copying key columns only."""
    columns = []
    for field in keys:
        arrays = [b.column(field.name) for b in batches]
        columns.append(arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays))
    return components(columns, [f.type for f in keys])


def _of(column: pa.Array, t: DataType) -> list[Component]:
    if t.is_string or t.is_binary:
        return [column]
    if t.root in ("FLOAT", "DOUBLE"):
        return [_float_order(_slots(column.cast(pa.float64()), _DOUBLE))]
    if t.root == "DECIMAL" and t.precision > 18:
        low, high = binary_row.decimal_words(column)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            low, high = np.where(valid, low, 0).astype(np.uint64), np.where(valid, high, 0)
        return [high.astype(np.int64, copy=False), low.view(np.int64) ^ _SIGN]
    if binary_row.is_timestamp(t):
        return [binary_row.signed(column.cast(pa.int64()))]
    if t.root == "DECIMAL":
        return [_slots(column, t)]
    if t.root == "BOOLEAN":
        return [binary_row.signed(column.cast(pa.int8()))]
    if t.root in ("DATE", "TIME"):
        return [binary_row.signed(column.cast(pa.int32()))]
    if pa.types.is_integer(column.type):
        return [binary_row.signed(column)]
    raise Unsupported(f"{t.root} in a primary key")


_DOUBLE = DataType("DOUBLE")


def _slots(column: pa.Array, t: DataType) -> np.ndarray:
    slots = binary_row.fixed_slots(column, t)
    assert slots is not None, "its values live in their slots"
    return slots


def _float_order(bits: np.ndarray) -> np.ndarray:
    """IEEE bits as integers in Java's order: every NaN is one and greatest, −0.0 is below 0.0."""
    nan = (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000
    bits = np.where(nan, _NAN, bits)
    return np.where(bits >= 0, bits, bits ^ 0x7FFFFFFFFFFFFFFF)


def codes(parts: Sequence[Component]) -> np.ndarray:
    """int64 codes of rows that order as (parts[0], parts[1], …) does and are equal where all parts are
    equal."""
    numbers = [p if isinstance(p, np.ndarray) else _ranks(p) for p in parts]
    if len(numbers) == 1 or not len(numbers[0]):
        return numbers[0]
    lows = [int(n.min()) for n in numbers]
    bits = [(int(n.max()) - low).bit_length() for n, low in zip(numbers, lows, strict=True)]
    if sum(bits) > 63:
        return _dense(numbers)
    packed = np.zeros(len(numbers[0]), dtype=np.int64)
    for values, low, width in zip(numbers, lows, bits, strict=True):
        if width:
            packed <<= width
            packed += values - low  # cannot overflow: the whole range is below 2^63
    return packed


def order_codes(
    columns: Sequence[pa.Array], types: Sequence[DataType], *, descending: bool = False
) -> np.ndarray:
    """int64 codes of any comparable columns, NULL first also when `descending`; codes compare within these
    rows."""
    parts: list[Component] = []
    for column, t in zip(columns, types, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            parts.append(column.is_valid().cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64))
            if t.is_string or t.is_binary:
                column = column.fill_null("" if t.is_string else b"")
        for part in _of(column, t):
            numbers = part if isinstance(part, np.ndarray) else _ranks(part)
            parts.append(~numbers if descending else numbers)
    return codes(parts)


def _ranks(column: pa.Array) -> np.ndarray:
    """Dense ranks of text or binary values in byte order."""
    return pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)


def _dense(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Dense ranks of rows whose columns do not fit into one int64."""
    order = np.lexsort(tuple(reversed(numbers)))
    changed = np.zeros(len(order), dtype=bool)
    for values in numbers:
        ordered = values[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(changed)
    return ranks


def strictly_increasing(parts: Sequence[Component]) -> bool:
    """Whether each row's key is greater than the one before (I3)."""
    if not parts or len(parts[0]) < 2:
        return True
    equal: np.ndarray | None = None  # neighbours equal in every part so far; None: all
    for part in parts:
        smaller, same = _neighbours(part)
        if equal is not None:
            smaller, same = smaller & equal, same & equal
        if not (smaller | same).all() if equal is None else not (smaller | same)[equal].all():
            return False
        if not same.any():
            return True
        equal = same
    return False


def _neighbours(part: Component) -> tuple[np.ndarray, np.ndarray]:
    """For each row but the last: (whether it is less than the next, whether it is equal)."""
    if isinstance(part, np.ndarray):
        return part[:-1] < part[1:], part[:-1] == part[1:]
    left, right = part.slice(0, len(part) - 1), part.slice(1)
    return bools(pc.less(left, right)), bools(pc.equal(left, right))


def concatenated(batches: Sequence[Sequence[Component]]) -> list[Component]:
    """Components of consecutive batches joined, column by column."""
    if len(batches) == 1:
        return list(batches[0])
    joined: list[Component] = []
    for parts in zip(*batches, strict=True):
        numeric = isinstance(parts[0], np.ndarray)
        joined.append(np.concatenate(parts) if numeric else pa.concat_arrays(list(parts)))
    return joined


def sliced(parts: Sequence[Component], start: int, stop: int) -> list[Component]:
    """Components of rows start..stop."""
    return [p[start:stop] if isinstance(p, np.ndarray) else p.slice(start, stop - start) for p in parts]


def taken(parts: Sequence[Component], places: np.ndarray) -> list[Component]:
    """Components of the rows at these positions."""
    return [p[places] if isinstance(p, np.ndarray) else p.take(pa.array(places)) for p in parts]


Key = tuple[Any, ...]  # one row's components: ints, and Arrow scalars of text


def key_at(parts: Sequence[Component], row: int) -> Key:
    """One row's key, for `rows_up_to`."""
    return tuple(p[row] for p in parts)


def rows_up_to(parts: Sequence[Component], key: Key, start: int = 0) -> int:
    """The number of leading rows with a key ≤ `key`; rows must be in key order from `start` on, and all rows
    before count."""
    return _equal_rows(parts, key, start)[1]


def rows_before(parts: Sequence[Component], key: Key) -> int:
    """The number of leading rows with a key < `key`; rows must be in key order."""
    return _equal_rows(parts, key, 0)[0]


def _equal_rows(parts: Sequence[Component], key: Key, start: int) -> tuple[int, int]:
    """(start, stop) of the rows equal to a key; both are its position if there are none."""
    low, high = start, len(parts[0])  # rows equal to the key in the columns so far
    for part, value in zip(parts, key, strict=True):
        if low == high:
            break
        if isinstance(part, np.ndarray):
            below = low + int(np.searchsorted(part[low:high], value, side="left"))
            high = low + int(np.searchsorted(part[low:high], value, side="right"))
        else:
            below, high = _equal_text(part, value.as_py(), low, high)
        low = below
    return low, high


def _equal_text(part: pa.Array, value: Any, low: int, high: int) -> tuple[int, int]:
    """(start, stop) of the values equal to `value` within rows low … high of sorted text or bytes; code
    points sort as UTF-8 does."""
    if value is None:  # the column before this one marks NULL
        return low, high

    def cell(row: int) -> Any:
        return part[row].as_py()

    below = bisect_left(range(low, high), value, key=cell) + low
    return below, bisect_right(range(below, high), value, key=cell) + below


def less(a: Key, b: Key) -> bool:
    """Whether key `a` is before key `b`."""
    for x, y in zip(a, b, strict=True):
        if isinstance(x, pa.Scalar):
            x, y = x.as_py(), y.as_py()
        if x != y:
            return bool(x < y)
    return False


def equal(a: Component, b: Component) -> np.ndarray:
    """Row by row, whether a component is equal in both."""
    return a == b if isinstance(a, np.ndarray) else bools(pc.equal(a, b))
