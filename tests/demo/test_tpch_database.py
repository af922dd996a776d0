"""TPC-H in a database: what the generator makes, and after the refresh pairs what it expects."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from datasets import cdc, verify
from notebooks.demo.tpch_database import TABLES, RefreshWriter, load
from tests.servers.mariadb import MariaDb

SCALE, PAIRS = "0.001", 2


@pytest.fixture
def database(mariadb: MariaDb) -> Iterator[str]:
    name = f"d{uuid.uuid4().hex[:12]}"
    yield name
    mariadb.run(f"DROP DATABASE IF EXISTS {name}")


def run_pairs(mariadb: MariaDb, database: str, **options: int) -> RefreshWriter:
    with RefreshWriter(
        mariadb.connect, SCALE, pairs=PAIRS, seconds_a_pair=0, database=database, **options
    ) as writer:
        writer.wait()
    return writer


@pytest.mark.large
def test_the_rows_are_those_of_the_generator(mariadb: MariaDb, database: str, tmp_path: Path):
    shown: list[int] = []
    rows = load(mariadb.connect, SCALE, database=database, show=shown.append)
    counts = {t: mariadb.run(f"SELECT COUNT(*) FROM {database}.{t}")[0][0] for t in TABLES}
    assert rows == sum(counts.values())
    assert shown[-1] - rows == 100, "keys of partsupp that are there twice"
    assert (counts["lineitem"], counts["orders"], counts["nation"]) == (6005, 1500, 25)

    writer = run_pairs(mariadb, database, seed=7)
    assert (writer.error, writer.finished, len(writer.commits)) == (None, True, writer.transactions)
    source = cdc.generate(tmp_path, SCALE, pairs=PAIRS, seed=7, tables=("orders", "lineitem"), progress=False)
    for table in ("orders", "lineitem"):
        expected = [row for batch in verify.expected(source, table=table) for row in batch.to_pylist()]
        with mariadb.connect(cursorclass=pymysql.cursors.DictCursor) as reader, reader.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {database}.{table}")
            found = cursor.fetchall()
        assert sorted(map(str, found)) == sorted(map(str, expected)), table

    again = run_pairs(mariadb, database, seed=7)
    assert again.finished
    assert mariadb.run(f"SELECT COUNT(*) FROM {database}.lineitem")[0][0] == len(expected)


def test_a_table_that_is_there_already_is_no_place_for_it(mariadb: MariaDb, database: str):
    load(mariadb.connect, SCALE, tables=("nation",), database=database)
    with pytest.raises(pymysql.OperationalError, match="exists"):
        load(mariadb.connect, SCALE, tables=("nation",), database=database)
    writer = run_pairs(mariadb, database)
    assert isinstance(writer.error, pymysql.ProgrammingError), "there are no orders"
