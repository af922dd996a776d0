"""The figures of a command while it runs, and those of the commits of its process, for who looks from
outside.

`--metrics`: a server on 127.0.0.1 with /metrics for Prometheus, /healthz for who restarts what is ill.

`--opentelemetry`: the same figures, given to an exporter of OpenTelemetry at intervals. The exporter is named
as its package registers it: `console` comes with opentelemetry-sdk, `otlp_proto_http` with
opentelemetry-exporter-otlp-proto-http. Its own variables of the environment say where to and how; the
interval is OTEL_METRIC_EXPORT_INTERVAL in milliseconds, the service's name OTEL_SERVICE_NAME. Names are those
that Prometheus sees, so that either way gives the same series; units are those of UCUM.

Names begin with `tablestore_`; units are seconds and bytes; what only grows ends in `_total` and counts from
the start of the process. Source: prometheus.io, "Metric and label naming".
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from socketserver import ThreadingMixIn
from typing import Any, Literal, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.core.extras import DISTRIBUTION, required
from tablestore.core.options.environment import without_environment
from tablestore.core.options.secrets import is_secret, scrubbed, without
from tablestore.core.quantities import duration
from tablestore.write.commit.committer import COUNTER, CommitCounts

Labels = tuple[str, ...]
log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_HEALTHZ = "/healthz"
_GROUP, _INTERVAL, _INTERVAL_MS = "opentelemetry_metrics_exporter", "OTEL_METRIC_EXPORT_INTERVAL", 60_000
_BY = "--opentelemetry"
_UNITS = {"seconds": "s", "bytes": "By"}
_NANOS = 1_000_000  # in a millisecond
_LAST_SECONDS = 30.0  # for the last export, when the command ends
_GIVEN = ("option", "property", "format_option")  # KEY=VALUE of the command line


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


@contextmanager
def serving(
    address: str | None, source: MetricsSource, *, secrets: Collection[str] = ()
) -> Iterator[str | None]:
    """Answer at `address`, "127.0.0.1:9200", while the block runs; gives the URL, None without an address.

    No answer shows the `secrets`. Port 0 is any that is free. Raises InvalidRequest for an address that other
    machines reach or that is taken, MissingPackage without prometheus-client.
    """
    if address is None:
        yield None
        return
    app = application(source, secrets)
    try:
        server = make_server(HOST, _port(address), app, server_class=_Server, handler_class=_Silent)
    except OSError as e:
        words = f"{e.strerror or e}: name another port, or 0 for any that is free"
        raise InvalidRequest(f"--metrics {address}: {words}") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def application(
    source: MetricsSource, secrets: Collection[str] = ()
) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """The answers as an application of WSGI. What keeps it from looking is told in words of ours; of another
    error the class alone, since nobody knows what its text holds: the log says where it was raised."""
    prometheus = required("prometheus_client", by="--metrics")
    core = required("prometheus_client.core", by="--metrics")

    class Collector:
        """What is measured when somebody asks."""

        def collect(self) -> Iterator[Any]:
            """Families as the client has them."""
            return (_as_client(core, family) for family in source.families())

    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    prometheus.ProcessCollector(registry=registry)
    metrics = prometheus.make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != _HEALTHZ:
            return metrics(environ, start)
        try:
            health = source.health()
        except (TablestoreError, OSError) as e:  # a store that is away, say
            health = HealthAnswer(False, str(e) or type(e).__name__)
        except Exception as e:  # who asks is answered whatever it is
            log.warning(
                "%s: %s\n%s", _HEALTHZ, type(e).__name__, "".join(traceback.format_tb(e.__traceback__))
            )
            health = HealthAnswer(False, type(e).__name__)
        status = "200 OK" if health.healthy else "503 Service Unavailable"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        text = without_environment(scrubbed(without(health.text, secrets)))
        return [f"{text}\n".encode()]

    return answer


def _as_client(core: Any, family: MetricFamily) -> Any:
    kinds = {"gauge": core.GaugeMetricFamily, "counter": core.CounterMetricFamily}
    metric = kinds[family.kind](family.name, family.text, labels=family.labels)
    for labels, value in family.samples.items():
        metric.add_metric(labels, value)
    return metric


def _port(address: str) -> int:
    host, _, port = address.rpartition(":")
    if host not in ("", HOST, "localhost"):
        raise InvalidRequest(f"--metrics {address}: it listens on {HOST} alone; a proxy may pass it on")
    if not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"--metrics {address!r} must be an address such as {HOST}:9200")
    return int(port)


class _Server(ThreadingMixIn, WSGIServer):
    """Each request in a thread, so that one that is slow keeps nobody waiting."""

    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal shows the command."""


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
