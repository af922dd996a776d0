"""A metric of a command: its name and unit by the conventions of Prometheus, and its samples. Pure.

Names begin with `tablestore_`; units are seconds and bytes; what only grows ends in `_total` and counts from
the start of the process. Source: prometheus.io, "Metric and label naming".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tablestore.core.quantities import duration

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Samples of one name: {label values: number}, in the order of `labels`."""

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    labels: Labels = ()
    samples: Mapping[Labels, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """Whether what a command does can be relied on now, and why not."""

    healthy: bool
    text: str


class MetricsSource(Protocol):
    """A command that is looked at from outside."""

    def families(self) -> Iterable[MetricFamily]:
        """What there is to measure now."""

    def health(self) -> HealthAnswer:
        """How it is now."""


def one(name: str, text: str, value: float) -> MetricFamily:
    """A gauge without labels."""
    return MetricFamily(name, "gauge", text, samples={(): value})


def quiet(work: str, seconds: float, most_seconds: float) -> list[str]:
    """What is ill about work of which nothing has come for so long; empty where that is no longer than it
    may be."""
    if seconds <= most_seconds:
        return []
    return [f"nothing has come of {work} for {duration(round(1000 * seconds))}"]


def states(name: str, text: str, state: str, every: Iterable[str]) -> MetricFamily:
    """A gauge for each state, 1 for the one that it is in."""
    samples: dict[Labels, float] = {(each,): float(each == state) for each in dict.fromkeys((*every, state))}
    return MetricFamily(name, "gauge", text, ("state",), samples)
