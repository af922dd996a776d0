"""Computed columns of captures: each function is, row by row, what Python gives; expressions as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.cdc.capture.computed import ComputedTarget
from tablestore.cdc.capture.functions import FUNCTIONS
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.format import hashing
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType, to_arrow

EPOCH = datetime(1970, 1, 1)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
TEXTS = st.text("aBcdé𝄞ß \t", max_size=8)


def cents(n: int) -> Decimal:
    return Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2))


def after(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def units(v: Decimal) -> int:
    return int(format(v, "f").replace(".", ""))


def truncated(width: int) -> Callable[[int], int | None]:
    return lambda v: v - v % width


CENTS = st.integers(-(10**30) + 50, 10**30 - 1).map(cents)
# what is written, the type of column c, its values, and what Python gives
CASES: list[tuple[str, DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = [
    ("year(c)", t.DATE, st.dates(), lambda d: d.year),
    ("month(c)", t.TIMESTAMP(6), MOMENTS, lambda d: d.month),
    ("day(c)", t.TIMESTAMP_LTZ(3), st.datetimes(timezones=st.just(UTC)), lambda d: d.day),
    ("hour(c)", t.DATE, st.dates(), lambda d: 0),
    ("minute(c)", t.TIMESTAMP(0), MOMENTS, lambda d: d.minute),
    ("second(c)", t.STRING, MOMENTS.map(lambda d: d.isoformat(" ")), lambda s: int(s[17:19])),
    ("hour(c, 3)", t.BIGINT, st.integers(-(10**12), 10**13), lambda n: n // 3_600_000 % 24),
    ("date(c)", t.INT, st.integers(-(2**31), 2**31 - 1), lambda n: (EPOCH + timedelta(seconds=n)).date()),
    ("date(c)", t.TIMESTAMP(6), MOMENTS, lambda d: d.date()),
    ("date(c, 6)", t.STRING, st.integers(0, 2**50).map(str), lambda s: after(int(s)).date()),
    (
        "date_format(c, yyyy-MM-dd HH:mm:ss.SSS)",
        t.TIMESTAMP(6),
        MOMENTS,
        lambda d: f"{d.year:04}-{d:%m-%d %H:%M:%S}.{d.microsecond // 1000:03}",
    ),
    ("date_format(c, yyyyMM)", t.DATE, st.dates(), lambda d: f"{d.year:04}{d.month:02}"),
    (
        "date_format(c, 'EEE d MMMM yy, h a')",
        t.TIMESTAMP(0),
        MOMENTS,
        lambda d: f"{d:%a} {d.day} {d:%B} {d.year % 100:02}, {(d.hour - 1) % 12 + 1} {d:%p}",
    ),
    ("date_format(c, 'yyyy''w''DDD')", t.DATE, st.dates(), lambda d: f"{d.year:04}w{d:%j}"),
    ("date_format(c, 'Qg')", t.DATE, st.dates(), lambda d: f"{(d.month + 2) // 3}{d.toordinal() - 678576}"),
    ("substring(c, 2)", t.STRING, TEXTS, lambda s: s[2:]),
    ("substring(c, 1, 3)", t.VARCHAR(8), TEXTS, lambda s: s[1:3]),
    ("substring(c, 0, 2)", t.INT, st.integers(-999, 999), lambda n: str(n)[:2]),
    ("truncate(c, 3)", t.STRING, TEXTS, lambda s: s[:3]),
    ("truncate(c, 10)", t.TINYINT, st.integers(-120, 127), truncated(10)),
    ("truncate(c, 200)", t.TINYINT, st.integers(-128, 127), lambda v: 0 if v >= 0 else None),
    ("truncate(c, 7)", t.BIGINT, st.integers(-(2**63) + 7, 2**63 - 1), truncated(7)),
    ("truncate(c, 50)", t.DECIMAL(30, 2), CENTS, lambda v: cents(units(v) // 50 * 50)),
    ("upper(c)", t.STRING, st.text("abé ", max_size=5), str.upper),
    ("lower(c)", t.STRING, st.text("ABÉ ", max_size=5), str.lower),
    ("trim(c)", t.STRING, TEXTS, lambda s: s.strip(" \t")),
    ("lower(trim(substring(c, 1)))", t.STRING, st.text("AB ", max_size=6), lambda s: s[1:].strip().lower()),
    ("cast(c, INT)", t.DECIMAL(8, 2), st.decimals(-9999, 9999, places=2), int),
    ("cast(c, TINYINT)", t.INT, st.integers(-300, 300), lambda n: n if -128 <= n < 128 else None),
    ("cast(c, BIGINT)", t.STRING, st.sampled_from(["12", "x", "-7"]), lambda s: None if s == "x" else int(s)),
    ("cast('1.50', DECIMAL(10, 2))", t.INT, st.integers(0, 9), lambda _: Decimal("1.50")),
    ("cast('it''s', STRING)", t.INT, st.integers(0, 9), lambda _: "it's"),
    ("mod(c, 7)", t.BIGINT, st.integers(-(2**63), 2**63 - 1), lambda n: n % 7),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "values", "oracle"), CASES, ids=[f"{c[0]} of {c[1]}" for c in CASES]
)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.sample(10)
def test_a_function_gives_what_python_gives(
    text: str, kind: DataType, values: Any, oracle: Callable[[Any], Any], data: Any
) -> None:
    given_values = data.draw(st.lists(st.one_of(st.none(), values), max_size=6))
    column = ComputedTarget.parse("x", text)
    array = pa.array(given_values, to_arrow(kind))
    actual, made_type, wrong = column.values({"c": (array, kind)}, len(array))
    constant = not column.expression.columns
    wanted = [oracle(v) if v is not None or constant else None for v in array.to_pylist()]
    assert actual.to_pylist() == wanted
    assert actual.type == to_arrow(made_type) == to_arrow(column.type({"c": kind}))
    lost = [w is None and v is not None for v, w in zip(given_values, wanted, strict=True)]
    assert (wrong is not None and wrong.tolist()) == (any(lost) and lost)


def test_bucket_is_the_hash_that_chooses_buckets() -> None:
    array = pa.array(["a", None, "b"])
    actual, _, wrong = ComputedTarget.parse("b", "bucket(c, 8)").values({"c": (array, t.STRING)}, 3)
    wanted = hashing.bucket_of([pa.array(["a", "b"])], [t.STRING], 8)
    assert actual.to_pylist() == [wanted[0], None, wanted[1]]
    assert wrong is None


def test_one_bad_value_in_many_is_found() -> None:
    texts = ["2024-01-01"] * 10_000
    texts[7_777] = "never"
    actual, _, wrong = ComputedTarget.parse("y", "year(c)").values(
        {"c": (pa.array(texts), t.STRING)}, len(texts)
    )
    assert wrong is not None
    assert wrong.nonzero()[0].tolist() == [7_777]
    assert actual.null_count == 1


def test_names_of_columns_may_hold_anything() -> None:
    name = "a `b`, (c) 'd'"
    text = "upper(`a ``b``, (c) 'd'`)"
    column = ComputedTarget.parse("x", text)
    assert column.expression.columns == {name}
    assert str(column) == f"x = {text}"
    assert ComputedTarget.parse("x", str(column.expression)) == column


@given(st.text(max_size=30))
@pytest.mark.large
def test_what_is_no_expression_is_refused(text: str) -> None:
    try:
        column = ComputedTarget.parse("x", text)
    except TablestoreError:
        return
    assert ComputedTarget.parse("x", str(column.expression)) == column


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("upper(c)", t.INT, "upper takes a text, not INT"),
        ("year(c)", t.BOOLEAN, "year takes a date"),
        ("year(c, 3)", t.DATE, "for integers and texts"),
        ("truncate(c, 0)", t.INT, "takes a number from 1"),
        ("truncate(c, x)", t.INT, "whole numbers, not x"),
        ("substring(c, 3, 2)", t.STRING, "end > begin"),
        ("date_format(c, yyyy-bb)", t.DATE, "'b' is no letter"),
        ("date_format(c, '''open')", t.DATE, "quote"),
        ("cast(c, DATE)", t.BOOLEAN, "no BOOLEAN to DATE"),
        ("mod(c, 2)", t.DECIMAL(3, 0), "mod takes an integer"),
        ("upper(c, 1)", t.STRING, "is written upper\\(column\\)"),
        ("date()", t.DATE, "needs a column"),
        ("cast(abc, STRING)", t.INT, "no column 'abc'"),
    ],
)
def test_wrong_calls_are_refused_by_name(text: str, kind: DataType, words: str) -> None:
    with pytest.raises((InvalidRequest, NotFound), match=words):
        ComputedTarget.parse("x", text).type({"c": kind})


def test_each_function_says_how_it_is_written() -> None:
    for name, function in FUNCTIONS.items():
        assert re.fullmatch(rf"{name}\(column.*\)", function.form)
        assert function.meaning
    assert ComputedTarget.parse("x", "date(c)").type({"c": t.DATE}) == t.DATE
