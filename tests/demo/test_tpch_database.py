"""TPC-H in a database: what the generator makes, and after the refresh pairs what it expects."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from datasets import cdc, verify
from notebooks.demo import tpch_database, tpch_postgres
from notebooks.demo.tpch_database import DEFINITIONS, TABLES, RefreshWriter

SCALE, PAIRS = "0.001", 2


@dataclass(frozen=True)
class Filled:
    """A database in which TPC-H is, or is to be: `owner` connects to its server, `connect` to it; `schema` is
    what its tables are found in."""

    load: Callable[..., int]
    owner: Callable[..., Any]
    connect: Callable[[], Any]
    name: str
    schema: str
    keep: str | None

    def run_pairs(self, seed: int = 0) -> RefreshWriter:
        more = {} if self.keep is None else {"keep": self.keep}
        how: dict[str, Any] = {"pairs": PAIRS, "seconds_a_pair": 0, "seed": seed, "database": self.schema}
        with RefreshWriter(self.connect, SCALE, **how, **more) as writer:
            writer.wait()
        return writer

    def rows(self, query: str) -> list[dict[str, Any]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture(params=["mariadb", "postgres_server"])
def database(request: pytest.FixtureRequest) -> Iterator[Filled]:
    server, name = request.getfixturevalue(request.param), f"d{uuid.uuid4().hex[:12]}"
    if request.param == "mariadb":
        load, schema, keep = tpch_database.load, name, None
    else:
        load, schema, keep = tpch_postgres.load, tpch_postgres.SCHEMA, tpch_postgres.KEEP
    yield Filled(load, server.connect, lambda: server.connect(database=name), name, schema, keep)
    server.run(f"DROP DATABASE IF EXISTS {name}")


@pytest.mark.large
def test_the_rows_are_those_of_the_generator(database: Filled, tmp_path: Path) -> None:
    shown: list[int] = []
    rows = database.load(database.owner, SCALE, database=database.name, show=shown.append)
    counts = {t: database.rows(f"SELECT COUNT(*) AS n FROM {t}")[0]["n"] for t in TABLES}
    assert rows == sum(counts.values())
    assert shown[-1] - rows == 100, "keys of partsupp that are there twice"
    assert (counts["lineitem"], counts["orders"], counts["nation"]) == (6005, 1500, 25)

    writer = database.run_pairs(seed=7)
    assert (writer.error, writer.finished, len(writer.commits)) == (None, True, writer.transactions)
    source = cdc.generate(tmp_path, SCALE, pairs=PAIRS, seed=7, tables=("orders", "lineitem"), progress=False)
    for table in ("orders", "lineitem"):
        expected = [row for batch in verify.expected(source, table=table) for row in batch.to_pylist()]
        padded = re.findall(r"(\w+) CHAR\(", DEFINITIONS[table])
        stored = database.rows(f"SELECT * FROM {table}")
        actual = [{**row, **{name: row[name].rstrip() for name in padded}} for row in stored]
        assert sorted(map(str, actual)) == sorted(map(str, expected)), table

    assert database.run_pairs(seed=7).finished
    assert len(database.rows("SELECT 1 AS x FROM lineitem")) == len(expected)


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_a_table_that_is_there_already_is_no_place_for_it(database: Filled) -> None:
    for again in (False, True):
        if again:
            with pytest.raises((pymysql.OperationalError, psycopg.Error), match="exists"):
                database.load(database.owner, SCALE, tables=("nation",), database=database.name)
        else:
            database.load(database.owner, SCALE, tables=("nation",), database=database.name)
    assert isinstance(database.run_pairs().error, pymysql.ProgrammingError), "there are no orders"
