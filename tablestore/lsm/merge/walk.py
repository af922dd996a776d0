"""Walk: what each row of a key with more than one row does to a column of the result.

Every row of a group, in merge order, acts on the value so far:

    SKIP     nothing                          ADD      the value is newer
    OLDER    the value is older (late rows)   RETRACT  the value is retracted
    SET      the row is reset to this value, NULL included

Engines say what the rows do, aggregators (`choose`, `numbers`, `lists`, …) compute the result. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

SKIP, ADD, OLDER, RETRACT, SET = np.arange(5, dtype=np.int8)


@dataclass(frozen=True, slots=True)
class Walk:
    """`rows[i]` is the row of the batch at position i, `actions[i]` what it does; group g starts at position
    starts[g]."""

    rows: np.ndarray
    starts: np.ndarray
    actions: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The position after the last row of each group."""
        return np.append(self.starts[1:], len(self.rows))

    @property
    def group_of(self) -> np.ndarray:
        """The group of each position."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts)

    def acting(self, actions: np.ndarray) -> Walk:
        """The same rows with other actions."""
        return Walk(self.rows, self.starts, actions)

    def without_retracts(self) -> Walk:
        """The same rows with retracts skipped."""
        return self.acting(np.where(self.actions == RETRACT, SKIP, self.actions))

    def last(self, mask: np.ndarray) -> np.ndarray:
        """The last position of each group where `mask` holds, −1 if there is none."""
        return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), self.starts)

    def first(self, mask: np.ndarray) -> np.ndarray:
        """The first position of each group where `mask` holds, the number of positions if there is none."""
        return np.minimum.reduceat(np.where(mask, np.arange(len(mask)), len(mask)), self.starts)

    def any(self, mask: np.ndarray) -> np.ndarray:
        """For each group whether `mask` holds somewhere."""
        return np.logical_or.reduceat(mask, self.starts)

    def since_set(self) -> np.ndarray:
        """For each position whether no later row of its group resets."""
        sets = self.actions == SET
        if not sets.any():
            return np.ones(len(sets), dtype=bool)
        return np.arange(len(sets)) >= self.last(sets)[self.group_of]

    def rounds(self, groups: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(groups, positions) of the first row of every group, or of these, then of the second row of those
        that have one, and so on.

        For row-by-row computations: there are as many rounds as the longest group has rows.
        """
        groups = np.arange(len(self.starts)) if groups is None else groups
        lengths = (self.ends - self.starts)[groups]
        by_length = np.argsort(-lengths, kind="stable")
        groups, counts = groups[by_length], -lengths[by_length]
        for step in range(-int(counts.min(initial=0))):
            active = groups[: np.searchsorted(counts, -step, side="left")]
            yield active, self.starts[active] + step


@dataclass(slots=True)
class Failures:
    """Groups that cannot be merged, with column and reason; the first failure of a group counts."""

    notes: list[tuple[np.ndarray, str, str]] = field(default_factory=list)

    def add(self, group: int, column: str, reason: str) -> None:
        """Add a group that fails."""
        self.add_all(np.array([group]), column, reason)

    def add_all(self, groups: np.ndarray, column: str, reason: str) -> None:
        """Add groups that fail for the same reason."""
        if len(groups):
            self.notes.append((groups, column, reason))

    @property
    def groups(self) -> np.ndarray:
        """The groups that fail, ascending."""
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(some for some, *_ in self.notes)]))

    def of(self, group: int) -> tuple[str, str]:
        """The column and the reason of a group that fails."""
        return next((column, reason) for some, column, reason in self.notes if group in some)
