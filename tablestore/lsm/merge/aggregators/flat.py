"""Lists of many keys as one flat column of elements: what stays of them is decided for all keys at once.

Every element has a number (its place among the column's flattened elements) and, where it matters, a code
that is equal for equal ones. Memory: a few int64 columns of the elements. Pure. Used by `lists` and `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Flat:
    """Elements in the order in which they are folded, one group after another.

    `numbers[i]` is an element of group `groups[i]`; `begins[i]`: it was accumulated before others came.
    """

    numbers: np.ndarray
    groups: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, places: np.ndarray, groups: np.ndarray) -> Flat:
        """The elements of lists at these places, of these groups (rising); list p has elements offsets[p] up
        to offsets[p + 1]. The first list of a group is the accumulated one."""
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
        """The elements of several in order of their groups; of one group in the order of the parts."""
        columns = zip(*((part.numbers, part.groups, part.begins) for part in parts), strict=True)
        made = cls(*map(np.concatenate, columns))
        return made.at(np.argsort(made.groups, kind="stable"))

    def beginning(self, begins: np.ndarray | bool) -> Flat:
        """The same elements, accumulated before others or not."""
        return Flat(self.numbers, self.groups, np.broadcast_to(begins, len(self.numbers)))

    def at(self, places: np.ndarray) -> Flat:
        """Those at these places, or where a mask holds."""
        return Flat(self.numbers[places], self.groups[places], self.begins[places])

    def sorted_by(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in order of group and code, in their own order where these are equal, and where each pair of
        group and code starts; `codes` are those of all numbers."""
        keys = combined((self.groups, codes[self.numbers]))
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        return order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])

    def firsts(self, codes: np.ndarray) -> Flat:
        """Of each group the first element of each code."""
        order, starts = self.sorted_by(codes)
        return self.at(np.sort(order[starts]))

    def lasts(self, codes: np.ndarray) -> Flat:
        """Of each group the last element of each code."""
        order, starts = self.sorted_by(codes)
        return self.at(np.sort(order[np.append(starts[1:], len(order)) - 1] if len(order) else order))

    def ranks(self) -> np.ndarray:
        """For each element how many of its group are before it; groups must rise."""
        starts = np.flatnonzero(np.r_[True, self.groups[1:] != self.groups[:-1]][: len(self.groups)])
        return np.arange(len(self.groups)) - np.repeat(starts, np.diff(np.append(starts, len(self.groups))))

    def pairs(self, other: Flat, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A number for group and code of each element, and of each element of another."""
        groups = np.concatenate([self.groups, other.groups])
        both = combined((groups, codes[np.concatenate([self.numbers, other.numbers])]))
        return both[: len(self.numbers)], both[len(self.numbers) :]

    def without(self, other: Flat, codes: np.ndarray) -> Flat:
        """Those whose code the other does not have in their group."""
        mine, others = self.pairs(other, codes)
        return self.at(~np.isin(mine, others))

    def less(self, other: Flat, codes: np.ndarray) -> Flat:
        """Of each group and code as many fewer as the other has; the first ones go."""
        mine, others = self.pairs(other, codes)
        found, counts = np.unique(others, return_counts=True)
        if not len(found):
            return self
        at = np.minimum(np.searchsorted(found, mine), len(found) - 1)
        gone = np.where(found[at] == mine, counts[at], 0)
        order = np.argsort(mine, kind="stable")
        rank = np.empty(len(mine), dtype=np.int64)
        rank[order] = Flat(order, mine[order], self.begins).ranks()
        return self.at(rank >= gone)


def combined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One int64 for several, equal where all are, in their order."""
    found, span = np.zeros(len(parts[0]), dtype=np.int64), 1
    if not len(found):
        return found
    for part in parts:
        low = int(part.min())
        width = int(part.max()) - low + 1
        if width >= _ROOM // len(found):
            part, low = np.unique(part, return_inverse=True)[1].reshape(-1), 0
            width = int(part.max()) + 1
        if span * width >= _ROOM:
            found = np.unique(found, return_inverse=True)[1].reshape(-1)
            span = int(found.max()) + 1
        found, span = found * width + (part - low), span * width
    return found
