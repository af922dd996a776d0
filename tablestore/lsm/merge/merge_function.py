"""Merge functions: how rows of one key become one row, by the merge engine of a table.

The engines are in `lsm.merge`; this is where everyone else finds them.
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
    """Around merges of one table: keys that cannot be merged are reported with its name."""
    try:
        yield
    except CannotMerge as e:
        e.within(name)
        raise


def sequence_order(schema: TableSchema, options: TableOptions) -> SequenceOrder:
    """What orders rows of one key: `sequence.field`, then the sequence number. Raises InvalidOption for a
    name that is no column, as a foreign schema may have one."""
    for name in options.sequence_fields:
        if name not in schema.by_name:
            raise InvalidOption(f"option 'sequence.field' names {name!r}, which is no column")
    fields = schema.columns(options.sequence_fields)
    return SequenceOrder(fields, options.sequence_sort_order is SortOrder.DESCENDING)


def merge_function(schema: TableSchema, options: TableOptions, *, reading: bool = False) -> MergeFunction:
    """The merge function that a table of this schema asks for; raises InvalidOption for options that do not
    fit it.

    Only one that is for `reading` ever leaves out keys that cannot be merged: what compaction left out would
    be lost.
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
