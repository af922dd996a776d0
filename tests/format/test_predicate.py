"""Predicates: SQL's logic of NULL, exact literals, statistics that never lose a row."""

from __future__ import annotations

import math
import operator
import pickle
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.predicates import literal
from tablestore.format.predicates import predicate as pr
from tablestore.format.predicates.evaluate import mask, may_match
from tablestore.format.predicates.predicate import (
    Always,
    In,
    IsNull,
    Predicate,
    bind,
    col,
    conjuncts,
)
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types import arrow_types as t
from tests.tables import schema_of

COLUMNS = {
    "i": t.INT,
    "tiny": t.TINYINT,
    "big": t.BIGINT,
    "m": t.DECIMAL(6, 2),
    "wide": t.DECIMAL(30, 3),
    "f": t.DOUBLE,
    "s": t.STRING,
    "raw": t.BYTES,
    "d": t.DATE,
    "clock": t.TIME(3),
    "ts": t.TIMESTAMP(6),
    "ns": t.TIMESTAMP(9),
    "ltz": t.TIMESTAMP_LTZ(3),
    "yes": t.BOOLEAN,
    "odd name": t.INT,
}


SCHEMA = schema_of(COLUMNS)


def table(**columns: list[Any]) -> pa.Table:
    """Raw values as a table with the columns' types."""
    return pa.table({n: literal.array(v, COLUMNS[n]) for n, v in columns.items()})


def selected(p: Predicate, **columns: list[Any]) -> list[bool]:
    return mask(bind(p, SCHEMA), table(**columns)).to_pylist()


@pytest.mark.parametrize("p", [col("i") == 2, col("i") != 2, col("i").is_in([2]), ~col("i").is_in([2])])
def test_a_comparison_with_null_selects_nothing_negated_or_not(p: Predicate) -> None:
    assert selected(p, i=[None]) == [False]
    assert selected(~p, i=[None]) == [False]
    assert selected(~(p & (col("i") > 0)), i=[None]) == [False]


SMALL = range(1, 5)
HOLDS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
HOLDS |= {">=": operator.ge, "in": lambda x, v: x in (v, 3), "not in": lambda x, v: x not in (v, 3)}


def small_predicate(op: str, value: int) -> Predicate:
    inverse = op == "not in"
    p = pr.In("i", (value, 3), inverse) if "in" in op else pr.Compare("i", op, value)
    return bind(p, SCHEMA)


@pytest.mark.parametrize("op", HOLDS)
def test_every_comparison_its_negation_and_its_pruning(op: str) -> None:
    for value in SMALL:
        p = small_predicate(op, value)
        for q, wanted in ((p, True), (~p, False)):
            holds = [HOLDS[op](x, value) is wanted for x in SMALL]
            assert selected(q, i=[*SMALL, None]) == [*holds, False]
            for low, high in combinations_with_replacement(SMALL, 2):
                statistics = {"i": ColumnStats(low, high, None, 9)}
                assert may_match(q, statistics) or not any(holds[low - 1 : high])
                assert (
                    any(holds[low - 1 : high])
                    or not may_match(q, statistics)
                    or op not in ("<", "<=", ">", ">=")
                )


def test_nulls_prefixes_and_ranges() -> None:
    assert selected((col("i") > 1) | (col("s") == "a"), i=[None, None], s=["a", None]) == [True, False]
    assert selected(col("i").is_null(), i=[1, None]) == [False, True]
    assert selected(~col("i").is_null(), i=[1, None]) == [True, False]
    assert selected(col("i").is_not_null(), i=[1, None]) == [True, False]
    assert selected(col("s").startswith("ab"), s=["abc", "ab", "a", None]) == [True, True, False, False]
    assert selected(~col("s").startswith("ab"), s=["abc", "ab", "a", None]) == [False, False, True, False]
    assert selected(col("raw").startswith(b"\xff"), raw=[b"\xff\x00", b"", None]) == [True, False, False]
    assert selected(col("i").between(2, 4), i=[1, 2, 4, 5]) == [False, True, True, False], "with both ends"


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (col("i") < 2.5, [True, True, False]),
        (col("i") <= 2.5, [True, True, False]),
        (col("i") > 2.5, [False, False, True]),
        (col("i") >= Decimal("2.5"), [False, False, True]),
        (col("i") == 2.5, [False, False, False]),
        (col("i") != 2.5, [True, True, True]),
        (col("i").is_in([2.5, 3]), [False, False, True]),
        (col("i") < 10**20, [True, True, True]),
        (col("i") > 10**20, [False, False, False]),
        (col("i") != 10**20, [True, True, True]),
        (col("i") > -(10**20), [True, True, True]),
        (col("i") <= float("-inf"), [False, False, False]),
    ],
)
def test_a_literal_between_or_beyond_the_values_of_the_type_compares_exactly(
    p: Predicate, expected: list[bool]
) -> None:
    assert selected(p, i=[1, 2, 3]) == expected
    assert selected(~p, i=[1, 2, 3]) == [not e for e in expected]
    assert selected(p, i=[None]) == selected(~p, i=[None]) == [False]


@pytest.mark.parametrize(
    ("column", "value", "raw"),
    [
        ("m", 0.1, 10),
        ("m", "12.34", 1234),
        ("m", Decimal("-1.5"), -150),
        ("wide", 10**20, 10**23),
        ("d", "1970-01-03", 2),
        ("d", date(1969, 12, 31), -1),
        ("d", datetime(1970, 1, 2), 1),
        ("clock", "00:00:01.5", 1500),
        ("clock", time(1, 0), 3_600_000),
        ("ts", "1970-01-01 00:00:01", 1_000_000),
        ("ts", date(1970, 1, 2), 86_400_000_000),
        ("ts", np.datetime64("1970-01-01T00:00:01"), 1_000_000),
        ("ns", "1970-01-01T00:00:00.000000001", 1),
        ("ns", np.datetime64(7, "ns"), 7),
        ("ltz", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        ("ltz", "1970-01-01T01:00:00+01:00", 0),
        ("big", np.int64(5), 5),
        ("big", pa.scalar(5), 5),
        ("f", 2, 2.0),
        ("yes", True, True),
    ],
)
def test_literals_take_the_type_of_their_column(column: str, value: Any, raw: Any) -> None:
    bound = bind(col(column) == value, SCHEMA)
    assert bound.value == raw
    assert mask(bound, table(**{column: [raw, None]})).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("p", "problem"),
    [
        (col("i") == "2", "column 'i' is INT: it cannot be compared with '2'; give a number"),
        (col("i") == True, "it cannot be compared with TRUE"),  # noqa: E712
        (col("s") == 2, "give a string"),
        (col("d") == 5, "give a date"),
        (col("d") == "yesterday", "'yesterday' is not a date"),
        (col("ts") == datetime(2026, 1, 1, tzinfo=UTC), "it has no time zone"),
        (col("m") == "much", "'much' is not a number"),
        (col("m") == float("nan"), "NaN is not a value of it"),
        (col("i").startswith("2"), "startswith() needs a string column"),
    ],
)
def test_a_literal_of_the_wrong_kind_is_refused_with_column_type_and_remedy(
    p: Predicate, problem: str
) -> None:
    with pytest.raises(SchemaMismatch) as e:
        bind(p, SCHEMA)
    assert problem in str(e.value)


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(NotFound) as e:
        bind((col("i") > 1) & (col("clok") == "00:00"), SCHEMA)
    assert "no column 'clok'; did you mean clock" in str(e.value)


@pytest.mark.parametrize(
    ("build", "remedy"),
    [
        (lambda: bool(col("i") == 1), "& | ~"),
        (lambda: 1 < col("i") < 3, "& | ~"),
        (lambda: not col("yes"), "col('yes') == True"),
        (lambda: col("i") == None, "is_null()"),  # noqa: E711
        (lambda: col("i").is_in([1, None]), "is_null()"),
        (lambda: col("i").is_in("abc"), "list"),
        (lambda: col("i") == [1, 2], "is_in"),
        (lambda: col("i") < col("big"), "no literal"),
        (lambda: (col("i") > 1) & True, "parentheses"),
        (lambda: col(3), "column name"),  # type: ignore[arg-type]  # what is refused
    ],
)
def test_a_condition_that_cannot_work_says_what_to_write_instead(build: Any, remedy: str) -> None:
    with pytest.raises(InvalidRequest) as e:
        build()
    assert remedy in str(e.value)


def test_predicates_read_like_sql() -> None:
    p = (col("i") >= 3) & ((col("s") == "it's") | ~col("odd name").is_in([1, 2])) & ~col("d").is_null()
    assert repr(p) == "i >= 3 AND (s = 'it''s' OR `odd name` NOT IN (1, 2)) AND d IS NOT NULL"
    dated = bind((col("d") < "2026-01-31") & (col("m") > 1) & ~col("s").startswith("a"), SCHEMA)
    assert repr(dated) == "d < DATE '2026-01-31' AND m > 1.00 AND NOT starts_with(s, 'a')"


def test_conjuncts_columns_and_folding() -> None:
    a, b, c = col("i") > 1, col("s") == "x", col("i") < 9
    assert conjuncts((a & b) & (c & a)) == (a, b, c)
    assert conjuncts(a | b) == (a | b,)
    assert ((a & b) | c).columns == {"i", "s"}
    assert (a & Always(True), a & Always(False), a | Always(True)) == (a, Always(False), Always(True))
    assert ~(a & b) == (col("i") <= 1) | (col("s") != "x")


def test_predicates_survive_pickling_and_binding_twice() -> None:
    bound = bind((col("i") > 1) & (col("s").is_in(["a"]) | col("d").is_null()), SCHEMA)
    assert pickle.loads(pickle.dumps(bound)) == bound == bind(bound, SCHEMA)


def test_nan_is_above_every_number_and_equal_to_itself() -> None:
    nan, rows = float("nan"), [1.0, float("inf"), float("nan"), None]
    assert selected(col("f") > 5, f=rows) == [False, True, True, False]
    assert selected(~(col("f") > 5), f=rows) == [True, False, False, False]
    assert selected(col("f") == nan, f=rows) == [False, False, True, False]
    assert selected(col("f").is_in([1, nan]), f=rows) == [True, False, True, False]
    assert selected(~col("f").is_in([1, nan]), f=rows) == [False, True, False, False]
    assert selected(col("f").is_in([-0.0]), f=[0.0, -0.0]) == [True, True]


def test_statistics_that_do_not_know_of_nan_never_hide_it() -> None:
    statistics = {"f": ColumnStats(1.0, 2.0, 0, 9)}
    for p in (col("f") > 5, col("f") >= 5, col("f") != 1, col("f") == float("nan")):
        assert may_match(bind(p, SCHEMA), statistics)
    assert not may_match(bind(col("f") < 1, SCHEMA), statistics)
    assert not may_match(bind(col("f") == 5, SCHEMA), statistics)


def test_bounds_that_were_cut_still_hold_their_values() -> None:
    statistics = {"s": ColumnStats("abc", "abd", 0, 3)}  # cut from "abcdef" and "abczzz"
    assert may_match(bind(col("s") == "abcdef", SCHEMA), statistics)
    assert may_match(bind(col("s").startswith("abcz"), SCHEMA), statistics)
    assert may_match(bind(col("s").startswith("ab"), SCHEMA), statistics)
    assert not may_match(bind(col("s").startswith("abe"), SCHEMA), statistics)
    assert not may_match(bind(~col("s").startswith("ab"), SCHEMA), statistics)


@pytest.mark.parametrize(
    "p",
    [
        col("i") < 2,
        col("i") <= 1,
        col("i") > 5,
        col("i") >= 6,
        col("i") == 1,
        col("i") == 6,
        col("i").is_in([1, 6]),
        col("i").is_null(),
        ~col("j").is_in([7, 8]),
        col("j") != 7,
        col("n").is_not_null(),
        col("n") != 3,
        ~col("n").is_in([3]),
        col("s").startswith("b"),
        ~col("s").startswith("ab"),
        (col("i") < 9) & (col("s") == "x"),
        (col("i") > 9) | (col("s") == "x"),
    ],
)
def test_statistics_rule_out_what_no_row_can_meet(p: Predicate) -> None:
    statistics = {
        "i": ColumnStats(2, 5, 0, 9),
        "j": ColumnStats(7, 7, 0, 9),
        "n": ColumnStats(None, None, 9, 9),
        "s": ColumnStats("abc", "abd", 0, 9),
    }
    fields = tuple(
        t.DataField(n, name, t.STRING if name == "s" else t.INT) for n, name in enumerate(statistics)
    )
    bound = bind(p, TableSchema(0, fields, 3))
    assert not may_match(bound, statistics)
    assert may_match(~bound, statistics) or p.columns == {"n"}


def test_without_statistics_anything_may_match_but_an_empty_list() -> None:
    for unknown in ({}, {"i": ColumnStats(None, None, None, 5)}):
        for p in (col("i") == 1, col("i") != 1, col("i").is_null(), col("i").is_not_null()):
            assert may_match(bind(p, SCHEMA), unknown)
        assert not may_match(bind(col("i").is_in([]), SCHEMA), unknown)


# ---- any predicate over any rows, against SQL's three-valued logic in plain Python

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "m": st.integers(-200, 200),
    "s": st.text("ab\U0001f600", max_size=3),
    "f": st.sampled_from([-1.0, -0.0, 0.0, 1.5, math.inf, -math.inf, math.nan]),
}
TYPED = {"m": lambda raw: Decimal(raw) / 100}


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3) -> Predicate:
    shape = draw(st.sampled_from(["leaf"] if depth == 0 else ["leaf", "and", "or", "not"]))
    if shape in ("and", "or"):
        a, b = draw(predicates(depth - 1)), draw(predicates(depth - 1))
        return a & b if shape == "and" else a | b
    if shape == "not":
        return ~draw(predicates(depth - 1))
    kind = draw(
        st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in", "not in", "null", "starts", "not starts"])
    )
    name = "s" if "starts" in kind else draw(st.sampled_from(sorted(VALUES)))
    value = VALUES[name].map(TYPED.get(name, lambda raw: raw))
    if kind == "null":
        return col(name).is_null()
    if "starts" in kind:
        return pr.StartsWith(name, draw(value), kind.startswith("not"))
    if "in" in kind:
        return pr.In(name, tuple(draw(st.lists(value, max_size=3))), kind.startswith("not"))
    return pr.Compare(name, kind, draw(value))


def rank(value: Any) -> Any:
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def truth(p: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's answer, NaN being the greatest number."""
    if isinstance(p, Always):
        return p.value
    if isinstance(p, pr.Compound):
        parts = [truth(x, row) for x in p.terms]
        decisive = isinstance(p, pr.Or)
        return decisive if decisive in parts else None if None in parts else not decisive
    value = row[p.column]
    if isinstance(p, IsNull):
        return (value is None) != p.inverse
    if value is None:
        return None
    if isinstance(p, pr.StartsWith):
        return value.startswith(p.prefix) != p.inverse
    if isinstance(p, In):
        return (rank(value) in [rank(v) for v in p.values]) != p.inverse
    a, b = rank(value), rank(p.value)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[p.op]


ROWS = st.lists(st.fixed_dictionaries({n: st.none() | v for n, v in VALUES.items()}), max_size=6)


@settings(max_examples=300)
@given(predicates(), ROWS)
def test_any_predicate_selects_what_sql_selects(p: Predicate, rows: list[dict[str, Any]]) -> None:
    batch = table(**{n: [r[n] for r in rows] for n in VALUES})
    answers = [truth(bind(p, SCHEMA), r) for r in rows]
    for q, wanted in ((p, True), (~p, False)):
        bound = bind(q, SCHEMA)
        expected = [a is wanted for a in answers]
        assert mask(bound, batch).to_pylist() == expected


@settings(max_examples=500)
@given(predicates(depth=1), ROWS, st.booleans())
def test_statistics_never_hide_a_selected_row(
    p: Predicate, rows: list[dict[str, Any]], counted: bool
) -> None:
    statistics = {}
    for name in VALUES:
        values = [r[name] for r in rows]
        bounded = [v for v in values if v is not None and v == v]
        nulls = sum(v is None for v in values) if counted else None
        statistics[name] = ColumnStats(
            min(bounded, default=None), max(bounded, default=None), nulls, len(values)
        )
        if counted and any(v is not None and v != v for v in values) and not bounded:
            statistics[name] = ColumnStats(None, None, nulls, len(values))
    bound = bind(p, SCHEMA)
    if any(truth(bound, r) is True for r in rows):
        assert may_match(bound, statistics)


TEXTS = st.text(alphabet="ab%_\\\n.é日*(", max_size=6)


@settings(max_examples=300)
@given(
    pattern=TEXTS, values=st.lists(st.none() | TEXTS, min_size=1, max_size=8), escape=st.sampled_from("\\a日")
)
def test_like_is_what_sql_says(pattern: str, values: list[str | None], escape: str) -> None:
    expression, rest, valid = "", iter(pattern), True
    for c in rest:
        if c == escape:
            c = next(rest, "")
            valid &= c in ("%", "_", escape) and c != ""
            expression += re.escape(c)
        else:
            expression += {"%": ".*", "_": "."}.get(c, re.escape(c))
    if not valid:
        with pytest.raises(InvalidRequest, match="in LIKE"):
            col("s").like(pattern, escape=escape)
        return
    p = col("s").like(pattern, escape=escape)
    expected = [v is not None and re.fullmatch(expression, v, re.DOTALL) is not None for v in values]
    assert selected(p, s=values) == expected
    assert selected(~p, s=values) == [v is not None and not e for v, e in zip(values, expected, strict=True)]
    there = [v for v in values if v is not None]
    statistics = {
        "s": ColumnStats(
            min(there, default=None), max(there, default=None), len(values) - len(there), len(values)
        )
    }
    for asked, hits in (
        (p, expected),
        (~p, [v is not None and not e for v, e in zip(values, expected, strict=True)]),
    ):
        assert may_match(bind(asked, SCHEMA), statistics) or not any(hits)


def test_like_prunes_by_how_it_begins() -> None:
    statistics = {"s": ColumnStats("ba", "bz", 0, 9)}
    kept = {
        p: may_match(bind(col("s").like(p), SCHEMA), statistics)
        for p in ("a_%", "b_", "bc%d", "c%x", "%a", "ca_")
    }
    assert kept == {"a_%": False, "b_": True, "bc%d": True, "c%x": False, "%a": True, "ca_": False}
    assert may_match(bind(~col("s").like("b%x"), SCHEMA), statistics)
    with pytest.raises(SchemaMismatch, match="LIKE needs a string column"):
        bind(col("i").like("%1"), SCHEMA)
    with pytest.raises(InvalidRequest, match="takes a text"):
        col("s").like(3)  # type: ignore[arg-type]  # what is refused
