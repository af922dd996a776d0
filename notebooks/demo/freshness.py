"""How long it took from a commit in the source until its rows were visible in the lake, as a distribution.

The binlog knows whole seconds; where whoever wrote noted the time of each commit, those times are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tablestore.cdc.capture.report import BatchReport, Freshness

SHARES = (0.5, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Seconds of `transactions`: of the median, the 95th of a hundred, the slowest."""

    transactions: int
    median: float
    p95: float
    worst: float

    @classmethod
    def of(cls, snapshots: Freshness) -> Distribution | None:
        """None without a transaction."""
        if not len(snapshots.counts):
            return None
        return cls(int(snapshots.counts.sum()), *(round(snapshots.quantile(share), 3) for share in SHARES))

    def __str__(self) -> str:
        return f"{self.median:.1f} s, p95 {self.p95:.1f}, worst {self.worst:.1f}"


def words(reports: Sequence[BatchReport]) -> str:
    """The freshness of the newest transactions, for a line of progress; empty without one."""
    distribution = Distribution.of(Freshness.of(reports[-20:]))
    return "" if distribution is None else f"freshness {distribution.median:.1f} s"


def distributions(
    reports: Sequence[BatchReport], commits: Sequence[float] = ()
) -> tuple[Distribution | None, Distribution | None]:
    """Freshness while rows of snapshots were still to be read, and afterwards. `commits`: when each
    transaction was committed, in the order of the source, by the clock of this machine; used if it is the
    only writer, so that the newest of them are those of the reports."""
    moments = np.sort(np.asarray(commits, np.float64))
    sizes = [sum(count for _, count in report.commits) for report in reports]
    exact = 0 < sum(sizes) <= len(moments)
    place = len(moments) - sum(sizes)
    loading: list[tuple[float, int]] = []
    following: list[tuple[float, int]] = []
    for report, size in zip(reports, sizes, strict=True):
        pairs = [(float(at), count) for at, count in report.commits]
        if exact:
            pairs = [(float(at), 1) for at in moments[place : place + size]]
        place += size
        phase = loading if report.snapshotting else following
        phase += [(max(0.0, report.ended - at), count) for at, count in pairs]
    return _distribution(loading), _distribution(following)


def _distribution(pairs: Sequence[tuple[float, int]]) -> Distribution | None:
    inorder = sorted(pairs)
    seconds = np.array([at for at, _ in inorder], np.float64)
    return Distribution.of(Freshness(seconds, np.array([count for _, count in inorder], np.int64)))
