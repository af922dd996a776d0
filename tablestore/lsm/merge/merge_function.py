"""Merge functions: how rows of one key become one row, by the merge engine of a table.

The engines are in modules of `lsm.merge`; other packages get them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tablestore.core.errors import CannotMerge, InvalidOption
from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.core.options.values import SortOrder
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.counted import Counting
from tablestore.lsm.merge.groups import (
    ARRIVAL,
    Choosing,
    Groups,
    MergeFunction,
    SequenceOrder,
    grouped,
    joined,
    kinds_of,
    plain,
    take,
    without_retracts,
)
from tablestore.lsm.merge.partial_update import PartialUpdate
from tablestore.lsm.merge.winners import Deduplicate, FirstRow

__all__ = [
    "ARRIVAL",
    "Aggregation",
    "Choosing",
    "Deduplicate",
    "FirstRow",
    "Groups",
    "MergeFunction",
    "PartialUpdate",
    "SequenceOrder",
    "grouped",
    "in_table",
    "joined",
    "kinds_of",
    "merge_function",
    "plain",
    "sequence_order",
    "take",
    "without_retracts",
]


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
