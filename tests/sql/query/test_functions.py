"""Functions of SQL mean what they mean in Flink, whatever DuckDB calls so."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tablestore.core.errors import InvalidRequest, TablestoreError, Unsupported
from tablestore.sql import Session
from tablestore.sql.query.functions import FUNCTIONS


def value(session: Session, expression: str) -> Any:
    return session.sql(f"SELECT {expression} AS x").to_arrow()["x"][0].as_py()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "DATE_FORMAT(TIMESTAMP '2026-01-31 13:02:03.456', 'yyyy-MM-dd HH:mm:ss.SSS')",
            "2026-01-31 13:02:03.456",
        ),
        ("DATE_FORMAT(DATE '2026-01-31', 'yyyyMMdd')", "20260131"),
        ("DATE_FORMAT('2026-01-31 10:00:00', 'yy/M/d ''at'' h a')", "26/1/31 at 10 AM"),
        ("TO_DATE('2026-01-31')", dt.date(2026, 1, 31)),
        ("TO_DATE('31.01.2026', 'dd.MM.yyyy')", dt.date(2026, 1, 31)),
        ("TO_DATE('nonsense')", None),
        ("TO_TIMESTAMP('2026-01-31 01:02:03')", dt.datetime(2026, 1, 31, 1, 2, 3)),
        ("TO_TIMESTAMP('20260131', 'yyyyMMdd')", dt.datetime(2026, 1, 31)),
        ("UNIX_TIMESTAMP('1970-01-01 00:01:00')", 60),
        ("UNIX_TIMESTAMP('1970-01-02', 'yyyy-MM-dd')", 86400),
        ("FROM_UNIXTIME(60)", "1970-01-01 00:01:00"),
        ("FROM_UNIXTIME(60, 'HH:mm')", "00:01"),
        ("EXTRACT(YEAR FROM DATE '2026-01-31')", 2026),
        ("YEAR(DATE '2026-01-31') * 100 + MONTH(DATE '2026-01-31')", 202601),
        ("DAYOFWEEK(DATE '2026-01-04')", 1),
        ("TIMESTAMPDIFF(DAY, DATE '2026-01-01', DATE '2026-01-31')", 30),
        ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2026-01-31 00:00:00', TIMESTAMP '2026-02-27 00:00:00')", 0),
        ("TIMESTAMPADD(HOUR, 2, TIMESTAMP '2026-01-31 23:00:00')", dt.datetime(2026, 2, 1, 1)),
        ("FLOOR(TIMESTAMP '2026-01-31 23:10:00' TO HOUR)", dt.datetime(2026, 1, 31, 23)),
        ("SUBSTRING('abcdef', 2, 3)", "bcd"),
        ("SUBSTRING('abcdef' FROM 2 FOR 3)", "bcd"),
        ("SUBSTR('abc', 0, 2)", "ab"),
        ("SUBSTRING('abc', -2147483648)", ""),
        ("SUBSTRING('abc', CAST(-2147483648 AS INT), 2)", ""),
        ("SUBSTRING('abc', -3)", "abc"),
        ("SUBSTRING('abc', -4)", ""),
        ("CONCAT('a', 'b', 'c')", "abc"),
        ("CONCAT('a', NULL)", None),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("'a' || 'b'", "ab"),
        ("IF(1 > 2, 'a', 'b')", "b"),
        ("NVL(NULL, 3)", 3),
        ("COALESCE(NULL, NULL, 4)", 4),
        ("GREATEST(1, NULL)", None),
        ("GREATEST(1, 2)", 2),
        ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", "bar"),
        ("REGEXP_EXTRACT('abc', 'x')", None),
        ("REGEXP_REPLACE('foobar', 'o+', '-')", "f-bar"),
        ("REGEXP_REPLACE('ab', '(a)(b)', '$2$1')", "$2$1"),
        ("'abc' RLIKE '^a'", True),
        ("SPLIT('a,b', ',')", ["a", "b"]),
        ("SPLIT_INDEX('a,b', ',', 1)", "b"),
        ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a.b')", "1"),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7.0 / 2", 3.5),
        ("MOD(7, 3)", 1),
        ("7 DIV 2", 3),
        ("CAST(2.7 AS INT)", 2),
        ("CAST('12' AS INT)", 12),
        ("TRY_CAST('x' AS INT)", None),
        ("CAST('abc' AS VARCHAR(2))", "ab"),
        ("CAST('12.5' AS DECIMAL(8, 2))", Decimal("12.50")),
        ("'a_c' LIKE 'a\\_c'", True),
        ("'abc' LIKE 'a\\_c'", False),
        ("'a%' LIKE 'a!%' ESCAPE '!'", True),
        ("DATE '1998-12-01' - INTERVAL '90' DAY < DATE '1998-09-03'", True),
        ("POSITION('b' IN 'abc')", 2),
        ("TRIM(BOTH ' ' FROM ' a ')", "a"),
        ("CHAR_LENGTH('äö')", 2),
        ("ARRAY[1, 2][1]", 1),
        ("CARDINALITY(ARRAY[1, 2])", 2),
        ("MAP['a', 1]['a']", 1),
        ("ROUND(2.345, 2)", Decimal("2.35")),
        ("CASE WHEN 1 = 1 THEN 'x' END", "x"),
        ("LPAD('7', 3, '0')", "007"),
        ("LOCATE('b', 'abc')", 2),
    ],
)
def test_a_function(session: Session, expression: str, expected: Any) -> None:
    assert value(session, expression) == expected


@pytest.mark.parametrize("expression", ["1 / 0", "5 % 0", "MOD(1, 0)", "CAST('x' AS INT)"])
def test_what_has_no_value_is_an_error(session: Session, expression: str) -> None:
    with pytest.raises(InvalidRequest):
        value(session, expression)


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        ("2024-10-27 01:59:59", "2024-10-26 23:59:59"),
        ("2024-10-27 02:30:00", "2024-10-27 00:30:00"),
        ("2024-10-27 03:00:00", "2024-10-27 02:00:00"),
        ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
    ],
)
def test_a_time_that_a_clock_shows_twice_is_the_earlier(session: Session, local: str, instant: str) -> None:
    session.sql("SET 'table.local-time-zone' = 'Europe/Berlin'")
    actual = value(session, f"CAST(TIMESTAMP '{local}' AS TIMESTAMP_LTZ(3))")
    assert actual.astimezone(dt.UTC).replace(tzinfo=None) == dt.datetime.fromisoformat(instant)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SIGN(CAST('NaN' AS DOUBLE))", "nan"),
        ("POWER(1, CAST('NaN' AS DOUBLE))", "nan"),
        ("LOG(1, 8)", "inf"),
        ("POWER(CAST(-2147483648 AS INT), CAST(1 AS DOUBLE))", "-2147483648.0"),
        ("LOWER('İ')", "i̇"),
        ("1e300 || ''", "1.0E300"),
        ("CONCAT(TRUE, 1e0)", "TRUE1.0"),
    ],
)
def test_edges_are_those_of_java(session: Session, expression: str, expected: str) -> None:
    assert str(value(session, expression)) == expected


def test_now_is_a_time(session: Session) -> None:
    assert value(session, "CURRENT_TIMESTAMP").tzinfo is not None
    assert value(session, "LOCALTIMESTAMP").tzinfo is None
    assert isinstance(value(session, "CURRENT_DATE"), dt.date)
    assert value(session, "UNIX_TIMESTAMP()") > 1_700_000_000


def test_aggregates_and_windows(session: Session) -> None:
    rows = "(VALUES (1, 'a'), (2, 'b'), (2, 'b')) AS t(n, s)"
    created = "LISTAGG(DISTINCT s, '-') AS l, STDDEV_POP(CAST(n AS DOUBLE)) AS d, COUNT(DISTINCT n) AS c"
    text = f"SELECT {created} FROM {rows}"
    actual = session.sql(text).to_arrow().to_pylist()[0]
    assert sorted(actual["l"]) == ["-", "a", "b"]
    assert (round(actual["d"], 3), actual["c"]) == (0.471, 2)
    windows = (
        f"SELECT n, ROW_NUMBER() OVER (ORDER BY n) AS r, LAG(n, 1, 0) OVER (ORDER BY n) AS l FROM {rows}"
    )
    assert session.sql(windows).to_arrow().to_pylist()[1] == {"n": 2, "r": 2, "l": 1}


def test_a_pattern_that_is_not_known_is_named(session: Session) -> None:
    with pytest.raises(InvalidRequest, match="'b' is no letter of time patterns"):
        value(session, "DATE_FORMAT(DATE '2026-01-01', 'b yyyy')")
    with pytest.raises(Unsupported, match="'G' in the time pattern 'G yyyy' of a text"):
        value(session, "TO_TIMESTAMP('AD 2026', 'G yyyy')")


_ARGUMENTS = {
    "text": "'a'", "separator": "','", "part": "'a'", "pattern": "'a'", "by": "'b'", "start": "1",
    "length": "2",
    "n": "1", "m": "2", "i": "0", "a": "1", "b": "2", "c": "3", "from": "'a'", "to": "'b'", "json": "'{}'",
    "path": "'$.a'", "time": "TIMESTAMP '2026-01-01 00:00:00'", "date": "DATE '2026-01-01'", "days": "1",
    "'pattern'": "'yyyy'", "'unit'": "'day'", "unit": "DAY", "seconds": "1", "precision": "3", "group": "0",
    "digits": "1", "base": "2", "share": "0.5", "x": "1", "y": "1", "condition": "TRUE", "array": "ARRAY[1]",
    "map": "MAP['a', 1]",
    "characters": "'a'", "otherwise": "0", "…": "'a'", "bits": "256", "bytes": "X'61'", "charset": "'UTF-8'",
    "value": "1", "url": "'http://a.b'", "key": "'q'", "nth": "1", "end": "1", "ascending": "TRUE",
    "nulls_first": "TRUE", "null": "'?'", "keys": "ARRAY[1]", "values": "ARRAY[2]",
}  # fmt: skip
_OWN = {"UNHEX": "'ff'", "FROM_BASE64": "'YQ=='", "ARRAY_CONCAT": "ARRAY[1], ARRAY[2]", "REPEAT": "'a', 2"}
_OWN |= {
    "ARRAY_JOIN": "ARRAY['a'], ','",
    "COALESCE": "1, 2",
    "GREATEST": "1, 2",
    "LEAST": "1, 2",
    "ROW": "1, 2",
}
_OWN |= {"LEVENSHTEIN": "'a', 'b'", "TIMESTAMPDIFF": "DAY, DATE '2026-01-01', DATE '2026-01-02'"}
_OWN |= {
    "DATEDIFF": "DATE '2026-01-01', DATE '2026-01-02'",
    "BOOL_AND": "TRUE",
    "BOOL_OR": "TRUE",
    "EVERY": "TRUE",
}
_OWN |= {
    "TO_TIMESTAMP_LTZ": "1, 3",
    "STR_TO_MAP": "'a=1'",
    "PARSE_URL": "'http://a.b', 'HOST'",
    "PRINTF": "'%d', 1",
}
_OWN |= {"MAP_UNION": "MAP['a', 1], MAP['b', 2]", "JSON_VALUE": "'{}', '$.a' RETURNING INT NULL ON EMPTY"}
_OWN |= {"JSON_QUERY": "'{}', '$.a' WITH WRAPPER", "JSON_EXISTS": "'{}', '$.a' TRUE ON ERROR"}
_OWN |= dict.fromkeys(("JSON_OBJECT", "JSON_OBJECTAGG"), "KEY 'a' VALUE 1 ABSENT ON NULL")
_OWN |= dict.fromkeys(("JSON_ARRAY", "JSON_ARRAYAGG"), "1 NULL ON NULL")
_OWN |= dict.fromkeys(("GROUPING", "GROUPING_ID"), "n")
_OWN |= {"LISTAGG": "'a'", "STRING_AGG": "'a'", "UNIX_TIMESTAMP": "'1970-01-01 00:00:00'", "LEFT": "'a', 1"}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.sample(60)
def test_every_function_of_the_table_runs(session: Session, name: str) -> None:
    function = FUNCTIONS[name]
    inner = function.syntax.partition("(")[2].removesuffix(")").replace("[", "").replace("]", "")
    listed = [a.strip() for a in inner.split(",") if a.strip()]
    arguments = _OWN[name] if name in _OWN else ", ".join(_ARGUMENTS[a] for a in listed)
    call = f"{name}({arguments})" + (" OVER (ORDER BY 1)" if function.kind == "window" else "")
    try:
        grouped = " FROM (VALUES (1)) AS t(n) GROUP BY CUBE (n)" if name.startswith("GROUPING") else ""
        session.sql(f"SELECT {call} AS x{grouped}").to_arrow()
    except TablestoreError as e:
        pytest.fail(f"{call}: {e}")


@pytest.mark.parametrize(
    "call",
    [
        "REPEAT('x', 2147483647)",
        "REPEAT(customer, 2147483647)",
        "CHAR_LENGTH(REPEAT(REPEAT('x', 1000000), 1000000))",
        "LPAD('x', 2147483647, 'ab')",
        "RPAD(customer, 2147483647, 'ab')",
        "REPLACE(REPEAT('x', 100000), 'x', REPEAT('y', 100000))",
        "PRINTF('%2147483647d', 3)",
        "PRINTF('%.2147483647f', 3.0)",
        "CAST('x' AS CHAR(2147483647))",
    ],
)
def test_a_function_makes_no_text_that_fills_the_memory(session: Session, call: str) -> None:
    with pytest.raises(InvalidRequest, match=r"line 1.*makes texts of at most 16,777,216 bytes") as e:
        session.sql(f"SELECT {call} FROM orders").to_arrow()
    assert "UDF" not in str(e.value)
