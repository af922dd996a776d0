"""A query that makes more text than there is room for stops with one error, and the process goes on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.sql import Session
from tablestore.sql.query.connection import may_grow_bytes, resident_bytes

ROWS = 30_000


@pytest.fixture
def many(lake: ts.Lake, session: Session) -> Session:
    """The table `many` of 30,000 numbers from 0 on; a query has 100 MB."""
    table = lake.create_table("shop.many", schema={"n": ts.INT})
    table.write(pa.table({"n": np.arange(ROWS, dtype=np.int32)}))
    session.sql("SET 'execution.memory-limit' = '100MB'")
    return session


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT max(length(REPEAT('x', 16000000 + n))) FROM many", "REPEAT makes at most 268,435,456 char"),
        (
            "SELECT max(length(LPAD('x', 16000000 - n, 'ab'))) FROM many",
            "LPAD makes at most 268,435,456 char",
        ),
        (
            "SELECT max(length(RPAD('x', 16000000 - n, 'ab'))) FROM many",
            "RPAD makes at most 268,435,456 char",
        ),
        (
            "SELECT REGEXP_REPLACE(REPEAT('x', 1000000), 'x', REPEAT('y', 1000000))",
            "REGEXP_REPLACE makes texts",
        ),
        ("SELECT length(LISTAGG(REPEAT('x', 60000 + n % 100), '')) FROM many", "does not fit into memory"),
        ("SELECT REPEAT('x', 60000 + n % 100) FROM many", "does not fit into memory"),
    ],
)
@pytest.mark.sample(2)
def test_texts_that_fill_the_memory(many: Session, query: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as e:
        many.sql(query).to_arrow()
    assert str(e.value).startswith("line 1, column 1: ")
    assert many.sql("SELECT count(*) AS c FROM many").to_arrow()["c"].to_pylist() == [ROWS]


def test_long_texts_are_what_short_ones_are(many: Session) -> None:
    """On both sides of the length up to which DuckDB makes them."""
    query = (
        "SELECT n, REPEAT('äb', CAST(n AS INT)) AS r, LPAD('äb', n, 'xyz') AS l, RPAD('äb', n, 'xyz') AS p "
        "FROM many WHERE n IN (0, 1, 5, 21844, 21845, 21846)"
    )
    longer = "SELECT REPEAT('äb', 40000) AS r, LPAD('äb', 70000, 'xyz') AS l, RPAD('äb', 70000, 'xyz') AS p"
    for row in many.sql(query).to_arrow().to_pylist():
        n = row["n"]
        filler = ("xyz" * n)[: max(n - 2, 0)]
        assert (row["r"], row["l"], row["p"]) == ("äb" * n, filler + "äb"[:n], "äb"[:n] + filler)
    row = many.sql(longer).to_arrow().to_pylist()[0]
    filler = ("xyz" * 70000)[:69998]
    assert (row["r"], row["l"], row["p"]) == ("äb" * 40000, filler + "äb", "äb" + filler)


def test_room_follows_the_limit_and_what_the_system_has() -> None:
    now, little, much = resident_bytes(), may_grow_bytes("95.3 MiB"), may_grow_bytes("900.0 TiB")
    assert now is not None
    assert little is not None
    assert much is not None
    assert now > 0
    assert 95 << 20 < little < much < 900 << 40
