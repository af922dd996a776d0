"""nested_update and nested_partial_update: an ARRAY of ROWs as a table inside a row.

Like all lists (`lists`): elements are numbers, keys are codes, and keys with several rows are walked in
Python. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format.types import DataType
from tablestore.lsm import keys
from tablestore.lsm.merge.lists import (
    Elements,
    Refused,
    Step,
    assembled,
    combined_codes,
    elements_of,
    fold_lists,
    identities,
    walked,
)
from tablestore.lsm.merge.walk import Failures, Walk


@dataclass(frozen=True, slots=True)
class NestedUpdate:
    """ARRAY of ROWs as a table: with `key` fields the newer row of a key wins (by `sequence` fields if
    given), without them rows are added; a retract takes out rows of its keys, or equal rows."""

    key: tuple[int, ...] = ()
    sequence: tuple[int, ...] = ()
    limit: int = 2**31 - 1
    null_keys: str = "merge"

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""

        def make(rows: pa.Array) -> Step:
            there = rows.is_valid().to_pylist()
            if not self.key:
                return _Table(identities(rows).tolist(), there, self.limit)
            return _KeyedTable(
                *_key_codes(rows, self.key), there, self._order(rows, t), self.limit, self.null_keys
            )

        return fold_lists(name, column, walk, failures, make)

    def _order(self, rows: pa.Array, t: DataType) -> list[int] | None:
        if not self.sequence:
            return None
        fields = rows.flatten()
        types = [t.element.children[i].type for i in self.sequence]
        return keys.order_codes([fields[i] for i in self.sequence], types).tolist()


def _key_codes(rows: pa.Array, key: Sequence[int]) -> tuple[list[int], list[bool]]:
    """A code for the key of each row, and whether the key holds a NULL."""
    fields = rows.flatten()
    parts = [identities(fields[i]) for i in key]
    nulls = np.zeros(len(rows), dtype=bool)
    for part in parts:
        nulls |= part == -1
    return combined_codes(parts, len(rows)).tolist(), nulls.tolist()


@dataclass(frozen=True, slots=True)
class _Table:
    codes: list[int]
    there: list[bool]
    limit: int
    late_first: bool = True

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
    codes: list[int]
    has_null: list[bool]
    there: list[bool]
    order: list[int] | None
    limit: int
    null_keys: str
    late_first: bool = True

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
        table = _KeyedTable(
            *_key_codes(elements, self.key), elements.is_valid().to_pylist(), None, 2**31 - 1, self.null_keys
        )
        valid = [f.is_valid().to_pylist() for f in fields]
        combined: list[list[int]] = []  # of each row of the result, the element each field is taken from
        step = _Combining(table, valid, combined, len(elements))
        found = walked(name, lists, walk, failures, step)
        picks = np.array(combined, dtype=np.int64).reshape(len(combined), len(fields))
        arrays = [
            pa.concat_arrays([f, f.take(pa.array(picks[:, n], mask=picks[:, n] < 0))])
            for n, f in enumerate(fields)
        ]
        mask = pa.array([*elements.is_null().to_pylist(), *[False] * len(combined)], pa.bool_())
        rows = pa.StructArray.from_arrays(arrays, fields=list(elements.type), mask=mask)
        return assembled(column.type, rows, found)


@dataclass(frozen=True, slots=True)
class _Combining:
    table: _KeyedTable
    valid: list[list[bool]]
    combined: list[list[int]]
    elements: int
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
            made.append(self.elements + len(self.combined))
            self.combined.append(picks)
        return made

    def _picks(self, i: int) -> list[int] | None:
        """The element each field of this row is taken from; None for a row that does not count."""
        if i >= self.elements:
            return self.combined[i - self.elements]
        return [i] * len(self.valid) if any(True for _ in self.table.usable([i])) else None

    def _code(self, i: int) -> int:
        """The code of the key: that of any element the row was made of."""
        if i < self.elements:
            return self.table.codes[i]
        picks = self.combined[i - self.elements]
        return self.table.codes[next(p for p in picks if p >= 0)]

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        raise Refused("nested_partial_update takes no retracts")
