"""Conditions of statements as predicates: exact, or none."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.forms import FORMS
from tablestore.sql.query.conditions import predicate_of, value_of


def tree_of(condition: str) -> Any:
    return reader(FORMS).read(pieces(f"SELECT * FROM t WHERE {condition}")[0]).args["where"].this


@pytest.fixture
def table(tmp_path: Any) -> ts.Table:
    schema = {
        "i": ts.INT,
        "d": ts.DECIMAL(8, 2),
        "f": ts.FLOAT,
        "g": ts.DOUBLE,
        "s": ts.STRING,
        "b": ts.BYTES,
        "flag": ts.BOOLEAN,
        "day": ts.DATE,
        "at": ts.TIMESTAMP(3),
        "r": ts.ROW(i=ts.INT),
    }
    return ts.connect(tmp_path).create_table("d.t", schema=schema)


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("i = 1", "i = 1"),
        ("1 < i", "i > 1"),
        ("NOT (i = 1 OR s <> 'a')", "i <> 1 AND s = 'a'"),
        ("t.i BETWEEN -2 AND 3", "i >= -2 AND i <= 3"),
        ("i NOT IN (1, 2)", "i NOT IN (1, 2)"),
        ("s LIKE 'a%'", "starts_with(s, 'a')"),
        ("s NOT LIKE 'a!%b_' ESCAPE '!'", r"s NOT LIKE 'a\%b_'"),
        ("s IS NOT NULL AND flag", "s IS NOT NULL AND flag = TRUE"),
        ("d >= 12.505", "d >= 12.505"),
        ("f = 0.5", "f = 0.5"),
        ("g = 0.1", "g = 0.1"),
        ("b = x'00ff'", "b = X'00ff'"),
        ("day > DATE '2026-01-01'", "day > '2026-01-01'"),
        ("day > '2026-01-01'", "day > '2026-01-01'"),
        ("at < TIMESTAMP '2026-01-01 10:00:00'", "at < '2026-01-01 10:00:00'"),
        ("TRUE", "TRUE"),
        ("i NOT BETWEEN 1 AND 2", "i < 1 OR i > 2"),
        ("NOT i IN (1)", "i NOT IN (1)"),
        ("NOT i IS NULL", "i IS NOT NULL"),
    ],
)
def test_a_condition_with_an_exact_predicate(table: ts.Table, condition: str, predicate: str) -> None:
    assert repr(predicate_of(tree_of(condition), table)) == predicate


@pytest.mark.parametrize(
    "condition",
    [
        "i = d",
        "i + 1 = 2",
        "i = '1'",
        "i = NULL",
        "i NOT IN (1, NULL)",
        "i = 1.5e0",
        "f = 0.1",
        "g = 0.1234567890123456789",
        "r.i = 1",
        "nosuch = 1",
        "upper(s) = 'A'",
        "i IN (SELECT 1)",
        "day = '2026-01-01 12:00'",
        "s ILIKE 'a'",
        "i <=> 1",
    ],
)
def test_others_have_none(table: ts.Table, condition: str) -> None:
    assert predicate_of(tree_of(condition), table) is None
    assert predicate_of(tree_of(f"i = 1 OR {condition}"), table) is None


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1", 1),
        ("-1.50", Decimal("-1.50")),
        ("1e0", 1.0),
        ("'it''s'", "it's"),
        ("NULL", None),
        ("CAST(NULL AS STRING)", None),
        ("CAST(5 AS BIGINT)", 5),
        ("TRUE", True),
        ("x'ff'", b"\xff"),
        ("DATE '2026-01-31'", dt.date(2026, 1, 31)),
        ("TIMESTAMP '2026-01-31 01:02:03.5'", dt.datetime(2026, 1, 31, 1, 2, 3, 500_000)),
        ("TIMESTAMP '2026-01-31 01:02:03.123456789'", "2026-01-31 01:02:03.123456789"),
        ("TIME '01:02:03'", dt.time(1, 2, 3)),
    ],
)
def test_literals_have_values(literal: str, value: Any) -> None:
    actual = value_of(tree_of(f"{literal} = 0").this)
    assert (type(actual), actual) == (type(value), value)


def test_what_is_no_literal_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"1 \+ 1 is no literal"):
        value_of(tree_of("1 + 1 = 0").this)
    with pytest.raises(InvalidRequest, match="no DATE"):
        value_of(tree_of("DATE '2026-99-01' = i").this)
