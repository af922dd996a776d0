"""Flushes of a workload as expected densities of keys, for runs in which not every row can be drawn.

How many rows of a flush are left when equal keys are folded varies from flush to flush, as it does when they
are drawn; what merges give is expected (`density`). The same seed gives the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, sqrt

import numpy as np

from tablestore.insight.simulator.density import (
    Law,
    Piece,
    Pieces,
    ends_of,
    evenly,
    joined,
    merged,
    rows_of,
    zipf_law,
)
from tablestore.insight.simulator.workload import SEQUENTIAL, UNIFORM, FlushedRows, Workload

_BLOCK = 256  # flushes whose chance is drawn at a time
_LATE = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 12.0)  # mean lags between pieces


def law_of(workload: Workload) -> Law:
    """What share of keys is there after some draws."""
    if workload.kind in (UNIFORM, SEQUENTIAL) or not workload.spread:
        return evenly
    return zipf_law(workload.key_space, workload.skew)


class Expectations:
    """The flushes of a workload in order, one by one."""

    def __init__(self, workload: Workload, *, seed: int) -> None:
        self.workload, self.law = workload, law_of(workload)
        self._random = np.random.default_rng(seed)
        self._head = self._tail = 0  # the next new key, and the oldest that a time-series has not deleted

    def go_on(self, head: int) -> None:
        """Draw new keys from `head` on: those before it are there."""
        self._head = head

    def __iter__(self) -> Iterator[FlushedRows]:
        return self._spread() if self.workload.spread else self._growing()

    def _spread(self) -> Iterator[FlushedRows]:
        """All flushes have one density; their rows vary as those of draws do."""
        workload, law = self.workload, self.law
        space, deletes = workload.key_space, workload.deletes
        draws = workload.rows / space
        pieces = ((0.0, float(space), draws, deletes, 0.0),)
        mean = space * law(draws)
        slope = (law(1.001 * draws) - law(0.999 * draws)) / (0.002 * draws)
        spread = sqrt(max(space * (law(2 * draws) - law(draws)) - workload.rows * slope**2, 0.0))
        low, high = ends_of(pieces, law)
        while True:
            counts = np.rint(self._random.normal(mean, spread, _BLOCK))
            for rows in np.clip(counts, 1, workload.rows).astype(np.int64).tolist():
                yield FlushedRows(pieces, rows, low, high, round(rows * deletes))

    def _growing(self) -> Iterator[FlushedRows]:
        """New keys behind all others, and rows of keys that exist."""
        workload = self.workload
        counts = [workload.rows * workload.updates, workload.rows * workload.deletes]
        while True:
            chance = self._random.random((_BLOCK, 2)) + np.array(counts)
            for updated, deleted in np.floor(chance).tolist():  # shares of a row are rounded by chance
                yield self._grown(updated, deleted)

    def _grown(self, updated: float, deleted: float) -> FlushedRows:
        head, new = self._head, max(self.workload.rows - int(updated) - int(deleted), 0)
        self._head = head + new
        layers: list[Pieces] = []
        if self.workload.kind == SEQUENTIAL:
            layers += [
                ((0.0, float(head), n / head, d, 0.0),)
                for n, d in ((deleted, 1.0), (updated, 0.0))
                if n and head
            ]
        else:
            end = min(self._tail + int(deleted), head + new)
            if end > self._tail:
                layers.append(((float(self._tail), float(end), inf, 1.0, 0.0),))
            self._tail = end
            layers += (
                [_late(updated, head, self.workload.lag or 10.0 * self.workload.rows)]
                if updated and head
                else []
            )
        if new:
            layers.append(((float(head), float(head + new), inf, 0.0, 0.0),))
        if not layers:
            layers = [((0.0, 1.0, inf, 0.0, 0.0),)]
        pieces = merged(layers, evenly) if len(layers) > 1 else layers[0]
        rows, dead = rows_of(pieces, evenly)
        low, high = ends_of(pieces, evenly)
        return FlushedRows(pieces, max(round(rows), 1), low, high, round(dead))


def _late(rows: float, head: int, lag: float) -> Pieces:
    """Rows that come late by an exponential distance of mean `lag`, none before the first key."""
    pieces: list[Piece] = []
    for near, far in pairwise(_LATE):
        high, low = head - round(near * lag), head - round(far * lag)
        share = exp(-near) - exp(-far)
        if low < 0 or far == _LATE[-1]:
            low, share = max(low, 0), exp(-near)
        if high > low:
            pieces.append((float(low), float(high), rows * share / (high - low), 0.0, 0.0))
        if low == 0:
            break
    return joined([tuple(reversed(pieces))])
