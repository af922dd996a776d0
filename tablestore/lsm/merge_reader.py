"""Merge of sorted runs in windows of key range: bounded memory, columns all the way.

Each run holds one batch ahead. The smallest last key of these batches bounds a window: every row up to it is
in memory, so the window's rows are grouped and folded, and the batch that ended there is replaced by the next
of its run. `shares` gives long runs long batches and short runs short ones, so that all of them end at much
the same key and a window holds most of what is in memory. Memory is one batch a run plus one window, together
some 100,000 rows twice, however many runs; rows of a lone run pass without copying.
Keys are unique inside a run (I3): the windows depend on it. Used by reads of overlapping sections and by
compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.format import rowkind
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm import keys as key_columns
from tablestore.lsm.keys import Component, Key
from tablestore.lsm.merge_function import (
    Choosing,
    MergeFunction,
    grouped,
    joined,
    kinds_of,
    take,
    without_retracts,
)

Reader = Callable[[], Iterator[pa.RecordBatch]]
Part = tuple[pa.RecordBatch, list[Component]]
WINDOW_ROWS = 65_536
_LEAST_ROWS = 1_024  # rows below which a batch costs more than what it holds


def merge(
    readers: Sequence[Reader],
    keys: Sequence[DataField],
    function: MergeFunction,
    *,
    keep_retracts: bool = False,
    ahead: Sequence[int] = (),
    window_rows: int = WINDOW_ROWS,
) -> Iterator[pa.RecordBatch]:
    """kv rows of all runs folded by `function`, in key order, as batches of any size.

    One reader a sorted run, best old to new: rows of a key are ordered by `sequence.field` and sequence
    number, and a window is sorted once less if runs come in that order. With `keep_retracts` a winning −U or
    −D is delivered, else its key is not.
    """
    for parts in windows(readers, keys, ahead=ahead, window_rows=window_rows):
        rows = _fold(parts, function, keep_retracts)
        if rows.num_rows:
            yield rows


def windows(
    readers: Sequence[Reader],
    keys: Sequence[DataField],
    *,
    ahead: Sequence[int] = (),
    window_rows: int = WINDOW_ROWS,
) -> Iterator[list[Part]]:
    """The rows of all runs, window by window in key order: what each run has in that range of keys.

    `ahead`: rows of each run that are looked at together, from `shares`; equal parts of a window without it.
    """
    sizes = ahead or [max(1, window_rows // max(1, len(readers)))] * len(readers)
    opened = (_Cursor(reader(), keys, rows) for reader, rows in zip(readers, sizes, strict=True))
    cursors = [c for c in opened if c.fill()]
    while cursors:
        bound = _bound(cursors)
        yield [p for c in cursors if (p := c.take(bound)) is not None]
        cursors = [c for c in cursors if c.fill()]


def shares(rows: Sequence[int], *, window_rows: int = WINDOW_ROWS) -> list[int]:
    """Rows a batch for runs of so many rows: each its share of a window, and no tiny batches."""
    total = max(1, sum(rows))
    return [max(_LEAST_ROWS, -(-window_rows * some // total)) for some in rows]


class _Cursor:
    """One run: the batch it is at, the key components of that batch, and the first row not yet merged."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keys: Sequence[DataField], ahead: int) -> None:
        self._batches, self._keys, self._ahead = _pieces(batches, ahead), keys, ahead
        self._batch: pa.RecordBatch | None = None
        self._parts: list[Component] = []
        self._at = 0

    def fill(self) -> bool:
        """Make sure there is a row; False when the run has ended."""
        while self._batch is None or self._at == self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._parts, self._at = key_columns.of_batch(self._batch, self._keys), 0
        return True

    @property
    def last(self) -> Key:
        """The greatest key in memory."""
        return key_columns.key_at(self._parts, -1)

    def take(self, bound: Key) -> Part | None:
        """The rows up to `bound`, moving past them; None if there are none."""
        assert self._batch is not None
        start, stop = self._at, key_columns.rows_up_to(self._parts, bound, self._at)
        self._at = stop
        if start == stop:
            return None
        return self._batch.slice(start, stop - start), key_columns.sliced(self._parts, start, stop)


def _pieces(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _bound(cursors: Sequence[_Cursor]) -> Key:
    bound = cursors[0].last
    for cursor in cursors[1:]:
        last = cursor.last
        if key_columns.less(last, bound):
            bound = last
    return bound


def _fold(parts: Sequence[Part], function: MergeFunction, keep_retracts: bool) -> pa.RecordBatch:
    """One window's rows folded."""
    if len(parts) == 1:
        rows = parts[0][0]
        return rows if keep_retracts else without_retracts(rows)
    rows = joined([batch for batch, _ in parts])
    codes = key_columns.codes(key_columns.concatenated([components for _, components in parts]))
    if keep_retracts or not isinstance(function, Choosing):
        folded = fold_rows(rows, codes, function)
        return folded if keep_retracts else without_retracts(folded)
    places = function.winners(rows, grouped(codes, function.sequence.numbers(rows)))
    return take(rows, places[~rowkind.retracts(kinds_of(rows)[places])])


def fold_rows(rows: pa.RecordBatch, codes: np.ndarray, function: MergeFunction) -> pa.RecordBatch:
    """Rows with these key codes folded, in key order; order inside a key is the function's."""
    return function.merge(rows, grouped(codes, function.sequence.numbers(rows)))
