"""How densely keys lie in a simulated file: expected rows of merges, by the law that keys are drawn by; and
flushes of a workload so, for runs in which not every row can be drawn.

A content is pieces of the key axis, (from, to, draws, dead, gone): each key between was drawn `draws` times
on average, so that the law says what share of the keys is there (`inf`: all); of those `dead` are deletes,
and `gone` were deletes that a compaction dropped. Draws of files add up, and the newest row of a key decides,
so the rows of any merge are a sum over pieces: nothing is drawn, and errors do not grow. Neighbours that
differ by less than `_ALIKE` become one piece. How many rows of a flush are left when equal keys are folded
varies from flush to flush, as it does when they are drawn. The same seed gives the same. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import exp, inf, sqrt

import numpy as np

from tablestore.insight.simulator.workload import SEQUENTIAL, UNIFORM, FlushedRows, Workload

Piece = tuple[float, float, float, float, float]
Pieces = tuple[Piece, ...]
Law = Callable[[float], float]  # draws a key → share of the keys that are there

_ALIKE = 0.02  # shares of neighbours that count as equal
_STEEP = 10.0  # how many times as far densities may differ, of their own size
_MOST_PIECES = 64
_RANKS = 4_000  # groups of ranks that a law of zipf adds up
_KNOWN = 4_096  # shares that a law remembers
_PER_TEN = 24  # its points a factor of ten of draws


def evenly(draws: float) -> float:
    """The law of keys that are drawn evenly."""
    return 1.0 - exp(-draws)


def zipf_law(space: int, skew: float) -> Law:
    """The law of keys whose rank x is drawn with the density x^−skew, cut to whole ranks, looked up between
    points that were added up before."""
    ends = np.unique(np.rint(np.geomspace(1, space + 1, _RANKS))) - 1  # first ranks of groups, and the end
    below = np.log(ends + 1) if abs(skew - 1) < 1e-9 else (ends + 1) ** (1 - skew) / (1 - skew)
    width = np.diff(ends)
    chance = np.diff(below) / (below[-1] - below[0]) / width * space  # draws of a key a draw of all
    points = np.geomspace(1e-9, 1e9, 18 * _PER_TEN + 1)
    there = [float(-(width * np.expm1(-g * chance)).sum()) / space for g in points]
    points_list = points.tolist()

    @lru_cache(_KNOWN)
    def share(draws: float) -> float:
        if draws <= points_list[0]:
            return draws
        at = bisect_left(points_list, draws)
        if at == len(points_list):
            return 1.0
        low, high = points_list[at - 1], points_list[at]
        return there[at - 1] + (there[at] - there[at - 1]) * (draws - low) / (high - low)

    return share


def rows_of(pieces: Iterable[Piece], law: Law) -> tuple[float, float]:
    """(rows, deletes among them)."""
    rows = deletes = 0.0
    for low, high, draws, dead, gone in pieces:
        there = (high - low) * law(draws)
        rows += there * (1.0 - gone)
        deletes += there * dead
    return rows, deletes


def merged(newest_first: Sequence[Pieces], law: Law) -> Pieces:
    """The pieces that merged files have."""
    low, high, *_ = newest_first[0][0]
    alone = [p[0] for p in newest_first if len(p) == 1 and p[0][1] == high and p[0][0] == low]
    if len(alone) == len(newest_first):
        return (_stacked(low, high, alone, law),)
    cuts = sorted({end for pieces in newest_first for piece in pieces for end in piece[:2]})
    places = [0] * len(newest_first)
    merged_pieces: list[Piece] = []
    for low, high in pairwise(cuts):
        stack = []
        for i, pieces in enumerate(newest_first):
            at = places[i]
            while at < len(pieces) and pieces[at][1] <= low:
                at += 1
            places[i] = at
            if at < len(pieces) and pieces[at][0] <= low:
                stack.append(pieces[at])
        if stack:
            _append(merged_pieces, _stacked(low, high, stack, law), _ALIKE)
    return _few(merged_pieces)


def without_deletes(pieces: Pieces) -> Pieces:
    """The pieces when deletes are dropped; those of which nothing is left are left out."""
    if not any(piece[3] for piece in pieces):
        return pieces
    kept = ((low, high, draws, 0.0, gone + dead) for low, high, draws, dead, gone in pieces)
    return tuple(piece for piece in kept if piece[4] < 1.0 - 1e-9)


def joined(in_key_order: Iterable[Pieces]) -> Pieces:
    """Files that follow each other as one."""
    joined_pieces: list[Piece] = []
    for pieces in in_key_order:
        for piece in pieces:
            _append(joined_pieces, piece, _ALIKE)
    return _few(joined_pieces)


def cut(pieces: Pieces, law: Law, *, rows: float, every: float) -> list[Pieces]:
    """Pieces of files of `every` rows each, where they come to `rows` by count and to somewhat else by the
    law; the last file takes what is left."""
    whole, _ = rows_of(pieces, law)
    step = every * whole / rows if rows else 0.0
    groups: list[list[Piece]] = [[]]
    room, left = step, -(-rows // every) - 1  # rows before the next end, ends to come
    for low, high, draws, dead, gone in pieces:
        dense = law(draws) * (1.0 - gone)
        while left > 0 and dense * (high - low) >= room:
            middle = min(high, round(low + room / dense)) if dense else high
            if middle > low:
                groups[-1].append((low, middle, draws, dead, gone))
            groups.append([])
            low, room, left = middle, step, left - 1
        if high > low:
            groups[-1].append((low, high, draws, dead, gone))
            room -= dense * (high - low)
    return [tuple(some) for some in groups if some]


def ends_of(pieces: Pieces, law: Law) -> tuple[int, int]:
    """The first and the last key that are to be expected."""
    low, high = pieces[0][0], pieces[-1][1]
    first = low + _gap(pieces[0], law)
    last = high - 1 - _gap(pieces[-1], law)
    return int(min(first, last)), int(max(first, last))


def _gap(piece: Piece, law: Law) -> float:
    """Keys before the first that is there."""
    dense = law(piece[2]) * (1.0 - piece[4])
    return min(1.0 / dense - 1.0, piece[1] - piece[0] - 1) if dense else 0.0


def _stacked(low: float, high: float, newest_first: Sequence[Piece], law: Law) -> Piece:
    """One piece of pieces over the same keys: of each, what newer ones do not hide counts."""
    if len(newest_first) == 1:
        return (low, high, *newest_first[0][2:])
    if not any(p[3] or p[4] for p in newest_first):
        return (low, high, sum([p[2] for p in newest_first]), 0.0, 0.0)
    draws = there = dead = gone = 0.0
    for piece in newest_first:
        draws += piece[2]
        now = law(draws)
        fresh = now - there
        dead += fresh * piece[3]
        gone += fresh * piece[4]
        there = now
    return (low, high, draws, dead / there, gone / there) if there else (low, high, 0.0, 0.0, 0.0)


def _append(pieces: list[Piece], piece: Piece, alike: float) -> None:
    """Add a piece behind the last one, or widen that if both are alike."""
    if pieces:
        low, end, draws, dead, gone = pieces[-1]
        same = end == piece[0] and abs(dead - piece[3]) <= alike and abs(gone - piece[4]) <= alike
        if same and (draws == piece[2] or _near(draws, piece[2], alike)):
            left, right = end - low, piece[1] - piece[0]
            whole = left + right
            mean = [(a * left + b * right) / whole for a, b in zip(pieces[-1][2:], piece[2:], strict=True)]
            pieces[-1] = (low, piece[1], draws if draws == piece[2] else mean[0], mean[1], mean[2])
            return
    pieces.append(piece)


def _near(draws: float, other: float, alike: float) -> bool:
    """Whether two densities of draws may be taken for one; that all keys are there is like nothing else."""
    return draws != inf and other != inf and abs(draws - other) <= _STEEP * alike * max(draws, other)


def _few(pieces: list[Piece]) -> Pieces:
    alike = _ALIKE
    while len(pieces) > _MOST_PIECES and alike < 1:
        alike *= 2
        fewer: list[Piece] = []
        for piece in pieces:
            _append(fewer, piece, alike)
        pieces = fewer
    return tuple(pieces)


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
