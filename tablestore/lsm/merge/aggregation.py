"""Merge engine aggregation: every column outside the key has a function of its own (FORMAT.md 11.5).

`sequence.field` columns keep the last value, the others what `fields.<column>.aggregate-function` says, else
the default function, else last_non_null_value. −U and −D rows retract, column by column; with
`aggregation.remove-record-on-delete` a −D resets the row to its own values, and removes the row if it is the
last. The result is +I with the last row's sequence number. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge.functions import LAST_NON_NULL, Aggregator, aggregator, function_name
from tablestore.lsm.merge.groups import Groups, SequenceOrder, kinds_of
from tablestore.lsm.merge.result import MergedGroups, MergeOutcome
from tablestore.lsm.merge.walk import ADD, RETRACT, SET


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
        for field in schema.fields:
            if field.name in schema.primary_keys and field.name not in options.sequence_fields:
                continue
            name = function_name(schema.options, field.name) or LAST_NON_NULL
            name = "last_value" if field.name in options.sequence_fields else name
            functions.append(aggregator(field, name, schema.options))
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
