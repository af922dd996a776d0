"""nested_update and nested_partial_update: an ARRAY of ROWs as a table inside a row.

Like all lists (`lists`): elements are numbers, keys are codes; keys whose rows only add are folded all at
once, the others in turns. A row that is combined from several is a new element. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.aggregators.flat import Flat, combined
from tablestore.lsm.merge.aggregators.lists import (
    NO_CODES,
    ListStep,
    assembled,
    elements_of,
    folded,
    identities,
)
from tablestore.lsm.merge.walk import RETRACT, Failures, Walk

_ENDLESS = 2**31 - 1


@dataclass(slots=True)
class _Usable:
    """Which rows count: those that are not NULL and, unless NULL keys merge, have no NULL in their key;
    `refused` collects rows whose key may not be NULL."""

    there: np.ndarray
    has_null: np.ndarray
    null_keys: str = "merge"
    refused: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def by_key(cls, rows: pa.Array, key: Sequence[int], null_keys: str) -> tuple[np.ndarray, _Usable]:
        """(a code for the key of each row, which rows count)."""
        fields = rows.flatten()
        parts = [identities(fields[i]) for i in key]
        nulls = np.zeros(len(rows), dtype=bool)
        for part in parts:
            nulls |= part == -1
        return combined(parts), cls(rows.is_valid().to_numpy(zero_copy_only=False), nulls, null_keys)

    def of(self, flat: Flat) -> Flat:
        """The usable ones of these rows; notes the refused ones."""
        flat = flat.at(self.there[flat.numbers])
        if self.null_keys == "merge":
            return flat
        bad = self.has_null[flat.numbers]
        if self.null_keys == "error":
            self.refused.append(flat.numbers[bad])
        return flat.at(~bad)

    def note_failures(self, failures: Failures, name: str, lists: pa.Array, walk: Walk) -> None:
        """Add the groups with refused rows to `failures`; `lists` are those of the walk's positions."""
        rows = np.concatenate([NO_CODES, *self.refused])
        if len(rows):
            places = (
                np.searchsorted(lists.offsets.to_numpy() - lists.offsets[0].as_py(), rows, side="right") - 1
            )
            failures.add_all(
                np.unique(walk.group_of[places]),
                name,
                "a nested key is NULL, and nested-key-null-strategy = error",
            )


@dataclass(frozen=True, slots=True)
class NestedUpdate:
    """ARRAY of ROWs as a table: with `key` fields the newer row of a key wins (by `sequence` fields if there
    are any), without them rows are added; a retract removes rows of its keys, or equal rows."""

    key: tuple[int, ...] = ()
    sequence: tuple[int, ...] = ()
    limit: int = _ENDLESS
    null_keys: str = "merge"

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""
        lists = column.take(pa.array(walk.rows))
        rows = elements_of(lists)
        if self.key:
            codes, usable = _Usable.by_key(rows, self.key, self.null_keys)
            kept, some = folded(lists, walk, _KeyedTable(codes, usable, self._order(rows, t), self.limit))
            usable.note_failures(failures, name, lists, walk)
        else:
            codes = identities(rows) if (walk.actions == RETRACT).any() else NO_CODES
            there = rows.is_valid().to_numpy(zero_copy_only=False)
            kept, some = folded(lists, walk, _NestedRows(codes, there, self.limit))
        return assembled(column.type, rows, kept, some)

    def _order(self, rows: pa.Array, t: DataType) -> np.ndarray | None:
        if not self.sequence:
            return None
        fields = rows.flatten()
        types = [t.element.children[i].type for i in self.sequence]
        return keys.order_codes([fields[i] for i in self.sequence], types)


@dataclass(frozen=True, slots=True)
class _NestedRows(ListStep):
    codes: np.ndarray
    there: np.ndarray
    limit: int

    def keep(self, flat: Flat) -> Flat:
        """The rows up to the limit; a table that is full stays unchanged."""
        sizes = np.bincount(flat.groups[flat.begins], minlength=flat.groups.max(initial=-1) + 1)
        room = (self.limit - sizes)[flat.groups]
        accumulated = flat.begins & (self.there[flat.numbers] | (room <= 0))
        added = ~flat.begins & self.there[flat.numbers]
        flat, accumulated, room = (
            flat.at(accumulated | added),
            *(x[accumulated | added] for x in (accumulated, room)),
        )
        before = np.bincount(flat.groups[accumulated], minlength=len(sizes))[flat.groups]
        return flat.at(accumulated | (flat.ranks() - before < room))

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        there = accumulated.at(self.there[accumulated.numbers])
        return there.without(input.at(self.there[input.numbers]), self.codes)


@dataclass(frozen=True, slots=True)
class _KeyedTable(ListStep):
    codes: np.ndarray
    usable: _Usable
    order: np.ndarray | None
    limit: int

    def keep(self, flat: Flat) -> Flat:
        """Of each key the last row, or the last of those with the greatest order; no new keys beyond the
        limit."""
        flat = self.usable.of(flat)
        order, starts = flat.sorted_by(self.codes)
        if not len(order):
            return flat
        if self.order is None:
            chosen = order[np.append(starts[1:], len(order)) - 1]
        else:
            pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
            ranks = self.order[flat.numbers][order]
            best = ranks == np.maximum.reduceat(ranks, starts)[pair]
            chosen = order[np.maximum.reduceat(np.where(best, np.arange(len(order)), -1), starts)]
        came = np.argsort(order[starts], kind="stable")  # keys in the order in which they came
        chosen, first = chosen[came], flat.at(order[starts][came])
        return flat.at(chosen[first.begins | (first.ranks() < self.limit)])

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        return self.usable.of(accumulated).lasts(self.codes).without(self.usable.of(input), self.codes)


@dataclass(frozen=True, slots=True)
class NestedPartialUpdate:
    """ARRAY of ROWs as a table with `key` fields: in the row of a key each field keeps its newest value that
    is not NULL."""

    key: tuple[int, ...]
    null_keys: str = "merge"

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""
        lists = column.take(pa.array(walk.rows))
        rows = elements_of(lists)
        fields = rows.flatten()
        codes, usable = _Usable.by_key(rows, self.key, self.null_keys)
        valid = [f.is_valid().to_numpy(zero_copy_only=False) for f in fields]
        picks = np.stack([np.where(v, np.arange(len(rows)), -1) for v in valid], axis=1)
        step = _Combining(codes, usable, picks)
        kept, some = folded(lists, walk, step)
        usable.note_failures(failures, name, lists, walk)
        combined_picks = step.picks[len(rows) :]
        arrays = [
            pa.concat_arrays([f, f.take(pa.array(combined_picks[:, n], mask=combined_picks[:, n] < 0))])
            for n, f in enumerate(fields)
        ]
        mask = pa.array(~usable.there)
        return assembled(
            column.type, pa.StructArray.from_arrays(arrays, fields=list(rows.type), mask=mask), kept, some
        )


@dataclass(slots=True)
class _Combining(ListStep):
    """Combines rows into new elements: `picks` has, for each field of each element, the element of the column
    that its value comes from, −1 for NULL."""

    codes: np.ndarray
    usable: _Usable
    picks: np.ndarray

    def keep(self, flat: Flat) -> Flat:
        """A row for each key, with the last value of every field that is not NULL."""
        flat = self.usable.of(flat)
        order, starts = flat.sorted_by(self.codes)
        if not len(starts):
            return flat
        numbers, places = flat.numbers[order], np.arange(len(order))
        new_picks = np.empty((len(starts), self.picks.shape[1]), dtype=np.int64)
        for n, sources in enumerate(self.picks.T):
            last = np.maximum.reduceat(np.where(sources[numbers] >= 0, places, -1), starts)
            new_picks[:, n] = np.where(last < 0, -1, sources[numbers[last]])
        first_new, one_by_one = len(self.picks), numbers[starts]
        self.picks = np.concatenate([self.picks, new_picks])
        self.codes = np.append(self.codes, self.codes[one_by_one])
        self.usable.there = np.append(self.usable.there, np.ones(len(starts), dtype=bool))
        self.usable.has_null = np.append(self.usable.has_null, self.usable.has_null[one_by_one])
        return Flat(
            first_new + np.arange(len(starts)), flat.groups[order[starts]], np.zeros(len(starts), bool)
        )
