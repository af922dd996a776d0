"""Writes with threads: the same table as without, and nothing left of a write that fails."""

from __future__ import annotations

import signal
import threading
from itertools import count, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.writing import append_writer, memory
from tablestore.meta.store import Store
from tablestore.write import table_write

THREADS = "tablestore.write.threads"
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("v", pa.string())])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_BACKGROUND_BYTES", 0)
    monkeypatch.setattr(append_writer, "_BUFFERED_BYTES", 4096)
    monkeypatch.setattr(table_write, "_PARALLEL_BYTES", 0)


def changes(rng: np.random.Generator) -> pa.Table:
    rows = int(rng.integers(1, 400))
    keys = rng.integers(0, 300, rows)
    kinds = rng.choice(["+I", "+U", "-D"], rows, p=[0.6, 0.2, 0.2])
    values = [f"{n}-{'x' * int(n % 90)}" for n in rng.integers(0, 1 << 40, rows)]
    return pa.table({"k": keys, "p": (keys % 3).astype(np.int32), "v": values, "kind": kinds})


def rows(table: ts.Table) -> pa.Table:
    return table.scan().to_arrow().sort_by("k")


@pytest.mark.parametrize("write_only", [True, False])
@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.sample(2)
def test_any_number_of_threads_gives_the_same_rows(
    tmp_path: Path, seeds: range, write_only: bool, producer: str
) -> None:
    for seed in seeds[::5]:
        tables = [
            ts.connect(str(tmp_path / f"{seed}-{threads}")).create_table(
                "db.t",
                schema=SCHEMA,
                primary_key=["k", "p"],
                partition_by=["p"],
                options={
                    "bucket": 3,
                    "write-buffer-size": "16 kb",
                    "num-sorted-run.compaction-trigger": 3,
                    "changelog-producer": producer,
                    "write-only": write_only,
                    THREADS: threads,
                },
            )
            for threads in (0, 3)
        ]
        rng = np.random.default_rng(seed)
        for _ in range(4):
            batches = [changes(rng) for _ in range(int(rng.integers(1, 6)))]
            for table in tables:
                with table.writer() as w:
                    for batch in batches:
                        w.write(batch, row_kind_column="kind")
        assert rows(tables[0]).equals(rows(tables[1])), f"seed {seed}"
        assert [table.check() for table in tables] == [[], []]


@pytest.mark.parametrize("bucket", [-1, 3])
@pytest.mark.large
def test_append_tables_hold_the_same_rows_in_the_same_order(
    tmp_path: Path, seeds: range, bucket: int
) -> None:
    for seed in seeds[::2]:
        collected = []
        for threads in (0, 3):
            options = {"bucket": bucket, "target-file-size": "4 kb", THREADS: threads}
            table = ts.connect(str(tmp_path / f"{seed}-{threads}")).create_table(
                "db.t",
                schema=SCHEMA,
                partition_by=["p"],
                options=options | ({"bucket-key": "k"} if bucket > 0 else {}),
            )
            rng = np.random.default_rng(seed)
            with table.writer() as w:
                for _ in range(40):  # a file ends at every 1,024th row at the earliest
                    w.write(changes(rng).drop_columns(["kind"]))
            files = table.inspect.files()
            collected.append((table.scan().to_arrow(), sorted(files["record_count"].to_pylist())))
            assert table.check() == []
        assert collected[0] == collected[1], f"seed {seed}"
        assert len(collected[0][1]) > 3


class OneBroken(LocalFileIO):
    """Files of one bucket cannot be made."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = set[str]()

    def open_output(self, path: str) -> pa.NativeFile:
        self.threads.add(threading.current_thread().name)
        if "/bucket-2/" in path:
            raise Unavailable(28, f"{path}: No space left on device")
        return super().open_output(path)


@pytest.mark.parametrize("buffer", ["1 mb", "2 kb"])
def test_a_bucket_that_fails_takes_the_files_of_all_with_it(tmp_path: Path, buffer: str) -> None:
    options = {"bucket": 4, "write-buffer-size": buffer, THREADS: 2}
    created = ts.connect(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_key=["k"], options=options
    )
    table = ts.Table(Store.open(created.location, io=(io := OneBroken())), created.name)
    data = changes(np.random.default_rng(0)).drop_columns(["kind"])
    with pytest.raises(Unavailable, match=r"No space left|lost its rows"), table.writer() as w:
        w.write(data.to_batches(max_chunksize=20))
    assert any(name.startswith("tablestore-write") for name in io.threads)
    assert not list(Path(created.location).rglob("data-*"))
    assert created.scan().to_arrow().num_rows == 0


def test_tasks_of_engines_use_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    monkeypatch.setattr(table_write, "Workers", lambda threads: begun.append(threads))
    options = {"bucket": 2, THREADS: 2}
    table = ts.connect(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_key=["k"], options=options)
    table.open_writer(sequence_base=0)
    table.writer()
    assert begun == [0, 2]


class Interrupting(LocalFileIO):
    """As Ctrl-C does, interrupts the main thread when the data file of a number is opened, by any thread."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at, self._opened = at, count(1)

    def open_output(self, path: str) -> pa.NativeFile:
        file = super().open_output(path)
        if next(self._opened) == self._at:  # told apart, however many threads open one now
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return file


@pytest.mark.parametrize("options", [{"primary_key": ["k", "p"]}, {}])
@pytest.mark.parametrize("buffer", ["4 kb", "64 mb"])
def test_nothing_is_left_of_a_write_that_is_interrupted(
    tmp_path: Path, seeds: range, options: dict[str, list[str]], buffer: str
) -> None:
    wanted = {"bucket": 3, "bucket-key": "k", "write-buffer-size": buffer, "write-only": True}
    created = ts.connect(str(tmp_path)).create_table("db.t", schema=SCHEMA, options=wanted, **options)
    interrupted = 0
    for seed, at in product(seeds, (1, 3, 7)):
        rng = np.random.default_rng(seed + at)
        table = ts.Table(Store.open(created.location, io=Interrupting(at)), "db.t").with_options({THREADS: 3})
        try:
            table.write([changes(rng).drop_columns(["kind"]) for _ in range(3)])
        except KeyboardInterrupt:
            interrupted += 1
        there = {path.name for path in tmp_path.rglob("data-*")}
        named = created.inspect.files()["file_path"].to_pylist()
        assert there == {name.rsplit("/", 1)[-1] for name in named}, f"seed {seed}, file {at}"
    assert interrupted
