"""How much is over of the time or size up to which a server keeps its log for a capture: by real servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.cdc.capture.job import CaptureJob
from tablestore.cli.cdc import command
from tablestore.cli.cdc.command import CaptureMetrics
from tests.cdc.databases.sources import MariaDbSource, Source

pytestmark = pytest.mark.large
SECONDS = 60.0
OVER = {MariaDbSource.kind: "half of the time is over for which the binlog of"}


def until(holds: Callable[[], object], what: Callable[[], object] = str) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


@contextmanager
def short_log(source: Source) -> Iterator[Callable[[], object]]:
    """Have the server keep little of its log; what uses more than half of it."""
    if source.kind == MariaDbSource.kind:
        (before,) = source.server.run("SELECT @@global.binlog_expire_logs_seconds")[0]
        source.server.run("SET GLOBAL binlog_expire_logs_seconds = 4")
        try:
            yield lambda: source.server.run("FLUSH BINARY LOGS")
        finally:
            source.server.run(f"SET GLOBAL binlog_expire_logs_seconds = {before}")
        return
    source.server.run("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'", "SELECT pg_reload_conf()")
    write = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1 << 20)) FROM generate_series(1, 40)"
    try:
        yield lambda: source.run(write)
    finally:
        source.server.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def test_half_of_what_the_server_keeps_is_reported_before_rows_go(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_ASK_SECONDS", 0.05)
    source.made(5, "t")
    where = {"into": "ods", "interval": "50ms", "engine": "local", "checkpoint": tmp_path / "checkpoint"}
    metrics = CaptureMetrics()
    job = metrics.job = ts.connect(tmp_path / "lake").ingest(source.url, **where, options={"bucket": 1})
    assert isinstance(job, CaptureJob)

    def rows() -> int:
        return job.lake.table("ods.t").scan().to_arrow().num_rows if "ods.t" in job.lake else 0

    def figures(field: str) -> list[float]:
        names = [f"tablestore_capture_retention_{field}_{unit}" for unit in ("seconds", "bytes")]
        return [n for f in metrics.families() if f.name in names for n in f.samples.values()]

    try:
        until(lambda: rows() == 5)
        until(lambda: figures("used"))
        assert metrics.health().healthy, metrics.health().text
        job.pause()
        with short_log(source) as use:
            source.run("INSERT INTO t VALUES (1001, 1, 'late')")
            use()
            words = OVER.get(source.kind, "half of the size is over up to which replication slot")
            until(lambda: words in metrics.health().text, lambda: (metrics.health().text, figures("used")))
            (used,), (left,) = figures("used"), figures("left")
            assert used >= left
            job.resume()
            keys = iter(range(1002, 100_000))

            def is_well() -> bool:  # PostgreSQL lets go of what is read as it writes more
                source.run(f"INSERT INTO t VALUES ({next(keys)}, 1, 'later')")
                return metrics.health().healthy

            until(is_well, lambda: metrics.health().text)
            until(lambda: rows() == len(source.table("t")[1]), rows)
    finally:
        job.stop()
        source.end_captures()
