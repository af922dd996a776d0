"""Whether rows are equal, column by column, by the rules of Java's generated comparison.

NULL equals NULL; all NaNs are equal and −0.0 differs from 0.0; nested values are compared by their contents,
maps entry by entry in their order. Whole columns at a time. Pure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.data_format import plain


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
