"""What `--metrics` and `--opentelemetry` ask for, while a command runs: its own figures, and those of the
commits of its process."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tablestore.cli.metrics.export import exporting
from tablestore.cli.metrics.family import HealthAnswer, MetricFamily, MetricsSource
from tablestore.cli.metrics.server import serving
from tablestore.core.options.secrets import is_secret
from tablestore.write.commit.committer import COUNTER, CommitCounts

_GIVEN = ("option", "property", "format_option")  # KEY=VALUE of the command line


@contextmanager
def watched(options: argparse.Namespace, source: MetricsSource) -> Iterator[None]:
    """Answer and export the figures of a source while the block runs, as the options say."""
    both = _WithCommits(source)
    given = [pair for name in _GIVEN for pair in getattr(options, name, ())]
    secrets = [value for key, value in given if is_secret(key)]
    with serving(options.metrics, both, secrets=secrets), exporting(options.opentelemetry, both):
        yield


@dataclass(frozen=True, slots=True)
class _WithCommits:
    source: MetricsSource

    def families(self) -> Iterator[MetricFamily]:
        """Those of the source, and of commits."""
        yield from self.source.families()
        yield from commit_families(COUNTER.counts)

    def health(self) -> HealthAnswer:
        """That of the source."""
        return self.source.health()


def commit_families(counts: CommitCounts) -> Iterator[MetricFamily]:
    """What commits did, and lost to others that were first."""
    for name, text, value in (
        ("commits", "Snapshots made.", counts.snapshots),
        ("commit_retries", "Tries again of these, since others were first.", counts.retries),
        ("commit_retry_seconds", "From their first tries to those that succeeded.", counts.retry_seconds),
        ("commit_conflicts", "Commits that were refused by a conflict.", counts.conflicts),
    ):
        yield MetricFamily(f"tablestore_{name}_total", "counter", text, samples={(): float(value)})
