"""Streams by Spark: batches of sources, tasks over their pieces, the end of what ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.flow.batch import Batch, Streams, Work
from tablestore.flow.source import RowsStream
from tablestore.spark import start_stream
from tablestore.spark.stream_jobs import WorkBatch
from tablestore.spark.work_source import WorkReader
from tests.flow.summed import Summed

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Refusing:
    """A task that raises an error of ours."""

    def __call__(self, work: Work) -> int:
        raise ts.SchemaMismatch(f"piece {work.ordinal} does not fit")


def doubled(n: int) -> int:
    return 2 * n


def test_sources_that_end_end_the_query_and_are_read_once(spark, tmp_path: Path):
    streams = Streams((RowsStream(pa.table({"n": [1, 2]})), RowsStream(pa.table({"n": [5]}))))
    collected: list[list[int]] = []

    def on_batch(batch: WorkBatch) -> None:
        collected.append(batch.over(Summed("n"), batch.works()))
        collected.append(batch.over(doubled, [3, 4], count=doubled))
        collected.append(list(batch.counted().values()))
        assert [w.source for w in batch.works()] == [0, 1]

    for _ in range(2):  # the second time all has been read
        job = start_stream(spark, streams, on_batch, checkpoint=str(tmp_path / "c"), interval_seconds=0.1)
        assert job.wait(240)
        assert str(job.failure()) == "None"
    assert collected == [[3, 5], [6, 8], [12, 16]]


@pytest.mark.large
def test_an_error_of_a_task_ends_the_query_and_is_what_it_was(spark, tmp_path: Path):
    streams = Streams((RowsStream(pa.table({"n": [1, 2]})),))
    job = start_stream(
        spark, streams, lambda batch: batch.over(Refusing(), batch.works()), checkpoint=str(tmp_path / "c")
    )
    assert job.wait(240)
    assert isinstance(job.failure(), ts.SchemaMismatch), job.failure()
    assert str(job.failure()) == "piece 0 does not fit"


@pytest.mark.large
def test_a_table_is_followed_until_somebody_stops(spark, lake: ts.Lake, tmp_path: Path):
    table = lake.create_table("shop.t", schema={"n": ts.INT})
    table.write(pa.table({"n": [1]}))
    collected: list[int] = []

    def on_batch(batch: Batch) -> None:
        collected.extend(batch.over(Summed("n"), batch.works()))
        if len(collected) == 1:
            lake.table("shop.t").write(pa.table({"n": [7]}))
        else:
            stop.set()

    stop = threading.Event()
    streams = Streams((TableStream(ChangeFeed(table.location)),))
    job = start_stream(spark, streams, on_batch, checkpoint=str(tmp_path / "c"), interval_seconds=0.1)
    assert stop.wait(240)
    job.stop()
    assert not job.running
    assert str(job.failure()) == "None"
    assert collected == [1, 7]


def test_a_source_of_work_refuses_options_that_it_does_not_have():
    with pytest.raises(ts.InvalidRequest, match="needs the option plan"):
        WorkReader({})
    with pytest.raises(ts.InvalidOption, match="unknown option 'begin'; there are plan, start"):
        WorkReader({"plan": "any", "Begin": "1"})
