"""Workloads: which keys the rows of each flush hold, drawn from seeds.

    sequential   new keys in ascending order; updates and deletes of any earlier key
    uniform      upserts of keys drawn evenly from a key space
    zipf         upserts of keys of which few are drawn often, scattered over the key space
    time-series  new keys in ascending order, late rows near the newest; deletes take the oldest keys

A flush is drawn as a sample: `samples` rows, each of which stands for rows / samples. Keys that share a place
of that size are one sampled key, so samples overlap as the rows would. Flushes are drawn in blocks, whole
columns at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tablestore.core.errors import InvalidRequest
from tablestore.insight.simulator.keyset import KeySet

SEQUENTIAL, UNIFORM, ZIPF, TIME_SERIES = "sequential", "uniform", "zipf", "time-series"
KINDS = (SEQUENTIAL, UNIFORM, ZIPF, TIME_SERIES)
BLOCK_ROWS = 1 << 16  # sampled rows drawn at a time
_MOST_DRAWN = 1 << 18  # rows of a flush that is drawn whole
_GOLDEN = 0.6180339887498949  # multiplying by this share of the places scatters neighbours


@dataclass(frozen=True, slots=True)
class Workload:
    """What is written, flush by flush.

    `rows` of a flush before equal keys are folded, `row_bytes` each in a file, `file_bytes` a file without
    rows. Of the rows `updates` and `deletes` (shares) are of keys that exist; in uniform and zipf what is
    drawn may exist or not, and `updates` has no meaning. `keys`: size of the key space of these two. `skew`:
    exponent of zipf. `lag`: mean distance, in rows, of late rows of a time-series from the newest.
    """

    kind: str = UNIFORM
    rows: int = 10_000
    row_bytes: float = 100.0
    file_bytes: float = 0.0
    keys: int | None = None
    updates: float = 0.0
    deletes: float = 0.0
    skew: float = 0.99
    lag: float | None = None

    def __post_init__(self) -> None:
        """Raise InvalidRequest for what cannot be drawn."""
        if self.kind not in KINDS:
            raise InvalidRequest(f"workload {self.kind!r} is none of {', '.join(KINDS)}")
        if self.rows < 1 or self.row_bytes <= 0 or self.file_bytes < 0:
            raise InvalidRequest("a workload needs rows ≥ 1, row_bytes > 0 and file_bytes ≥ 0")
        if not (0 <= self.updates <= 1 and 0 <= self.deletes <= 1 and self.updates + self.deletes <= 1):
            raise InvalidRequest(f"updates {self.updates} and deletes {self.deletes} are shares of the rows")
        if self.spread and self.updates:
            raise InvalidRequest(f"{self.kind} draws new and old keys alike: leave updates out, choose keys")
        if self.keys is not None and (not self.spread or self.keys < 1):
            raise InvalidRequest("keys ≥ 1 is the key space of uniform and zipf; others grow theirs")
        if self.skew <= 0 or (self.lag is not None and self.lag <= 0):
            raise InvalidRequest("skew and lag must be above 0")

    @property
    def spread(self) -> bool:
        """Whether keys are drawn from a space of fixed size."""
        return self.kind in (UNIFORM, ZIPF)

    @property
    def key_space(self) -> int:
        """Size of the key space of uniform and zipf; by default the rows of a hundred flushes."""
        return self.keys or 100 * self.rows

    @property
    def text(self) -> str:
        """`zipf(0.99) over 1,000,000 keys, 10,000 rows of 100 B a flush, 5 % deletes`."""
        name = f"zipf({self.skew:g})" if self.kind == ZIPF else self.kind
        said = [f"{name} over {self.key_space:,} keys" if self.spread else name]
        said.append(f"{self.rows:,} rows of {self.row_bytes:g} B a flush")
        for share, word in ((self.updates, "updates"), (self.deletes, "deletes")):
            said += [f"{100 * share:g} % {word}"] if share else []
        return ", ".join(said)


@dataclass(slots=True, eq=False)
class FlushedRows:
    """One flush: its sampled keys, or their densities, the rows they stand for, the keys between which all
    rows lie, and how many rows are deletes."""

    sample: Any
    rows: int
    low: int
    high: int
    deletes: int = 0


class Draws:
    """The flushes of a workload in order; the same seed gives the same. `samples` rows are drawn a flush.

    What a sample cannot say of a whole flush, how many rows are left when equal keys are folded and how far
    its keys reach, is measured once a block on a flush that is drawn whole (unless it `measures` nothing).
    """

    def __init__(
        self,
        workload: Workload,
        *,
        seed: int,
        samples: int | None = None,
        measures: bool = True,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.workload, self._block_rows = workload, block_rows
        self._drawn = min(samples or _MOST_DRAWN, workload.rows)
        self.weight = workload.rows / self._drawn  # rows for which one sampled row stands
        self._random = np.random.default_rng(seed)
        self._updated = 0.0 if workload.spread else self._drawn * workload.updates  # rows a flush, on average
        self._deleted = 0.0 if workload.spread else self._drawn * workload.deletes
        self._head = self._tail = 0  # the next new key, and the oldest that a time-series has not deleted
        self._places = max(1, round(workload.key_space / self.weight))
        sampled = measures and self._drawn < workload.rows
        self._whole = Draws(workload, seed=seed + 1, measures=False) if sampled else None

    def go_on(self, before: Draws) -> None:
        """Draw new keys behind those that were drawn before."""
        self._head, self._tail = before._head, before._tail

    def __iter__(self) -> Iterator[FlushedRows]:
        block = max(1, self._block_rows // self._drawn)
        while True:
            yield from self._block(block)

    def _block(self, flushes: int) -> Iterator[FlushedRows]:
        """Draw a block of flushes as one matrix, fold each, and cut the matrix into them."""
        if self.workload.spread:
            heads = np.zeros(flushes, dtype=np.int64)
            keys, dead = self._spread(flushes)
        else:
            heads, keys, dead = self._growing(flushes)
        order = np.argsort(keys, axis=1, kind="stable")  # of equal keys the last is the newest
        keys = np.take_along_axis(keys, order, axis=1)
        last = np.ones(keys.shape, dtype=bool)
        last[:, :-1] = keys[:, 1:] != keys[:, :-1]
        counts = last.sum(axis=1)
        ends = np.concatenate(([0], np.cumsum(counts))).tolist()
        flat = keys[last]
        gone = None if dead is None else np.take_along_axis(dead, order, axis=1)[last]
        low, high = keys[:, 0], keys[:, -1]
        rows = counts
        if self._whole is not None:
            rows, low, high = self._measured(heads, low, high)
        each = zip(rows.tolist(), low.tolist(), high.tolist(), strict=True)
        for i, (count, least, most) in enumerate(each):
            start, stop = ends[i], ends[i + 1]
            cut = None if gone is None else gone[start:stop]
            sample = KeySet(flat[start:stop], cut)
            dead = sample.deletes * count // len(sample) or round(self.workload.deletes * count)
            yield FlushedRows(sample, count, least, most, 0 if gone is None else dead)

    def _measured(
        self, heads: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, lowest place, highest place) of whole flushes, by the one that is drawn for the block."""
        whole, flushes = self._whole, len(heads)
        assert whole is not None
        scale = whole.weight / self.weight
        whole._head, whole._tail = int(self._head / scale), int(self._tail / scale)
        (sample,) = whole._block(1)
        left = len(sample.sample) * whole.weight
        folded = self.workload.rows - left
        rows = np.full(flushes, left)
        if folded:
            rows += self._random.normal(0.0, np.sqrt(folded), flushes)
        if self.workload.spread:
            low, high = np.minimum(low, int(sample.low * scale)), np.maximum(high, int(sample.high * scale))
        elif self._updated + self._deleted:
            back = int(self._head - sample.low * scale) + 1
            low = np.minimum(low, np.maximum(heads - back, 0))
        return np.clip(np.round(rows), 1, self.workload.rows).astype(np.int64), low, high

    def _spread(self, flushes: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Keys of a space of fixed size."""
        shape = (flushes, self._drawn)
        if self.workload.kind == UNIFORM:
            places = self._random.integers(0, self._places, shape)
        else:
            places = self._scattered(self._zipf(shape))
        if not self.workload.deletes:
            return places, None
        return places, self._random.random(shape) < self.workload.deletes

    def _zipf(self, shape: tuple[int, ...]) -> np.ndarray:
        """Ranks from 0 on, the density of rank x falling as x^−skew (the continuous law, cut to places)."""
        skew, space = self.workload.skew, float(self.workload.key_space)
        u = self._random.random(shape)
        if abs(skew - 1.0) < 1e-9:
            ranks = np.exp(u * np.log(space + 1.0)) - 1.0
        else:
            power = 1.0 - skew
            ranks = (1.0 + u * ((space + 1.0) ** power - 1.0)) ** (1.0 / power) - 1.0
        return np.minimum((ranks / self.weight).astype(np.int64), self._places - 1)

    def _scattered(self, ranks: np.ndarray) -> np.ndarray:
        """Places of ranks: neighbours in rank are far from each other, each place is used once."""
        factor = max(1, int(self._places * _GOLDEN))
        while math.gcd(factor, self._places) != 1:
            factor += 1
        if factor * self._places < 1 << 63:
            return ranks * factor % self._places
        return ranks

    def _growing(self, flushes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(first new key of each flush, its keys, deletes): new keys, then rows of keys that exist, deletes
        last. Shares that make no whole number of rows are rounded by chance."""
        updated, deleted = (self._rounded(mean, flushes) for mean in (self._updated, self._deleted))
        new = np.maximum(self._drawn - updated - deleted, 0)
        heads = self._head + np.cumsum(new) - new
        tails = self._tail + np.cumsum(deleted) - deleted
        self._head, self._tail = int(heads[-1] + new[-1]), int(tails[-1] + deleted[-1])
        column = np.arange(self._drawn)
        first_dead = (new + updated)[:, None]
        head = heads[:, None]
        keys = np.where(column < new[:, None], head + column, self._earlier(head))
        if not self._deleted:
            return heads, keys, None
        dead = column >= first_dead
        if self.workload.kind == TIME_SERIES:
            newest = np.maximum(head + new[:, None] - 1, 0)
            oldest = np.minimum(tails[:, None] + column - first_dead, newest)
            keys = np.where(dead, oldest, keys)
        return heads, keys, dead

    def _rounded(self, mean: float, count: int) -> np.ndarray:
        """Whole numbers of that mean."""
        whole, rest = divmod(mean, 1.0)
        return int(whole) + (self._random.random(count) < rest).astype(np.int64)

    def _earlier(self, head: np.ndarray) -> np.ndarray:
        """Keys before `head`: any, evenly, or such as come late in a time-series."""
        shape = (len(head), self._drawn)
        if not self._updated + self._deleted:
            return np.zeros(shape, dtype=np.int64)
        if self.workload.kind == SEQUENTIAL:
            return (self._random.random(shape) * np.maximum(head, 1)).astype(np.int64)
        lag = (self.workload.lag or 10.0 * self.workload.rows) / self.weight
        behind = self._random.exponential(lag, shape).astype(np.int64)
        return np.maximum(head - 1 - behind, 0)


def divided(rows: KeySet, parts: int) -> list[FlushedRows | None]:
    """Rows without deletes, their keys shared out among `parts` key spaces; None for a part without any."""
    flushed: list[FlushedRows | None] = []
    for part in range(parts):
        keys = rows.keys[rows.keys % parts == part] // parts
        some = FlushedRows(KeySet(keys), len(keys), int(keys[0]), int(keys[-1])) if len(keys) else None
        flushed.append(some)
    return flushed
