"""What columns take of computed values: rows by position, times cut to their digits."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
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
    rows = lake.table("shop.stored").scan(columns=["t", "u"]).to_arrow()
    assert rows.column("t").cast(pa.int64()).to_pylist() == [-1]
    # Java cuts to milliseconds first, and these towards 1970
    assert rows.column("u").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [0]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_a_time_is_stored_as_cast_makes_it(session: Session, zone: str, seeds: tuple[int, ...]) -> None:
    """Also one that a clock skips or shows twice, and one before 1970."""
    rng = random.Random(f"{seeds} {zone}")
    days = ["2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03", "1969-12-31", "1931-06-01", "2024-07-01"]
    texts = [f"{d} 0{rng.randrange(4)}:{rng.randrange(60):02}:59.{rng.randrange(10**6):06}" for d in days * 6]
    texts += ["2024-03-31 02:30:00.000000", "2024-10-27 02:30:00.000000", "1969-12-31 23:59:59.999999"]
    types = [f"{name}({p})" for name in ("TIMESTAMP", "TIMESTAMP_LTZ") for p in (0, 1, 3, 4, 6)]
    session.sql(f"SET 'table.local-time-zone' = '{zone}'")
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(types))
    session.sql(f"CREATE TABLE times (k INT, {columns})")
    given = ", ".join(f"({k}, TIMESTAMP '{text}')" for k, text in enumerate(texts))
    source = f"(VALUES {given}) AS v(k, t)"
    session.sql(f"INSERT INTO times SELECT k, {', '.join('t' for _ in types)} FROM {source}")
    casts = ", ".join(f"CAST(t AS {t}) AS c{i}" for i, t in enumerate(types))
    wanted = session.sql(f"SELECT k, {casts} FROM {source} ORDER BY k").to_arrow()
    stored = session.sql("SELECT * FROM times ORDER BY k").to_arrow()
    for i, t in enumerate(types):
        named = [dict(zip(texts, rows[f"c{i}"].to_pylist(), strict=True)) for rows in (stored, wanted)]
        assert named[0] == named[1], t


def literals(rng: random.Random, count: int) -> list[str]:
    """Numbers of 1 to 17 digits with a point somewhere in them, or a sign before."""
    collected = []
    for _ in range(count):
        digits = str(rng.randint(1, 10 ** rng.randint(1, 17)))
        at = rng.randint(0, len(digits) - 1)
        collected.append(rng.choice(("", "-")) + (digits[:at] or "0") + "." + digits[at:])
    return collected


@pytest.mark.parametrize("statement", ["INSERT", "UPDATE", "MERGE"])
def test_a_decimal_literal_is_stored_as_the_nearest_float(
    session: Session, statement: str, seeds: tuple[int, ...]
) -> None:
    texts = literals(random.Random(str(seeds)), 200)
    session.sql("CREATE TABLE floats (k INT PRIMARY KEY NOT ENFORCED, d DOUBLE, f FLOAT)")
    rows = ", ".join(f"({k}, {text}, {text})" for k, text in enumerate(texts))
    if statement == "INSERT":
        session.sql(f"INSERT INTO floats VALUES {rows}")
    else:
        session.sql(f"INSERT INTO floats (k) VALUES {', '.join(f'({k})' for k in range(len(texts)))}")
        session.sql(f"CREATE TEMPORARY VIEW given AS SELECT * FROM (VALUES {rows}) AS v(k, x, y)")
        if statement == "UPDATE":
            cases = " ".join(f"WHEN {k} THEN {text}" for k, text in enumerate(texts))
            session.sql(f"UPDATE floats SET d = CASE k {cases} END, f = CASE k {cases} END")
        else:
            session.sql(
                "MERGE INTO floats t USING given g ON t.k = g.k WHEN MATCHED THEN UPDATE SET d = g.x, f = g.y"
            )
    stored = session.sql("SELECT d, f FROM floats ORDER BY k").to_arrow()
    assert stored.column("d").to_pylist() == [float(text) for text in texts]
    assert stored.column("f").to_numpy().tolist() == [np.float32(text) for text in texts]


def test_a_double_is_stored_as_the_decimal_that_it_prints_as(session: Session) -> None:
    session.sql("CREATE TABLE decimals (a DECIMAL(38, 20), b DECIMAL(5, 2))")
    session.sql("INSERT INTO decimals VALUES (CAST('123456789.123' AS DOUBLE), CAST('0.285' AS DOUBLE))")
    result = session.sql("SELECT * FROM decimals").to_arrow().to_pylist()
    assert result == [{"a": Decimal("123456789.123"), "b": Decimal("0.29")}]
    for text, shown in (("1000", "1000.0"), ("NaN", "nan")):
        with pytest.raises(SchemaMismatch, match=f"{shown} is no number of 3 digits before the point"):
            session.sql(f"INSERT INTO decimals (b) VALUES (CAST('{text}' AS DOUBLE))")


def test_rows_within_arrays_and_maps_get_the_types_and_names_of_their_columns(session: Session) -> None:
    session.sql(
        "CREATE TABLE nested (a ARRAY<ROW<x BIGINT, y DOUBLE>>, m MAP<STRING, ROW<x BIGINT, y DOUBLE>>, "
        "d ARRAY<DOUBLE>)"
    )
    values = (
        "ARRAY[ROW(1, 0.1), ROW(2, 25.2)], MAP['k', ROW(3, 0.3)], ARRAY[25.2, CAST(NULL AS DECIMAL(3, 1))]"
    )
    session.sql(f"INSERT INTO nested VALUES ({values}), (NULL, NULL, NULL)")
    full, nothing = session.sql("SELECT * FROM nested").to_arrow().to_pylist()
    assert full["a"] == [{"x": 1, "y": 0.1}, {"x": 2, "y": 25.2}]
    assert full["m"] == [("k", {"x": 3, "y": 0.3})]
    assert full["d"] == [25.2, None]
    assert set(nothing.values()) == {None}


def test_default_in_values_is_the_default_of_its_column(session: Session) -> None:
    session.sql("CREATE TABLE filled (k INT, s STRING DEFAULT 'there', n INT)")
    session.sql("INSERT INTO filled VALUES (1, DEFAULT, DEFAULT), (2, 'x', 2)")
    session.sql("INSERT INTO filled (s) VALUES (DEFAULT)")
    result = session.sql("SELECT * FROM filled ORDER BY k").to_arrow().to_pylist()
    assert [tuple(r.values()) for r in result] == [(None, "there", None), (1, "there", None), (2, "x", 2)]
