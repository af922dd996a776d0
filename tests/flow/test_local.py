"""Streams without Spark: batches between offsets, the end of what ends, and a checkpoint that goes on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.flow.batch import Batch, Streams
from tablestore.flow.checkpoint import KEPT, Checkpoint
from tablestore.flow.runner import LocalRunner, Stream
from tablestore.flow.source import Offset, RowsStream
from tests.flow.summed import Summed

SECONDS = 240


def doubled(n: int) -> int:
    return 2 * n


@dataclass
class NumberedPlan:
    """A plan of numbered batches of one item each; `last` is where it ends, None: it goes on."""

    last: int | None = None

    def initial(self) -> Offset:
        return {"at": 0}

    def next(self, start: Offset) -> Offset:
        return {"at": start["at"] + 1}

    def ended(self, offset: Offset) -> bool:
        return offset["at"] == self.last

    def works(self, start: Offset, end: Offset) -> Sequence[Any]:
        return range(start["at"], end["at"])

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""


def start(plan: Any, on_batch: Any, path: Path, **more: Any) -> Stream:
    return LocalRunner(2).start(plan, on_batch, checkpoint=str(path), interval_seconds=0, **more)


def test_sources_that_end_end_the_stream_and_are_read_once(tmp_path: Path):
    streams = Streams((RowsStream(pa.table({"n": [1, 2]})), RowsStream(pa.table({"n": [5]}))))
    collected: list[list[int]] = []

    def on_batch(batch: Batch) -> None:
        collected.append(batch.over(Summed("n"), batch.works()))
        collected.append(batch.over(doubled, [3, 4], count=doubled))
        collected.append(list(batch.counted().values()))
        assert [w.source for w in batch.works()] == [0, 1]

    for _ in range(2):  # the second time all has been read
        job = start(streams, on_batch, tmp_path)
        assert job.wait(SECONDS)
        assert (job.failure(), job.running) == (None, False)
    assert collected == [[3, 5], [6, 8], [12, 16]]


def test_a_table_is_followed_until_somebody_stops(tmp_path: Path):
    table = ts.connect(tmp_path / "lake").create_table("shop.t", schema={"n": ts.INT})
    table.write(pa.table({"n": [1]}))
    sums: list[int] = []
    enough = threading.Event()

    def on_batch(batch: Batch) -> None:
        sums.extend(batch.over(Summed("n"), batch.works()))
        if len(sums) == 1:
            table.write(pa.table({"n": [7]}))
        else:
            enough.set()

    job = start(Streams((TableStream(ChangeFeed(table.location)),)), on_batch, tmp_path / "c")
    assert enough.wait(SECONDS)
    job.stop()
    assert (job.failure(), job.running) == (None, False)
    assert sums == [1, 7]


def test_a_batch_that_fails_comes_again_with_its_number_and_offsets(tmp_path: Path):
    seen: list[tuple[int, Offset, Offset]] = []

    def on_batch(batch: Batch) -> None:
        seen.append((batch.number, batch.start, batch.end))
        if len(seen) == 2:
            raise ts.SchemaMismatch("it does not fit")

    job = start(NumberedPlan(last=3), on_batch, tmp_path)
    assert job.wait(SECONDS)
    assert isinstance(job.failure(), ts.SchemaMismatch)
    assert start(NumberedPlan(last=3), on_batch, tmp_path).wait(SECONDS)
    assert [(n, a["at"], b["at"]) for n, a, b in seen] == [(0, 0, 1), (1, 1, 2), (1, 1, 2), (2, 2, 3)]


def test_a_new_checkpoint_begins_where_it_is_asked_to_and_an_old_one_goes_on(tmp_path: Path):
    seen: list[int] = []
    for last in (8, 9):
        job = start(
            NumberedPlan(last), lambda batch: seen.append(batch.start["at"]), tmp_path, start={"at": 6}
        )
        assert job.wait(SECONDS)
    assert seen == [6, 7, 8]


def test_no_batch_begins_while_it_is_paused(tmp_path: Path):
    seen: list[int] = []
    some, there = threading.Semaphore(0), threading.Event()

    def on_batch(batch: Batch) -> None:
        seen.append(batch.number)
        if batch.number == 1:
            assert there.wait(SECONDS)
            job.pause()
        some.release()

    job = start(NumberedPlan(), on_batch, tmp_path)
    there.set()
    assert some.acquire(timeout=SECONDS)
    assert some.acquire(timeout=SECONDS)
    assert not some.acquire(timeout=1)
    assert seen == [0, 1]
    job.resume()
    assert some.acquire(timeout=SECONDS)
    job.pause()
    job.stop()  # also where it is paused
    assert not job.running
    assert seen == list(range(len(seen)))


def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path):
    def on_batch(batch: Batch) -> None:
        Checkpoint.at(str(tmp_path)).note_planned(batch.number + 1, {"at": 9})

    job = start(NumberedPlan(), on_batch, tmp_path)
    assert job.wait(SECONDS)
    with pytest.raises(ts.InvalidRequest, match=r"batch 1 of .* is another process's"):
        raise job.failure() or AssertionError("it has ended")


def test_a_checkpoint_keeps_the_newest_batches(tmp_path: Path):
    checkpoint = Checkpoint.at(str(tmp_path))
    with pytest.raises(ts.Unavailable, match="is away"):
        checkpoint.note_planned(0, {"at": 1})
    assert not [*tmp_path.iterdir()], "nothing is begun anew where it is not mounted"
    checkpoint.begin()
    for number in range(2 * KEPT + 1):
        checkpoint.note_planned(number, {"at": number + 1})
        assert checkpoint.pending() == number
        checkpoint.note_done(number)
    assert (checkpoint.planned(), checkpoint.pending()) == (2 * KEPT, None)
    for which in ("offsets", "commits"):
        assert {int(path.name) for path in (tmp_path / which).iterdir()} == set(range(KEPT, 2 * KEPT + 1))


def test_an_offset_that_is_cut_off_is_named(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n")
    with pytest.raises(ts.Corrupt, match="offsets/0"):
        Checkpoint.at(str(tmp_path)).end(0)


def test_how_long_nothing_comes_is_known_while_it_plans_and_nothing_between_two_batches(tmp_path: Path):
    hangs = threading.Event()

    @dataclass
    class Hanging(NumberedPlan):
        def next(self, start: Offset) -> Offset:
            hangs.wait(SECONDS)
            return start

    job = start(Hanging(), print, tmp_path)
    try:
        while job.quiet_seconds() < 0.2:
            assert not job.wait(0.01)
        hangs.set()
        while job.quiet_seconds() > 0:
            assert not job.wait(0.01)
    finally:
        hangs.set()
        job.stop()
    assert job.quiet_seconds() == 0
