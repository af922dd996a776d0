"""Merge functions: how rows of one key become one row, by the merge engine of a table (FORMAT.md 11.2, 11.3).

Engines that pick a whole row are here: deduplicate keeps the last of each key, first-row the first. Only
positions are computed, then every row is gathered once. With `ignore_delete` −U and −D rows do not count: a
key with no other rows is left out. The engines that compute have modules of their own. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CannotMerge, InvalidOption
from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.core.options.values import SortOrder
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.counted import Counting
from tablestore.lsm.merge.groups import ARRIVAL, Groups, MergeFunction, SequenceOrder, kinds_of, take
from tablestore.lsm.merge.partial_update import PartialUpdate

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


@contextmanager
def in_table(name: str) -> Iterator[None]:
    """A context for merges of one table: errors of keys that cannot be merged get its name."""
    try:
        yield
    except CannotMerge as e:
        e.within(name)
        raise


def sequence_order(schema: TableSchema, options: TableOptions) -> SequenceOrder:
    """The order of rows of one key: `sequence.field`, then the sequence number. Raises InvalidOption for a
    name that is not a column, which another engine's schema may contain."""
    for name in options.sequence_fields:
        if name not in schema.by_name:
            raise InvalidOption(f"option 'sequence.field' names {name!r}, which is not a column")
    fields = schema.columns(options.sequence_fields)
    return SequenceOrder(fields, options.sequence_sort_order is SortOrder.DESCENDING)


def merge_function(schema: TableSchema, options: TableOptions, *, reading: bool = False) -> MergeFunction:
    """The merge function of a table; raises InvalidOption for options that do not fit the schema.

    Only a function for `reading` may leave out keys that cannot be merged: a compaction would lose them.
    """
    sequence = sequence_order(schema, options)
    tolerant = reading and options.skips_unmergeable
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        return PartialUpdate.of(schema, options, sequence, tolerant=tolerant)
    if options.merge_engine is MergeEngine.AGGREGATION:
        summed = Aggregation.of(schema, options, sequence, tolerant=tolerant)
        return summed if schema.row_count_field is None else Counting(summed, schema.row_count_field)
    if options.merge_engine is MergeEngine.FIRST_ROW:
        return FirstRow(schema, options.ignore_delete, tolerant)
    return Deduplicate(options.ignore_delete, sequence)
