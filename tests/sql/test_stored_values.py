"""What columns take of computed values: rows by position, times cut to their digits."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import SchemaMismatch
from tablestore.sql import Session


@pytest.fixture
def stored(session: Session) -> Session:
    session.sql(
        "CREATE TABLE stored (k INT, r ROW<x BIGINT, y ROW<z STRING>>, t TIMESTAMP(3), u TIMESTAMP(1))"
    )
    return session


def rows(session: Session) -> list[dict]:
    return session.sql("SELECT * FROM stored ORDER BY k").to_arrow().to_pylist()


def test_a_row_gets_the_names_of_its_column_in_order(stored: Session) -> None:
    stored.sql("INSERT INTO stored (k, r) VALUES (1, ROW(7, ROW('a'))), (2, NULL)")
    assert [row["r"] for row in rows(stored)] == [{"x": 7, "y": {"z": "a"}}, None]


def test_a_row_of_other_length_is_refused(stored: Session) -> None:
    with pytest.raises(SchemaMismatch, match="a value has 1 of 2 fields"):
        stored.sql("INSERT INTO stored (k, r) VALUES (1, ROW(7))")
    assert rows(stored) == []


def test_times_are_cut_to_the_digits_of_their_column(stored: Session, lake: ts.Lake) -> None:
    moment = "TIMESTAMP '1969-12-31 23:59:59.999999'"
    stored.sql(f"INSERT INTO stored (k, t, u) VALUES (1, {moment}, {moment})")
    found = lake.table("shop.stored").scan(columns=["t", "u"]).to_arrow()
    assert found.column("t").cast(pa.int64()).to_pylist() == [-1]
    assert found.column("u").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [-100]
