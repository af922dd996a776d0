"""Aggregators whose result is one of the values: for each key they choose a row of the batch.

Each works on all groups at once, by the first or last position where a condition holds; `choose` gives row
numbers, −1 for NULL. Nothing is gathered but the column's validity, and for max and min the column itself.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, Walk


def present(column: pa.Array, rows: np.ndarray) -> np.ndarray:
    """Whether the column has a value in each of these rows."""
    if not column.null_count:
        return np.ones(len(rows), dtype=bool)
    return column.is_valid().to_numpy(zero_copy_only=False)[rows]


def _rows_at(walk: Walk, places: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The rows at these positions where `taken`, else −1."""
    return np.where(taken, walk.rows[np.clip(places, 0, len(walk.rows) - 1)], -1)


@dataclass(frozen=True, slots=True)
class LastValue:
    """The newest value, NULL included; a retract leaves NULL."""

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray:
        """The row whose value each group ends with."""
        a = walk.actions
        last = walk.last((a == ADD) | (a == RETRACT) | (a == SET))
        return _rows_at(walk, last, (last >= 0) & (a[last] != RETRACT))


@dataclass(frozen=True, slots=True)
class LastNonNullValue:
    """The newest value that is not NULL; a retract of a value leaves NULL, which a late row may fill."""

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray:
        """The row whose value each group ends with."""
        a, valid = walk.actions, present(column, walk.rows)
        last = walk.last((((a == ADD) | (a == RETRACT)) & valid) | (a == SET))
        kept = (last >= 0) & (a[last] != RETRACT) & valid[last]
        chosen = _rows_at(walk, last, kept)
        late = (a == OLDER) & valid
        if not late.any():
            return chosen
        late &= np.arange(len(a)) > last[walk.group_of]
        first = walk.first(late)
        return np.where(kept, chosen, _rows_at(walk, first, first < len(a)))


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The oldest value, NULL included. That there was a first one is remembered when the row is reset."""

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray:
        """The row whose value each group ends with."""
        a, places = walk.actions, np.arange(len(walk.rows))
        begun = walk.first((a == ADD) | (a == OLDER))[walk.group_of]
        writes = (a == SET) | ((a == ADD) & (places == begun)) | ((a == OLDER) & (places > begun))
        last = walk.last(writes)
        return _rows_at(walk, last, last >= 0)


@dataclass(frozen=True, slots=True)
class FirstNonNullValue:
    """The oldest value that is not NULL."""

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray:
        """The row whose value each group ends with, −1 for NULL."""
        a, valid = walk.actions, present(column, walk.rows)
        if (a == OLDER).any():
            return self._row_by_row(walk, valid)
        first = walk.first((a == ADD) & valid)[walk.group_of]
        last = walk.last((a == SET) | (np.arange(len(a)) == first))
        return _rows_at(walk, last, (last >= 0) & valid[last])

    def _row_by_row(self, walk: Walk, valid: np.ndarray) -> np.ndarray:
        """The same row by row, for groups with late rows, where each result depends on all rows before."""
        chosen = np.full(len(walk.starts), -1)
        begun = np.zeros(len(walk.starts), dtype=bool)
        for groups, places in walk.rounds():
            action, row = walk.actions[places], np.where(valid[places], walk.rows[places], -1)
            current, started = chosen[groups], begun[groups]
            takes = (action == ADD) & ~started & (row >= 0)
            keeps = (action == OLDER) & ~started & (current >= 0)
            replaces = ((action == OLDER) & ~keeps) | takes | (action == SET)
            chosen[groups] = np.where(replaces, row, current)
            begun[groups] = started | takes | keeps
        return chosen


@dataclass(frozen=True, slots=True)
class MinMax:
    """The greatest or smallest value in the key order of the format (NaN greatest, bytes unsigned); of
    BOOLEAN: or, and."""

    greatest: bool

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray:
        """The first row with the extreme value of each group, −1 if all are NULL."""
        a = walk.actions
        counted = (a == ADD) | (a == OLDER) | (a == SET)
        counted &= walk.since_set() & present(column, walk.rows)
        worst = np.int64(-(2**63) if self.greatest else 2**63 - 1)
        codes = np.full(len(a), worst)
        if counted.any():
            values = column.take(pa.array(walk.rows[counted]))
            codes[counted] = keys.order_codes([values], [t])
        best = (np.maximum if self.greatest else np.minimum).reduceat(codes, walk.starts)
        first = walk.first(counted & (codes == best[walk.group_of]))
        return _rows_at(walk, first, first < len(a))
