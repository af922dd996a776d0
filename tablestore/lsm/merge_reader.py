"""Merge of sorted runs in windows of key range: bounded memory, columns all the way.

Each run holds one batch ahead. The smallest last key of these batches bounds a window: every row up to it is
in memory, so the window's rows are grouped and folded, and the batch that ended there is replaced by the next
of its run. Memory is one batch a run plus one window; rows of a lone run pass without copying.
Keys are unique inside a run (I3): the windows depend on it. Used by reads of overlapping sections and by
compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.format.types import DataField
from tablestore.lsm import keys as key_columns
from tablestore.lsm.keys import Component, Key
from tablestore.lsm.merge_function import MergeFunction, grouped, joined, without_retracts

Reader = Callable[[], Iterator[pa.RecordBatch]]
Part = tuple[pa.RecordBatch, list[Component]]
WINDOW_ROWS = 131_072
_READ_ROWS = 524_288  # rows of all runs that are decoded ahead


def merge(
    readers: Sequence[Reader],
    keys: Sequence[DataField],
    function: MergeFunction,
    *,
    keep_retracts: bool = False,
    window_rows: int = WINDOW_ROWS,
) -> Iterator[pa.RecordBatch]:
    """kv rows of all runs folded by `function`, in key order, as batches of any size.

    One reader a sorted run, best old to new: rows of a key are ordered by `sequence.field` and sequence
    number, and a window is sorted once less if runs come in that order. With `keep_retracts` a winning −U or
    −D is delivered, else its key is not.
    """
    for parts in windows(readers, keys, window_rows=window_rows):
        rows = _fold(parts, function)
        if not keep_retracts:
            rows = without_retracts(rows)
        if rows.num_rows:
            yield rows


def windows(
    readers: Sequence[Reader], keys: Sequence[DataField], *, window_rows: int = WINDOW_ROWS
) -> Iterator[list[Part]]:
    """The rows of all runs, window by window in key order: what each run has in that range of keys."""
    ahead = max(1, window_rows // max(1, len(readers)))
    cursors = [c for c in (_Cursor(reader(), keys, ahead) for reader in readers) if c.fill()]
    while cursors:
        bound = _bound(cursors)
        yield [p for c in cursors if (p := c.take(bound)) is not None]
        cursors = [c for c in cursors if c.fill()]


def batch_rows(runs: int) -> int:
    """Rows a batch for readers of so many runs: many runs read smaller batches, so memory stays bounded."""
    return min(65_536, max(4_096, _READ_ROWS // max(1, runs)))


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


def _fold(parts: Sequence[Part], function: MergeFunction) -> pa.RecordBatch:
    """One window's rows folded."""
    if len(parts) == 1:
        return parts[0][0]
    rows = joined([batch for batch, _ in parts])
    codes = key_columns.codes(key_columns.concatenated([components for _, components in parts]))
    return fold_rows(rows, codes, function)


def fold_rows(rows: pa.RecordBatch, codes: np.ndarray, function: MergeFunction) -> pa.RecordBatch:
    """Rows with these key codes folded, in key order; order inside a key is the function's."""
    return function.merge(rows, grouped(codes, function.sequence.numbers(rows)))
