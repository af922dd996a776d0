"""Merge functions: how rows of one key become one row.

A merge function is given rows and their `Groups` and mostly chooses positions; `take` gathers, so column
types cannot drift. As in the format, a key with a single row is passed through as it is, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import Unsupported
from tablestore.format import rowkind
from tablestore.format.parquet_schema import KIND
from tablestore.format.schema import TableSchema
from tablestore.options import MergeEngine, TableOptions


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in (key, sequence) order: `order[i]` is the row at place i, group g is places starts[g] up to
    starts[g + 1]."""

    order: np.ndarray
    starts: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """Place after the last row of each group."""
        return np.append(self.starts[1:], len(self.order))


class MergeFunction(Protocol):
    """Fold rows of equal key to at most one row a key, in key order; the row's kind says whether the key is
    there."""

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch: ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The last row wins. If it takes the key away, it stays as the winner: who reads drops it, who compacts
    may need it."""

    ignore_delete: bool = False

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """The winner of each key."""
        last = groups.ends - 1
        if self.ignore_delete:
            last = _last_adding(kinds_of(rows), groups, last)
        return take(rows, groups.order[last])


def _last_adding(kinds: np.ndarray, groups: Groups, last: np.ndarray) -> np.ndarray:
    """Place of the last +I or +U of each group; lone rows pass, groups of several rows that only take away
    vanish."""
    adds = ~rowkind.retracts(kinds)[groups.order]
    if adds.all():
        return last
    places = np.where(adds, np.arange(len(adds)), -1)
    found = np.maximum.reduceat(places, groups.starts)
    found = np.where(groups.starts == last, last, found)
    return found[found >= 0]


def merge_function(schema: TableSchema, options: TableOptions) -> MergeFunction:
    """The merge function that a table of this schema asks for; raises Unsupported for engines that are not
    there yet."""
    if options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise Unsupported(f"merge-engine = {options.merge_engine.value}", "only deduplicate so far")
    if options.sequence_fields:
        raise Unsupported("sequence.field", "rows of a key are ordered by their sequence number only so far")
    return Deduplicate(options.ignore_delete)


def take(rows: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    """Rows at these places, in their order. Places must be within the rows: they are not checked again."""
    index = pa.array(places)
    columns = [pc.take(column, index, boundscheck=False) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one; text that is dictionary-encoded in some of them only becomes plain."""
    if len(batches) == 1:
        return batches[0]
    if any(b.schema.types != batches[0].schema.types for b in batches):
        batches = [plain(b) for b in batches]
    return pa.concat_batches(batches)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionary-encoded columns."""
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    fields = [f.with_type(c.type) for f, c in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def kinds_of(rows: pa.RecordBatch) -> np.ndarray:
    """int8 kinds of kv rows."""
    return rows.column(KIND).to_numpy(zero_copy_only=False)


def without_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Only rows that are there: −U and −D dropped."""
    gone = rowkind.retracts(kinds_of(rows))
    return rows.filter(pa.array(~gone)) if gone.any() else rows
