"""A transaction of any size goes through a capture in bounded memory."""

from __future__ import annotations

import multiprocessing
import resource
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.cdc.mysql.local_capture import LocalCapture
from tests.servers.mariadb import MariaDb

POOL_BYTES, MOST_BYTES = 8 << 20, 96 << 20
ROW_BYTES = 1_000


@pytest.mark.large
def test_a_large_transaction_takes_no_more_memory_than_a_small_one(
    mariadb: MariaDb, database: str, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    """150 MB of log, 1 GB with more than five `--rounds`: what a process that captures it takes more than
    before is a fraction of that, and the same for both."""
    rows = 1_000_000 if len(seeds) > 5 else 150_000
    mariadb.run(f"USE {database}", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    here, there = multiprocessing.Pipe()
    processes = multiprocessing.get_context("spawn")
    process = processes.Process(target=captured, args=(tmp_path, mariadb.url, database, there))
    process.start()
    there.close()
    try:
        before = here.recv()
        text = f"CONCAT(seq, REPEAT('v', {ROW_BYTES - 10}))"
        mariadb.run(f"INSERT INTO {database}.t SELECT seq, {text} FROM mysql.seq_1_to_{rows}")
        here.send("go on")
        after, log_bytes, count = here.recv()
    finally:
        process.kill()
        process.join()
    assert log_bytes > rows * (ROW_BYTES - 20)
    assert count == rows
    assert after - before < MOST_BYTES < 0.7 * log_bytes
    print(f"{log_bytes >> 20} MiB of log, {(after - before) >> 20} MiB of memory")


def captured(path: Path, url: str, database: str, pipe: Connection) -> None:
    """Capture all that there is, twice; each time tell the most memory that this process has had, the second
    time also the bytes of log of the largest batch, and the rows of the table."""
    capture = LocalCapture(path, url, database, {}, {}, POOL_BYTES)
    capture.catch_up()
    pipe.send(peak_bytes())
    pipe.recv()
    capture.catch_up()
    peak = peak_bytes()
    log_bytes = max(report.log_bytes for report in capture.reports())
    count = sum(batch.num_rows for batch in capture.lake.table("ods.t").scan(["id"]).to_batches())
    pipe.send((peak, log_bytes, count))
    pipe.recv()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
