"""A union read by a hint: of the table that it stands at, wherever in a query that is, and of no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts

HINT = "/*+ OPTIONS('tablestore.scan.log' = 'true') */"
OPTIONS = {"bucket": 2, "log.system": "embedded", "log.consistency": "eventual"}


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A session of a lake with a table `d.t`, of which the rows with v ≥ 20 are in the log alone."""
    lake, options = ts.connect(path), dict[str, Any](OPTIONS)
    columns = {"k": ts.INT, "v": ts.BIGINT}
    t = lake.create_table("d.t", schema=columns, primary_key=["k"], options=options)
    t.write([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    with t.writer() as w:
        w.write([{"k": 2, "v": 20}, {"k": 3, "v": 30}])
        session = ts.sql_session(lake)
        session.sql(f"CREATE TEMPORARY VIEW fresh AS SELECT k, v * 2 AS w FROM d.t {HINT}")
        session.sql("CREATE TEMPORARY VIEW total AS SELECT sum(w) AS s FROM fresh")
        yield session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with opened(tmp_path_factory.mktemp("lake")) as opened_session:
        yield opened_session


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT * FROM d.t {HINT}", [(1, 1), (2, 20), (3, 30)]),
        (f"SELECT count(*) AS n, max(v) AS m FROM d.t {HINT}", [(3, 30)]),
        (
            f"SELECT a.k, a.v, b.v AS c FROM d.t {HINT} AS a JOIN d.t AS b ON a.k = b.k",
            [(1, 1, 1), (2, 20, 2)],
        ),
        (
            f"SELECT a.k, b.v FROM d.t AS b RIGHT JOIN d.t {HINT} AS a ON a.k = b.k",
            [(1, 1), (2, 2), (3, None)],
        ),
        (
            f"WITH x AS (SELECT * FROM d.t {HINT}), y AS (SELECT * FROM d.t) "
            "SELECT (SELECT sum(v) FROM x) AS a, (SELECT sum(v) FROM y) AS b",
            [(51, 3)],
        ),
        (f"SELECT k FROM d.t WHERE k IN (SELECT k FROM d.t {HINT} WHERE v > 10)", [(2,)]),
        (f"SELECT k FROM d.t {HINT} EXCEPT SELECT k FROM d.t", [(3,)]),
        (f"SELECT k FROM (SELECT * FROM d.t {HINT}) WHERE v > 10", [(2,), (3,)]),
        ("SELECT f.k, t.v FROM fresh AS f LEFT JOIN d.t AS t ON t.k = f.k", [(1, 1), (2, 2), (3, None)]),
        ("SELECT s FROM total", [(102,)]),
        (f"SELECT * FROM d.t VERSION AS OF 1 {HINT}", [(1, 1), (2, 2)]),
        ("SELECT * FROM d.t", [(1, 1), (2, 2)]),
    ],
    ids=[
        *("table", "aggregate", "join", "outer-join", "cte", "subquery", "except", "derived", "view"),
        *("view-of-view", "version", "plain"),
    ],
)
def test_a_hint_reads_the_log_of_its_table(session: Any, query: str, rows: list[tuple[Any, ...]]) -> None:
    assert sorted(tuple(r.values()) for r in session.sql(query).to_arrow().to_pylist()) == rows


def test_a_hint_at_a_moment_reads_the_log_up_to_then(session: Any) -> None:
    for seconds, count in ((3600, 3), (-3600, None)):
        moment = datetime.now() + timedelta(seconds=seconds)
        query = f"SELECT k FROM d.t {HINT} FOR SYSTEM_TIME AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}'"
        if count is None:
            with pytest.raises(ts.NotFound):
                session.sql(query)
        else:
            assert session.sql(query).to_arrow().num_rows == count


def test_a_plan_says_that_the_log_is_read(session: Any) -> None:
    plan = str(session.sql(f"EXPLAIN SELECT * FROM d.t {HINT}").to_arrow()["plan"][0])
    assert plan.startswith("table d.t at snapshot 1, with the log up to offsets {")
    plain = session.sql("EXPLAIN SELECT * FROM d.t").to_arrow()["plan"].to_pylist()
    assert plain[0] == "table d.t at snapshot 1"


def test_what_a_hint_reads_goes_into_other_tables(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        _into_other_tables(session)


def _into_other_tables(session: Any) -> None:
    session.sql(f"CREATE TABLE d.c AS SELECT * FROM d.t {HINT}")
    assert session.sql("SELECT sum(v) AS s FROM d.c").to_arrow().to_pylist() == [{"s": 51}]
    session.sql(f"INSERT OVERWRITE d.t SELECT k, v FROM d.t {HINT} WHERE k > 1")
    result = session.sql("SELECT * FROM d.t").to_arrow().to_pylist()
    assert sorted(result, key=str) == [{"k": 2, "v": 20}, {"k": 3, "v": 30}]
