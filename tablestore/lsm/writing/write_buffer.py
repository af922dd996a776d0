"""The write buffer of one bucket: kv rows in the order of arrival until they are flushed in key order.

Rows whose keys arrive strictly increasing are flushed without a sort, gather or copy. Otherwise one stable
sort of key codes orders them, and rows are gathered in pieces that fit the CPU cache. Sequence numbers and
`sequence.field` values of a key may come in any order. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.merge_function import (
    ARRIVAL,
    Groups,
    MergeFunction,
    SequenceOrder,
    grouped,
    joined,
    take,
)

_PIECE_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The rows of a buffer, sorted once; can be read merged, raw, or both."""

    batches: tuple[pa.RecordBatch, ...]  # in order of arrival; one batch if `groups` are given
    groups: Groups | None  # None: the batches are in key order, each key once

    def folded(self, function: MergeFunction) -> Iterator[pa.RecordBatch]:
        """One row a key, in key order."""
        if self.groups is None:
            yield from self.batches
            return
        starts, ends = self.groups.starts, self.groups.ends
        first = 0
        while first < len(starts):
            last = int(np.searchsorted(ends, starts[first] + _PIECE_ROWS, side="right"))
            last = max(last, first + 1)
            begin, end = int(starts[first]), int(ends[last - 1])
            piece = Groups(self.groups.order[begin:end], starts[first:last] - begin)
            folded = function.merge(self.batches[0], piece)
            if folded.num_rows:
                yield folded
            first = last

    def raw(self) -> Iterator[pa.RecordBatch]:
        """Every row, in the order in which it is folded."""
        if self.groups is None:
            yield from self.batches
            return
        order = self.groups.order
        for start in range(0, len(order), _PIECE_ROWS):
            yield take(self.batches[0], order[start : start + _PIECE_ROWS])


def settled(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows without references to larger batches: neighbouring slices of such are copied into one,
    other batches stay."""
    kept: list[pa.RecordBatch] = []
    for slices, own in ((list(some), own) for own, some in groupby(batches, _owns_memory)):
        if own:
            kept += slices
        else:  # joining one batch alone would not copy it
            kept.append(pa.concat_batches([slices[0].slice(0, 0), *slices]))
    return kept


def _owns_memory(batch: pa.RecordBatch) -> bool:
    return batch.get_total_buffer_size() <= 2 * batch.nbytes


class WriteBuffer:
    """kv batches of one bucket and the bytes they hold."""

    def __init__(self, keys: Sequence[DataField], sequence: SequenceOrder = ARRIVAL) -> None:
        self._keys, self._sequence = keys, sequence
        self._batches: list[pa.RecordBatch] = []
        self._settled = 0  # leading batches that own their memory
        self.bytes = 0
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows after those before."""
        if batch.num_rows:
            self._batches.append(batch)
            self.bytes += batch.nbytes
            self.rows += batch.num_rows

    def settle(self) -> None:
        """Copy slices of larger batches, so that these can be freed."""
        self._batches[self._settled :] = settled(self._batches[self._settled :])
        self._settled = len(self._batches)

    def drain(self) -> SortedRows:
        """All buffered rows, sorted; the buffer is empty afterwards."""
        batches = tuple(self._batches)
        self._batches, self._settled, self.bytes, self.rows = [], 0, 0, 0
        parts = key_columns.of_columns(batches, self._keys)
        if key_columns.strictly_increasing(parts):
            return SortedRows(batches, None)
        rows = joined(batches)
        return SortedRows((rows,), grouped(key_columns.codes(parts), self._sequence.numbers(rows)))
