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

    `numbers[i]` is an element of group `groups[i]`; `begins[i]`: it is of the first list of its group.
    """

    numbers: np.ndarray
    groups: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, order: np.ndarray, group_of: np.ndarray) -> Flat:
        """The elements of lists at these places; list p has elements offsets[p] up to offsets[p + 1]."""
        starts, lengths = offsets[order], offsets[order + 1] - offsets[order]
        lists = np.repeat(np.arange(len(order)), lengths)
        numbers = np.arange(len(lists)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        groups = group_of[order]
        first = np.r_[True, groups[1:] != groups[:-1]][: len(groups)]
        return cls(numbers, groups[lists], first[lists])

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

    def within(self, limit: int) -> Flat:
        """Of each group the first `limit` elements."""
        counts = np.bincount(self.groups)
        place = np.arange(len(self.groups)) - (np.cumsum(counts) - counts)[self.groups]
        return self.at(place < limit)


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
