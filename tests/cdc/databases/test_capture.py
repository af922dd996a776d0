"""Tables of a database as one source: what it gives equals them, whatever is written, altered and killed
meanwhile; and a capture of them in a lake."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.source import CAPTURED
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.databases.sources import Source
from tests.cdc.databases.writers import TableWriters


def test_what_a_database_gives_equals_it(source: Source, seeds: tuple[int, ...]) -> None:
    """The rows of three tables a seed while four writers change them, and the log behind them; batches are
    repeated, and the log of the server is altered as it may be."""
    source.made(400)
    for seed in seeds:
        lake = captured_amid_writers(source, random.Random(seed))
        lake.catch_up()
        lake.equals(source)
        assert lake.kinds() == [(CAPTURED, "a"), (CAPTURED, "b"), (CAPTURED, "c")]
        source.end_captures()


def captured_amid_writers(source: Source, r: random.Random) -> LastRowsLake:
    """All rows, and some batches behind them."""
    lake = source.lake(chunk_rows=r.choice([70, 200]), chunks=r.choice([1, 4]))
    more = 3
    with TableWriters(source, r.randrange(1 << 30), 800) as writers, source.altered_log(r) as alter_log:

        def meanwhile() -> None:
            writers.await_more()
            alter_log(lake)

        while more:
            reading = lake.offset["position"] is None or lake.progress("snapshot", "settling")
            assert lake.batch(repeat=r.random() < 0.3, meanwhile=meanwhile)
            more -= not reading
    return lake


@pytest.mark.large
@pytest.mark.parametrize("altered", [False, True], ids=["rows", "ddl"])
def test_batches_that_are_read_again_end_at_the_rows_of_the_source(
    source: Source, seeds: tuple[int, ...], altered: bool
) -> None:
    """After a kill of the process or of the server, beside those who write and alter."""
    for seed in seeds[: 1 if len(seeds) < 5 else None]:
        r = random.Random(seed)
        how = {
            "chunk_rows": r.choice([20, 60]),
            "chunks": r.choice([1, 3]),
            "log_bytes": 1 << r.randint(18, 22),
        }
        source.begin_traffic(seed)
        lake = source.lake(**how)
        with source.traffic(seed, altered=altered, pause_seconds=0.05):
            for _ in range(25):
                if r.random() < 0.15:
                    source.restart(r.uniform(0, 0.2), meanwhile=lake.batch)
                else:
                    lake.batch(repeat=r.random() < 0.4)
        lake.catch_up()
        lake.equals(source)
        print(source.kind, seed, how, lake.batches, "batches", len(lake.events), "events")
        source.end_captures()


def test_a_bounded_capture_ends_and_another_run_goes_on(source: Source) -> None:
    source.made(50)
    lake = source.lake(bounded=True)
    for run in range(2):
        if run == 1:
            lake.source = source.opened(bounded=True)
            assert not lake.source.ended(lake.offset)
            source.run(
                "UPDATE a SET v = -5", "CREATE TABLE d (k INT PRIMARY KEY)", "INSERT INTO d VALUES (1)"
            )
        while not lake.source.ended(lake.offset):
            assert lake.batch()
            assert lake.batches < 30
        assert not lake.batch()
        lake.equals(source)


def test_small_tables_are_read_in_a_batch_together(source: Source) -> None:
    """The last chunk of a table counts as its share of a chunk, whether the server has counted its rows or
    not."""
    for i in range(20):
        source.run(f"CREATE TABLE t{i} (k INT PRIMARY KEY)", f"INSERT INTO t{i} VALUES (1), (2)")
    source.run("ANALYZE TABLE t0, t1" if source.kind == "MariaDB" else "ANALYZE t0, t1")
    lake = source.lake(chunk_rows=5_000, chunks=2)
    while not any(lake.rows.values()):
        assert lake.batch()
    assert len([name for name, rows in lake.rows.items() if rows]) == 20
    lake.catch_up()
    lake.equals(source)


def captured(source: Source, path: Path, **how: Any) -> Any:
    """The job of a capture that reads all there is, and ends."""
    how = {"into": "ods", "options": {"bucket": 1}, "interval": "10ms", "chunk_rows": 137, **how}
    lake, checkpoint = ts.connect(str(path / "lake")), str(path / "checkpoint")
    job = lake.ingest(source.url, engine="local", checkpoint=checkpoint, follow=False, **how)
    assert job.wait(300)
    return job


def require_same(source: Source, lake: ts.Lake, *names: str) -> None:
    """The tables of the lake hold what those of the source hold, by value."""
    for name in names:
        columns, rows = source.table(name)
        table = lake.table(f"ods.{name}")
        assert {*table.schema.names} == {*columns}
        there = table.scan(columns=columns).to_arrow().sort_by("id").to_pylist()
        assert there == sorted(rows, key=lambda row: row["id"])
        assert table.check() == []


def test_the_log_of_others_is_passed_over_in_small_parts_too(source: Source) -> None:
    source.made(5, "ab")
    lake = source.lake("a", log_bytes=500)
    lake.catch_up()
    source.run(*(f"INSERT INTO b (k, v) VALUES ('{n}', {n})" for n in range(1001, 1040, 2)))
    source.run("UPDATE a SET v = 77 WHERE k = 4")
    lake.catch_up()
    lake.equals(source)


def test_rows_then_changes_and_statements_arrive_by_value(source: Source, tmp_path: Path) -> None:
    """Each time after an end of the capture; a table without a key is left out by name."""
    source.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40), price NUMERIC(12,2), at {source.time_type}, "
        "day DATE)",
        "CREATE TABLE cut (id INT PRIMARY KEY)",
        "INSERT INTO cut VALUES (1), (2)",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        "CREATE TABLE keyless (id INT)",
    )
    begin = datetime.datetime(2024, 1, 1)
    day = datetime.timedelta(days=1, microseconds=1)
    with source.connect() as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, %s, %s, %s)",
            [(i, f"n{i}", Decimal(i * 3) / 2, begin + i * day, begin + i * day) for i in range(1, 500)],
        )
    job = captured(source, tmp_path)
    require_same(source, job.lake, "t", "cut", "gone")
    skipped = [e for report in job.reports() for e in report.events if e.kind == "skipped"]
    assert [e.source for e in skipped] == [f"{source.schema}.keyless"]
    source.run(
        "UPDATE t SET price = -price, name = NULL WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        "UPDATE t SET id = id + 5000 WHERE id % 11 = 0",
        "INSERT INTO t VALUES (0, '\t ä€ N', 0.01, '1999-12-31 23:59:59.123456', '1999-12-31')",
    )
    job = captured(source, tmp_path)
    require_same(source, job.lake, "t", "cut", "gone")
    source.run(
        "INSERT INTO t VALUES (3000, 'before', 1, NULL, NULL)",
        "ALTER TABLE t ADD city VARCHAR(9)",
        "UPDATE t SET city = 'Bonn' WHERE id < 100",
        "INSERT INTO cut VALUES (3)",
        "TRUNCATE TABLE cut",
        "INSERT INTO cut VALUES (4)",
        "CREATE TABLE late (id INT PRIMARY KEY, x INT)",
        "INSERT INTO late VALUES (7, 8)",
        "DROP TABLE gone",
    )
    job = captured(source, tmp_path)
    require_same(source, job.lake, "t", "cut", "late")
    assert job.lake.table("ods.gone").scan().to_arrow().to_pylist() == [{"id": 1}]
    source.run("ALTER TABLE t RENAME COLUMN city TO town", "ALTER TABLE t ADD n INT DEFAULT 5")
    job = captured(source, tmp_path)
    require_same(source, job.lake, "t", "cut", "late")
