"""Is a figure flat over time, or does it grow? With the arithmetic in words. Pure.

The first fifth is left out: caches fill. They are small in a soak (`services.CACHED_ENTRIES`), so that a
slope behind that is none of theirs. The slope is the median of the slopes between all pairs of samples
(Theil and Sen), so that a kill or a compaction, which moves a few samples, does not decide. What the slope
adds up to over the time is compared with a twentieth of the median, with twice the scatter of the samples
about the line, and with what means nothing in this unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLAT, GROWS, SHORT = "flat", "grows", "too short"
LEAST_SAMPLES = 20
_WARM, _SHARE = 0.2, 0.05
_MOST_POINTS = 400  # pairs grow with their square
_TO_DEVIATION = 1.4826  # from the median distance to a standard deviation, of a normal distribution


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a figure: `growth` (in its unit) over `seconds`, and the `bound` that it stays below
    where it is flat."""

    name: str
    unit: str
    word: str
    samples: int
    seconds: float = 0.0
    median: float = 0.0
    growth: float = 0.0
    scatter: float = 0.0
    bound: float = 0.0

    def __str__(self) -> str:
        if self.word == SHORT:
            return f"{self.name}: {self.word}: {self.samples} samples, of {LEAST_SAMPLES} at least"
        sign = ">" if self.word == GROWS else "≤"
        return (
            f"{self.name}: {self.word}: median {self.median:,.1f} {self.unit}, {self.growth:+,.2f} in "
            f"{self.seconds:,.0f} s {sign} {self.bound:,.2f} (scatter {self.scatter:,.2f}, "
            f"{self.samples} samples)"
        )


def verdict(name: str, unit: str, times: np.ndarray, values: np.ndarray, *, least: float) -> Verdict:
    """That of samples at `times` (seconds, rising), NaN where there is none; a growth of up to `least` means
    nothing."""
    verdicts = ~np.isnan(values)
    times, values = times[verdicts], values[verdicts]
    if len(times):
        warm = times >= times[0] + _WARM * (times[-1] - times[0])
        times, values = times[warm], values[warm]
    if len(times) < LEAST_SAMPLES:
        return Verdict(name, unit, SHORT, len(times))
    seconds, median = float(times[-1] - times[0]), float(np.median(values))
    slope = _slope(times, values)
    rest = values - slope * times
    scatter = _TO_DEVIATION * float(np.median(np.abs(rest - np.median(rest))))
    growth = slope * seconds
    bound = max(_SHARE * abs(median), 2 * scatter, least)
    word = GROWS if growth > bound else FLAT
    return Verdict(name, unit, word, len(times), seconds, median, growth, scatter, bound)


def longest_life(ids: np.ndarray) -> slice:
    """The longest stretch of samples of one process, of which `ids` are the ids (0: it was away)."""
    cuts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if len(ids) else np.array([], np.int64)
    ends = np.r_[cuts[1:], len(ids)].astype(np.int64)[: len(cuts)]
    lengths = np.where(ids[cuts] != 0, ends - cuts, 0) if len(cuts) else cuts
    if not len(lengths) or not lengths.max():
        return slice(0, 0)
    longest = int(lengths.argmax())
    return slice(int(cuts[longest]), int(ends[longest]))


def _slope(times: np.ndarray, values: np.ndarray) -> float:
    """The median slope between pairs, of at most 400 samples at even distances."""
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), _MOST_POINTS)).astype(np.int64))
    first, second = np.triu_indices(len(some), 1)
    apart = times[some[second]] - times[some[first]]
    rise = values[some[second]] - values[some[first]]
    return float(np.median(rise[apart > 0] / apart[apart > 0])) if (apart > 0).any() else 0.0
