"""`--metrics`: figures as Prometheus's own parser reads them, equal to what `inspect` and reports say."""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.report import BatchReport, TableReport
from tablestore.cli import metrics
from tablestore.cli.cdc import command
from tablestore.cli.cdc.command import CaptureMetrics
from tablestore.cli.maintain.command import MaintenanceMetrics
from tablestore.cli.metrics import (
    HealthAnswer,
    MetricFamily,
    MetricsOutput,
    serving,
    watched,
)
from tablestore.cli.tier.command import TieringMetrics
from tablestore.core.options import environment
from tablestore.flow.source import BYTES, SECONDS, LogRetention
from tablestore.tiering.report import Heartbeat, RoundReport, SplitReport, TableState, TieringReport
from tests.faults import SimEnv
from tests.maintenance.test_service import filled, service, worked

parser = pytest.importorskip("prometheus_client.parser")
ROOT = Path(__file__).parents[2]
ENDS = "total bytes seconds rows state files runs buckets tables work epoch warning".split()


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """{(name, label values by the names of labels…): number} of our metrics."""
    families = list(parser.text_string_to_metric_families(text))
    samples = [s for family in families for s in family.samples if s.name.startswith("tablestore_")]
    return {(s.name, *(s.labels[key] for key in sorted(s.labels))): s.value for s in samples}


def plain(families: Iterable[MetricFamily]) -> dict[tuple[str, ...], float]:
    return {(f.name, *labels): value for f in families for labels, value in f.samples.items()}


class Fixed:
    """A source that says what it is given."""

    def __init__(self, *families: MetricFamily, healthy: bool = True) -> None:
        self._families, self._healthy = families, healthy

    def families(self) -> Iterable[MetricFamily]:
        return self._families

    def health(self) -> HealthAnswer:
        return HealthAnswer(self._healthy, "ill" if not self._healthy else "well")


def test_tables_are_as_inspect_says_and_work_is_as_reported(tmp_path: Path):
    table = filled(tmp_path)
    maintainer = service(tmp_path)
    with serving("127.0.0.1:0", MaintenanceMetrics(maintainer)) as url:
        assert url is not None
        worked(maintainer)
        seen = parsed(read(url))
        assert read(url.replace("/metrics", "/healthz")).startswith("running: 1 table")
        health = table.refresh().inspect.health()
        for name, number in {
            "files": health.files,
            "bytes": health.bytes,
            "rows": health.rows,
            "buckets": health.buckets.num_rows,
            "due_buckets": health.due,
            "most_runs": health.most_runs,
            "opened_runs": health.opened,
        }.items():
            assert seen[f"tablestore_table_{name}", "d.t"] == number
        compacted = [work for work in maintainer.done if work.kind == "compact"]
        assert seen["tablestore_maintenance_work_total", "compact", "done", "d.t"] == len(compacted) == 2
        assert seen["tablestore_maintenance_read_bytes_total", "d.t"] == sum(w.read for w in compacted)
        assert seen["tablestore_maintenance_written_bytes_total", "d.t"] == sum(w.written for w in compacted)
        assert seen["tablestore_maintenance_state", "running"] == 1
        (Path(table.location) / "snapshot" / "LATEST").unlink()
        for path in (Path(table.location) / "schema").iterdir():
            path.write_text("{")
        worked(maintainer)
        with pytest.raises(urllib.error.HTTPError, match="503") as ill:
            read(url.replace("/metrics", "/healthz"))
        assert "d.t: " in ill.value.read().decode()
        assert parsed(read(url))["tablestore_maintenance_troubled_tables",] == 1


class Recording:
    """An exporter that keeps what it is given, or fails."""

    def __init__(self, sdk: Any, *, fails: bool = False) -> None:
        self.given, self.shut, self._sdk, self._fails = list[Any](), False, sdk, fails

    def export(self, data: Any) -> Any:
        self.given.append(data)
        if self._fails:
            raise OSError("the collector is away")
        return self._sdk.MetricExportResult.SUCCESS

    def shutdown(self) -> None:
        self.shut = True


def exported(data: Any) -> dict[tuple[str, ...], float]:
    """As `parsed`, of what OpenTelemetry was given."""
    ((resource,), (scope,)) = data.resource_metrics, data.resource_metrics[0].scope_metrics
    assert (scope.scope.name, resource.resource.attributes["telemetry.sdk.language"]) == (
        "tablestore-workbench",
        "python",
    )
    return {
        (m.name, *(p.attributes[key] for key in sorted(p.attributes))): p.value
        for m in scope.metrics
        for p in m.data.data_points
    }


def test_opentelemetry_has_the_figures_of_prometheus(tmp_path: Path):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics.export")
    filled(tmp_path)
    env = SimEnv()
    some = service(tmp_path, env)
    worked(some)
    source, recording, text = MaintenanceMetrics(some), Recording(sdk), io.StringIO()
    with serving("127.0.0.1:0", source) as url:
        assert url is not None
        exporting = MetricsOutput(source, recording, env=env)
        env.move(1_000)
        assert exporting.export()
        assert MetricsOutput(source, sdk.ConsoleMetricExporter(text), env=env).export()
        (data,) = recording.given
        assert exported(data) == parsed(read(url))
    (metrics,) = (scope.metrics for scope in data.resource_metrics[0].scope_metrics)
    units = {m.name: m.unit for m in metrics}
    assert units["tablestore_maintenance_read_bytes_total"] == units["tablestore_table_bytes"] == "By"
    assert (units["tablestore_maintenance_work_seconds_total"], units["tablestore_table_files"]) == ("s", "1")
    for metric in metrics:
        grows = metric.name.endswith("_total")
        assert isinstance(metric.data, sdk.Sum if grows else sdk.Gauge), metric.name
        for point in metric.data.data_points:
            assert point.time_unix_nano == env.now_ms() * 1_000_000
            assert point.start_time_unix_nano == (point.time_unix_nano - 10**9 if grows else None)
    shown = json.loads(text.getvalue())["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    assert {metric["name"] for metric in shown} == set(units)


def test_an_exporter_has_the_figures_at_intervals_and_at_the_end(monkeypatch: pytest.MonkeyPatch):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics.export")
    family = MetricFamily("tablestore_table_files", "gauge", "Files.", ("table",), {("d.t",): 3.0})
    for fails in (False, True):
        recording = Recording(sdk, fails=fails)
        entry = SimpleNamespace(name="mine", load=lambda recording=recording: lambda: recording)
        monkeypatch.setattr(metrics, "entry_points", lambda group, entry=entry: [entry])
        with metrics.exporting("mine", Fixed(family)):
            assert not recording.shut
        assert recording.shut
        assert [exported(data) for data in recording.given] == [{("tablestore_table_files", "d.t"): 3.0}]
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
        with metrics.exporting("mine", Fixed(family)):
            (exporting,) = (t for t in threading.enumerate() if t.name == "opentelemetry")
            while len(recording.given) < 4 and exporting.is_alive():
                threading.Event().wait(0.001)
        assert len(recording.given) >= 5
        monkeypatch.delenv("OTEL_METRIC_EXPORT_INTERVAL")


def test_what_opentelemetry_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        for name in [m for m in sys.modules if m.startswith("opentelemetry.sdk")]:
            patched.delitem(sys.modules, name)
        patched.setitem(sys.modules, "opentelemetry.sdk", None)
        with pytest.raises(ts.Unsupported, match=r"tablestore-workbench\[opentelemetry\]"):
            metrics.exporting("console", Fixed()).__enter__()
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    with pytest.raises(ts.InvalidRequest, match=r"nothing: no installed .*console.*For OTLP"):
        metrics.exporting("nothing", Fixed()).__enter__()
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1 min")
    with pytest.raises(ts.InvalidRequest, match="must be milliseconds"):
        metrics.exporting("console", Fixed()).__enter__()


def test_batches_of_a_capture_add_up():
    metrics = CaptureMetrics()
    first = BatchReport(
        1, 10.0, 10.5, 12.0, "pos 1", log_bytes=100, bytes_behind=7, commits=((9, 3), (11, 1)),
        tables=(TableReport("ods.a", 5, 2, 1, 4), TableReport("ods.b", 0, 1)),
    )  # fmt: skip
    metrics.add(first)
    metrics.add(replace(first, number=2, ended=13.0, bytes_behind=0, paused=("ods.b",)))
    seen = plain(metrics.families())
    assert seen["tablestore_capture_changes_total", "ods.a"] == 4
    assert seen["tablestore_capture_snapshot_rows_total", "ods.a"] == 10
    assert seen["tablestore_capture_bad_rows_total", "ods.a"] == 2
    assert seen["tablestore_capture_commits_total",] == 2
    assert seen["tablestore_capture_log_bytes_total",] == 200
    assert seen["tablestore_capture_behind_bytes",] == 0
    assert seen["tablestore_capture_freshness_seconds", "1"] == 4
    assert seen["tablestore_capture_paused_tables",] == 1
    assert metrics.health() == HealthAnswer(False, "not followed any more: ods.b")


@pytest.mark.parametrize(
    ("state", "quiet", "words"),
    [
        ("running", 0.0, ""),
        ("running", 301.0, "nothing has come of the batch under way for 5:01"),
        ("waiting", 0.0, "again in 2 s after no server answers"),
        ("failed", 0.0, "the capture is failed"),
    ],
)
def test_a_capture_is_ill_where_it_waits_or_hangs(state: str, quiet: float, words: str):
    text = f"{state}: again in 2 s after no server answers"
    metrics = CaptureMetrics()
    metrics.job = SimpleNamespace(
        state=state,
        state_text=text,
        quiet_seconds=lambda: quiet,
        reports=lambda newest: [],
        log_kept=lambda: [],
    )
    health = metrics.health()
    assert (health.healthy, words in health.text) == (not words, True)
    left = BatchReport(1, 10.0, 10.5, 12.0, "pos 1", paused=("ods.b",))  # by a process before this one
    metrics.job.reports = lambda newest: [left]
    assert "not followed any more: ods.b" in metrics.health().text


def test_a_source_is_asked_beside_how_much_of_its_log_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "_ASK_SECONDS", 0.0)
    kept = [LogRetention("slot s", BYTES, 100.0, 400.0), LogRetention("topic t", SECONDS, 5.0)]

    def log_kept() -> list[LogRetention]:
        if not kept:
            raise ts.Unavailable("no server answers")
        return kept

    def asked() -> HealthAnswer:
        for _ in range(2):  # the second asks for what is there at the earliest now
            metrics.health()
            while threads := [t for t in threading.enumerate() if t.name == "log-kept"]:
                threads[0].join()
        return metrics.health()

    metrics = CaptureMetrics()
    metrics.job = SimpleNamespace(
        state="running", quiet_seconds=lambda: 0.0, reports=lambda newest: [], log_kept=log_kept
    )
    assert asked() == HealthAnswer(True, "running")
    name, seen = "tablestore_capture_retention", plain(metrics.families())
    figures = {key: value for key, value in seen.items() if key[0].startswith(name)}
    assert figures == {
        (f"{name}_used_bytes", "slot s"): 100.0,
        (f"{name}_left_bytes", "slot s"): 300.0,
        (f"{name}_used_seconds", "topic t"): 5.0,
    }
    kept[0] = LogRetention("slot s", BYTES, 200.0, 400.0)
    words = "half of the size is over up to which slot s keeps what is not read: 200 B of 400 B"
    assert asked() == HealthAnswer(False, words)
    kept.clear()
    assert asked().text == "what is left of the log is not known: no server answers"


def test_a_coordinator_that_is_away_and_a_round_that_hangs_are_ill():
    under_way = RoundReport(2, "shop.a", 1, 1, 0, 8.0)
    away = Heartbeat(1.0, 0.1, reason="connection refused")
    report, now = TieringReport((), (under_way,), (), "running"), 100.0
    metrics = TieringMetrics(lambda: report, now=lambda: now)
    assert metrics.health().healthy
    now += 301
    assert metrics.health() == HealthAnswer(False, "shop.a: nothing has come of round 2 for 5:01")
    report = replace(report, rounds=(replace(under_way, phase="reading"),))
    assert metrics.health().healthy
    report = replace(report, heartbeats=(away,))
    assert metrics.health() == HealthAnswer(False, "the coordinator does not answer: connection refused")
    report = replace(report, heartbeats=(), reason="what it does is not written down: the disk is full")
    assert metrics.health() == HealthAnswer(False, report.reason)


def test_health_that_cannot_be_looked_up_is_ill():
    class Lost(Fixed):
        def health(self) -> HealthAnswer:
            raise ts.Unavailable(5, "the store is away")

    with serving("127.0.0.1:0", Lost()) as url:
        assert url is not None
        with pytest.raises(urllib.error.HTTPError, match="503") as ill:
            read(url.replace("/metrics", "/healthz"))
    assert "the store is away" in ill.value.read().decode()


def test_a_round_counts_once_however_often_one_looks():
    split = SplitReport(None, 0, 0, 70, offset=70, rows=70, bytes=700)
    done = RoundReport(
        1, "shop.a", 1, 1, 0, 8.0, phase="ended", ended=9.0, splits=(split,), outcome="committed"
    )
    under_way = replace(done, number=2, ended=None, outcome="")
    later = replace(done, number=3, outcome="failed")
    state = TableState("shop.a", 1, "Tiered", 9.0, 3, 5.0, 8.0, lag_rows=12, kept=100.0)
    reports = [
        TieringReport((state,), (done, under_way), (), "running"),
        TieringReport((state,), (done, under_way, later), (), "running"),
        TieringReport((state,), (replace(under_way, ended=10.0, outcome="committed"), later), (), "running"),
    ]
    at = iter(reports)
    metrics = TieringMetrics(lambda: next(at), now=lambda: 20.0)
    seen = [plain(metrics.families()) for _ in reports][-1]
    assert seen["tablestore_tiering_rounds_total", "shop.a", "committed"] == 2
    assert seen["tablestore_tiering_rounds_total", "shop.a", "failed"] == 1
    assert seen["tablestore_tiering_rows_total", "shop.a"] == 140
    assert seen["tablestore_tiering_bytes_total", "shop.a"] == 1_400
    assert seen["tablestore_tiering_age_seconds", "shop.a"] == 12
    assert seen["tablestore_tiering_lag_rows", "shop.a"] == 12
    assert seen["tablestore_tiering_table_state", "shop.a", "Tiered"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"tiered_at": -40.0}, "half of the time is over for which its log keeps 12 rows"),
        ({"warning": "rows may go"}, "rows may go"),
        ({"reason": "bucket 0 stalls"}, "bucket 0 stalls"),
    ],
)
def test_tables_whose_logs_may_lose_rows_are_ill(changes: dict[str, Any], words: str):
    state = TableState("shop.a", 1, "Tiered", 9.0, 3, 5.0, 8.0, lag_rows=12, kept=100.0)
    report = TieringReport((replace(state, **changes),), (), (), "running")
    health = TieringMetrics(lambda: report, now=lambda: 20.0).health()
    assert (health.healthy, words in health.text) == (not words, True)


def test_names_have_their_units(tmp_path: Path):
    report = TieringReport((TableState("shop.a", 1, "Tiered", 9.0),), (), (), "running")
    captured = CaptureMetrics()
    captured.add(BatchReport(1, 10.0, 10.5, 12.0, "pos 1", commits=((9, 3),)))
    filled(tmp_path)
    sources = [MaintenanceMetrics(service(tmp_path)), TieringMetrics(lambda: report), captured]
    families = [family for source in sources for family in source.families()]
    assert len(families) > 30
    for family in families:
        assert re.fullmatch(f"tablestore_[a-z_]+_({'|'.join(ENDS)})", family.name)
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        assert family.text.endswith("."), family.name


def test_labels_are_escaped():
    hostile = 'a"b\\c\nd'
    family = MetricFamily("tablestore_table_files", "gauge", "Files.", ("table",), {(hostile,): 3.0})
    with serving("localhost:0", Fixed(family)) as url:
        assert url is not None
        assert parsed(read(url)) == {("tablestore_table_files", hostile): 3.0}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ts.Unavailable("https://u:hidden-1@host/wal?X-Amz-Signature=hidden-2&v=1: no answer"),
            "host/wal?X-Amz-Signature=***&v=1",
        ),
        (OSError(5, "hidden-4 of the environment"), "[Errno 5] *** of the environment"),
        (ts.InvalidRequest("key hidden-3 is refused"), "key *** is refused"),
        (ValueError("whatever hidden-5 is"), "ValueError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_error_shows_a_secret(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, caplog: Any):
    monkeypatch.setenv("LAKE_SECRET", "hidden-4")
    environment.value_of("LAKE_SECRET")
    with serving("127.0.0.1:0", Fixed()) as free:  # a port that nobody has
        assert free is not None
    address = free.removeprefix("http://").removesuffix("/metrics")

    class Away(Fixed):
        def health(self) -> HealthAnswer:
            raise error

    options = {"metrics": address, "opentelemetry": None, "option": [("s3.secret-key", "hidden-3")]}
    looking = watched(argparse.Namespace(**options), Away())
    with looking, pytest.raises(urllib.error.HTTPError, match="503") as ill:
        read(f"http://{address}/healthz")
    text = ill.value.read().decode()
    assert words in text
    assert "hidden" not in text + caplog.text


@pytest.mark.parametrize(
    "address", ["0.0.0.0:9200", "example.org:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"]
)
def test_other_addresses_are_refused(address: str):
    with pytest.raises(ts.InvalidRequest, match="--metrics"), serving(address, Fixed()):
        pass


def test_a_port_that_is_taken_is_named():
    with serving("127.0.0.1:0", Fixed()) as url:
        assert url is not None
        port = url.split(":")[2].split("/")[0]
        with pytest.raises(ts.InvalidRequest, match=f"{port}.*in use"), serving(f"127.0.0.1:{port}", Fixed()):
            pass


@pytest.mark.large
def test_a_coordinator_is_asked_while_it_runs(tmp_path: Path):
    pytest.importorskip("google.protobuf")
    how = {"log.system": "embedded", "tablestore.tiering.enabled": True}
    ts.connect(tmp_path).create_table("shop.a", schema={"id": ts.BIGINT}, primary_key=["id"], options=how)
    with serving("127.0.0.1:0", Fixed()) as free:  # a port that nobody has
        assert free is not None
    address = free.removeprefix("http://").removesuffix("/metrics")
    command = [sys.executable, "-m", "tablestore.cli", "tier", "--serve", "--warehouse", str(tmp_path)]
    with subprocess.Popen([*command, "--metrics", address], stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            assert served.stdout.readline().startswith("fluss://")
            seen = parsed(read(f"http://{address}/metrics"))
            assert read(f"http://{address}/healthz") == "coordinating\n"
        finally:
            served.send_signal(signal.SIGINT)
            served.communicate(timeout=120)
    assert (
        seen["tablestore_coordinator_tables", "Scheduled"] + seen["tablestore_coordinator_tables", "New"] == 1
    )
    assert seen["tablestore_coordinator_epoch",] >= 0
    assert served.returncode == 130
