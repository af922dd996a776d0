"""Merging sorted runs in windows of key ranges, with bounded memory and whole columns (FORMAT.md 10.5).

Each run prefetches at least its share of a window. The smallest of the last keys in memory bounds the window:
all rows up to it are in memory, so they are grouped and folded. `shares` gives long runs large shares and
short runs small ones, so that all runs end at about the same key, a window takes about half of the rows in
memory, and the number of windows does not grow with that of the runs; a run that has ended bounds nothing.
Neighbouring runs of one batch each, as small commits make them, are sorted into one at the start instead of
being cut into windows. Memory is two shares a run plus one window, together some 400,000 rows, however many
runs; rows of a single run pass without copying. Windows rely on unique keys inside a run (I3). Used by reads
of overlapping sections and by compaction.
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
from tablestore.lsm.merge.groups import (
    Choosing,
    MergeFunction,
    grouped,
    joined,
    kinds_of,
    take,
    without_retracts,
)
from tablestore.lsm.merge.keys import Component, Key

Reader = Callable[[], Iterator[pa.RecordBatch]]
Part = tuple[pa.RecordBatch, list[Component]]
WINDOW_ROWS = 65_536
_MIN_ROWS = 1_024  # smaller batches cost more than their rows
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

    One reader a sorted run, preferably old to new: rows of a key are ordered by `sequence.field` and sequence
    number, and a window needs one sort less if runs come in that order. With `keep_retracts` a winning −U or
    −D is part of the result, otherwise its key is left out.
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
    """The rows of all runs, window by window in key order: a part with each run's rows of that key range.

    `prefetch`: rows of each run that are in memory together, from `shares`; equal shares by default. Rows of
    several small runs may be one part, sorted by key, with rows of one key in the order of the runs.
    """
    sizes = prefetch or [max(1, window_rows // max(1, len(readers)))] * len(readers)
    opened = (_RunCursor(reader(), keys, rows) for reader, rows in zip(readers, sizes, strict=True))
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
    """Rows to prefetch of runs with so many rows: each run's share of a window, and no tiny batches. The
    smallest runs, as many as fit into two windows, are read whole with their end."""
    total = max(1, sum(rows))
    smallest = np.argsort(rows, kind="stable")
    whole = set(smallest[np.cumsum(np.take(rows, smallest)) <= 2 * window_rows].tolist()) if rows else set()
    return [
        some + 1 if run in whole else max(_MIN_ROWS, -(-window_rows * some // total))
        for run, some in enumerate(rows)
    ]


def decoded(prefetch: Sequence[int]) -> list[int]:
    """Rows to decode at once for runs of these shares: up to four windows in all, or a larger share. Decoding
    fewer at once costs half as much again."""
    enough = min(_DECODED_ROWS, 4 * WINDOW_ROWS // max(1, len(prefetch)))
    return [max(enough, rows) for rows in prefetch]


class _RunCursor:
    """One run's rows that are in memory and not yet merged: `prefetch` or more while the run has them."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keys: Sequence[DataField], prefetch: int) -> None:
        self._batches, self._keys, self._prefetch = _pieces(batches, prefetch), keys, prefetch
        self._buffered: deque[Part] = deque()
        self._at = self._rows = 0  # the first row of the first part that is not merged, rows not merged
        self.ended = False  # nothing comes after what is buffered

    def fill(self) -> bool:
        """Read until enough rows are in memory; False when the run has ended."""
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
        taken: list[Part] = []
        while self._buffered:
            batch, parts = self._buffered[0]
            start, rows = self._at, batch.num_rows
            stop = rows if bound is None else key_columns.rows_up_to(parts, bound, start)
            if stop > start:
                taken.append((batch.slice(start, stop - start), key_columns.sliced(parts, start, stop)))
            self._at, self._rows = stop, self._rows - (stop - start)
            if stop < rows:
                break
            self._buffered.popleft()
            self._at = 0
        return taken


def _gathered(cursors: Sequence[_RunCursor], keys: Sequence[DataField]) -> list[_RunCursor]:
    """The cursors, with neighbours that have read their whole runs joined into one."""
    if all(c.ended for c in cursors):
        return list(cursors)
    gathered: list[_RunCursor] = []
    for ended, neighbours in groupby(cursors, key=attrgetter("ended")):
        some = list(neighbours)
        whole = ended and len(some) > 1
        gathered += [_together([p for c in some for p in c.take(None)], keys)] if whole else some
    return gathered


def _together(parts: Sequence[Part], keys: Sequence[DataField]) -> _RunCursor:
    """One cursor over the rows of several runs; rows of a key stay in the order of the runs."""
    rows = joined([batch for batch, _ in parts])
    order = np.argsort(key_columns.codes(key_columns.concatenated([p for _, p in parts])), kind="stable")
    cursor = _RunCursor(iter([take(rows, order)]), keys, rows.num_rows + 1)
    cursor.fill()
    return cursor


def _pieces(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _bound(cursors: Sequence[_RunCursor]) -> Key | None:
    """The key up to which all rows are in memory; None if all runs have ended."""
    bound: Key | None = None
    for cursor in cursors:
        if not cursor.ended and (bound is None or key_columns.less(cursor.last, bound)):
            bound = cursor.last
    return bound


def _fold(parts: Sequence[Part], function: MergeFunction, keep_retracts: bool) -> pa.RecordBatch:
    """The rows of one window, merged."""
    if len(parts) == 1 and key_columns.strictly_increasing(parts[0][1]):
        rows = parts[0][0]
        return rows if keep_retracts else without_retracts(rows)
    rows = joined([batch for batch, _ in parts])
    codes = key_columns.codes(key_columns.concatenated([components for _, components in parts]))
    groups = grouped(codes, function.sequence.numbers(rows))
    if keep_retracts or not isinstance(function, Choosing):
        folded = function.merge(rows, groups)
        return folded if keep_retracts else without_retracts(folded)
    places = function.winners(rows, groups)
    return take(rows, places[~rowkind.retracts(kinds_of(rows)[places])])
