"""Which rows have equal values of some columns: numbers for values, and places found by binary search.

One column of whole numbers, times or fractions is its own number; other columns get a hash of 64 bits each
row, and the caller compares the values of what was found (`RowIndex.exact`). As in a join −0.0 is 0.0, every
NaN is one value, and NULL equals nothing. Immutable; 16 bytes a row. Pure. Used by lookup joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.extras import required

_SEED = 7


def comparable(column: pa.Array) -> pa.Array:
    """The column in a form in which values that a join takes for equal are equal bytes."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False))
    return column


def exact(columns: Sequence[pa.Array]) -> bool:
    """Whether equal codes mean equal values of these comparable columns."""
    return len(columns) == 1 and pa.types.is_int64(columns[0].type)


def codes(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """(rows without a NULL, their codes) of comparable columns: equal values have equal codes."""
    valid = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid)
    if len(rows) < len(valid):
        columns = [c.take(pa.array(rows)) for c in columns]
    if exact(columns):
        return rows, columns[0].to_numpy(zero_copy_only=False)
    polars = required("polars", by="lookup joins by other columns than one BIGINT")  # a quarter of a second

    named = pa.table(list(columns), names=[str(i) for i in range(len(columns))])
    return rows, polars.from_arrow(named).hash_rows(_SEED).to_numpy().view(np.int64)


@dataclass(frozen=True)
class RowIndex:
    """Codes in ascending order, and the place of the row that has each."""

    codes: np.ndarray
    places: np.ndarray
    exact: bool

    @classmethod
    def of(cls, columns: Sequence[pa.Array], *, start: int = 0) -> RowIndex:
        """The index of rows at the places from `start` on, by comparable columns."""
        rows, row_codes = codes(columns)
        order = np.argsort(row_codes, kind="stable")
        return cls(row_codes[order], rows[order] + start, exact(columns))

    @cached_property
    def unique(self) -> bool:
        """Whether no code comes twice."""
        return not len(self.codes) or bool((self.codes[1:] != self.codes[:-1]).all())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.codes.nbytes + self.places.nbytes)

    def find(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of `wanted`, places) of all pairs with equal codes, in the order of `wanted`."""
        order = np.argsort(wanted)  # neighbours are searched for in the same cache lines
        ordered = wanted[order]
        first = np.searchsorted(self.codes, ordered)
        if self.unique:
            return self._one_each(order, ordered, first)
        counts = np.searchsorted(self.codes, ordered, side="right") - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        asked, there = np.repeat(order, counts), self.places[np.repeat(first, counts) + within]
        back = np.argsort(asked, kind="stable")
        return asked[back], there[back]

    def _one_each(
        self, order: np.ndarray, ordered: np.ndarray, first: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if not len(self.codes):
            return order[:0], self.places
        at = np.minimum(first, len(self.codes) - 1)
        hit = self.codes[at] == ordered
        place_of = np.full(len(order), -1, dtype=np.int64)
        place_of[order[hit]] = self.places[at[hit]]
        asked = np.flatnonzero(place_of >= 0)
        return asked, place_of[asked]

    def changed(self, gone: np.ndarray, more: RowIndex) -> RowIndex:
        """The index without the rows where `gone`, a mask by place, is true, and with those of `more`."""
        kept = ~gone[self.places]
        codes, places = self.codes[kept], self.places[kept]
        at = np.searchsorted(codes, more.codes, side="right")
        return RowIndex(np.insert(codes, at, more.codes), np.insert(places, at, more.places), self.exact)


def equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> np.ndarray:
    """For each row whether all its comparable columns are equal."""
    same = np.ones(len(left[0]), dtype=bool)
    for a, b in zip(left, right, strict=True):
        same &= pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
    return same
