"""datagen: what its options make of columns."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

import tablestore as ts
from tablestore.sql import Session


def made(session: Session, columns: str, *options: str, rows: int = 1000) -> dict[str, list[object]]:
    pairs = "".join(f", '{k}' = '{v}'" for k, v in (o.split("=", 1) for o in options))
    session.sql(
        f"CREATE TEMPORARY TABLE g ({columns}) "
        f"WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}'{pairs})"
    )
    return session.sql("SELECT * FROM g").to_arrow().to_pydict()


def test_random_values_lie_within_their_limits(session: Session):
    actual = made(
        session,
        "i INT, b BIGINT, t TINYINT, f DOUBLE, d DECIMAL(6, 2), w DECIMAL(38, 2), o BOOLEAN",
        *("fields.i.min=1", "fields.i.max=3", "fields.f.min=-1", "fields.f.max=1"),
        *("fields.d.min=-1.50", "fields.d.max=2", "tablestore.seed=1"),
    )
    assert set(actual["i"]) == {1, 2, 3}
    assert min(actual["b"]) < 0 < max(actual["b"])
    assert -128 <= min(actual["t"]) < max(actual["t"]) <= 127
    assert -1 <= min(actual["f"]) < 0 < max(actual["f"]) <= 1
    assert Decimal("-1.50") <= min(actual["d"]) < 0 < max(actual["d"]) <= 2
    assert min(actual["w"]) < 0
    assert 10**34 < max(actual["w"]) < 10**36
    assert set(actual["o"]) == {True, False}


def test_texts_and_arrays_have_their_length(session: Session):
    actual = made(
        session,
        "s STRING, v VARCHAR(5), c CHAR(4), x BYTES, a ARRAY<INT>, r ROW<p STRING, q INT>",
        *("fields.s.length=7", "fields.v.var-len=true", "fields.a.length=2", "fields.r.p.length=1"),
    )
    assert all(re.fullmatch("[0-9a-f]{7}", s) for s in actual["s"])
    assert {len(v) for v in actual["v"]} == {1, 2, 3, 4, 5}
    assert {len(c) for c in actual["c"]} == {4}
    assert {len(x) for x in actual["x"]} == {100}
    assert {len(a) for a in actual["a"]} == {2}
    assert {len(r["p"]) for r in actual["r"]} == {1}


def test_a_sequence_counts_until_the_first_one_ends(session: Session):
    actual = made(
        session,
        "k BIGINT, s STRING, d DECIMAL(5, 2)",
        *("fields.k.kind=sequence", "fields.k.start=5", "fields.k.end=7"),
        *("fields.s.kind=sequence", "fields.s.start=1", "fields.s.end=90"),
        *("fields.d.kind=sequence", "fields.d.start=10", "fields.d.end=90"),
    )
    assert actual["k"] == [5, 6, 7]
    assert actual["s"] == ["1", "2", "3"]
    assert actual["d"] == [Decimal("10.00"), Decimal("11.00"), Decimal("12.00")]


def test_a_seed_gives_the_same_rows_whichever_columns_are_asked_for(session: Session):
    actual = made(session, "a INT, b STRING", "tablestore.seed=7", "fields.b.length=4", rows=100_000)
    assert session.sql("SELECT b FROM g").to_arrow().to_pydict() == {"b": actual["b"]}
    assert session.sql("SELECT * FROM g").to_arrow().to_pydict() == actual
    other = session.sql("SELECT * FROM g /*+ OPTIONS('tablestore.seed' = '8') */").to_arrow().to_pydict()
    assert other != actual


def test_one_query_sees_one_set_of_rows(session: Session):
    made(session, "a BIGINT", rows=500)
    joined = session.sql("SELECT count(*) AS n FROM g x JOIN g y ON x.a = y.a").to_arrow()
    assert joined.to_pydict() == {"n": [500]}


def test_shares_of_null_and_times_of_the_past(session: Session):
    actual = made(session, "a INT, t TIMESTAMP(3), d DATE", "fields.a.null-rate=0.5", "fields.t.max-past=1 d")
    assert 300 < sum(a is None for a in actual["a"]) < 700
    assert 3600 < (max(actual["t"]) - min(actual["t"])).total_seconds() <= 86400
    assert len(set(actual["d"])) == 1


def test_computed_columns_are_computed(session: Session):
    session.sql(
        "CREATE TEMPORARY TABLE g (a INT, b AS a * 2) WITH ('connector' = 'datagen', "
        "'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '3')"
    )
    assert session.sql("SELECT b FROM g WHERE b > 2").to_arrow().to_pydict() == {"b": [4, 6]}


@pytest.mark.parametrize(
    ("columns", "option", "error", "says"),
    [
        ("a INT", "number-of-row=1", ts.NotFound, "did you mean number-of-rows"),
        ("a INT", "scan.parallelism=2", ts.Unsupported, "one thread makes the rows"),
        ("a INT", "fields.b.min=1", ts.NotFound, "no column 'b'"),
        ("a INT", "fields.a.length=1", ts.InvalidOption, "a random INT takes kind, max, min"),
        ("a INT", "fields.a.max=much", ts.InvalidOption, "is a number, not 'much'"),
        ("a TINYINT", "fields.a.max=300", ts.InvalidOption, "300 is no TINYINT"),
        ("a INT", "fields.a.kind=odd", ts.InvalidOption, "is one of random, sequence, not 'odd'"),
        ("a INT", "fields.a.kind=sequence", ts.InvalidOption, "needs option 'fields.a.start'"),
        ("a VARCHAR(3)", "fields.a.length=4", ts.InvalidOption, "is shorter"),
        ("a INT NOT NULL", "fields.a.null-rate=1", ts.InvalidOption, "NOT NULL"),
        ("a INT", "fields.a.null-rate=2", ts.InvalidOption, "from 0 to 1"),
        ("a MAP<INT, INT>", "tablestore.seed=1", ts.Unsupported, "MAP columns"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    session: Session, columns: str, option: str, error: type[Exception], says: str
):
    with pytest.raises(error, match=says):
        made(session, columns, option)


def test_rows_without_end_are_refused_in_batch_mode(session: Session):
    session.sql("CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen')")
    with pytest.raises(ts.InvalidRequest, match="never ends"):
        session.sql("SELECT * FROM g LIMIT 3")
