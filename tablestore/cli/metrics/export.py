"""`--opentelemetry`: the figures of `--metrics`, given to an exporter of OpenTelemetry at intervals.

The exporter is named as its package registers it: `console` comes with opentelemetry-sdk, `otlp_proto_http`
with opentelemetry-exporter-otlp-proto-http. Its own variables of the environment say where to and how; the
interval is OTEL_METRIC_EXPORT_INTERVAL in milliseconds, the service's name OTEL_SERVICE_NAME. Names are those
that Prometheus sees, so that either way gives the same series; units are those of UCUM.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from tablestore.cli.metrics.family import MetricFamily, MetricsSource
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest
from tablestore.core.extras import DISTRIBUTION, required

log = logging.getLogger(__name__)
_GROUP, _INTERVAL, _INTERVAL_MS = "opentelemetry_metrics_exporter", "OTEL_METRIC_EXPORT_INTERVAL", 60_000
_BY = "--opentelemetry"
_UNITS = {"seconds": "s", "bytes": "By"}
_NANOS = 1_000_000  # in a millisecond
_LAST_SECONDS = 30.0  # for the last export, when the command ends


class MetricsOutput:
    """Gives the figures of a source to an exporter. One call at a time."""

    def __init__(self, source: MetricsSource, exporter: Any, *, env: Env = SYSTEM) -> None:
        self._source, self._exporter, self._env = source, exporter, env
        self._sdk = required("opentelemetry.sdk.metrics.export", by=_BY)
        resources = required("opentelemetry.sdk.resources", by=_BY)
        scopes = required("opentelemetry.sdk.util.instrumentation", by=_BY)
        self._resource = resources.Resource.create()
        self._scope = scopes.InstrumentationScope(DISTRIBUTION)
        self._began = env.now_ms() * _NANOS

    def export(self) -> bool:
        """Give all figures of now to the exporter; whether it took them. Errors are logged."""
        sdk, now = self._sdk, self._env.now_ms() * _NANOS
        try:
            metrics = [self._metric(family, now) for family in self._source.families()]
            scope = sdk.ScopeMetrics(self._scope, metrics, "")
            data = sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scope], "")])
            return bool(self._exporter.export(data) is sdk.MetricExportResult.SUCCESS)
        except Exception as e:  # of the exporter's package: what is measured goes on without it
            log.warning("%s: the figures were not exported: %s", _BY, e)
            return False

    def _metric(self, family: MetricFamily, now: int) -> Any:
        """A family as the SDK has it; what only grows counts from the start of the process."""
        sdk = self._sdk
        counts = family.kind == "counter"
        began = self._began if counts else None
        points = [
            sdk.NumberDataPoint(dict(zip(family.labels, labels, strict=True)), began, now, value)
            for labels, value in family.samples.items()
        ]
        data: Any = sdk.Gauge(points)
        if counts:
            data = sdk.Sum(points, sdk.AggregationTemporality.CUMULATIVE, is_monotonic=True)
        last = family.name.removesuffix("_total").rpartition("_")[2]
        return sdk.Metric(family.name, family.text, _UNITS.get(last, "1"), data)


@contextmanager
def exporting(name: str | None, source: MetricsSource) -> Iterator[None]:
    """Export while the block runs, at intervals and once more at its end; without a `name` nothing.

    Raises MissingPackage without opentelemetry-sdk, InvalidRequest for an exporter that no package has.
    """
    if name is None:
        yield
        return
    required("opentelemetry.sdk", by=_BY)
    exporter = _exporter(name)
    export, over, seconds = MetricsOutput(source, exporter), threading.Event(), _interval_seconds()

    def work() -> None:
        while not over.wait(seconds):
            export.export()
        export.export()
        exporter.shutdown()

    thread = threading.Thread(target=work, name="opentelemetry", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_LAST_SECONDS)


def _exporter(name: str) -> Any:
    exporters = {each.name: each for each in entry_points(group=_GROUP)}
    if name not in exporters:
        raise InvalidRequest(
            f"{_BY} {name}: no installed package has this exporter; there are "
            f"{', '.join(sorted(exporters))}. "
            "For OTLP: pip install opentelemetry-exporter-otlp-proto-http, and otlp_proto_http"
        )
    return exporters[name].load()()


def _interval_seconds() -> float:
    text = os.environ.get(_INTERVAL, str(_INTERVAL_MS))
    if not text.isdigit() or not int(text):
        raise InvalidRequest(f"{_INTERVAL}={text!r} must be milliseconds, such as {_INTERVAL_MS}")
    return int(text) / 1000
