"""Merge engines that pick a whole row: deduplicate keeps the last of each key, first-row the first
(FORMAT.md 11.2, 11.3).

Only positions are computed, then every row is gathered once. With `ignore_delete` −U and −D rows do not
count: a key with no other rows is left out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CannotMerge
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge.groups import ARRIVAL, Groups, SequenceOrder, kinds_of, take

FIRST_ROW_RETRACT = "merge-engine first-row takes no -U or -D rows; 'ignore-delete' = 'true' would drop them"


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The last row wins. A −D that wins is part of the result: reads drop it, compactions may need it."""

    ignore_delete: bool = False
    sequence: SequenceOrder = ARRIVAL

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read for `names`: those and the sequence fields."""
        return tuple(dict.fromkeys((*names, *self.sequence.names)))

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """None: row kinds alone decide."""
        return ()

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """The winner of each key."""
        return take(rows, self.winners(rows, groups))

    def winners(self, rows: pa.RecordBatch, groups: Groups) -> np.ndarray:
        """The position of each key's last row."""
        last = groups.ends - 1
        if self.ignore_delete:
            adds = ~rowkind.retracts(kinds_of(rows))[groups.order]
            if not adds.all():
                last_add = np.maximum.reduceat(np.where(adds, np.arange(len(adds)), -1), groups.starts)
                last_add = np.where(groups.starts == last, last, last_add)  # single rows pass
                last = last_add[last_add >= 0]
        return groups.order[last]


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The first row wins; −U and −D rows are refused, or left out with `ignore_delete`."""

    schema: TableSchema
    ignore_delete: bool = False
    tolerant: bool = False
    sequence: SequenceOrder = ARRIVAL

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read for `names`: only those."""
        return tuple(names)

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """None: row kinds alone decide."""
        return ()

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """The winner of each key."""
        return take(rows, self.winners(rows, groups))

    def winners(self, rows: pa.RecordBatch, groups: Groups) -> np.ndarray:
        """The position of each key's first row; raises CannotMerge for keys that may not be left out."""
        adds = ~rowkind.retracts(kinds_of(rows))[groups.order]
        if adds.all():
            return groups.order[groups.starts]
        lone = groups.starts == groups.ends - 1
        if not self.ignore_delete:
            refused = np.logical_or.reduceat(~adds, groups.starts) & ~lone
            if refused.any():
                return self._without(rows, groups, refused)
        first_add = np.minimum.reduceat(np.where(adds, np.arange(len(adds)), len(adds)), groups.starts)
        first_add = np.where(lone, groups.starts, first_add)
        return groups.order[first_add[first_add < len(adds)]]

    def _without(self, rows: pa.RecordBatch, groups: Groups, refused: np.ndarray) -> np.ndarray:
        """The winners without the refused groups; raises CannotMerge where none may be left out."""
        first = groups.order[groups.starts]
        if self.tolerant:
            return first[~refused]
        at = int(first[refused][0])
        key = {f.name: rows.column(f.name)[at].as_py() for f in self.schema.key_fields}
        raise CannotMerge("*", key, FIRST_ROW_RETRACT)
