"""The buckets of a table over its snapshots: runs, files and bytes of each, in as many columns as fit.

Pure: from `inspect.stays()`, one row a file with the snapshots that added and removed it. Files become events
(+1, −1), a level from 1 on one run as long as it has files; columns are sums of events, so that 1,000 buckets
over 10,000 snapshots cost the edits and one grid. Memory: the edits, and buckets × columns three times.
Called by `model`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.levels.buckets import natural

NEVER = np.iinfo(np.int64).max
QUANTITIES = ("runs", "files", "bytes")


@dataclass(frozen=True, eq=False)
class Edits:
    """The edits as arrays, one entry a file: when it came and went (before the first snapshot: −1), its
    bucket as a position in `places`. Immutable by agreement."""

    places: tuple[tuple[str, int], ...]
    place: np.ndarray
    added: np.ndarray
    removed: np.ndarray
    level: np.ndarray
    bytes: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, edits: pa.Table) -> "Edits":
        """From `inspect.stays()`."""
        partition = edits["partition"].combine_chunks().dictionary_encode()
        texts = partition.dictionary.to_pylist()
        rank = {text: at for at, text in enumerate(sorted(texts, key=natural))}
        ranks = np.array([rank[text] for text in texts] or [0], np.int64)[partition.indices.to_numpy()]
        bucket = _ints(edits, "bucket")
        _, first, place = np.unique(
            ranks * (1 << 40) + bucket + (1 << 20), return_index=True, return_inverse=True
        )
        codes = partition.indices.to_numpy()
        places = tuple((texts[codes[at]] or "", int(bucket[at])) for at in first)
        return cls(
            places,
            place.reshape(len(edits)),
            _ints(edits, "added", -1),
            _ints(edits, "removed", NEVER),
            *(_ints(edits, name) for name in ("level", "bytes", "rows")),
        )

    def at(self, snapshot: int) -> dict[str, np.ndarray]:
        """Runs, files, bytes and rows of each place after a snapshot."""
        live = (self.added <= snapshot) & (self.removed > snapshot)
        place, level = self.place[live], self.level[live]
        count = len(self.places)
        upper = np.unique(place[level > 0] * 1024 + level[level > 0]) // 1024
        fresh = np.bincount(place[level == 0], minlength=count)
        return {
            "runs": fresh + np.bincount(upper, minlength=count),
            "files": np.bincount(place, minlength=count),
            "bytes": np.bincount(place, self.bytes[live], minlength=count).astype(np.int64),
            "rows": np.bincount(place, self.rows[live], minlength=count).astype(np.int64),
        }

    def touched(self, ids: np.ndarray) -> np.ndarray:
        """How many buckets each snapshot changed."""
        when = np.r_[self.added, self.removed]
        place = np.r_[self.place, self.place]
        at = np.asarray(np.searchsorted(ids, when))
        there = np.isin(at, np.arange(len(ids)))
        there[there] = ids[at[there]] == when[there]
        pairs = np.sort(at[there] * len(self.places) + place[there])
        once = pairs[np.r_[True, pairs[1:] != pairs[:-1]]] if len(pairs) else pairs
        return np.bincount(once // max(len(self.places), 1), minlength=len(ids))


@dataclass(frozen=True, eq=False)
class HealthGrid:
    """A matrix a quantity: a row a bucket, a column some snapshots, in the state after the last of them
    (`ends`, ids). Immutable by agreement."""

    places: tuple[tuple[str, int], ...]
    ends: np.ndarray
    runs: np.ndarray
    files: np.ndarray
    bytes: np.ndarray

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.ends)

    def column(self, snapshot: int | None) -> int:
        """The column of a snapshot; the last without any."""
        if snapshot is None or not self.columns:
            return self.columns - 1
        return min(int(np.searchsorted(self.ends, snapshot)), self.columns - 1)


def grid_of(edits: Edits, ids: Sequence[int] | np.ndarray, *, columns: int) -> HealthGrid:
    """The grid over these snapshots (ascending), in at most so many columns of equal numbers of them."""
    numbers = np.asarray(ids, np.int64)
    each = max(-(-len(numbers) // max(columns, 1)), 1)
    ends = (
        numbers[np.minimum(np.arange(each - 1, len(numbers) + each - 1, each), len(numbers) - 1)]
        if len(numbers)
        else numbers
    )
    shape = (len(edits.places), len(ends))
    came, went = (_column(when, ends) for when in (edits.added, edits.removed))
    files = _summed(shape, edits.place, came, went, np.ones(len(edits.place), np.int64))
    size = _summed(shape, edits.place, came, went, edits.bytes)
    fresh = edits.level == 0
    runs = _summed(shape, edits.place[fresh], came[fresh], went[fresh], np.ones(int(fresh.sum()), np.int64))
    deep = ~fresh
    runs += _levels(shape, edits.place[deep], edits.level[deep], came[deep], went[deep])
    return HealthGrid(edits.places, ends, runs, files, size)


def _column(when: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The column of each event: 0 for what was there before, beyond the last for what never comes."""
    return np.searchsorted(ends, when)


def _summed(
    shape: tuple[int, int], row: np.ndarray, came: np.ndarray, went: np.ndarray, amount: np.ndarray
) -> np.ndarray:
    """What is there at the end of each column."""
    rows, columns = shape
    flat = np.zeros(rows * (columns + 1), np.int64)
    np.add.at(flat, row * (columns + 1) + came, amount)
    np.subtract.at(flat, row * (columns + 1) + went, amount)
    return np.cumsum(flat.reshape(rows, columns + 1), axis=1)[:, :columns]


def _levels(
    shape: tuple[int, int], row: np.ndarray, level: np.ndarray, came: np.ndarray, went: np.ndarray
) -> np.ndarray:
    """How many levels from 1 on have files at the end of each column."""
    levels = np.zeros(shape, np.int64)
    for number in np.unique(level).tolist():
        mine = level == number
        count = int(mine.sum())
        levels += _summed(shape, row[mine], came[mine], went[mine], np.ones(count, np.int64)) > 0
    return levels


def _ints(table: pa.Table, name: str, absent: int = 0) -> np.ndarray:
    return pc.fill_null(table[name].cast(pa.int64()), absent).to_numpy()
