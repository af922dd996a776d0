"""What is kept of rows while they pass: sums by value, sums by bins of an axis, a sample. Memory is bounded.

Each takes batches by `add` and holds a fixed number of values, however many rows pass. Not thread-safe.
Called by `model.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_SUMS = 100_000
"""Values that have sums of their own; those that first appear after them share one."""
BINS = 1024
_LARGEST = 1e300  # beyond it the span of an axis has no number
_FOLDS = (("rows", "sum"), ("total", "sum"), ("valued", "sum"), ("low", "min"), ("high", "max"))


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column of numbers as floats, NaN where there is none."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    floats = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(floats), floats, np.nan)


class ValueGroups:
    """Sums of columns by the values of another, for at most `most` values in the order they first appear."""

    def __init__(self, key: pa.DataType, series: int, *, most: int = MOST_SUMS) -> None:
        self._series, self._most = series, most
        self._schema = pa.schema([("key", key), ("rows", pa.int64()), *self._columns()])
        self.sums = self._schema.empty_table()
        self.beyond = self._schema.empty_table()
        self._pending: list[pa.Table] = []
        self._waiting = 0

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        return [
            (f"{what}{at}", pa.int64() if what == "valued" else pa.float64())
            for at in range(self._series)
            for what in ("total", "valued", "low", "high")
        ]

    def add(self, keys: pa.Array, values: Sequence[np.ndarray]) -> None:
        """The rows of a batch."""
        columns: list[pa.Array] = [keys, pa.array(np.ones(len(keys), np.int64))]
        for column in values:
            there = ~np.isnan(column)
            value = pa.array(column, pa.float64(), mask=~there)
            columns += [value, pa.array(there.astype(np.int64)), value, value]
        self._pending.append(self._folded(pa.table(columns, schema=self._schema)))
        self._waiting += self._pending[-1].num_rows
        if self._waiting > self._most:
            self.settle()

    def settle(self) -> ValueGroups:
        """The same, with all rows in `sums` and `beyond`."""
        settled = self._folded(pa.concat_tables([self.sums, *self._pending]))
        self._pending, self._waiting = [], 0
        self.sums = settled.slice(0, self._most)
        late = settled.slice(self._most)
        if late.num_rows:
            nulls = pa.nulls(late.num_rows, self._schema.field("key").type)
            late = pa.concat_tables([self.beyond, late.set_column(0, self._schema.field("key"), nulls)])
            self.beyond = self._folded(late)
        return self

    def _folded(self, rows: pa.Table) -> pa.Table:
        names = [name for name in rows.column_names if name != "key"]
        folds = [(name, dict(_FOLDS)[name.rstrip("0123456789")]) for name in names]
        folded = rows.group_by("key", use_threads=False).aggregate(folds)
        return folded.rename_columns(["key", *names]).cast(self._schema)


class ValueBins:
    """Rows, sums, minima and maxima of columns by `BINS` bins of equal width over an axis that grows.

    Widths are powers of two times `unit`, the least width (0: any); when a value lies outside, bins are
    joined in pairs, so that counts stay exact. ValueBins without rows have NaN in `low` and `high`.
    """

    def __init__(self, series: int, *, unit: float = 0.0) -> None:
        self._unit = unit
        self.start, self.width = math.nan, 0.0
        self.rows = np.zeros(BINS, np.int64)
        self.totals, self.valued = np.zeros((series, BINS)), np.zeros((series, BINS), np.int64)
        self.low, self.high = np.full((series, BINS), np.nan), np.full((series, BINS), np.nan)

    def add(self, at: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """The rows of a batch; those whose place is no number, or beyond all measure, are left out."""
        inside = np.abs(at) <= _LARGEST  # NaN is not
        at = at[inside]
        if not len(at):
            return
        self._cover(float(at.min()), float(at.max()))
        places = np.clip(((at - self.start) / self.width).astype(np.int64), 0, BINS - 1)
        np.add.at(self.rows, places, 1)
        for place, column in enumerate(values):
            value = column[inside]
            there = ~np.isnan(value)
            where, value = places[there], value[there]
            np.add.at(self.totals[place], where, value)
            np.add.at(self.valued[place], where, 1)
            np.fmin.at(self.low[place], where, value)
            np.fmax.at(self.high[place], where, value)

    def _cover(self, low: float, high: float) -> None:
        if math.isnan(self.start):
            least = self._unit or max(abs(low), abs(high), 1e-290) * 2.0**-40
            span = max((high - low) / BINS, least)
            unit = self._unit or 1.0
            self.width = unit * 2.0 ** math.ceil(math.log2(span / unit))
            self.start = math.floor(low / self.width) * self.width
        while low < self.start:
            self._join(left=True)
        while high >= self.start + self.width * BINS:
            self._join(left=False)

    def _join(self, *, left: bool) -> None:
        """ValueBins twice as wide; the room that this makes is at the left or at the right."""
        if left:
            self.start -= self.width * BINS
        self.width *= 2
        half = slice(BINS // 2, BINS) if left else slice(0, BINS // 2)
        for kept, join, empty in (
            (self.rows[None], np.add, 0),
            (self.totals, np.add, 0),
            (self.valued, np.add, 0),
            (self.low, np.fmin, np.nan),
            (self.high, np.fmax, np.nan),
        ):
            joined = join(kept[:, 0::2], kept[:, 1::2])
            kept[:] = empty
            kept[:, half] = joined


class ValueSample:
    """At most `most` of the rows that pass, each with the same chance; the same rows give the same sample."""

    def __init__(self, columns: int, *, most: int) -> None:
        self._most, self._chance = most, np.random.default_rng(0)
        self._draws = np.zeros(0)
        self.columns = [np.zeros(0) for _ in range(columns)]

    def add(self, columns: Sequence[np.ndarray]) -> None:
        """The rows of a batch."""
        draws = np.concatenate([self._draws, self._chance.random(len(columns[0]))])
        joined = [np.concatenate(pair) for pair in zip(self.columns, columns, strict=True)]
        if len(draws) > self._most:
            kept = np.sort(np.argpartition(draws, self._most)[: self._most])
            draws, joined = draws[kept], [column[kept] for column in joined]
        self._draws, self.columns = draws, joined
