"""A capture by Spark: many tables in one query, to the end of what there is; it goes on where it was."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.core.errors import Unavailable
from tablestore.spark.capture import CaptureJob, CaptureSettings, default_checkpoint
from tests.cdc.capture.fakes import FakePiece, FakeSource, Step, captured, piece, rows

pytestmark = pytest.mark.spark


def job(spark: Any, lake: ts.Lake, source: FakeSource, **more: Any) -> CaptureJob:
    settings = CaptureSettings(
        "cdc-shop", default_checkpoint(lake, "cdc-shop"), "shop", interval_seconds=0.05
    )
    return CaptureJob(lake, source, CaptureRules.of("shop.*", into="ods"), settings, spark=spark, **more)


def steps() -> list[Step]:
    changes = piece(
        rows("a", [("+U", 1, 2), ("+I", 2, 2)], seconds=99), rows("b", [("-D", 1, 1)], seconds=99)
    )
    return [
        Step([captured("a"), captured("b")]),
        Step((), [piece(rows("a", [("+I", 1, 1)])), piece(rows("b", [("+I", 1, 1), ("+I", 5, 5)]))]),
        Step((), [changes]),
    ]


def content(lake: ts.Lake, table: str) -> list[tuple[Any, ...]]:
    found = lake.table(table).scan().to_arrow()
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def test_a_bounded_source_ends_the_job_and_a_lost_checkpoint_repeats_nothing(
    spark: Any, lake: ts.Lake, tmp_path: Path
):
    source = FakeSource(steps())
    first = job(spark, lake, source).start()
    assert first.wait(120)
    assert first.state == "ended"
    assert content(lake, "ods.a") == [(1, 2), (2, 2)]
    assert content(lake, "ods.b") == [(5, 5)]
    assert lake.databases() == ["ods"]
    assert [r.number for r in first.reports()] == [0, 1, 2]
    assert "ods.a" in repr(first)
    assert first.freshness().counts.sum() == 6

    shutil.rmtree(first.checkpoint)
    source.steps.append(Step((), [piece(rows("b", [("+I", 6, 6)], seconds=100))]))
    again = job(spark, lake, source).start()
    assert again.wait(120)
    assert content(lake, "ods.a") == [(1, 2), (2, 2)]
    assert content(lake, "ods.b") == [(5, 5), (6, 6)]
    assert [r.position for r in again.reports()] == ["step 3", "step 4"]  # the newest batch came again


class Away(FakePiece):
    """A piece whose server is away once."""

    def read(self) -> Any:
        mark = Path(self.parts[0].position)
        if not mark.exists():
            mark.touch()
            raise Unavailable(0, "the server is away")
        yield from self.parts


def test_a_query_is_started_again_when_a_server_was_away(spark: Any, lake: ts.Lake, tmp_path: Path):
    part = rows("a", [("+I", 3, 3)], seconds=5)
    object.__setattr__(part, "position", str(tmp_path / "mark"))
    away = Away((part,), piece(part).tables)
    seen: list[int] = []
    made = job(
        spark, lake, FakeSource([*steps(), Step((), [away])]), on_batch=lambda r: seen.append(r.number)
    )
    assert made.start().wait(120)
    assert content(lake, "ods.a") == [(1, 2), (2, 2), (3, 3)]
    assert seen == [0, 1, 2, 3]


def test_an_error_that_no_second_attempt_mends_ends_the_job(spark: Any, lake: ts.Lake):
    source = FakeSource([Step([captured("x/y")])])
    made = job(spark, lake, source).start()
    with pytest.raises(ts.InvalidRequest, match=r"job 'cdc-shop': .*x/y"):
        made.wait(60)
    assert made.state == "failed"


def test_a_job_stops_between_two_batches(spark: Any, lake: ts.Lake):
    started = threading.Event()
    source = FakeSource([*steps(), *(Step((), [piece(rows("a", [("+U", 1, n)]))]) for n in range(500))])
    made = job(spark, lake, source, on_batch=lambda _: started.set()).start()
    assert started.wait(60)
    made.stop()
    assert (made.running, made.state, made.error) == (False, "stopped", None)


def test_no_batch_begins_while_it_is_paused(spark: Any, lake: ts.Lake):
    seen: list[int] = []
    source = FakeSource([*steps(), *(Step((), [piece(rows("a", [("+U", 1, n)]))]) for n in range(500))])
    made = job(spark, lake, source, on_batch=lambda r: seen.append(r.number)).start()
    until = time.monotonic() + 60
    while len(seen) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    made.pause()
    assert made.state == "paused"
    time.sleep(1.5)  # the batch under way is finished
    there = len(seen)
    time.sleep(1)
    assert len(seen) == there
    made.resume()
    while len(seen) == there and time.monotonic() < until:
        time.sleep(0.02)
    assert len(seen) > there
    made.pause()
    made.stop()
    assert (made.running, made.state, made.error) == (False, "stopped", None)
