"""Flat: lists of many keys as one column of elements, so that all keys are folded at once.

Every element has a number (its position among the column's flattened elements) and, where it matters, a code
that is equal for equal elements. Memory: a few int64 columns of the elements. Pure. Used by `lists` and
`tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Flat:
    """Elements in the order in which they are folded, one group after another.

    `numbers[i]` is an element of group `groups[i]`; `begins[i]`: it belongs to the accumulated list.
    """

    numbers: np.ndarray
    groups: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, places: np.ndarray, groups: np.ndarray) -> Flat:
        """The elements of the lists at these positions, of these ascending groups; list p has elements
        offsets[p] up to offsets[p + 1]. The first list of a group is the accumulated one."""
        starts, lengths = offsets[places], offsets[places + 1] - offsets[places]
        lists = np.repeat(np.arange(len(places)), lengths)
        numbers = np.arange(len(lists)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        first = np.r_[True, groups[1:] != groups[:-1]][: len(groups)]
        return cls(numbers, groups[lists], first[lists])

    @classmethod
    def none(cls) -> Flat:
        """No elements."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))

    @classmethod
    def joined(cls, parts: Sequence[Flat]) -> Flat:
        """The elements of all parts in order of their groups; in one group in the order of the parts."""
        columns = zip(*((part.numbers, part.groups, part.begins) for part in parts), strict=True)
        elements = cls(*map(np.concatenate, columns))
        return elements.at(np.argsort(elements.groups, kind="stable"))

    def beginning(self, begins: np.ndarray | bool) -> Flat:
        """The same elements with other `begins`."""
        return Flat(self.numbers, self.groups, np.broadcast_to(begins, len(self.numbers)))

    def at(self, places: np.ndarray) -> Flat:
        """The elements at these positions, or where a mask holds."""
        return Flat(self.numbers[places], self.groups[places], self.begins[places])

    def sorted_by(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(positions in stable order of group and code, where each pair of group and code starts); `codes`
        are those of all numbers."""
        keys = combined((self.groups, codes[self.numbers]))
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        return order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])

    def firsts(self, codes: np.ndarray) -> Flat:
        """The first element of each code in each group."""
        order, starts = self.sorted_by(codes)
        return self.at(np.sort(order[starts]))

    def lasts(self, codes: np.ndarray) -> Flat:
        """The last element of each code in each group."""
        order, starts = self.sorted_by(codes)
        return self.at(np.sort(order[np.append(starts[1:], len(order)) - 1] if len(order) else order))

    def ranks(self) -> np.ndarray:
        """For each element how many of its group are before it; groups must ascend."""
        starts = np.flatnonzero(np.r_[True, self.groups[1:] != self.groups[:-1]][: len(self.groups)])
        return np.arange(len(self.groups)) - np.repeat(starts, np.diff(np.append(starts, len(self.groups))))

    def pairs(self, other: Flat, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A number for (group, code) of each element here, and of each element of `other`."""
        groups = np.concatenate([self.groups, other.groups])
        both = combined((groups, codes[np.concatenate([self.numbers, other.numbers])]))
        return both[: len(self.numbers)], both[len(self.numbers) :]

    def without(self, other: Flat, codes: np.ndarray) -> Flat:
        """The elements whose code `other` does not have in their group."""
        mine, others = self.pairs(other, codes)
        return self.at(~np.isin(mine, others))

    def less(self, other: Flat, codes: np.ndarray) -> Flat:
        """The elements without, of each group and code, the first ones: as many as `other` has."""
        mine, others = self.pairs(other, codes)
        distinct, counts = np.unique(others, return_counts=True)
        if not len(distinct):
            return self
        at = np.minimum(np.searchsorted(distinct, mine), len(distinct) - 1)
        gone = np.where(distinct[at] == mine, counts[at], 0)
        order = np.argsort(mine, kind="stable")
        rank = np.empty(len(mine), dtype=np.int64)
        rank[order] = Flat(order, mine[order], self.begins).ranks()
        return self.at(rank >= gone)


def combined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One int64 column for several: equal where all are, and in their lexicographic order."""
    codes, span = np.zeros(len(parts[0]), dtype=np.int64), 1
    if not len(codes):
        return codes
    for part in parts:
        low = int(part.min())
        width = int(part.max()) - low + 1
        if width >= _ROOM // len(codes):
            part, low = np.unique(part, return_inverse=True)[1].reshape(-1), 0
            width = int(part.max()) + 1
        if span * width >= _ROOM:
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            span = int(codes.max()) + 1
        codes, span = codes * width + (part - low), span * width
    return codes
