"""Merge engine partial-update: newer values that are not NULL replace older ones (FORMAT.md 11.4).

A sequence group is a set of columns that one or more sequence columns guard: only rows whose sequence is not
smaller than the current one change them, and then NULL counts too. A row whose sequence is NULL leaves the
group unchanged. Columns of a group may aggregate, then late rows count as older ones.

    row            column outside    in a group: plain, aggregated, its sequence
    add            newer if no NULL  wins: replaced, newer, taken     late: −, older, −
    retract        −                 wins: NULL, retracted, taken     late: −, retracted, −
    −D, removing   the row is reset to its values, and removed if nothing follows

A retract as the first row of a key starts the row with its values. Without groups retracts need an option.
The result is +I with the last row's sequence number; −D if no row adds. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import SEQUENCE
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.aggregation import MergedGroups, MergeOutcome
from tablestore.lsm.merge.aggregators.choose import LastNonNullValue, LastValue, present
from tablestore.lsm.merge.functions import LAST_NON_NULL, Aggregator, aggregator, function_name
from tablestore.lsm.merge.groups import Groups, SequenceOrder, kinds_of
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Walk

RETRACT_CHOICES = (
    "merge-engine partial-update takes no -U or -D rows here; set 'ignore-delete' to drop them, "
    "'partial-update.remove-record-on-delete' to remove rows, or sequence groups to retract their columns"
)


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """`fields.<sequence>.sequence-group = <guarded>`; `removes`: a −D of this group removes the row."""

    sequence: tuple[DataField, ...]
    guarded: tuple[str, ...]
    removes: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Its sequence columns."""
        return tuple(f.name for f in self.sequence)


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """Columns merged by presence, sequence groups and functions."""

    schema: TableSchema
    groups: tuple[SequenceGroup, ...]
    functions: Mapping[str, Aggregator]
    ignore_delete: bool
    removes: bool
    sequence: SequenceOrder
    tolerant: bool = False

    @classmethod
    def of(
        cls, schema: TableSchema, options: TableOptions, sequence: SequenceOrder, *, tolerant: bool = False
    ) -> PartialUpdate:
        """The engine of a table; raises InvalidOption for options that do not fit."""
        groups = sequence_groups(schema, options)
        guarded = {name for group in groups for name in group.guarded}
        sequences = {name for group in groups for name in group.names}
        functions = {}
        for field in schema.fields:
            name = function_name(schema.options, field.name)
            if name is None or field.name in sequences or field.name in schema.primary_keys:
                continue
            if name != LAST_NON_NULL and field.name not in guarded:
                raise InvalidOption(
                    f"aggregate function {name!r} of column {field.name!r} needs a sequence group: "
                    f"'fields.<sequence column>.sequence-group' = '{field.name},…'"
                )
            functions[field.name] = aggregator(field, name, schema.options)
        removing = "partial-update.remove-record-on-delete"
        clashes = {
            ("ignore-delete", removing): options.ignore_delete and options.partial_update_removes,
            ("ignore-delete", "partial-update.remove-record-on-sequence-group"): options.ignore_delete
            and bool(options.partial_update_removing_groups),
            ("fields.….sequence-group", removing): bool(groups) and options.partial_update_removes,
        }
        for (option, other), both in clashes.items():
            if both:
                raise InvalidOption(f"options {option!r} and {other!r} exclude each other")
        removes = options.partial_update_removes
        return cls(schema, groups, functions, options.ignore_delete, removes, sequence, tolerant)

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read for `names`: those that order rows, guard these columns or remove rows."""
        asked = tuple(names)
        guards = [
            name
            for g in self.groups
            if g.removes or not {*g.names, *g.guarded}.isdisjoint(asked)
            for name in g.names
        ]
        return tuple(dict.fromkeys((*asked, *self.sequence.names, *guards)))

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Columns whose function may refuse rows, and those that must hold a value."""
        may = {name for name, function in self.functions.items() if function.may_refuse}
        may |= {f.name for f in self.schema.fields if not f.type.nullable}
        return tuple(n for n in self.columns(names) if n in may)

    def last_non_null(self) -> tuple[str, ...]:
        """Columns that keep their value where a newer row has NULL: those outside every group."""
        inside = {name for g in self.groups for name in (*g.names, *g.guarded)}
        inside.update(self.schema.primary_keys)
        return tuple(f.name for f in self.schema.fields if f.name not in inside)

    def hidden_nulls(self) -> dict[str, str]:
        """Columns that do not become NULL where an update says so, with what happens to them instead."""
        kept = {name: f"keeps the old value of {name!r}" for name in self.last_non_null()}
        return kept | {n: f.hidden_null for n, f in self.functions.items() if f.hidden_null is not None}

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """One row a key."""
        return self.outcome(rows, groups).batch(self.schema, tolerant=self.tolerant)

    def outcome(self, rows: pa.RecordBatch, groups: Groups) -> MergeOutcome:
        """The final value of each column of each key, before rows are made of them."""
        merged = MergedGroups.of(groups)
        if len(merged.which):
            merged = _starting_rows_twice(merged, kinds_of(rows)) if self.groups else merged
        outcome = MergeOutcome.last_rows(rows, merged)
        if len(merged.which):
            self._fold(rows, merged, outcome)
        return outcome

    def _fold(self, rows: pa.RecordBatch, merged: MergedGroups, outcome: MergeOutcome) -> None:
        walk = merged.walk
        kinds = kinds_of(rows)[walk.rows]
        taken = rowkind.retracts(kinds)
        first = np.zeros(len(taken), dtype=bool)
        first[walk.starts] = True
        starts_anew = first & taken
        removed = np.zeros(len(taken), dtype=bool)
        if self.groups:
            guards = _Guards.of(self, rows, walk, kinds, starts_anew)
            removed = guards.removed
        elif self.removes:
            removed = kinds == rowkind.DELETE
        elif not self.ignore_delete:
            outcome.failures.add_all(np.flatnonzero(walk.any(taken)), "*", RETRACT_CHOICES)
        plain = np.where(starts_anew | removed, SET, np.where(taken, SKIP, ADD))
        self._outside(rows, walk.acting(plain), outcome)
        for number, group in enumerate(self.groups):
            self._inside(rows, walk, guards, number, group, outcome)
        self._require_values(rows, walk, plain, outcome)
        self._finish(rows, walk, taken, removed, outcome)

    def _outside(self, rows: pa.RecordBatch, walk: Walk, outcome: MergeOutcome) -> None:
        """Fold the columns outside every group: each keeps its newest value that is not NULL."""
        for name in self.last_non_null():
            if name in rows.schema.names:
                outcome.choose(self.schema.by_name[name], LastNonNullValue(), walk)

    def _inside(
        self,
        rows: pa.RecordBatch,
        walk: Walk,
        guards: _Guards,
        number: int,
        group: SequenceGroup,
        outcome: MergeOutcome,
    ) -> None:
        """Fold the columns of one group, and its sequence."""
        sequence = walk.acting(guards.sequence_actions(number))
        plain = walk.acting(guards.plain_actions(number))
        functions = walk.acting(guards.function_actions(number))
        for name in (*group.names, *group.guarded):
            if name not in rows.schema.names:
                continue
            column, field = rows.column(name), self.schema.by_name[name]
            function = self.functions.get(name)
            if name in group.names:
                outcome.choose(field, LastValue(), sequence)
            elif function is None:
                outcome.choose(field, LastValue(), plain)
            else:
                if not function.takes_retracts:
                    refused = walk.any(functions.actions == RETRACT)
                    outcome.failures.add_all(np.flatnonzero(refused), name, function.remedy)
                outcome.apply(function, column, functions)

    def _require_values(
        self, rows: pa.RecordBatch, walk: Walk, plain: np.ndarray, outcome: MergeOutcome
    ) -> None:
        """Note an error for a NULL in a NOT NULL column, from a writer that did not check."""
        for field in self.schema.fields:
            if field.type.nullable or field.name not in rows.schema.names:
                continue
            column = rows.column(field.name)
            if not column.null_count:
                continue
            looked_at = (plain == SET) | ((plain == ADD) & (not self.groups))
            missing = looked_at & ~present(column, walk.rows)
            groups = np.flatnonzero(walk.any(missing))
            outcome.failures.add_all(groups, field.name, f"NULL in a column of type {field.type}")

    def _finish(
        self, rows: pa.RecordBatch, walk: Walk, taken: np.ndarray, removed: np.ndarray, outcome: MergeOutcome
    ) -> None:
        """Row kinds and sequence numbers."""
        last = walk.ends - 1
        gone = removed[last] | ~walk.any(~taken)
        outcome.kinds = np.where(gone, rowkind.DELETE, rowkind.INSERT)
        if self.ignore_delete and taken.any():
            numbers = rows.column(SEQUENCE).to_numpy(zero_copy_only=False)
            counted = walk.last(~taken)
            outcome.sequences = np.where(counted < 0, 0, numbers[walk.rows[counted]])


def _starting_rows_twice(merged: MergedGroups, kinds: np.ndarray) -> MergedGroups:
    """The groups with a retract that is the first row of its key twice: it starts the row and retracts."""
    walk = merged.walk
    twice = rowkind.retracts(kinds[walk.rows[walk.starts]])
    if not twice.any():
        return merged
    rows = np.insert(walk.rows, walk.starts[twice], walk.rows[walk.starts[twice]])
    starts = walk.starts + np.concatenate([[0], np.cumsum(twice)[:-1]])
    return MergedGroups(merged.groups, merged.which, Walk(rows, starts, np.zeros(len(rows), dtype=np.int8)))


@dataclass(frozen=True, slots=True)
class _Guards:
    """What each row is to each sequence group (unchanged, late, winning), and whether it removes the row."""

    taken: np.ndarray
    starts_anew: np.ndarray
    removed: np.ndarray
    has_sequence: tuple[np.ndarray, ...]
    wins: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, engine: PartialUpdate, rows: pa.RecordBatch, walk: Walk, kinds: np.ndarray, starts: np.ndarray
    ) -> _Guards:
        taken = rowkind.retracts(kinds)
        has_sequence, codes = [], []
        for group in engine.groups:
            there, numbers = _sequence_codes(rows, group, walk.rows)
            has_sequence.append(there if not engine.ignore_delete else there & ~taken)
            codes.append(numbers)
        removers = [n for n, g in enumerate(engine.groups) if g.removes and g.names[0] in rows.schema.names]
        deletes = (kinds == rowkind.DELETE) & (not engine.ignore_delete)
        wins, removed = _winners(walk, codes, has_sequence, removers, deletes, starts)
        return cls(taken, starts & ~removed, removed, tuple(has_sequence), wins)

    def sequence_actions(self, number: int) -> np.ndarray:
        """What the rows do to a group's sequence."""
        return self._started(np.where(self.has_sequence[number] & self.wins[number], ADD, SKIP))

    def plain_actions(self, number: int) -> np.ndarray:
        """What the rows do to a guarded column without a function: winners replace it, winning retracts clear
        it."""
        won = self.has_sequence[number] & self.wins[number]
        return self._started(np.where(won, np.where(self.taken, RETRACT, ADD), SKIP))

    def function_actions(self, number: int) -> np.ndarray:
        """What the rows do to a guarded column with a function: late ones count as well."""
        has_sequence, wins = self.has_sequence[number], self.wins[number]
        adds = np.where(wins, ADD, OLDER)
        return self._started(np.where(has_sequence, np.where(self.taken, RETRACT, adds), SKIP))

    def _started(self, actions: np.ndarray) -> np.ndarray:
        return np.where(self.removed | self.starts_anew, SET, actions)


def _sequence_codes(
    rows: pa.RecordBatch, group: SequenceGroup, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(whether a row has a sequence for the group, a code from 1 on that orders it, NULL first)."""
    if group.names[0] not in rows.schema.names:
        return np.zeros(len(places), dtype=bool), np.zeros(len(places), dtype=np.int64)
    columns = [rows.column(name) for name in group.names]
    there = np.zeros(len(places), dtype=bool)
    for column in columns:
        there |= present(column, places)
    index = pa.array(places)
    taken = [column.take(index) for column in columns]
    codes = keys.order_codes(taken, [f.type for f in group.sequence])
    low = int(codes.min(initial=0))
    if (int(codes.max(initial=0)) - low + 2) * (len(codes) + 1) < 2**62:
        return there, codes - low + 1
    return there, np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1


def _winners(
    walk: Walk,
    codes: list[np.ndarray],
    has_sequence: list[np.ndarray],
    removers: list[int],
    deletes: np.ndarray,
    starts: np.ndarray,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """(for each sequence group whether a row's sequence is at least the current one, which rows remove)."""
    removed = np.zeros(len(walk.rows), dtype=bool)
    if len(removers) > 1 and deletes.any():
        return _winners_in_turn(walk, codes, has_sequence, removers, deletes)
    for n in removers:
        removed = _not_below(walk, codes[n], has_sequence[n], starts) & has_sequence[n] & deletes
    anew = removed | starts
    return tuple(_not_below(walk, c, g, anew) for c, g in zip(codes, has_sequence, strict=True)), removed


def _not_below(walk: Walk, codes: np.ndarray, has_sequence: np.ndarray, anew: np.ndarray) -> np.ndarray:
    """Whether each code is at least the greatest before it, counting from the last row that resets."""
    begins = anew.copy()
    begins[walk.starts] = True
    part = np.cumsum(begins)
    current = np.where(has_sequence | anew, codes, 0)
    span = int(codes.max(initial=0)) + 1
    return current >= np.maximum.accumulate(part * span + current) - part * span


def _winners_in_turn(
    walk: Walk,
    codes: list[np.ndarray],
    has_sequence: list[np.ndarray],
    removers: list[int],
    deletes: np.ndarray,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """`_winners` row by row over all keys at once, where more than one group removes rows: each affects the
    others."""
    removed = np.zeros(len(walk.rows), dtype=bool)
    wins = [np.zeros(len(walk.rows), dtype=bool) for _ in codes]
    current = np.zeros((len(codes), len(walk.starts)), dtype=np.int64)
    for groups, places in walk.rounds():
        for n, numbers in enumerate(codes):
            wins[n][places] = numbers[places] >= current[n, groups]
        gone = np.zeros(len(places), dtype=bool)
        for n in removers:
            gone |= deletes[places] & has_sequence[n][places] & wins[n][places]
        removed[places] = gone
        for n, numbers in enumerate(codes):
            taken = gone | (has_sequence[n][places] & wins[n][places])
            current[n, groups] = np.where(taken, numbers[places], current[n, groups])
    return tuple(wins), removed


def sequence_groups(schema: TableSchema, options: TableOptions) -> tuple[SequenceGroup, ...]:
    """The groups that the options of a table define; raises InvalidOption naming what does not fit."""
    groups: list[SequenceGroup] = []
    used: dict[str, str] = {}
    for key, value in schema.options.items():
        if not (key.startswith("fields.") and key.endswith(".sequence-group")):
            continue
        sequence = _columns(schema, key, key[len("fields.") : -len(".sequence-group")])
        guarded = _columns(schema, key, value)
        for name in (*sequence, *guarded):
            if used.setdefault(name, key) != key:
                raise InvalidOption(f"column {name!r} is in two sequence groups: {used[name]!r} and {key!r}")
        removes = not set(sequence).isdisjoint(options.partial_update_removing_groups)
        groups.append(SequenceGroup(schema.columns(sequence), guarded, removes))
    sequences = {name for group in groups for name in group.names}
    for name in options.partial_update_removing_groups:
        if name not in sequences:
            key = "partial-update.remove-record-on-sequence-group"
            raise InvalidOption(f"option {key!r} names {name!r}, which is the sequence of no group")
    return tuple(groups)


def _columns(schema: TableSchema, key: str, text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in schema.by_name:
            raise InvalidOption(f"option {key!r} names {name!r}, which is not a column")
        if name in schema.primary_keys:
            raise InvalidOption(f"option {key!r} names {name!r}: primary keys cannot be in a sequence group")
    return names
