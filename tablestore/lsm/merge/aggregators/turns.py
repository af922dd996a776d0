"""Folding lists of keys whose rows retract, reset or come late: one row of every key per turn, all keys at
once.

There are as many turns as the longest such key has rows; each joins the accumulated lists and the turn's
input by a few sorts of their elements. A `ListStep` defines what an input list does to the accumulated one.
Memory: the accumulated elements. Pure. Used by `lists`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tablestore.lsm.merge.aggregators.flat import Flat
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Walk


class ListStep(Protocol):
    """How the lists of a key become one, for the lists of all keys as flat elements."""

    @property
    def late_first(self) -> bool:
        """Whether a late list counts as the older one and the accumulated list as the newer."""
        ...

    @property
    def late_alone(self) -> bool:
        """Whether keys with late lists are folded in turns."""
        ...

    @property
    def keeps_accumulated(self) -> bool:
        """Whether the accumulated list stays unchanged where there is no input."""
        ...

    @property
    def keeps_input(self) -> bool:
        """Whether the input is taken unchanged where no list is accumulated."""
        ...

    def keep(self, flat: Flat) -> Flat:
        """The elements that remain after lists are added, the accumulated one first."""
        ...

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        """The elements of the accumulated list that remain after a list is retracted."""
        ...


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
