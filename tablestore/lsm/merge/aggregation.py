"""Merge engine aggregation: every column outside the key has a function of its own (FORMAT.md 11.5); and the
result batch of engines that compute, from the final value of each column.

`sequence.field` columns keep the last value, the others what `fields.<column>.aggregate-function` says, else
the default function, else last_non_null_value. −U and −D rows retract, column by column; with
`aggregation.remove-record-on-delete` a −D resets the row to its own values, and removes the row if it is the
last. The result is +I with the last row's sequence number.

Single rows pass unchanged. A key that cannot be merged is an error that names it, or, for reads with the
option, left out. Pure. Memory: the gathered rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CannotMerge
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.merge.functions import (
    LAST_NON_NULL,
    Aggregator,
    ChoosingAggregator,
    aggregator,
    function_name,
)
from tablestore.lsm.merge.groups import Groups, SequenceOrder, kinds_of, take
from tablestore.lsm.merge.walk import ADD, RETRACT, SET, Failures, Walk

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergedGroups:
    """The groups that are merged: their numbers, and a walk over their rows without actions yet."""

    groups: Groups
    which: np.ndarray
    walk: Walk

    @classmethod
    def of(cls, groups: Groups) -> MergedGroups:
        """The groups of `groups` with more than one row, and those that are merged with a single row."""
        lengths = groups.ends - groups.starts
        merged = (lengths > 1) | groups.alone
        which = np.flatnonzero(merged)
        rows = groups.order
        if len(which) < len(lengths):
            rows = rows[np.repeat(merged, lengths)]
        starts = np.concatenate([[0], np.cumsum(lengths[which])[:-1]]) if len(which) else which
        return cls(groups, which, Walk(rows, starts.astype(np.int64), np.zeros(len(rows), dtype=np.int8)))


@dataclass(slots=True)
class MergeOutcome:
    """The final values of the groups of more than one row; columns not named keep their last row's value.

    `walks` is what each row did to each column, for explanations of a merge.
    """

    rows: pa.RecordBatch
    merged: MergedGroups
    kinds: np.ndarray
    sequences: np.ndarray
    failures: Failures
    chosen: dict[str, np.ndarray]
    folded: dict[str, pa.Array]
    walks: dict[str, Walk] = field(default_factory=dict)

    @classmethod
    def last_rows(cls, rows: pa.RecordBatch, merged: MergedGroups) -> MergeOutcome:
        """The outcome in which each group ends with its last row."""
        last = merged.walk.rows[merged.walk.ends - 1] if len(merged.which) else merged.which
        kinds = rows.column(KIND).to_numpy(zero_copy_only=False)[last]
        numbers = rows.column(SEQUENCE).to_numpy(zero_copy_only=False)[last]
        return cls(rows, merged, kinds, numbers, Failures(), {}, {})

    def choose(self, column: DataField, body: ChoosingAggregator, walk: Walk) -> None:
        """Set a column to the values that a choosing aggregator picks."""
        self.walks[column.name] = walk
        self.chosen[column.name] = body.choose(self.rows.column(column.name), column.type, walk)

    def apply(self, function: Aggregator, column: pa.Array, walk: Walk) -> None:
        """Set a column to the result of its aggregator."""
        name, t = function.field.name, function.field.type
        if function.ignores_retracts:
            walk = walk.without_retracts()
        if isinstance(function.body, ChoosingAggregator):
            self.choose(function.field, function.body, walk)
            return
        self.walks[name] = walk
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self.folded[name] = function.body.fold(name, column, t, walk, self.failures)

    def batch(self, schema: TableSchema, *, tolerant: bool) -> pa.RecordBatch:
        """One row a group. Raises CannotMerge for the first key that fails; with `tolerant` it is left
        out."""
        which, groups = self.merged.which, self.merged.groups
        last = groups.order[groups.ends - 1]
        columns = [self._column(name, last) for name in self.rows.schema.names]
        fields = [f.with_type(c.type) for f, c in zip(self.rows.schema, columns, strict=True)]
        merged = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        if not self.failures.notes:
            return merged
        if not tolerant:
            raise self._error(schema, merged)
        keep = np.ones(merged.num_rows, dtype=bool)
        keep[which[self.failures.groups]] = False
        log.warning(
            "%d keys cannot be merged and are left out: %s", int((~keep).sum()), self._error(schema, merged)
        )
        return merged.filter(pa.array(keep))

    def _column(self, name: str, last: np.ndarray) -> pa.Array:
        column, which = self.rows.column(name), self.merged.which
        if name in (SEQUENCE, KIND):
            values = column.to_numpy(zero_copy_only=False)[last].copy()
            values[which] = self.sequences if name == SEQUENCE else self.kinds
            return pa.array(values, column.type)
        if name in self.chosen:
            index = last.copy()
            index[which] = self.chosen[name]
            missing = index < 0
            return column.take(pa.array(index, mask=missing if missing.any() else None))
        if name in self.folded:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            index = last.copy()
            index[which] = len(column) + np.arange(len(which))
            return pa.concat_arrays([column, self.folded[name]]).take(pa.array(index))
        return column.take(pa.array(last))

    def _error(self, schema: TableSchema, result: pa.RecordBatch) -> CannotMerge:
        group = int(self.failures.groups[0])
        column, reason = self.failures.of(group)
        row = take(result, self.merged.which[group : group + 1])
        key = {f.name: row.column(f.name)[0].as_py() for f in schema.key_fields if f.name in row.schema.names}
        field = schema.by_name.get(column)
        return CannotMerge(column, key, reason, None if field is None else str(field.type))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Columns merged by their functions."""

    schema: TableSchema
    functions: tuple[Aggregator, ...]
    removes: bool
    sequence: SequenceOrder
    tolerant: bool = False

    @classmethod
    def of(
        cls, schema: TableSchema, options: TableOptions, sequence: SequenceOrder, *, tolerant: bool = False
    ) -> Aggregation:
        """The engine of a table; raises InvalidOption for functions that do not fit."""
        functions = []
        for column in schema.fields:
            if column.name in schema.primary_keys and column.name not in options.sequence_fields:
                continue
            name = function_name(schema.options, column.name) or LAST_NON_NULL
            name = "last_value" if column.name in options.sequence_fields else name
            functions.append(aggregator(column, name, schema.options))
        return cls(schema, tuple(functions), options.aggregation_removes, sequence, tolerant)

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read for `names`: those and the sequence fields."""
        return tuple(dict.fromkeys((*names, *self.sequence.names)))

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Columns whose function may refuse rows."""
        may = {f.field.name for f in self.functions if f.may_refuse}
        return tuple(n for n in self.columns(names) if n in may)

    def hidden_nulls(self) -> dict[str, str]:
        """Columns that do not become NULL where an update says so, with what happens to them instead."""
        return {f.field.name: f.hidden_null for f in self.functions if f.hidden_null is not None}

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """One row a key."""
        return self.outcome(rows, groups).batch(self.schema, tolerant=self.tolerant)

    def outcome(self, rows: pa.RecordBatch, groups: Groups) -> MergeOutcome:
        """The final value of each column of each key, before rows are made of them."""
        merged = MergedGroups.of(groups)
        outcome = MergeOutcome.last_rows(rows, merged)
        if len(merged.which):
            self._fold(rows, merged, outcome)
        return outcome

    def _fold(self, rows: pa.RecordBatch, merged: MergedGroups, outcome: MergeOutcome) -> None:
        walk = merged.walk
        kinds = kinds_of(rows)[walk.rows]
        taken = rowkind.retracts(kinds)
        removed = (kinds == rowkind.DELETE) & self.removes
        walk = walk.acting(np.where(removed, SET, np.where(taken, RETRACT, ADD)))
        refused = walk.any(taken & ~removed)
        for function in self.functions:
            if function.field.name not in rows.schema.names:
                continue
            if not function.takes_retracts and refused.any():
                outcome.failures.add_all(np.flatnonzero(refused), function.field.name, function.remedy)
            outcome.apply(function, rows.column(function.field.name), walk)
        last = walk.ends - 1
        outcome.kinds = np.where(removed[last], rowkind.DELETE, rowkind.INSERT)
