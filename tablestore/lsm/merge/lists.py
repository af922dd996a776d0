"""collect and merge_map: aggregators whose values are lists and maps.

Values are never taken out of Arrow: an element is a number, its place among the column's flattened elements,
and two elements are equal if their *codes* are. Keys whose rows only add are folded all at once (`flat`);
only keys with rows that retract or start anew are walked row by row. One take of the elements makes the
result. As in the original maps and distinct elements have no order. Memory: the elements of the batch once
more. Pure. `tables` goes on from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.types.arrow_types import DataType
from tablestore.lsm import keys
from tablestore.lsm.merge.flat import Flat, combined
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Failures, Walk

Elements = list[int]
NO_CODES = np.zeros(0, dtype=np.int64)
_NO_TIME = -(2**63)


class Step(Protocol):
    """How one value changes the elements held, of one key; `keep` says it of all keys that only add."""

    late_first: bool  # whether a late value is taken as the one held, and what is held as the newer
    late_alone: bool  # whether keys with late values must be walked

    @property
    def all_alone(self) -> bool: ...  # whether all keys must be walked

    def keep(self, flat: Flat) -> Flat: ...

    def add(self, held: Elements | None, given: Elements | None) -> Elements | None: ...

    def retract(self, held: Elements | None, given: Elements | None) -> Elements | None: ...


class Refused(Exception):
    """This value cannot be merged."""


def fold_lists(
    name: str, column: pa.Array, walk: Walk, failures: Failures, make: Callable[[pa.Array], Step]
) -> pa.Array:
    """One list (or map) a group: what `make`, given the flattened elements, says.

    Groups that only add are folded at once, the others row by row.
    """
    lists = column.take(pa.array(walk.rows))
    elements = elements_of(lists)
    step = make(elements)
    alone = walks_alone(walk, step)
    flat, there = flat_of(lists, walk, alone, late_first=step.late_first)
    kept = step.keep(flat)
    found = walked(name, lists, walk, failures, step, np.flatnonzero(alone)) if alone.any() else {}
    return assembled(column.type, elements, kept, there, found)


def walks_alone(walk: Walk, step: Step) -> np.ndarray:
    """The groups that must be walked row by row."""
    if step.all_alone:
        return np.ones(len(walk.starts), dtype=bool)
    apart = (walk.actions == RETRACT) | (walk.actions == SET)
    if step.late_alone:
        apart |= walk.actions == OLDER
    return walk.any(apart)


def flat_of(lists: pa.Array, walk: Walk, alone: np.ndarray, *, late_first: bool) -> tuple[Flat, np.ndarray]:
    """The elements of the groups that are folded at once, in the order in which they count, and which of the
    groups have a list at all."""
    group_of, late = walk.group_of, walk.actions == OLDER
    acts = ((walk.actions == ADD) | late) & lists.is_valid().to_numpy(zero_copy_only=False)
    order = np.flatnonzero(acts & ~alone[group_of])
    if late_first and late.any():  # the later of two late values comes first
        late = late[order]
        order = order[np.lexsort((np.where(late, -order, order), ~late, group_of[order]))]
    there = np.zeros(len(walk.starts), dtype=bool)
    there[group_of[order]] = True
    return Flat.of(_offsets(lists), order, group_of), there


def _offsets(lists: pa.Array) -> np.ndarray:
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0]


def walked(
    name: str, lists: pa.Array, walk: Walk, failures: Failures, step: Step, groups: np.ndarray
) -> dict[int, Elements | None]:
    """The elements that these groups end with; `lists` are those of the walk's places."""
    offsets, valid = _offsets(lists), lists.is_valid().to_numpy(zero_copy_only=False)
    found: dict[int, Elements | None] = {}
    for group, start, end in zip(
        groups.tolist(), walk.starts[groups].tolist(), walk.ends[groups].tolist(), strict=True
    ):
        held: Elements | None = None
        try:
            for place in range(start, end):
                given = list(range(offsets[place], offsets[place + 1])) if valid[place] else None
                held = _after(step, int(walk.actions[place]), held, given)
        except Refused as e:
            failures.add(group, name, str(e))
        found[group] = held
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


def assembled(
    t: pa.DataType, elements: pa.Array, kept: Flat, there: np.ndarray, found: Mapping[int, Elements | None]
) -> pa.Array:
    """Lists in the type of the column: `kept` of groups that are `there`, and those `found` one by one."""
    numbers, groups = kept.numbers, kept.groups
    if found:
        more = [(group, number) for group, held in found.items() for number in held or ()]
        pairs = np.array(more, dtype=np.int64).reshape(len(more), 2)
        groups = np.concatenate([groups, pairs[:, 0]])
        numbers = np.concatenate([numbers, pairs[:, 1]])[np.argsort(groups, kind="stable")]
        there = there.copy()
        there[[group for group, held in found.items() if held is not None]] = True
    lengths = np.bincount(groups, minlength=len(there))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = elements.take(pa.array(numbers))
    if pa.types.is_map(t):
        parts = [pc.struct_field(values, 0), pc.struct_field(values, 1)]
        return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(~there, False)), *parts, type=t)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=t, mask=pa.array(~there))


def identities(values: pa.Array) -> np.ndarray:
    """int64 codes, equal where values are: −1 is NULL; nested values by the codes of their parts."""
    t = values.type
    if pa.types.is_struct(t):
        parts = [identities(child) for child in values.flatten()]
        codes = combined(parts) if parts else np.zeros(len(values), dtype=np.int64)
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


@dataclass(frozen=True, slots=True)
class Collect:
    """Joins ARRAYs; `distinct` keeps one of equal elements; a retract takes out one element for each of
    its own."""

    distinct: bool = False
    late_first: bool = False  # only where retracts are ignored

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""

        def make(elements: pa.Array) -> Step:
            codes = identities(elements) if self.distinct or (walk.actions == RETRACT).any() else NO_CODES
            return _Collecting(codes, self.distinct, self.late_first)

        return fold_lists(name, column, walk, failures, make)


@dataclass(frozen=True, slots=True)
class _Collecting:
    codes: np.ndarray
    distinct: bool
    late_first: bool
    late_alone: bool = False
    all_alone: bool = False

    def keep(self, flat: Flat) -> Flat:
        return flat.firsts(self.codes) if self.distinct else flat

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
            return _Mapping(identities(pc.struct_field(entries, 0)))

        return fold_lists(name, column, walk, failures, make)


@dataclass(frozen=True, slots=True)
class _Mapping:
    codes: np.ndarray
    late_first: bool = True
    late_alone: bool = False
    all_alone: bool = False

    def keep(self, flat: Flat) -> Flat:
        return flat.lasts(self.codes)

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
                identities(pc.struct_field(entries, 0)),
                rows.is_null().to_numpy(zero_copy_only=False),
                np.where(there, ranks, _NO_TIME),
            )

        return fold_lists(name, column, walk, failures, make)


@dataclass(frozen=True, slots=True)
class _KeyTime:
    codes: np.ndarray
    removes: np.ndarray
    times: np.ndarray
    late_first: bool = True
    late_alone: bool = True
    all_alone: bool = False

    def keep(self, flat: Flat) -> Flat:
        """Of each key the first of the greatest time among what comes after its last removal. Entries of the
        first map count as they are, the weakest of all if they have no row or no time."""
        removing = self.removes[flat.numbers]
        times = np.where(removing, _NO_TIME, self.times[flat.numbers])
        order, starts = flat.sorted_by(self.codes)
        if not len(order):
            return flat
        pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        places = np.arange(len(order))
        gone = np.where((removing & ~flat.begins)[order], places, -1)
        counts = (flat.begins | (times != _NO_TIME))[order]
        counts &= places > np.maximum.reduceat(gone, starts)[pair]
        ranks = np.where(counts, times[order], _NO_TIME)
        best = counts & (ranks == np.maximum.reduceat(ranks, starts)[pair])
        first = np.minimum.reduceat(np.where(best, places, len(places)), starts)
        return flat.at(np.sort(order[first[first < len(places)]]))

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
