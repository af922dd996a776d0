"""What `--metrics` and `--opentelemetry` ask for, while a command runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from tablestore.cli.metrics.export import exporting
from tablestore.cli.metrics.family import MetricsSource
from tablestore.cli.metrics.server import serving


@contextmanager
def watched(options: argparse.Namespace, source: MetricsSource) -> Iterator[None]:
    """Answer and export the figures of a source while the block runs, as the options say."""
    with serving(options.metrics, source), exporting(options.opentelemetry, source):
        yield
