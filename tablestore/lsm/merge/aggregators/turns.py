"""Lists of keys whose rows take back, start anew or come late: a row of each key at a time, all at once.

As many turns as the longest such key has rows; each joins what is accumulated and the input of the turn by a
few sorts of their elements. A `Step` says what an input list does to the accumulated one. Memory: the
accumulated elements. Pure. Used by `lists`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tablestore.lsm.merge.aggregators.flat import Flat
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Walk


class Step(Protocol):
    """How the lists of a key become one; the lists of all keys come as flat elements."""

    @property
    def late_first(self) -> bool:
        """Whether a late list counts as the accumulated one, and that one as the newer."""
        ...

    @property
    def late_alone(self) -> bool:
        """Whether keys with late lists go in turns."""
        ...

    @property
    def keeps_accumulated(self) -> bool:
        """Whether the accumulated list stays as it is where no list comes."""
        ...

    @property
    def keeps_input(self) -> bool:
        """Whether a list is taken as it is where none is accumulated."""
        ...

    def keep(self, flat: Flat) -> Flat:
        """What stays of lists that are added, the accumulated one first."""
        ...

    def retract(self, accumulated: Flat, input: Flat) -> Flat:
        """What stays of the accumulated list where a list is taken back."""
        ...


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists at the places of a walk: their elements, and where there is one at all."""

    offsets: np.ndarray
    valid: np.ndarray

    def flat(self, places: np.ndarray, groups: np.ndarray) -> Flat:
        """The elements of those at these places; groups rise."""
        there = self.valid[places]
        return Flat.of(self.offsets, places[there], groups[there])


def in_turns(lists: Lists, walk: Walk, step: Step, groups: np.ndarray) -> tuple[Flat, np.ndarray]:
    """The elements that these groups of a walk end with, and which of them end with a list.

    Groups are known by their place in `order`, the longest first: those that go on are the first ones.
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
    found = Flat.joined([accumulated, *done])
    found = Flat(found.numbers, groups[order][found.groups], found.begins)
    some = np.zeros(len(walk.starts), dtype=bool)
    some[groups[order]] = there
    return found, some


def _turn(
    step: Step, before: tuple[Flat, np.ndarray], row: tuple[Flat, np.ndarray], actions: np.ndarray
) -> tuple[Flat, np.ndarray]:
    """(elements, which groups have a list) after one row of each group; `actions` are those of the groups."""
    (accumulated, some), (input, new) = before, row
    late = (actions == OLDER) & step.late_first
    adds = (actions == ADD) | (actions == OLDER)
    first, second = np.where(late, new, some), np.where(late, some, new)
    stays = adds & ~second & step.keeps_accumulated  # the first of the two lists as it is
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
