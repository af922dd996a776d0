"""Groups of rows with equal keys, and what every merge engine does with batches of rows (FORMAT.md 11.1).

A merge function takes rows and their `Groups` and mostly chooses positions; `take` gathers, so column types
cannot change. As the format says, a key with a single row passes unchanged, whatever its kind.
Pure; memory is the batch and what is gathered from it. Used by the engines, the write buffer, the merge
reader and the rewriter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.merge import keys as key_columns


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in merge order: `order[i]` is the row at position i, group g is positions starts[g] up to
    starts[g + 1]. `alone` says which groups of a single row are merged, too: all, none, or a bool each."""

    order: np.ndarray
    starts: np.ndarray
    alone: bool | np.ndarray = False

    @property
    def ends(self) -> np.ndarray:
        """The position after the last row of each group."""
        return np.append(self.starts[1:], len(self.order))


@dataclass(frozen=True, slots=True)
class SequenceOrder:
    """What orders rows of one key (FORMAT.md 10.2): these columns (`sequence.field`), then the sequence
    number.

    NULL is smallest, so it always loses, also when `descending`: then smaller values come later.
    """

    fields: tuple[DataField, ...] = ()
    descending: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that must be read to merge."""
        return tuple(f.name for f in self.fields)

    def numbers(self, rows: pa.RecordBatch) -> list[np.ndarray]:
        """int64 columns, most significant first, whose order is the merge order of these rows."""
        last = rows.column(SEQUENCE).to_numpy(zero_copy_only=False)
        if not self.fields:
            return [last]
        columns, types = [rows.column(n) for n in self.names], [f.type for f in self.fields]
        return [key_columns.order_codes(columns, types, descending=self.descending), last]


ARRIVAL = SequenceOrder()
_MOST = 8  # encoded rows for one that is encoded late, and for each value of a dictionary


class MergeFunction(Protocol):
    """Merges the rows of each key into one row or none, in key order; the row's kind says whether the key
    exists."""

    @property
    def sequence(self) -> SequenceOrder:
        """The order of rows in which this function expects each group."""
        ...

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns that a correct merge of `names` needs, `names` first."""
        ...

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of `columns(names)` whose values may make a merge fail or leave out a key; the other columns
        do not affect which keys come out."""
        ...

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch: ...


@runtime_checkable
class Choosing(MergeFunction, Protocol):
    """A merge function whose results are input rows, of which it can give the positions alone."""

    def winners(self, rows: pa.RecordBatch, groups: Groups) -> np.ndarray:
        """The positions of the rows that `merge` gives."""
        ...


def grouped(codes: np.ndarray, numbers: Sequence[np.ndarray]) -> Groups:
    """Rows ordered by key code, then by `numbers`. One stable sort if equal keys come oldest first, else one
    or two more."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1  # positions with the same key as the one before
    first = np.ones(len(order), dtype=bool)
    first[repeats] = False
    if len(repeats) and _disordered(numbers, order[repeats - 1], order[repeats]):
        order = _within_keys(order, first, numbers[0])
        if _disordered(numbers, order[repeats - 1], order[repeats]):
            order = np.lexsort((*reversed(numbers), codes))
    return Groups(order, np.flatnonzero(first))


def _within_keys(order: np.ndarray, first: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The rows in order of key and `values`, by one sort of numbers that combine both."""
    wanted = values[order]
    low = int(wanted.min())
    span = int(wanted.max()) - low + 1
    if span * len(order) >= 2**62:
        return order
    packed = np.cumsum(first) * span + (wanted - low)
    return order[np.argsort(packed, kind="stable")]


def _disordered(numbers: Sequence[np.ndarray], before: np.ndarray, after: np.ndarray) -> bool:
    """Whether any row is before one that it should follow."""
    equal = np.ones(len(before), dtype=bool)
    for values in numbers:
        if (equal & (values[after] < values[before])).any():
            return True
        equal &= values[after] == values[before]
    return False


def take(rows: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    """The rows at these positions, in their order. Positions must be valid: they are not checked."""
    return pc.take(rows, pa.array(places), boundscheck=False)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches joined into one. Text that is dictionary-encoded in only some of them comes out so where these
    have most of the rows and few values, else plain."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0].schema
    if not all(b.schema is first or b.schema.equals(first) for b in batches):
        batches = _alike(batches)
    return pa.concat_batches(batches)


def _alike(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of the same columns with each column encoded in all of them or in none."""
    columns = [_alike_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    fields = [f.with_type(parts[0].type) for f, parts in zip(batches[0].schema, columns, strict=True)]
    schema = pa.schema(fields)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*columns, strict=True)]


def _alike_arrays(parts: Sequence[pa.Array]) -> Sequence[pa.Array]:
    encoded = [a for a in parts if pa.types.is_dictionary(a.type)]
    if len(encoded) in (0, len(parts)):
        return parts
    rows, values = sum(map(len, encoded)), sum(len(a.dictionary) for a in encoded)
    others = sum(map(len, parts)) - rows
    if others * _MOST <= rows and values * _MOST <= rows:
        return [a if pa.types.is_dictionary(a.type) else a.dictionary_encode() for a in parts]
    return [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in parts]


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionary-encoded columns."""
    if not any(pa.types.is_dictionary(t) for t in batch.schema.types):
        return batch
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    fields = [f.with_type(c.type) for f, c in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def kinds_of(rows: pa.RecordBatch) -> np.ndarray:
    """int8 kinds of kv rows."""
    return rows.column(KIND).to_numpy(zero_copy_only=False)


def without_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without −U and −D."""
    gone = rowkind.retracts(kinds_of(rows))
    return rows.filter(pa.array(~gone)) if gone.any() else rows
