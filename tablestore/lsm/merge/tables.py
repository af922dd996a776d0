"""nested_update and nested_partial_update: an ARRAY of ROWs as a table inside a row.

Like all lists (`lists`): elements are numbers, keys are codes; keys whose rows only add are folded all at
once, the others, and those with a limit, row by row. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType
from tablestore.lsm import keys
from tablestore.lsm.merge.flat import Flat, combined
from tablestore.lsm.merge.lists import (
    NO_CODES,
    Elements,
    Refused,
    Step,
    assembled,
    elements_of,
    flat_of,
    fold_lists,
    identities,
    walked,
    walks_alone,
)
from tablestore.lsm.merge.walk import RETRACT, Failures, Walk

_ENDLESS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NestedUpdate:
    """ARRAY of ROWs as a table: with `key` fields the newer row of a key wins (by `sequence` fields if
    given), without them rows are added; a retract takes out rows of its keys, or equal rows."""

    key: tuple[int, ...] = ()
    sequence: tuple[int, ...] = ()
    limit: int = _ENDLESS
    null_keys: str = "merge"

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""

        def make(rows: pa.Array) -> Step:
            there = rows.is_valid().to_numpy(zero_copy_only=False)
            if not self.key:
                codes = identities(rows) if (walk.actions == RETRACT).any() else NO_CODES
                return _Table(codes, there, self.limit)
            return _KeyedTable(
                *_key_codes(rows, self.key), there, self._order(rows, t), self.limit, self.null_keys
            )

        return fold_lists(name, column, walk, failures, make)

    def _order(self, rows: pa.Array, t: DataType) -> np.ndarray | None:
        if not self.sequence:
            return None
        fields = rows.flatten()
        types = [t.element.children[i].type for i in self.sequence]
        return keys.order_codes([fields[i] for i in self.sequence], types)


def _key_codes(rows: pa.Array, key: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """A code for the key of each row, and whether the key holds a NULL."""
    fields = rows.flatten()
    parts = [identities(fields[i]) for i in key]
    nulls = np.zeros(len(rows), dtype=bool)
    for part in parts:
        nulls |= part == -1
    return combined(parts), nulls


@dataclass(frozen=True, slots=True)
class _Table:
    codes: np.ndarray
    there: np.ndarray
    limit: int
    late_first: bool = True
    late_alone: bool = True
    all_alone: bool = False

    def keep(self, flat: Flat) -> Flat:
        return flat.at(self.there[flat.numbers]).within(self.limit)

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if given is None or (held is not None and len(held) >= self.limit):
            return held
        room = self.limit - len(held or ())
        return [*self._rows(held), *self._rows(given)[:room]]

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if held is None or given is None:
            return held
        gone = {self.codes[i] for i in self._rows(given)}
        return [i for i in self._rows(held) if self.codes[i] not in gone]

    def _rows(self, rows: Elements | None) -> Elements:
        return [i for i in rows or () if self.there[i]]


@dataclass(frozen=True, slots=True)
class _KeyedTable:
    codes: np.ndarray
    has_null: np.ndarray
    there: np.ndarray
    order: np.ndarray | None
    limit: int
    null_keys: str
    late_first: bool = True
    late_alone: bool = True

    @property
    def all_alone(self) -> bool:
        """Where a limit, or a key that must not hold NULL, makes a row decide about others."""
        return self.limit < _ENDLESS or (self.null_keys == "error" and bool(self.has_null.any()))

    def counting(self, flat: Flat) -> Flat:
        """Rows that are there and whose key may be used."""
        usable = self.there[flat.numbers]
        return flat.at(usable if self.null_keys == "merge" else usable & ~self.has_null[flat.numbers])

    def keep(self, flat: Flat) -> Flat:
        """Of each key the last row, or the last of those with the greatest order."""
        flat = self.counting(flat)
        if self.order is None:
            return flat.lasts(self.codes)
        order, starts = flat.sorted_by(self.codes)
        if not len(order):
            return flat
        pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        ranks = self.order[flat.numbers][order]
        best = ranks == np.maximum.reduceat(ranks, starts)[pair]
        last = np.maximum.reduceat(np.where(best, np.arange(len(order)), -1), starts)
        return flat.at(np.sort(order[last]))

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if given is None:
            return held
        found: dict[int, int] = {}
        for i in self.usable(held):
            self._put(found, i, limited=False)
        for i in self.usable(given):
            self._put(found, i, limited=True)
        return list(found.values())

    def _put(self, found: dict[int, int], i: int, *, limited: bool) -> None:
        known = found.get(self.codes[i])
        if known is None:
            if not limited or len(found) < self.limit:
                found[self.codes[i]] = i
        elif self.order is None or self.order[i] >= self.order[known]:
            found[self.codes[i]] = i

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if held is None or given is None:
            return held
        gone = {self.codes[i] for i in self.usable(given)}
        return list({self.codes[i]: i for i in self.usable(held) if self.codes[i] not in gone}.values())

    def usable(self, rows: Elements | None) -> Iterable[int]:
        """Rows that are there and whose key may be used."""
        for i in rows or ():
            if not self.there[i]:
                continue
            if self.has_null[i] and self.null_keys != "merge":
                if self.null_keys == "error":
                    raise Refused("a nested key is NULL, and nested-key-null-strategy = error")
                continue
            yield i


@dataclass(frozen=True, slots=True)
class NestedPartialUpdate:
    """ARRAY of ROWs as a table with `key` fields: of each key every field keeps its newest value that is not
    NULL."""

    key: tuple[int, ...]
    null_keys: str = "merge"

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group.

        A row of the result may take its fields from several rows, so an element is a combination: rows are
        collected first, then each field takes its own.
        """
        lists = column.take(pa.array(walk.rows))
        elements = elements_of(lists)
        fields = elements.flatten()
        there = elements.is_valid().to_numpy(zero_copy_only=False)
        table = _KeyedTable(*_key_codes(elements, self.key), there, None, _ENDLESS, self.null_keys)
        valid = [f.is_valid().to_numpy(zero_copy_only=False) for f in fields]
        alone = walks_alone(walk, table)
        flat, some = flat_of(lists, walk, alone, late_first=True)
        kept, at_once = _newest_fields(table.counting(flat), table.codes, valid)
        kept = Flat(kept.numbers + len(elements), kept.groups, kept.begins)
        combined: list[list[int]] = []  # of each row that was walked, the element each field is taken from
        step = _Combining(table, valid, combined, len(elements), len(elements) + len(at_once))
        found = walked(name, lists, walk, failures, step, np.flatnonzero(alone)) if alone.any() else {}
        one_by_one = np.array(combined, dtype=np.int64).reshape(len(combined), len(fields))
        picks = np.concatenate([at_once, one_by_one])
        arrays = [
            pa.concat_arrays([f, f.take(pa.array(picks[:, n], mask=picks[:, n] < 0))])
            for n, f in enumerate(fields)
        ]
        mask = pa.array(np.concatenate([~there, np.zeros(len(picks), dtype=bool)]))
        rows = pa.StructArray.from_arrays(arrays, fields=list(elements.type), mask=mask)
        return assembled(column.type, rows, kept, some, found)


def _newest_fields(flat: Flat, codes: np.ndarray, valid: Sequence[np.ndarray]) -> tuple[Flat, np.ndarray]:
    """A row of the result for each key of each group, numbered from 0 on, and of each the element that every
    field is taken from: the last one where it is not NULL, −1 if there is none."""
    order, starts = flat.sorted_by(codes)
    groups = flat.groups[order[starts]]
    made = Flat(np.arange(len(starts)), groups, np.zeros(len(starts), dtype=bool))
    if not len(starts):
        return made, np.zeros((0, len(valid)), dtype=np.int64)
    numbers, places = flat.numbers[order], np.arange(len(order))
    lasts = [np.maximum.reduceat(np.where(v[numbers], places, -1), starts) for v in valid]
    return made, np.stack([np.where(at < 0, -1, numbers[at]) for at in lasts], axis=1)


@dataclass(frozen=True, slots=True)
class _Combining:
    table: _KeyedTable
    valid: list[np.ndarray]
    combined: list[list[int]]
    elements: int
    first: int  # the number of the first row that is combined here
    late_first: bool = True

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if given is None:
            return held
        found: dict[int, list[int]] = {}
        for i in (*(held or ()), *given):
            picks = self._picks(i)
            if picks is None:
                continue
            into = found.setdefault(self._code(i), [-1] * len(self.valid))
            for n, source in enumerate(picks):
                if source >= 0 and self.valid[n][source]:
                    into[n] = source
        made = []
        for picks in found.values():
            made.append(self.first + len(self.combined))
            self.combined.append(picks)
        return made

    def _picks(self, i: int) -> list[int] | None:
        """The element each field of this row is taken from; None for a row that does not count."""
        if i >= self.elements:
            return self.combined[i - self.first]
        return [i] * len(self.valid) if any(True for _ in self.table.usable([i])) else None

    def _code(self, i: int) -> int:
        """The code of the key: that of any element the row was made of."""
        if i < self.elements:
            return self.table.codes[i]
        picks = self.combined[i - self.first]
        return self.table.codes[next(p for p in picks if p >= 0)]

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        raise Refused("nested_partial_update takes no retracts")
