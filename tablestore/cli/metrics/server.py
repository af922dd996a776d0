"""The server of `--metrics`: /metrics for Prometheus, /healthz for who restarts what is ill; on 127.0.0.1."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tablestore.cli.metrics.family import HealthAnswer, MetricFamily, MetricsSource
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.core.extras import required
from tablestore.core.options.environment import without_environment
from tablestore.core.options.secrets import scrubbed, without

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_HEALTHZ = "/healthz"


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
