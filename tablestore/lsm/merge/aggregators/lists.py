"""collect and merge_map: aggregators whose values are lists and maps.

Values stay in Arrow: an element is a number, its position among the column's flattened elements, and two
elements are equal if their *codes* are. Keys whose rows only add are folded all at once (`flat`), those with
rows that retract or reset one row of every key at a time (`turns`). One take of the elements makes the
result. As in Java, maps and distinct elements have no order. Memory: the elements of the batch once more.
Pure. `nested_update` builds on this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.types.arrow_types import DataType, to_arrow
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.aggregators.flat import Flat, combined
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Failures, Walk

NO_CODES = np.zeros(0, dtype=np.int64)
_NO_TIME = -(2**63)


def fold_lists(column: pa.Array, walk: Walk, make: Callable[[pa.Array], ListStep]) -> pa.Array:
    """One list (or map) a group, by the step that `make` makes of the flattened elements."""
    lists = column.take(pa.array(walk.rows))
    elements = elements_of(lists)
    kept, there = folded(lists, walk, make(elements))
    return assembled(column.type, elements, kept, there)


def folded(lists: pa.Array, walk: Walk, step: ListStep) -> tuple[Flat, np.ndarray]:
    """(final elements of the groups, which groups end with a list); `lists` are those of the walk's
    positions.

    Groups that only add are folded at once, the others in turns.
    """
    offsets = lists.offsets.to_numpy().astype(np.int64)
    given = GroupedLists(offsets - offsets[0], lists.is_valid().to_numpy(zero_copy_only=False))
    alone = goes_in_turns(walk, step)
    flat, there = _at_once(given, walk, step, alone)
    kept = step.keep(flat)
    if alone.any():
        more, some = in_turns(given, walk, step, np.flatnonzero(alone))
        kept, there = Flat.joined([kept, more]), there | some
    return kept, there


def goes_in_turns(walk: Walk, step: ListStep) -> np.ndarray:
    """The groups that cannot be folded at once."""
    one_by_one = (walk.actions == RETRACT) | (walk.actions == SET)
    if step.late_alone:
        one_by_one |= walk.actions == OLDER
    return walk.any(one_by_one)


def _at_once(given: GroupedLists, walk: Walk, step: ListStep, alone: np.ndarray) -> tuple[Flat, np.ndarray]:
    """(elements of the groups that are folded at once, in merge order; which of the groups have a list)."""
    group_of, late = walk.group_of, walk.actions == OLDER
    order = np.flatnonzero(((walk.actions == ADD) | late) & given.valid & ~alone[group_of])
    if step.late_first and late.any():  # the later of two late values comes first
        late = late[order]
        order = order[np.lexsort((np.where(late, -order, order), ~late, group_of[order]))]
    there = np.zeros(len(walk.starts), dtype=bool)
    there[group_of[order]] = True
    flat = given.flat(order, group_of[order])
    return flat if step.keeps_input else flat.beginning(False), there


def elements_of(lists: pa.Array) -> pa.Array:
    """The flattened elements of lists, or the entries of maps as structs."""
    if not pa.types.is_map(lists.type):
        return lists.flatten()
    start, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    keys_, items = lists.keys.slice(start, end - start), lists.items.slice(start, end - start)
    return pa.StructArray.from_arrays([keys_, items], fields=[lists.type.key_field, lists.type.item_field])


def assembled(t: pa.DataType, elements: pa.Array, kept: Flat, there: np.ndarray) -> pa.Array:
    """Lists in the type of the column: `kept` of the groups that are `there`."""
    lengths = np.bincount(kept.groups, minlength=len(there))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = elements.take(pa.array(kept.numbers))
    if pa.types.is_map(t):
        parts = [pc.struct_field(values, 0), pc.struct_field(values, 1)]
        return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(~there, False)), *parts, type=t)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=t, mask=pa.array(~there))


def identities(values: pa.Array) -> np.ndarray:
    """int64 codes that are equal for equal values, −1 for NULL; nested values by the codes of their parts."""
    t = values.type
    if pa.types.is_struct(t):
        parts = [identities(child) for child in values.flatten()]
        codes = combined(parts) if parts else np.zeros(len(values), dtype=np.int64)
    elif pa.types.is_list(t) or pa.types.is_map(t):
        offsets = values.offsets.to_numpy().astype(np.int64)
        codes = _codes_of_lists(
            identities(elements_of(values)), offsets - offsets[0], ordered=pa.types.is_list(t)
        )
    else:
        coded = values if pa.types.is_dictionary(t) else values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if values.null_count:
        codes = np.where(values.is_valid().to_numpy(zero_copy_only=False), codes, -1)
    return codes


def _codes_of_lists(codes: np.ndarray, offsets: np.ndarray, *, ordered: bool) -> np.ndarray:
    """A code for each list of coded elements: pairs of neighbours become one code, until one is left."""
    lengths = np.diff(offsets)
    lists = np.repeat(np.arange(len(lengths)), lengths)
    if not ordered:
        codes = codes[np.lexsort((codes, lists))]
    left = lengths
    while len(codes) and left.max() > 1:
        first = np.cumsum(left) - left
        even = (np.arange(len(codes)) - first[lists]) % 2 == 0
        paired = np.append(even[1:] == False, False) & even  # noqa: E712
        second = np.where(paired, np.append(codes[1:], 0), codes.min() - 1)
        codes = np.unique(combined((codes[even], second[even])), return_inverse=True)[1].reshape(-1)
        lists, left = lists[even], (left + 1) // 2
    code_of_list = np.full(len(lengths), -1)
    code_of_list[lists] = codes
    return combined((lengths, code_of_list)) if len(lengths) else code_of_list


class ListStep(ABC):
    """How the lists of a key become one, for the lists of all keys as flat elements."""

    __slots__ = ()
    late_first = True
    """Whether a late list counts as the older one and the accumulated list as the newer."""
    late_alone = True
    """Whether keys with late lists are folded in turns."""
    keeps_accumulated = True
    """Whether the accumulated list stays unchanged where there is no input."""
    keeps_input = False
    """Whether the input is taken unchanged where no list is accumulated."""

    @abstractmethod
    def keep(self, flat: Flat) -> Flat:
        """The elements that remain after lists are added, the accumulated one first."""

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        """The elements of the accumulated list that remain after a list is retracted; without a meaning of
        its own it is refused before."""
        return accumulated


@dataclass(frozen=True, slots=True)
class Collect:
    """Joins ARRAYs; `distinct` keeps one of equal elements; a retract removes one element for each of its
    own."""

    distinct: bool = False
    late_first: bool = False  # only where retracts are ignored

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One array a group."""

        def make(elements: pa.Array) -> ListStep:
            codes = identities(elements) if self.distinct or (walk.actions == RETRACT).any() else NO_CODES
            whole = not self.distinct
            return _Collecting(codes, late_first=self.late_first, keeps_accumulated=whole, keeps_input=whole)

        return fold_lists(column, walk, make)


@dataclass(frozen=True, slots=True)
class _Collecting(ListStep):
    late_alone = False
    codes: np.ndarray
    late_first: bool
    keeps_accumulated: bool
    keeps_input: bool

    def keep(self, flat: Flat) -> Flat:
        return flat if self.keeps_input else flat.firsts(self.codes)

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        return accumulated.less(input, self.codes)


@dataclass(frozen=True, slots=True)
class MergeMap:
    """Union of MAPs, the newer entry of a key wins; a retract removes its keys, whatever their values."""

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One map a group."""
        return fold_lists(column, walk, lambda entries: _Mapping(identities(pc.struct_field(entries, 0))))


@dataclass(frozen=True, slots=True)
class _Mapping(ListStep):
    late_alone = False
    keeps_input = True
    codes: np.ndarray

    def keep(self, flat: Flat) -> Flat:
        return flat.lasts(self.codes)

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        return accumulated.without(input, self.codes)


@dataclass(frozen=True, slots=True)
class MergeMapWithKeyTime:
    """Union of MAPs of ROWs, of each key the one with the greatest text in field `time`; a NULL row removes
    its key."""

    time: int

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One map a group."""

        def make(entries: pa.Array) -> ListStep:
            rows = pc.struct_field(entries, 1)
            times = rows.flatten()[self.time]
            ranks = keys.order_codes([times], [t.children[1].type.children[self.time].type])
            there = times.is_valid().to_numpy(zero_copy_only=False)
            return _KeyTime(
                identities(pc.struct_field(entries, 0)),
                rows.is_null().to_numpy(zero_copy_only=False),
                np.where(there, ranks, _NO_TIME),
            )

        return fold_lists(column, walk, make)


@dataclass(frozen=True, slots=True)
class _KeyTime(ListStep):
    keeps_input = True
    codes: np.ndarray
    removes: np.ndarray
    times: np.ndarray

    def keep(self, flat: Flat) -> Flat:
        """Of each key the first entry with the greatest time after its last removal. Entries of the first map
        count even without a row or time, and then lose against all others."""
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


@dataclass(frozen=True, slots=True)
class GroupedLists:
    """The lists at the positions of a walk: their offsets, and which are not NULL."""

    offsets: np.ndarray
    valid: np.ndarray

    def flat(self, places: np.ndarray, groups: np.ndarray) -> Flat:
        """The elements of the lists at these positions, of these ascending groups."""
        there = self.valid[places]
        return Flat.of(self.offsets, places[there], groups[there])


def in_turns(lists: GroupedLists, walk: Walk, step: ListStep, groups: np.ndarray) -> tuple[Flat, np.ndarray]:
    """(final elements of these groups of a walk, which of them end with a list).

    Groups are numbered by their position in `order`, the longest first, so those with further rows are the
    first ones.
    """
    starts, lengths = walk.starts[groups], (walk.ends - walk.starts)[groups]
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], -lengths[order]
    there = np.zeros(len(order), dtype=bool)
    accumulated, done = Flat.none(), []
    for turn in range(-int(lengths.min(initial=0))):
        active = int(np.searchsorted(lengths, -turn, side="left"))
        cut = int(np.searchsorted(accumulated.groups, active))
        done.append(accumulated.at(np.arange(cut, len(accumulated.groups))))
        places = starts[:active] + turn
        accumulated, there[:active] = _turn(
            step,
            (accumulated.at(np.arange(cut)), there[:active]),
            (lists.flat(places, np.arange(active)), lists.valid[places]),
            walk.actions[places],
        )
    elements = Flat.joined([accumulated, *done])
    elements = Flat(elements.numbers, groups[order][elements.groups], elements.begins)
    some = np.zeros(len(walk.starts), dtype=bool)
    some[groups[order]] = there
    return elements, some


def _turn(
    step: ListStep, before: tuple[Flat, np.ndarray], row: tuple[Flat, np.ndarray], actions: np.ndarray
) -> tuple[Flat, np.ndarray]:
    """(elements, which groups have a list) after one row of each group; `actions` are those of the groups."""
    (accumulated, some), (input, new) = before, row
    late = (actions == OLDER) & step.late_first
    adds = (actions == ADD) | (actions == OLDER)
    first, second = np.where(late, new, some), np.where(late, some, new)
    stays = adds & ~second & step.keeps_accumulated  # the first of the two lists unchanged
    comes = adds & ~stays & ~first & step.keeps_input  # the second
    folds = adds & ~stays & ~comes
    takes = (actions == RETRACT) & some & new
    old = (actions == SKIP) | ((actions == RETRACT) & ~takes) | np.where(late, comes, stays)
    fresh = (actions == SET) | np.where(late, stays, comes)
    parts = [accumulated.at(old[accumulated.groups]), input.at(fresh[input.groups])]
    if folds.any():
        mine, other = accumulated.at(folds[accumulated.groups]), input.at(folds[input.groups])
        parts.append(step.keep(_both(mine, other, late)))
    if takes.any():
        parts.append(step.retract(accumulated.at(takes[accumulated.groups]), input.at(takes[input.groups])))
    return Flat.joined(parts), np.where(actions == SET, new, np.where(adds, some | new, some))


def _both(accumulated: Flat, input: Flat, late: np.ndarray) -> Flat:
    """Two lists of each group, the input first where it is late."""
    begins = late[input.groups]
    parts = [
        input.beginning(True).at(begins),
        accumulated.beginning(~late[accumulated.groups]),
        input.beginning(False).at(~begins),
    ]
    return Flat.joined(parts)


# Java's white space, which excludes no-break spaces.
_BLANK = (
    r"^[\t\n\x0B\f\r\x1C-\x1F \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200A}\x{2028}\x{2029}\x{205F}\x{3000}]*$"
)


def _is_blank(texts: pa.Array) -> np.ndarray:
    return pc.fill_null(pc.match_substring_regex(texts, _BLANK), True).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class ListAgg:
    """Joins texts with `delimiter`; `distinct` adds only new tokens."""

    delimiter: str = ","
    distinct: bool = False

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One text a group; NULL if all are blank."""
        texts = column.take(pa.array(walk.rows))
        live = (walk.actions != SKIP) & walk.since_set()
        blank = _is_blank(texts)
        kept = np.flatnonzero(live & ~blank)
        late = walk.actions[kept] == OLDER
        kept = kept[np.lexsort((np.where(late, -kept, kept), ~late, walk.group_of[kept]))]
        groups = walk.group_of[kept]
        counts = np.bincount(groups, minlength=len(walk.starts))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(kept)))
        joined = pc.binary_join(self._new_tokens(lists) if self.distinct else lists, self.delimiter)
        blank &= live & ((walk.actions == SET) | (walk.actions == OLDER))
        return _with_blanks(joined.cast(to_arrow(t)), counts, texts, walk.last(blank))

    def _new_tokens(self, lists: pa.Array) -> pa.Array:
        """Of each list the first value whole, and of the others the tokens that no value before has."""
        values, starts = lists.flatten(), lists.offsets.to_numpy()
        group_of = np.repeat(np.arange(len(lists)), np.diff(starts))
        split = pc.split_pattern(values, self.delimiter)
        tokens, value_of = split.flatten(), pc.list_parent_indices(split).to_numpy()
        flat = Flat(np.arange(len(tokens)), group_of[value_of], np.zeros(len(tokens), dtype=bool))
        flat = flat.firsts(tokens.dictionary_encode().indices.to_numpy())
        first = starts[:-1][np.diff(starts) > 0]
        new = flat.numbers[~_is_blank(tokens)[flat.numbers] & ~np.isin(value_of[flat.numbers], first)]
        groups = np.concatenate([group_of[first], group_of[value_of[new]]])
        order = np.argsort(groups, kind="stable")
        texts = pa.concat_arrays([values.take(pa.array(first)), tokens.take(pa.array(new))])
        ends = np.cumsum(np.bincount(groups, minlength=len(lists)))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(order)))


def _with_blanks(joined: pa.Array, counts: np.ndarray, texts: pa.Array, last_blank: np.ndarray) -> pa.Array:
    """Groups without any token get the blank they were reset to, or the last late one (as in Java: a late
    blank replaces nothing)."""
    places = np.where(counts > 0, len(texts) + np.arange(len(counts)), last_blank)
    return pa.concat_arrays([texts, joined]).take(pa.array(places, mask=places < 0))
