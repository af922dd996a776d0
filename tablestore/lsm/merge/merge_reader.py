"""Merge of sorted runs in windows of key range: bounded memory, columns all the way (FORMAT.md 10.5).

Each run holds at least its share of a window prefetch: between windows it reads on until it does. The
smallest of the last keys in memory bounds a window: every row up to it is there, so the window's rows are
grouped and folded. `shares` gives long runs large shares and short runs small ones, so that all of them end
at much the same key, a window holds about half of what is in memory, and there are no more windows the more
runs there are; a run that is known to have ended bounds nothing. Neighbouring runs of one batch each, as
small commits leave them, are sorted into one at the start, once, and not cut into windows each for itself.
Memory is two shares a run plus one window, together some 200,000 rows twice, however many runs; rows of a
lone run pass without copying. Keys are unique inside a run (I3): the windows depend on it. Used by reads of
overlapping sections and by compaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from tablestore.format import rowkind
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.keys import Component, Key
from tablestore.lsm.merge.merge_function import (
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
_MIN_ROWS = 1_024  # rows below which a batch costs more than what it holds
_DECODED_ROWS = 8_192


def merge(
    readers: Sequence[Reader],
    keys: Sequence[DataField],
    function: MergeFunction,
    *,
    keep_retracts: bool = False,
    prefetch: Sequence[int] = (),
    window_rows: int = WINDOW_ROWS,
) -> Iterator[pa.RecordBatch]:
    """kv rows of all runs folded by `function`, in key order, as batches of any size.

    One reader a sorted run, best old to new: rows of a key are ordered by `sequence.field` and sequence
    number, and a window is sorted once less if runs come in that order. With `keep_retracts` a winning −U or
    −D is delivered, else its key is not.
    """
    for parts in windows(readers, keys, prefetch=prefetch, window_rows=window_rows):
        rows = _fold(parts, function, keep_retracts)
        if rows.num_rows:
            yield rows


def windows(
    readers: Sequence[Reader],
    keys: Sequence[DataField],
    *,
    prefetch: Sequence[int] = (),
    window_rows: int = WINDOW_ROWS,
) -> Iterator[list[Part]]:
    """The rows of all runs, window by window in key order: what each run has in that range of keys.

    `prefetch`: rows of each run that are looked at together, from `shares`; equal parts of a window without
    it. What is of several small runs may be one part: sorted by key, rows of one key in the order of the
    runs.
    """
    sizes = prefetch or [max(1, window_rows // max(1, len(readers)))] * len(readers)
    opened = (_Cursor(reader(), keys, rows) for reader, rows in zip(readers, sizes, strict=True))
    cursors = _gathered([c for c in opened if c.fill()], keys)
    while cursors:
        bound = _bound(cursors)
        parts = [p for c in cursors for p in c.take(bound)]
        if len(cursors) > 1:
            yield parts
        else:
            yield from ([p] for p in parts)
        cursors = [c for c in cursors if c.fill()]


def shares(rows: Sequence[int], *, window_rows: int = WINDOW_ROWS) -> list[int]:
    """Rows a batch for runs of so many rows: each its share of a window, and no tiny batches. The smallest,
    as many as two windows hold, come whole, and with them the word that there is no more."""
    total = max(1, sum(rows))
    smallest = np.argsort(rows, kind="stable")
    whole = set(smallest[np.cumsum(np.take(rows, smallest)) <= 2 * window_rows].tolist()) if rows else set()
    return [
        some + 1 if run in whole else max(_MIN_ROWS, -(-window_rows * some // total))
        for run, some in enumerate(rows)
    ]


def decoded(prefetch: Sequence[int]) -> list[int]:
    """Rows that runs of these shares decode at once: decoding fewer costs half as much again. As many as four
    windows wait decoded, and those of a share that is larger."""
    enough = min(_DECODED_ROWS, 4 * WINDOW_ROWS // max(1, len(prefetch)))
    return [max(enough, rows) for rows in prefetch]


class _Cursor:
    """One run: what of it is in memory and not yet merged, `prefetch` rows and more while there are so
    many."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keys: Sequence[DataField], prefetch: int) -> None:
        self._batches, self._keys, self._prefetch = _pieces(batches, prefetch), keys, prefetch
        self._buffered: deque[Part] = deque()
        self._at = self._rows = 0  # the first row of the first part that is not merged, rows not merged
        self.ended = False  # nothing comes after what is buffered

    def fill(self) -> bool:
        """Read on where too little is in memory; False when the run has ended."""
        while self._rows < self._prefetch and not self.ended:
            batch = next(self._batches, None)
            if batch is None:
                self.ended = True
            else:
                self._buffered.append((batch, key_columns.of_batch(batch, self._keys)))
                self._rows += batch.num_rows
        return self._rows > 0

    @property
    def last(self) -> Key:
        """The greatest key in memory."""
        return key_columns.key_at(self._buffered[-1][1], -1)

    def take(self, bound: Key | None) -> list[Part]:
        """The rows up to `bound` (None: all), moving past them."""
        found: list[Part] = []
        while self._buffered:
            batch, parts = self._buffered[0]
            start, rows = self._at, batch.num_rows
            stop = rows if bound is None else key_columns.rows_up_to(parts, bound, start)
            if stop > start:
                found.append((batch.slice(start, stop - start), key_columns.sliced(parts, start, stop)))
            self._at, self._rows = stop, self._rows - (stop - start)
            if stop < rows:
                break
            self._buffered.popleft()
            self._at = 0
        return found


def _gathered(cursors: Sequence[_Cursor], keys: Sequence[DataField]) -> list[_Cursor]:
    """The cursors, but neighbours that hold all of their runs as one; if all do there is but one window."""
    if all(c.ended for c in cursors):
        return list(cursors)
    found: list[_Cursor] = []
    for ended, neighbours in groupby(cursors, key=attrgetter("ended")):
        some = list(neighbours)
        whole = ended and len(some) > 1
        found += [_together([p for c in some for p in c.take(None)], keys)] if whole else some
    return found


def _together(parts: Sequence[Part], keys: Sequence[DataField]) -> _Cursor:
    """A cursor over the rows of several runs: each key's stay in the order of the runs."""
    rows = joined([batch for batch, _ in parts])
    order = np.argsort(key_columns.codes(key_columns.concatenated([p for _, p in parts])), kind="stable")
    cursor = _Cursor(iter([take(rows, order)]), keys, rows.num_rows + 1)
    cursor.fill()
    return cursor


def _pieces(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _bound(cursors: Sequence[_Cursor]) -> Key | None:
    """The key up to which all rows are in memory; None: there are no others."""
    bound: Key | None = None
    for cursor in cursors:
        if not cursor.ended and (bound is None or key_columns.less(cursor.last, bound)):
            bound = cursor.last
    return bound


def _fold(parts: Sequence[Part], function: MergeFunction, keep_retracts: bool) -> pa.RecordBatch:
    """One window's rows folded."""
    if len(parts) == 1 and key_columns.strictly_increasing(parts[0][1]):
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
