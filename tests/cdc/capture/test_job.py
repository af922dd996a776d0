"""A capture without Spark: many tables in one stream, to the end of what there is; one that goes on."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.flow.runner import LocalRunner
from tests.cdc.capture.fakes import (
    Away,
    FakeSource,
    FakeStep,
    captured,
    content,
    job_of,
    piece,
    rows,
    steps,
)
from tests.cdc.items import shop


def job(lake: ts.Lake, source: FakeSource, **more: Any) -> Any:
    return job_of(lake, source, LocalRunner(2), **more)


def test_a_bounded_source_ends_the_job_and_a_lost_checkpoint_repeats_nothing(lake: ts.Lake, tmp_path: Path):
    source = FakeSource(steps())
    first = job(lake, source).start()
    assert first.wait(120)
    assert first.state == "ended"
    assert content(lake, "ods.a") == [(1, 2), (2, 2)]
    assert content(lake, "ods.b") == [(5, 5)]
    assert lake.databases() == ["ods"]
    assert [r.number for r in first.reports()] == [0, 1, 2]
    assert "ods.a" in repr(first)
    assert first.freshness().counts.sum() == 6

    shutil.rmtree(first.checkpoint)
    source.steps.append(FakeStep((), [piece(rows("b", [("+I", 6, 6)], seconds=100))]))
    again = job(lake, source).start()
    assert again.wait(120)
    assert content(lake, "ods.a") == [(1, 2), (2, 2)]
    assert content(lake, "ods.b") == [(5, 5), (6, 6)]
    assert [r.position for r in again.reports()] == ["step 3", "step 4"]  # the newest batch came again


@pytest.mark.large
def test_a_capture_is_started_again_when_a_server_was_away(lake: ts.Lake, tmp_path: Path):
    part = rows("a", [("+I", 3, 3)], seconds=5)
    object.__setattr__(part, "position", str(tmp_path / "mark"))
    away = Away((part,), piece(part).tables)
    seen: list[int] = []
    created = job(
        lake, FakeSource([*steps(), FakeStep((), [away])]), on_batch=lambda r: seen.append(r.number)
    )
    assert created.progress() is None
    assert created.start().wait(120)
    assert content(lake, "ods.a") == [(1, 2), (2, 2), (3, 3)]
    assert seen == [0, 1, 2, 3]


def test_an_error_that_no_second_attempt_mends_ends_the_job(lake: ts.Lake):
    source = FakeSource([FakeStep([captured("x/y")])])
    created = job(lake, source).start()
    with pytest.raises(ts.InvalidRequest, match=r"job 'cdc-shop': .*x/y"):
        created.wait(240)
    assert created.state == "failed"


def test_a_job_stops_between_two_batches(lake: ts.Lake):
    started = threading.Event()
    source = FakeSource([*steps(), *(FakeStep((), [piece(rows("a", [("+U", 1, n)]))]) for n in range(500))])
    created = job(lake, source, on_batch=lambda _: started.set()).start()
    assert started.wait(240)
    created.stop()
    assert (created.running, created.state, created.error) == (False, "stopped", None)


@pytest.mark.large
def test_no_batch_begins_while_it_is_paused(lake: ts.Lake):
    seen: list[int] = []
    source = FakeSource([*steps(), *(FakeStep((), [piece(rows("a", [("+U", 1, n)]))]) for n in range(500))])
    created = job(lake, source, on_batch=lambda r: seen.append(r.number)).start()
    until = time.monotonic() + 240
    while len(seen) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    created.pause()
    there = len(seen)
    assert created.state == "paused"
    time.sleep(1)  # of dozens of batches
    assert len(seen) <= there + 1  # that was under way
    there = len(seen) + 1  # it may be still
    created.resume()
    while len(seen) <= there and time.monotonic() < until:
        time.sleep(0.02)
    assert len(seen) > there
    created.pause()
    created.stop()
    assert (created.running, created.state, created.error) == (False, "stopped", None)


def test_a_change_directory_is_captured_by_its_path(lake: ts.Lake, tmp_path: Path):
    source, left = shop(tmp_path / "shop")
    how: dict[str, Any] = {"tables": "item", "into": "ods", "follow": False, "chunks": 2, "engine": "local"}
    rules: dict[str, Any] = {"computed": {"year": "year(day)"}, "options": {"bucket": 2}}
    job = lake.ingest(source, **how, **rules, interval="50ms")
    assert job.wait(120)
    assert (job.name, lake.tables()) == ("cdc-ods", ["ods.item"])
    actual = {r["id"]: r for r in lake.table("ods.item").scan().to_arrow().to_pylist()}
    assert {i: {**r, "year": r["day"].year} for i, r in left.items()} == actual
    chunks = [chunk for report in job.reports() for chunk in report.chunks]
    assert [(chunk.low, chunk.high, chunk.last) for chunk in chunks] == [
        (None, "49", False),
        ("49", "99", False),
        ("99", "149", False),
        ("149", None, True),
    ]
    assert sum(chunk.rows for chunk in chunks) == 200
    newest = job.reports()[-1]
    assert (newest.snapshotting, newest.bytes_behind) == ((), 0)
    assert newest.position.startswith("00002.jsonl:")
    assert lake.table("ods.item").check() == []


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("oracle://me@host/db", {}, "no source has an address of oracle://"),
        ("kafka://host:9092/topic", {}, "topics need format="),
        ("kafka://host:9092/topic", {"format": "json", "chunk_rows": 1}, "chunk_rows"),
        ("nowhere", {"tables": "t"}, "no change directory at"),
        ("nowhere", {"interval": "soon"}, "must be a duration"),
        ("nowhere", {"compact_every": -1}, "compact_every -1"),
        ("nowhere", {"name": "../x", "tables": "t"}, "."),
        ("nowhere", {"engine": "locl"}, "no engine 'locl'; did you mean local"),
        ("nowhere", {"engine": "local", "spark": object()}, "leave it out"),
        ("nowhere", {"processes": 2}, "processes= is of engine"),
        ("nowhere", {"engine": "local", "processes": 0}, "processes 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    lake: ts.Lake, url: str, more: dict[str, Any], said: str
):
    with pytest.raises((ts.InvalidRequest, ts.NotFound), match=said):
        lake.ingest(url, **more)
    assert not Path(lake.warehouse).exists()
