"""Tasks at once, results in order: whoever is faster, however little may wait, and whatever fails."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.read.scan import parallel
from tablestore.table.table import Table


def running() -> int:
    return sum(t.name == parallel.THREAD_NAME for t in threading.enumerate())


def in_order(tasks: Any, **options: Any) -> Iterator[int]:
    return parallel.in_order(tasks, size_of=lambda n: 1, **({"threads": 2} | options))


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
@pytest.mark.parametrize("buffered_bytes", [0, 1, 3, 1000])
def test_results_come_in_the_order_of_the_tasks(
    seeds: tuple[int, ...], threads: int, buffered_bytes: int
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        parts = [list(range(100 * i, 100 * i + rng.choice([0, 1, 5, 40]))) for i in range(rng.randrange(12))]
        tasks = [lambda part=part: iter(part) for part in parts]
        rows = list(in_order(tasks, threads=threads, buffered_bytes=buffered_bytes))
        assert rows == [n for part in parts for n in part], seed
    assert running() == 0


def test_no_more_waits_than_may() -> None:
    begun, taken, most = [0], 0, 10

    def task() -> Iterator[int]:
        for n in range(50):
            with lock:
                begun[0] += 1
            yield n

    lock = threading.Lock()
    for _ in in_order([task] * 4, threads=3, buffered_bytes=most):
        taken += 1
        with lock:  # waiting, one in the hand of each thread, and the one whose turn it is
            assert begun[0] - taken <= most + 3 + 1
    assert taken == 200


def test_an_error_comes_where_its_task_would_have_gone_on() -> None:
    def fails() -> Iterator[int]:
        yield 3
        raise Corrupt("a/b", "no file")

    collected: list[int] = []
    with pytest.raises(Corrupt, match="a/b"):
        collected.extend(in_order([lambda: iter([1, 2]), fails, lambda: iter([4])], threads=3))
    assert collected == [1, 2, 3]
    assert running() == 0


def test_who_stops_leaves_no_thread_and_no_open_generator() -> None:
    closed: list[int] = []

    def task(number: int) -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(number)

    rows = in_order([lambda i=i: task(i) for i in range(5)], threads=2, buffered_bytes=4)
    assert next(rows) == 0
    rows.close()
    assert running() == 0
    assert 1 <= len(closed) <= 2
    rows = in_order([lambda: task(9)] * 3, threads=2, buffered_bytes=4)
    assert next(rows) == 0
    del rows
    gc.collect()
    assert running() == 0


def wide(path: Path, *, rows: int = 40_000, buckets: int = 4) -> Table:
    """A table whose buckets are worth threads, with overlapping runs."""
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT.not_null(), "v": ts.BIGINT, "s": ts.STRING},
        primary_key=["k"],
        options={"bucket": buckets, "write-only": True},
    )
    rng = random.Random(7)
    for step in range(3):
        keys = rng.sample(range(2 * rows), rows)
        texts = [f"{rng.getrandbits(320):080x}" for _ in keys]
        table.write(pa.table({"k": keys, "v": [step] * rows, "s": texts}))
    return table


def test_scans_and_compactions_with_threads_give_what_they_give_without(tmp_path: Path) -> None:
    table = wide(tmp_path)
    assert parallel.threads(table.with_options({"tablestore.scan.threads": 3}).store, [8 << 20] * 2) == 2
    single, threaded = (table.with_options({"tablestore.scan.threads": n}) for n in (1, 2))
    before = single.scan().to_arrow()
    assert threaded.scan().to_arrow().equals(before)
    assert (
        threaded.scan(where=ts.col("v") == 1)
        .to_arrow()
        .equals(single.scan(where=ts.col("v") == 1).to_arrow())
    )
    assert threaded.scan().head(5).to_arrow().num_rows == 5
    done = threaded.compact(full=True)
    assert [p.bucket for p in done.picks] == [0, 1, 2, 3]
    assert threaded.refresh().scan().to_arrow().equals(before)
    assert table.check() == []
    assert running() == 0


def test_a_damaged_file_raises_the_same_with_threads_and_leaves_nothing(tmp_path: Path) -> None:
    table = wide(tmp_path)
    (damaged,) = sorted(tmp_path.glob("d.db/t/bucket-2/*.parquet"))[:1]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    for threads in (1, 2):
        chosen = table.with_options({"tablestore.scan.threads": threads})
        with pytest.raises(Corrupt, match=damaged.name):
            chosen.scan().to_arrow()
        with pytest.raises(Corrupt, match=damaged.name):
            chosen.compact(full=True)
        assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    assert running() == 0


def test_few_or_small_files_start_no_thread(tmp_path: Path) -> None:
    store = wide(tmp_path, rows=10).store
    assert parallel.threads(store, [1 << 30]) == 1
    assert parallel.threads(store, [1 << 10] * 100) == 1
    assert parallel.threads(store, [8 << 20] * 2) == min(2, pa.cpu_count())
