"""collect and merge_map: aggregators whose values are lists and maps.

Values are never taken out of Arrow: an element is a number, its place among the column's flattened elements,
and two elements are equal if their *codes* are. Of every key with several rows lists of such numbers are
joined in Python, row by row; one take of the elements makes the result. As in the original maps and distinct
elements have no order. Memory: the elements of the batch once more. Pure. `tables` goes on from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_NO_TIME = -(2**63)


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
    elements = elements_of(lists)
    found = walked(name, lists, walk, failures, make(elements))
    return assembled(column.type, elements, found)


def walked(name: str, lists: pa.Array, walk: Walk, failures: Failures, step: Step) -> list[Elements | None]:
    """The elements each group ends with; `lists` are those of the walk's places."""
    offsets, valid = lists.offsets.to_numpy(), lists.is_valid().to_numpy(zero_copy_only=False)
    offsets = (offsets - offsets[0]).tolist()
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


def elements_of(lists: pa.Array) -> pa.Array:
    """The flattened elements; of a map its entries as structs."""
    if not pa.types.is_map(lists.type):
        return lists.flatten()
    start, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    keys_, items = lists.keys.slice(start, end - start), lists.items.slice(start, end - start)
    return pa.StructArray.from_arrays([keys_, items], fields=[lists.type.key_field, lists.type.item_field])


def assembled(t: pa.DataType, elements: pa.Array, found: Sequence[Elements | None]) -> pa.Array:
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
        codes = combined_codes(parts, len(values))
    elif pa.types.is_list(t) or pa.types.is_map(t):
        flat = identities(elements_of(values))
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


def combined_codes(parts: Sequence[np.ndarray], rows: int) -> np.ndarray:
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
            ranks = keys.order_codes([times], [t.children[1].type.children[self.time].type])
            there = times.is_valid().to_numpy(zero_copy_only=False)
            return _KeyTime(
                identities(pc.struct_field(entries, 0)).tolist(),
                rows.is_null().to_pylist(),
                np.where(there, ranks, _NO_TIME).tolist(),
            )

        return fold_lists(name, column, walk, failures, make)


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
