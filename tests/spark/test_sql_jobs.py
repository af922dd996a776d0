"""Jobs of SQL whose streams are Spark's, and those that go on without it and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.sql import Session
from tests.sql.streaming.following import (
    CHANGES,
    LARGE,
    SUMS,
    await_same,
    change,
    require_each_batch_once,
    require_one_clear_error,
    rows,
    session_over,
    with_orders,
)
from tests.test_docs import GUIDE, snippets

pytestmark = [pytest.mark.spark, pytest.mark.large]


@pytest.fixture
def session(spark, lake: ts.Lake) -> Iterator[Session]:
    created = with_orders(lake, spark=spark)
    yield created
    created.jobs.stop_all()


def test_jobs_begun_on_spark_go_on_without_it_and_back(session: Session, lake: ts.Lake, spark):
    """Rows and groups, in one job."""
    columns = "customer STRING, n BIGINT, total BIGINT, lo INT, d BIGINT"
    session.sql(f"CREATE TABLE counted ({columns}) WITH ('bucket' = '2', 'write-mode' = 'change-log')")
    statements = f"EXECUTE STATEMENT SET BEGIN INSERT INTO large {LARGE}; INSERT INTO counted {SUMS}; END"
    more = [f"INSERT INTO orders VALUES ({n}, 'bob', {n})" for n in (18, 19)]
    for engine, changes in ((spark, ()), (None, CHANGES), (spark, more[:1]), (None, more[1:])):
        change(session, *changes)
        at_work = session_over(lake, spark=engine)
        at_work.sql("SET 'pipeline.name' = 'both'")
        at_work.sql(statements)
        await_same(at_work, "large", LARGE)
        await_same(at_work, "counted", SUMS)
        at_work.sql("STOP JOB 'both'")
    shown = session.sql("SHOW JOBS").to_arrow().to_pylist()
    assert [row["status"] for row in shown] == ["STOPPED"] * 2
    for number, table in enumerate(("shop.large", "shop.counted")):
        assert require_each_batch_once(lake, table, f"both/{number}") >= 4, "one a start"
        assert lake.table(table).check() == []


def test_the_job_of_the_readme_runs_when_pasted(spark, tmp_path: Path):
    before, job = snippets(GUIDE / "sql.md", "sql")
    session = session_over(ts.connect(tmp_path / "lake"), spark=spark)
    session.settings.reset()
    for result in session.script(before + job):
        result.summary()
    try:
        session.jobs.catch_up("items by day")
        change(session, "INSERT INTO stock.items VALUES (3, 'cap', 9, DATE '2026-01-02', 'red')")
        session.jobs.catch_up("items by day")
        actual = rows(session, "SELECT items, dearest FROM stock.by_day")
        assert [(r["items"], float(r["dearest"])) for r in actual] == [(1, 3.0), (2, 9.0)]
    finally:
        session.jobs.stop_all()


def test_a_value_that_does_not_fit_fails_the_job_with_one_clear_error(session: Session, lake: ts.Lake):
    require_one_clear_error(session, lake)


def test_what_a_killed_first_batch_leaves_does_not_stop_the_next_start(session: Session, lake: ts.Lake):
    place = Path(lake.warehouse) / ".tablestore/jobs/l/0/checkpoint"
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
        (place / name / ".0.8a3fb2c5-0c57-43d6-9a1b-6f6a4a0a7a0e.tmp").write_bytes(b"v1\n{}")
    (place / ".metadata.8a3fb2c5-0c57-43d6-9a1b-6f6a4a0a7a0e.tmp").write_bytes(b"{")
    session.sql("SET 'pipeline.name' = 'l'")
    session.sql(f"INSERT INTO large {LARGE}")
    await_same(session, "large", LARGE)
