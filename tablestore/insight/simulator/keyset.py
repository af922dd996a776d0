"""Keys of a simulated file: a sorted sample of them, and which of them are deletes.

Every sampled key stands for equally many, so what a merge of samples keeps says what the merge of the files
would. Where each row is sampled the answer is exact. Arrays are never changed; slices share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(slots=True, eq=False)
class KeySet:
    """`keys` strictly increase (int64); `dead` says which are deletes, None if none is. Immutable."""

    keys: np.ndarray
    dead: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def deletes(self) -> int:
        """How many are deletes."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    def slice(self, start: int, stop: int) -> KeySet:
        """The keys at these positions."""
        dead = None if self.dead is None else self.dead[start:stop]
        return KeySet(self.keys[start:stop], dead)

    def without_deletes(self) -> KeySet:
        """The keys that are no deletes."""
        return self if self.dead is None else KeySet(self.keys[~self.dead])


def merged(newest_first: Sequence[KeySet]) -> KeySet:
    """Each key once, a delete if its newest row is one."""
    if len(newest_first) == 1:
        return newest_first[0]
    keys = np.concatenate([s.keys for s in newest_first])
    if all(s.dead is None for s in newest_first):
        keys.sort(kind="stable")  # runs that are sorted already are merged
        again = keys[1:] == keys[:-1]
        return KeySet(keys[_firsts(keys)] if again.any() else keys)
    order = keys.argsort(kind="stable")
    keys = keys[order]
    first = _firsts(keys)
    dead = np.concatenate([np.zeros(len(s), bool) if s.dead is None else s.dead for s in newest_first])
    dead = dead[order[first]]
    return KeySet(keys[first], dead if dead.any() else None)


def _firsts(ordered: np.ndarray) -> np.ndarray:
    """Where a new key begins."""
    firsts = np.empty(len(ordered), dtype=bool)
    firsts[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=firsts[1:])
    return firsts


def joined(in_key_order: Sequence[KeySet]) -> KeySet:
    """Sets that follow each other as one."""
    if len(in_key_order) == 1:
        return in_key_order[0]
    keys = np.concatenate([s.keys for s in in_key_order])
    if all(s.dead is None for s in in_key_order):
        return KeySet(keys)
    dead = [np.zeros(len(s), bool) if s.dead is None else s.dead for s in in_key_order]
    return KeySet(keys, np.concatenate(dead))
