"""Memtable: the newest row of each key in memory, as sorted runs that hide each other.

Rows are added as batches in key order, one row a key, deletes among them. Runs of similar size are merged, so
that there are as many as the logarithm of the rows, and a row is merged about as often. Memory: the rows, and
two runs while they are merged. Belongs to one thread. Used by the state of a normaliser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format import rowkind
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.lookup.keyed_file import SortedKeys
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined, kinds_of, plain, take
from tablestore.lsm.merge.keys import Component

_RATIO = 2  # a run is merged with the newer one unless it has more than so many times its rows
Found = tuple[np.ndarray, pa.RecordBatch]  # positions among the keys asked for, their rows


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    rows: pa.RecordBatch
    keys: SortedKeys


class Memtable:
    """kv rows of tables with these `keys`."""

    def __init__(self, keys: tuple[DataField, ...]) -> None:
        self._keys = keys
        self._runs: list[_KeyedRows] = []  # newest last

    @property
    def bytes(self) -> int:
        """Bytes of rows and keys."""
        return sum(run.rows.nbytes + run.keys.nbytes for run in self._runs)

    def add(self, rows: pa.RecordBatch, *, drop_deletes: bool) -> None:
        """Add rows in key order, one a key, newer than all that are here. `drop_deletes`: nothing lies below,
        so deletes in the oldest run may vanish (I7)."""
        if not rows.num_rows:
            return
        rows = plain(rows)
        while self._runs and self._runs[-1].rows.num_rows <= _RATIO * rows.num_rows:
            rows = self._merged(self._runs.pop().rows, rows)
        if drop_deletes and not self._runs:
            gone = rowkind.retracts(kinds_of(rows))
            rows = rows.filter(pa.array(~gone)) if gone.any() else rows
        if rows.num_rows:
            self._runs.append(_KeyedRows(rows, SortedKeys.of(key_columns.of_batch(rows, self._keys))))

    def find(self, wanted: Sequence[Component]) -> list[Found]:
        """The newest rows of these keys, which are strictly increasing; deletes are rows, too."""
        places = np.arange(len(wanted[0]))
        newest: list[Found] = []
        for run in reversed(self._runs):
            if not len(places):
                break
            asked, positions = run.keys.find(wanted)
            if len(asked):
                newest.append((places[asked], take(run.rows, positions)))
                missing = np.ones(len(places), dtype=bool)
                missing[asked] = False
                places, wanted = places[missing], key_columns.taken(wanted, np.flatnonzero(missing))
        return newest

    def drain(self) -> pa.RecordBatch | None:
        """All rows in key order, None without any; the table is empty then."""
        runs, self._runs = self._runs, []
        if not runs:
            return None
        rows = runs.pop().rows
        while runs:
            rows = self._merged(runs.pop().rows, rows)
        return rows

    def _merged(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        """Both in key order, of equal keys the newer row."""
        rows = joined([older, newer])
        codes = key_columns.codes(key_columns.of_batch(rows, self._keys))
        order = np.argsort(codes, kind="stable")
        last = np.ones(len(order), dtype=bool)
        last[:-1] = codes[order[1:]] != codes[order[:-1]]
        return take(rows, order[last])
