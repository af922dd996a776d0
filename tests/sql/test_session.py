"""Scripts: statement by statement, errors with their place, names resolved, parameters."""

from __future__ import annotations

from decimal import Decimal

import pytest

import tablestore as ts
from tablestore.sql import Session, SqlProblem


def test_a_script_gives_a_result_a_statement(session: Session) -> None:
    actual = list(session.script("SELECT 1 AS a; USE shop; SELECT count(*) AS n FROM orders"))
    assert [r.to_arrow().to_pylist() for r in actual] == [[{"a": 1}], [], [{"n": 3}]]
    assert actual[1].statement == "USE shop"


def test_a_script_stops_at_the_first_error_and_says_what_was_done(session: Session) -> None:
    with pytest.raises(
        ts.NotFound, match=r"(?s)line 2, column 22: no table .*statement 2 of 3; those before"
    ):
        session.sql("USE shop;\nSELECT count(*) FROM nope; RESET")


def test_nothing_of_a_script_is_done_where_a_later_statement_cannot_be_read(session: Session) -> None:
    for wrong in ("SELEC 1", "SELECT (1", "INSERT orders", "STOP JOB 'j' WITH DRAIN"):
        with pytest.raises((SqlProblem, ts.Unsupported), match=r"statement 2 of 3; none was carried out"):
            session.sql(f"CREATE DATABASE early; {wrong}; CREATE TABLE made (a INT)")
        assert session.lake().databases() == ["shop"]


def test_a_name_goes_through_the_current_database_and_the_catalog(session: Session) -> None:
    for name in ("orders", "shop.orders", "lake.shop.orders", "`lake`.`shop`.`orders`", '"orders"'):
        assert session.sql(f"SELECT count(*) AS n FROM {name}").to_arrow().to_pylist() == [{"n": 3}]
    with pytest.raises(ts.NotFound, match=r"did you mean shop\.orders"):
        session.sql("SELECT * FROM order_")
    with pytest.raises(ts.NotFound, match="no catalog 'lak'; did you mean lake"):
        session.sql("SELECT * FROM lak.shop.orders")


def test_parameters_are_values_and_never_sql(session: Session) -> None:
    hostile = "x' OR '1'='1'; DROP TABLE orders; --"
    result = session.sql(
        "SELECT ? AS a, ? AS b, ? AS c, ? AS d", [hostile, Decimal("-1.50"), None, b"\x00\xff"]
    )
    assert result.to_arrow().to_pylist() == [
        {"a": hostile, "b": Decimal("-1.50"), "c": None, "d": b"\x00\xff"}
    ]
    named = session.sql("SELECT customer FROM orders WHERE order_id = :id", {"id": 1})
    assert named.to_arrow().to_pylist() == [{"customer": "ann"}]


def test_a_list_is_the_values_of_in(session: Session) -> None:
    query = "SELECT order_id FROM orders WHERE order_id IN ({}) AND customer NOT IN (?) ORDER BY 1"
    result = session.sql(query.format("?"), [[1, 2, 9], ("nobody", "it's")]).to_arrow()
    assert result["order_id"].to_pylist() == [1, 2]
    named = session.sql("SELECT order_id FROM orders WHERE order_id IN (:ids)", {"ids": [-1, 2]}).to_arrow()
    assert named["order_id"].to_pylist() == [2]


def test_decimals_of_38_digits_keep_them(session: Session, lake: ts.Lake) -> None:
    """Python's minus and abs() round a Decimal to 28 digits."""
    value = Decimal("-1234567890123456789012345678.0123456789")
    session.sql("CREATE TABLE wide (d DECIMAL(38, 10))")
    session.sql("INSERT INTO wide VALUES (?)", [value])
    where = [("d = ?", [value]), (f"d = {value}", None), (f"d <= {value}", None), (f"NOT d < {value}", None)]
    for condition, parameters in where:
        result = session.sql(f"SELECT d FROM wide WHERE {condition}", parameters).to_arrow()
        assert result["d"].to_pylist() == [value], condition
    table = lake.table("shop.wide")
    assert table.scan(where=f"d = {value}").count() == table.scan(where=f"d IN ({value})").count() == 1


@pytest.mark.parametrize(
    ("text", "parameters", "error"),
    [
        ("SELECT 1 WHERE 1 IN (?)", [[]], "IN takes at least one value, and the list is empty"),
        ("SELECT ?", [[1]], r"a parameter of type list has no literal in SQL, but for lists in IN \(\?\)"),
        ("SELECT ?", None, "line 1, column 8: this \\? has no value: no parameters are given"),
        ("SELECT ?, ?", [1], "line 1, column 11: this \\? has no value: only 1 are given"),
        ("SELECT 1", [1], "1 parameters are given, 0 are asked for"),
        ("SELECT :a", {"b": 1}, "parameter :a has no value; given: :b"),
        ("SELECT :a", None, "parameter :a has no value; give a mapping of names to values"),
        ("SELECT :a", {"a": 1, "b": 2}, "parameter 'b' is given, and :b does not occur"),
        ("SELECT ?", [object()], "a parameter of type object has no literal in SQL"),
        ("SELECT ?", "x", "parameters are a list of values or a mapping"),
    ],
)
def test_parameters_that_do_not_fit(session: Session, text: str, parameters: object, error: str) -> None:
    with pytest.raises(ts.InvalidRequest, match=error):
        session.sql(text, parameters)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("SELEC 1", 1, 1, "'SELEC' begins no statement; did you mean SELECT?"),
        ("SELECT 1;\n  SELECT 'a", 2, 10, "the ' is never closed"),
        ("CREATE TABEL t (a INT)", 1, 8, "'TABEL' is not expected here; did you mean TABLE"),
        ("SHOW", 1, 5, "the statement ends; expected: CATALOGS, COLUMNS, "),
        ("DROP `TABLE` t", 1, 6, "'TABLE' is not expected here; expected: "),
        ("DROP TABLE", 1, 11, "a table's name is expected; the statement ends"),
        ("SELECT (1", 1, 10, "expected: )"),
        ("SET x", 1, 6, "= is expected; the statement ends"),
        ("/* open", 1, 1, "the /* is never closed"),
        ("WITH q AS (SELECT 1) INSERT INTO orders SELECT 1, 'a', 1", 1, 1, "WITH stands behind INSERT INTO"),
        (f"SELECT {'(' * 5000}1{')' * 5000}", 1, 1, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_statement(
    session: Session, text: str, line: int, column: int, problem: str
) -> None:
    with pytest.raises(SqlProblem) as e:
        session.sql(text)
    assert problem in str(e.value)
    assert (e.value.line, e.value.column) == (line, column)


def test_semicolons_in_texts_and_comments_cut_nothing(session: Session) -> None:
    actual = list(session.script("SELECT ';' AS a -- one; two\n; /* ; */ SELECT 2 AS a;;"))
    assert [r.to_arrow().to_pylist() for r in actual] == [[{"a": ";"}], [{"a": 2}]]


def test_there_must_be_a_statement(session: Session) -> None:
    for text in ("", " ; ", "-- nothing"):
        with pytest.raises(ts.InvalidRequest, match="there is no statement"):
            session.sql(text)


def test_a_lake_runs_statements(lake: ts.Lake) -> None:
    assert lake.sql("SELECT sum(n) AS n FROM shop.events").to_arrow().to_pylist() == [{"n": 3}]


def test_a_stream_of_rows_is_given_once(session: Session) -> None:
    result = session.sql("SELECT * FROM orders")
    assert result.to_reader().read_all().num_rows == 3
    with pytest.raises(ts.InvalidRequest, match="run the statement again"):
        result.to_arrow()


def test_a_column_of_a_subquery_that_nobody_needs(session: Session) -> None:
    inner = "SELECT customer, order_id, amount * 2 AS twice FROM orders"
    text = f"SELECT twice FROM ({inner}) AS o WHERE order_id = 1"
    assert session.sql(text).to_arrow().to_pylist() == [{"twice": Decimal("25.00")}]
    b = "(SELECT order_id, amount FROM orders) AS b"
    text = f"SELECT a.order_id FROM (SELECT * FROM orders) AS a JOIN {b} USING (order_id)"
    assert sorted(session.sql(text).to_arrow()["order_id"].to_pylist()) == [1, 2, 3]


def test_a_long_line_is_shown_around_the_place(session: Session) -> None:
    with pytest.raises(SqlProblem) as e:
        session.sql(f"SELECT {'1, ' * 60}FROM FROM {', 1' * 60}")
    _, shown, mark = str(e.value).split("\n")
    assert len(shown) <= 104
    assert shown.strip().startswith("…")
    assert shown.endswith("…")
    assert shown[mark.index("^") :].startswith("FROM")


def test_an_error_found_while_rows_are_read_says_where_and_nothing_of_the_machinery(session: Session) -> None:
    session.sql("CREATE TABLE texts (a STRING)")
    lake = session.lake()
    lake.table("shop.texts").write({"a": ["1"] * 200_000 + ["one"]})
    result = session.sql("SELECT 1;\n  SELECT CAST(a AS INT) AS b FROM texts")
    with pytest.raises(ts.InvalidRequest) as e:
        list(result.to_batches())
    problem = "line 2, column 3: 'one' is no INT\n    SELECT CAST(a AS INT) AS b FROM texts\n    ^"
    place = vars(e.value)
    assert (str(e.value), place["line"], place["column"]) == (problem, 2, 3)


def test_advice_names_settings_of_ours_only(session: Session) -> None:
    session.sql("SET 'execution.memory-limit' = '3MB'")
    many = "(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000) SELECT n FROM r)"
    with pytest.raises(ts.InvalidRequest, match="does not fit into memory: SET 'execution") as e:
        session.sql(f"SELECT n, LISTAGG(REPEAT('x', 1000)) FROM {many} GROUP BY n").to_arrow()
    assert "threads" not in str(e.value)
    session.sql(str(e.value).partition("into memory: ")[2].partition(",")[0])
    with pytest.raises(ts.InvalidRequest, match="More than one row") as e:
        session.sql("SELECT (SELECT order_id FROM orders)").to_arrow()
    assert "SET" not in str(e.value)


@pytest.mark.parametrize(("value", "taken"), [("2GB", True), ("60%", True), ("150%", False), ("xx", False)])
def test_a_limit_of_memory_is_read_when_it_is_set(session: Session, value: str, taken: bool) -> None:
    statement = f"SET 'execution.memory-limit' = '{value}'; SELECT count(*) FROM orders WHERE order_id > 0"
    if taken:
        assert session.sql(statement).to_arrow().num_rows == 1
    else:
        with pytest.raises(ts.InvalidOption, match="a size such as '2GB'"):
            session.sql(statement)
