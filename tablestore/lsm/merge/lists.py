"""collect, merge_map and the nested tables: aggregators whose values are lists and maps.

Values are never taken out of Arrow: an element is a number, its place among the column's flattened elements,
and two elements are equal if their *codes* are. Of every key with several rows lists of such numbers are
joined in Python, row by row; one take of the elements makes the result. As in the original maps and distinct
elements have no order. Memory: the elements of the batch once more. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.types import DataType
from tablestore.lsm import keys
from tablestore.lsm.merge.walk import ADD, OLDER, SET, SKIP, Failures, Walk

Elements = list[int]


class Step(Protocol):
    """How one value changes the elements held, of one key."""

    late_first: bool  # whether a late value is taken as the one held, and what is held as the newer

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None: ...

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None: ...


class Refused(Exception):
    """This value cannot be merged."""


def fold_lists(
    name: str, column: pa.Array, walk: Walk, failures: Failures, make: Callable[[pa.Array], Step]
) -> pa.Array:
    """One list (or map) a group: what `make`, given the flattened elements, says row by row."""
    lists = column.take(pa.array(walk.rows))
    elements = _elements(lists)
    step = make(elements)
    offsets, valid = lists.offsets.to_numpy(), lists.is_valid().to_numpy(zero_copy_only=False)
    offsets = offsets - offsets[0]
    found: list[Elements | None] = []
    for group, (start, end) in enumerate(zip(walk.starts.tolist(), walk.ends.tolist(), strict=True)):
        held: Elements | None = None
        try:
            for place in range(start, end):
                given = list(range(offsets[place], offsets[place + 1])) if valid[place] else None
                held = _after(step, int(walk.actions[place]), held, given)
        except Refused as e:
            failures.add(group, name, str(e))
        found.append(held)
    return _assembled(column.type, elements, found)


def _after(step: Step, action: int, held: Elements | None, given: Elements | None) -> Elements | None:
    if action == SKIP:
        return held
    if action == SET:
        return given
    if action == ADD:
        return step.add(held, given)
    if action == OLDER:
        return step.add(given, held) if step.late_first else step.add(held, given)
    return step.retract(held, given)


def _elements(lists: pa.Array) -> pa.Array:
    """The flattened elements; of a map its entries as structs."""
    if not pa.types.is_map(lists.type):
        return lists.flatten()
    start, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    keys_, items = lists.keys.slice(start, end - start), lists.items.slice(start, end - start)
    return pa.StructArray.from_arrays([keys_, items], fields=[lists.type.key_field, lists.type.item_field])


def _assembled(t: pa.DataType, elements: pa.Array, found: Sequence[Elements | None]) -> pa.Array:
    """Lists of these elements, in the type of the column."""
    lengths = np.array([0 if one is None else len(one) for one in found], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = np.fromiter((i for one in found if one for i in one), dtype=np.int64, count=int(offsets[-1]))
    values = elements.take(pa.array(flat))
    mask = pa.array([one is None for one in found], pa.bool_())
    if pa.types.is_map(t):
        parts = [pc.struct_field(values, 0), pc.struct_field(values, 1)]
        return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(mask, False)), *parts, type=t)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=t, mask=mask)


def identities(values: pa.Array) -> np.ndarray:
    """int64 codes, equal where values are: −1 is NULL; nested values by the codes of their parts."""
    t = values.type
    if pa.types.is_struct(t):
        parts = [identities(child) for child in values.flatten()]
        codes = _combined(parts, len(values))
    elif pa.types.is_list(t) or pa.types.is_map(t):
        flat = identities(_elements(values))
        offsets = values.offsets.to_numpy() - values.offsets[0].as_py()
        texts = [tuple(flat[a:b].tolist()) for a, b in pairwise(offsets.tolist())]
        if pa.types.is_map(t):
            texts = [tuple(sorted(one)) for one in texts]
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(one, len(seen)) for one in texts], dtype=np.int64)
    else:
        coded = values if pa.types.is_dictionary(t) else values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if values.null_count:
        codes = np.where(values.is_valid().to_numpy(zero_copy_only=False), codes, -1)
    return codes


def _combined(parts: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """One code for several."""
    if not parts or not rows:
        return np.zeros(rows, dtype=np.int64)
    return np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Collect:
    """Joins ARRAYs; `distinct` keeps one of equal elements; a retract takes out one element for each of
    its own."""

    distinct: bool = False
    late_first: bool = False  # only where retracts are ignored

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""

        def make(elements: pa.Array) -> Step:
            return _Collecting(identities(elements).tolist(), self.distinct, self.late_first)

        return fold_lists(name, column, walk, failures, make)


@dataclass(frozen=True, slots=True)
class _Collecting:
    codes: list[int]
    distinct: bool
    late_first: bool

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if held is None and given is None:
            return None
        both = [*(held or ()), *(given or ())]
        return list({self.codes[i]: i for i in reversed(both)}.values())[::-1] if self.distinct else both

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if not held or not given:
            return held
        gone: dict[int, int] = {}
        for i in given:
            gone[self.codes[i]] = gone.get(self.codes[i], 0) + 1
        kept = []
        for i in held:
            if gone.get(self.codes[i], 0):
                gone[self.codes[i]] -= 1
            else:
                kept.append(i)
        return kept


@dataclass(frozen=True, slots=True)
class MergeMap:
    """Union of MAPs, the newer entry of a key wins; a retract takes out its keys, whatever their values."""

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One map a group."""

        def make(entries: pa.Array) -> Step:
            return _Mapping(identities(pc.struct_field(entries, 0)).tolist())

        return fold_lists(name, column, walk, failures, make)


@dataclass(frozen=True, slots=True)
class _Mapping:
    codes: list[int]
    late_first: bool = True

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if held is None or given is None:
            return given if held is None else held
        return list({self.codes[i]: i for i in (*held, *given)}.values())

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if not held or not given:
            return held
        gone = {self.codes[i] for i in given}
        return list({self.codes[i]: i for i in held if self.codes[i] not in gone}.values())


@dataclass(frozen=True, slots=True)
class MergeMapWithKeyTime:
    """Union of MAPs of ROWs, of each key the one with the greatest text in field `time`; a NULL row removes
    its key."""

    time: int

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One map a group."""

        def make(entries: pa.Array) -> Step:
            rows = pc.struct_field(entries, 1)
            times = rows.flatten()[self.time]
            ranks = keys.order_codes([_in_utf16(times)], [t.children[1].type.children[self.time].type])
            there = times.is_valid().to_numpy(zero_copy_only=False)
            return _KeyTime(
                identities(pc.struct_field(entries, 0)).tolist(),
                rows.is_null().to_pylist(),
                np.where(there, ranks, np.int64(-(2**63))).tolist(),
            )

        return fold_lists(name, column, walk, failures, make)


def _in_utf16(texts: pa.Array) -> pa.Array:
    """Texts as they are: timestamps are digits, where the order of bytes is that of Java's characters."""
    return texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts


_NO_TIME = -(2**63)


@dataclass(frozen=True, slots=True)
class _KeyTime:
    codes: list[int]
    removes: list[bool]
    times: list[int]
    late_first: bool = True

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None:
        if held is None or given is None:
            return given if held is None else held
        found = {self.codes[i]: i for i in held}
        for i in given:
            code = self.codes[i]
            if self.removes[i]:
                found.pop(code, None)
            elif self.times[i] != _NO_TIME:
                known = found.get(code)
                if known is None or self.removes[known] or self.times[i] > self.times[known]:
                    found[code] = i
        return list(found.values())

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None:
        raise Refused("merge_map_with_keytime takes no retracts")


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
    return _combined(parts, len(rows)).tolist(), nulls.tolist()


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
        elements = _elements(lists)
        fields = elements.flatten()
        table = _KeyedTable(
            *_key_codes(elements, self.key), elements.is_valid().to_pylist(), None, 2**31 - 1, self.null_keys
        )
        valid = [f.is_valid().to_pylist() for f in fields]
        combined: list[list[int]] = []  # of each row of the result, the element each field is taken from
        step = _Combining(table, valid, combined, len(elements))
        found = self._walked(name, lists, walk, failures, step)
        picks = np.array(combined, dtype=np.int64).reshape(len(combined), len(fields))
        arrays = [
            pa.concat_arrays([f, f.take(pa.array(picks[:, n], mask=picks[:, n] < 0))])
            for n, f in enumerate(fields)
        ]
        mask = pa.array([*elements.is_null().to_pylist(), *[False] * len(combined)], pa.bool_())
        rows = pa.StructArray.from_arrays(arrays, fields=list(elements.type), mask=mask)
        return _assembled(column.type, rows, found)

    def _walked(
        self, name: str, lists: pa.Array, walk: Walk, failures: Failures, step: _Combining
    ) -> list[Elements | None]:
        offsets, valid = lists.offsets.to_numpy(), lists.is_valid().to_numpy(zero_copy_only=False)
        offsets = offsets - offsets[0]
        found: list[Elements | None] = []
        for group, (start, end) in enumerate(zip(walk.starts.tolist(), walk.ends.tolist(), strict=True)):
            held: Elements | None = None
            try:
                for place in range(start, end):
                    given = list(range(offsets[place], offsets[place + 1])) if valid[place] else None
                    held = _after(step, int(walk.actions[place]), held, given)
            except Refused as e:
                failures.add(group, name, str(e))
            found.append(held)
        return found


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
