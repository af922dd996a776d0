"""Conditions as text (`ts.where`, `scan(where="…")`) are a part of SQL: every text that they accept, the SQL
parser accepts, and it selects the same rows.

The texts are drawn from the grammar in `format/predicates/predicate_text.py`, over columns of every type
that is compared, with values in them and beside them, and with spellings that might be read in two ways. Left
out is where SQL rounds and they do not: a number that a FLOAT or DOUBLE cannot hold, one with an exponent
beside exact numbers, a text without TIMESTAMP with more digits of a second than its column.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.sql import Session
from tablestore.sql.dialect.parser import read_expression
from tablestore.sql.query.conditions import predicate_over

COLUMNS = {
    "k": ts.INT,
    "tiny": ts.TINYINT,
    "big": ts.BIGINT,
    "price": ts.DECIMAL(10, 2),
    "f": ts.FLOAT,
    "x": ts.DOUBLE,
    "s": ts.STRING,
    "a b": ts.STRING,
    "raw": ts.BYTES,
    "ok": ts.BOOLEAN,
    "day": ts.DATE,
    "at": ts.TIMESTAMP(6),
    "fine": ts.TIMESTAMP(3),
    "clock": ts.TIME(3),
    "Größe": ts.INT,
}
NUMBERS = (
    "0 1 -1 +2 2.0 2.5 2. .5 -0.5 100 127 128 -129 2147483648 9223372036854775808 12.34 12.345 0.1".split()
)
KEPT = "0 1 -1 +2 2.0 2.5 .5 -0.5 1e0 -2.5e0 25e-1 100 1e3 16777216 -1000.25".split()  # by FLOAT and DOUBLE
TEXTS = [
    "''",
    "'a'",
    "'A'",
    "'ab'",
    "'it''s'",
    "'50%'",
    "'a_b'",
    "'ä'",
    "'\\\\'",
    "' a'",
    "'NULL'",
    "'--'",
    "'1'",
]
DAYS = [f"{w}'{v}'" for w in ("", "DATE ") for v in ("1969-12-31", "2026-01-01", "2026-02-28", "0001-01-01")]
MOMENTS = [
    f"{w}'{v}'"
    for w in ("", "TIMESTAMP ", "timestamp ")
    for v in (
        "2026-01-01 00:00:00",
        "2026-01-01 12:30:15.123",
        "2026-01-01 12:30:15.123456",
        "1969-12-31 23:59:59.999",
    )
] + ["DATE '2026-01-01'", "'2026-01-01'"]
CLOCKS = [
    f"{w}'{v}'" for w in ("", "TIME ") for v in ("00:00:00", "12:30:15", "12:30:15.123", "23:59:59.999")
]
LITERALS = {
    **dict.fromkeys(("k", "tiny", "big", "price", "Größe"), NUMBERS),
    **dict.fromkeys(("f", "x"), KEPT),
    **dict.fromkeys(("s", "a b"), TEXTS),
    "raw": ["X''", "x'00ff'", "X'61'", "X'00FF'"],
    "ok": ["TRUE", "false", "True"],
    "day": [*DAYS, "TIMESTAMP '2026-01-01 12:00:00'"],
    "at": MOMENTS,
    "fine": [m for m in MOMENTS if not m.startswith("'") or "123456" not in m],
    "clock": CLOCKS,
}
PATTERNS = ["'a%'", "'%b'", "'_'", "'%'", "''", "'50\\%'", "'a\\_b'", "'%''%'", "'A%'", "'\\\\'", "'%a%b%'"]
ESCAPED = ["'a!%' ESCAPE '!'", "'50!%%' ESCAPE '!'", "'a\\%' ESCAPE '!'", "'%x_' ESCAPE 'x'"]


EDGES = [0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), float("-inf"), None, 0.1]


def rows() -> pa.Table:
    values = {
        "k": list(range(12)),
        "tiny": [0, 1, -1, 2, 100, 127, -128, None, 3, 2, 1, 0],
        "big": [0, 1, -1, 2, 2**31, 2**62, -(2**63), 2**63 - 1, 9007199254740993, None, 16777217, 100],
        "price": [Decimal(v) for v in ("0", "1", "-1", "2.00", "2.50", "12.34", "0.10", "100")]
        + [None, *[Decimal(2)] * 3],
        "f": [*EDGES, 0.3, 16777216.0, -2.5],
        "x": [*EDGES, 0.30000001, 1e300, -2.5],
        "s": ["", "a", "A", "ab", "it's", "50%", "a_b", "ä", "\\", None, "NULL", "--"],
        "a b": ["a", None, "a%", "aXb", "50", "'", " a", "b", "ab", "", "x", "axx"],
        "raw": [b"", b"\x00\xff", b"a", None, b"b", b"\xff", b"", b"a", b"\x00", b"ab", b"a", b"c"],
        "ok": [True, False, None] * 4,
        "day": [dt.date(2026, 1, 1), dt.date(1969, 12, 31), None, dt.date(2026, 2, 28)] * 3,
        "at": [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 12, 30, 15, 123456), None] * 4,
        "fine": [
            dt.datetime(2026, 1, 1, 12, 30, 15, 123000),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
            None,
        ]
        * 4,
        "clock": [dt.time(0), dt.time(12, 30, 15, 123000), None, dt.time(23, 59, 59, 999000)] * 3,
        "Größe": [None, 1, 2, 3] * 3,
    }
    return pa.table(values)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    lake = ts.connect(tmp_path)
    lake.create_table("default.t", schema=COLUMNS).write(rows())
    return ts.sql_session(lake)


def case(rng: random.Random, word: str) -> str:
    return rng.choice([word, word.lower(), word.capitalize()])


def spelled(rng: random.Random, name: str) -> str:
    quoted = [f'"{name}"', f"`{name}`"]
    return rng.choice(quoted if " " in name else [name, name, *quoted])


def one_test(rng: random.Random) -> str:
    name = rng.choice(list(COLUMNS))
    column, values = spelled(rng, name), LITERALS[name]
    sign = rng.choice(["=", "<>", "!=", "<", "<=", ">", ">="])
    some = ", ".join(rng.choices(values, k=rng.randint(1, 4)))
    negated = rng.choice(["", case(rng, "NOT") + " "])
    forms = [
        f"{column} {sign} {rng.choice(values)}",
        f"{rng.choice(values)}{sign}{column}",
        f"{column} {negated}{case(rng, 'IN')} ({some})",
        f"{column} {negated}BETWEEN {rng.choice(values)} {case(rng, 'AND')} {rng.choice(values)}",
        f"{column} {case(rng, 'IS')} {negated}{case(rng, 'NULL')}",
    ]
    if name in ("s", "a b"):
        forms += [f"{column} {negated}LIKE {rng.choice([*PATTERNS, *ESCAPED])}"] * 3
        forms.append(f"starts_with({column}, {rng.choice(TEXTS)})")
    if name == "ok":
        forms.append(column)
    return rng.choice([*forms, rng.choice(["TRUE", "false"])] if rng.random() < 0.1 else forms)


def text_of(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random() if depth < 3 else 0.0
    if kind < 0.45:
        return one_test(rng)
    if kind < 0.6:
        return f"{case(rng, 'NOT')} {text_of(rng, depth + 1)}"
    if kind < 0.7:
        return f"({text_of(rng, depth + 1)})"
    space = rng.choice([" ", "\n  ", " -- a note\n "])
    return f"{text_of(rng, depth + 1)}{space}{case(rng, rng.choice(['AND', 'OR']))} {text_of(rng, depth + 1)}"


def accepted(table: ts.Table, rng: random.Random, count: int) -> Iterator[tuple[str, list[int]]]:
    """Drawn texts that a scan accepts, with the keys of the rows that it gives."""
    given = 0
    while given < count:
        text = text_of(rng)
        try:
            keys = table.scan(["k"], where=text).to_arrow()["k"].to_pylist()
        except InvalidRequest:
            continue
        yield text, sorted(keys)
        given += 1


def test_every_text_means_the_same_to_sql(session: Session, seeds: tuple[int, ...]) -> None:
    table = session.lake().table("default.t")
    for seed in seeds[::2]:
        rng = random.Random(seed)
        texts = list(accepted(table, rng, 150))
        for start in range(0, len(texts), 50):
            some = texts[start : start + 50]
            chosen = ", ".join(f"(\n{text}\n) AS c{i}" for i, (text, _) in enumerate(some))
            answer = session.sql(f"SELECT k, {chosen} FROM t").to_arrow()
            for i, (text, keys) in enumerate(some):
                theirs = [
                    k for k, c in zip(answer["k"].to_pylist(), answer[f"c{i}"].to_pylist(), strict=True) if c
                ]
                assert sorted(theirs) == keys, text
        exact = 0
        for text, keys in texts:
            predicate = predicate_over(read_expression(f"(\n{text}\n)"), table.store.schema)
            if predicate is not None:
                exact += 1
                assert sorted(table.scan(["k"], where=predicate).to_arrow()["k"].to_pylist()) == keys, text
        assert exact > 30


@pytest.mark.parametrize(
    "name", ["date", "timestamp", "time", "value", "key", "type", "day", "year", "order", "group"]
)
def test_a_quoted_name_is_a_column_to_both(session: Session, name: str) -> None:
    lake = session.lake()
    lake.create_table(f"default.`t_{name}`", schema={name: ts.INT}).write([{name: 1}, {name: 2}])
    table = lake.table(f"default.`t_{name}`")
    for text in (f'"{name}" > 1', f"`{name}` > 1"):
        assert table.scan(where=text).count() == 1
        assert session.sql(f"SELECT * FROM t_{name} WHERE {text}").to_arrow().num_rows == 1
