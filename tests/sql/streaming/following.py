"""Sessions whose INSERTs follow their tables, and waiting for what the jobs do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tablestore as ts
from tablestore.sql import Session

PATIENCE_SECONDS = 120
LARGE = "SELECT id, upper(customer) AS who FROM orders WHERE amount > 15"
SUMS = (
    "SELECT customer, count(*) AS n, sum(amount) AS total, min(amount) AS lo, count(DISTINCT id % 2) AS d "
    "FROM orders GROUP BY customer"
)
CHANGES = (
    "UPDATE orders SET amount = 5 WHERE id = 2",
    "UPDATE orders SET amount = 50, customer = 'eve' WHERE id = 1",
    "DELETE FROM orders WHERE id = 3",
    "INSERT INTO orders VALUES (4, 'dan', 40), (5, 'fay', 1)",
)


def session_over(lake: ts.Lake, *, spark: Any = None) -> Session:
    """A session in streaming mode, whose jobs run on Spark where it is given, else here."""
    session = ts.sql_session(lake)
    session.spark = spark
    for key, value in (
        ("execution.runtime-mode", "streaming"),
        ("execution.checkpointing.interval", "50 ms"),
        ("execution.target", "local" if spark is None else "spark"),
    ):
        session.settings.set(key, value)
    if "shop" in lake.databases():
        session.sql("USE shop")
    return session


def with_orders(lake: ts.Lake, *, spark: Any = None) -> Session:
    """Such a session over a keyed table of orders, and an empty one for the large ones."""
    created = session_over(lake, spark=spark)
    for statement in (
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE orders (id INT, customer STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('bucket' = '2')",
        "INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cem', 30)",
        "CREATE TABLE large (id INT, who STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')",
    ):
        created.sql(statement)
    return created


def rows(session: Session, query: str) -> list[dict[str, object]]:
    """The rows of a query now, in an order of their own."""
    session.settings.set("execution.runtime-mode", "batch")
    try:
        return sorted(session.sql(query).to_arrow().to_pylist(), key=str)
    finally:
        session.settings.set("execution.runtime-mode", "streaming")


def change(session: Session, *statements: str) -> None:
    session.settings.set("execution.runtime-mode", "batch")
    for statement in statements:
        session.sql(statement)
    session.settings.set("execution.runtime-mode", "streaming")


def await_(condition: Callable[[], bool], session: Session) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, session.sql("SHOW JOBS").text(width=None)
        assert not session.jobs.failures()
        time.sleep(0.15)  # to look takes the cores from what is waited for


def await_same(session: Session, target: str, query: str) -> None:
    """Until a table holds what a query gives now."""
    wanted = rows(session, query)
    await_(lambda: rows(session, f"SELECT * FROM {target}") == wanted, session)


def require_each_batch_once(lake: ts.Lake, table: str, user: str) -> int:
    """How many batches a job has committed to a table; none twice, in order."""
    commits = lake.table(table).inspect.commits().to_pylist()
    identifiers = [c["commit_identifier"] for c in commits if c["commit_user"] == user]
    assert identifiers == sorted(set(identifiers))
    return len(identifiers)


def require_one_clear_error(session: Session, lake: ts.Lake) -> None:
    """A value that does not fit fails a job once, with what is wrong, and writes nothing."""
    change(session, "INSERT INTO orders VALUES (7, 'gus', 70000)")
    session.sql("CREATE TABLE small (id INT, amount SMALLINT, PRIMARY KEY (id) NOT ENFORCED)")
    session.sql("INSERT INTO small SELECT id, amount FROM orders")
    end = time.monotonic() + PATIENCE_SECONDS
    while not (failures := session.jobs.failures()):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert failures[0].startswith("job 'shop.small': column 'amount' is SMALLINT, and a value does not fit")
    assert session.jobs.failures() == []
    (shown,) = session.sql("SHOW JOBS").to_arrow().to_pylist()
    assert (shown["status"], shown["error"]) == ("FAILED", failures[0])
    assert lake.table("shop.small").inspect.snapshots().num_rows == 0
