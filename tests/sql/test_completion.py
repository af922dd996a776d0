"""What is proposed at a cursor, written as |, for texts that are half typed."""

from __future__ import annotations

import pytest

from tablestore.sql import Session
from tablestore.sql.completion import CompletionCandidate, KnownNames, complete
from tablestore.sql.dialect.tokenizer import is_finished, parameter_names


def at_cursor(session: Session, text: str) -> tuple[str, list[CompletionCandidate]]:
    """The text before what is completed, and the candidates."""
    before, _, behind = text.partition("|")
    completions = complete(before + behind, len(before), KnownNames(session))
    return before[: completions.start], list(completions.candidates)


@pytest.mark.parametrize(
    ("text", "first", "before"),
    [
        ("sel|", ["select"], ""),
        ("SHOW CRE|", ["CREATE"], "SHOW "),
        ("SHOW CREATE T|", ["TABLE"], "SHOW CREATE "),
        ("SELECT * FROM |", ["events", "orders", "shop"], "SELECT * FROM "),
        ("SELECT * FROM o|", ["orders"], "SELECT * FROM "),
        ("SELECT 1; SELECT * FROM o|", ["orders"], "SELECT 1; SELECT * FROM "),
        ("SELECT * FROM `o|", ["orders"], "SELECT * FROM `"),
        ("SELECT * FROM events, o|", ["orders"], "SELECT * FROM events, "),
        ("SELECT * FROM shop.|", ["events", "orders"], "SELECT * FROM shop."),
        ("SELECT * FROM lake.shop.e|", ["events"], "SELECT * FROM lake.shop."),
        ("SELECT * FROM lake.|", ["shop"], "SELECT * FROM lake."),
        ("SELECT * FROM orders$sna|", ["orders$snapshots"], "SELECT * FROM "),
        ("SELECT cus| FROM orders", ["customer"], "SELECT "),
        ("SELECT o.| FROM orders AS o", ["order_id", "customer", "amount"], "SELECT o."),
        ("SELECT * FROM orders o, x WHERE o.c|", ["customer"], "SELECT * FROM orders o, x WHERE o."),
        ("SELECT * FROM orders WHERE am|", ["amount"], "SELECT * FROM orders WHERE "),
        ("UPDATE orders SET cu|", ["customer"], "UPDATE orders SET "),
        ("INSERT INTO ord|", ["orders"], "INSERT INTO "),
        ("DELETE FROM ord|", ["orders"], "DELETE FROM "),
        ("MERGE INTO orders AS t USING ev|", ["events"], "MERGE INTO orders AS t USING "),
        ("DESCRIBE ev|", ["events"], "DESCRIBE "),
        ("SHOW TABLES FROM |", ["shop", "lake"], "SHOW TABLES FROM "),
        ("USE CATALOG |", ["lake"], "USE CATALOG "),
        ("SELECT date_fo|", ["date_format("], "SELECT "),
        ("CALL sys.expire_sn|", ["expire_snapshots("], "CALL sys."),
        ("CALL sys.create_tag(|", ["table => "], "CALL sys.create_tag("),
        ("SET 'execution.en|", ["execution.engine"], "SET '"),
        ("SET 'execution.engine' = '|", ["embedded", "spark"], "SET 'execution.engine' = '"),
        ("ALTER TABLE orders SET ('merge-en|", ["merge-engine"], "ALTER TABLE orders SET ('"),
        ("ALTER TABLE t SET ('merge-engine'='ag|", ["aggregation"], "ALTER TABLE t SET ('merge-engine'='"),
        ("CREATE TABLE t (a INT) WITH ('bucket-k|", ["bucket-key"], "CREATE TABLE t (a INT) WITH ('"),
        ("TRUNCATE TABLE |", ["events", "orders"], "TRUNCATE TABLE "),
    ],
)  # fmt: skip
def test_the_first_candidates_are_what_fits(
    session: Session, text: str, first: list[str], before: str
) -> None:
    start, actual = at_cursor(session, text)
    assert start == before
    assert [candidate.text for candidate in actual][: len(first)] == first


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'o|",
        "-- sel|",
        "/* SELECT * FROM |",
        "SELECT 12|",
        "CREATE TABLE ord|",
        "SELECT * FROM nope.|",
    ],
)
def test_nothing_is_proposed_where_nothing_is_known(session: Session, text: str) -> None:
    assert not [candidate for candidate in at_cursor(session, text)[1] if candidate.kind != "word"]


def test_odd_names_are_quoted(session: Session) -> None:
    session.sql("CREATE TABLE `two words` (`from` INT)")
    assert at_cursor(session, "SELECT * FROM two|")[1][0].text == "`two words`"
    assert at_cursor(session, "SELECT * FROM `two|")[1][0].text == "two words"
    assert at_cursor(session, "SELECT fr| FROM `two words`")[1][0].text == "`from`"


def test_names_are_asked_for_once_until_they_are_forgotten(session: Session) -> None:
    names = KnownNames(session)
    assert names.tables() == ["events", "orders"]
    session.sql("CREATE TABLE more (a INT)")
    assert names.tables() == ["events", "orders"]
    names.forget()
    assert names.tables() == ["events", "more", "orders"]
    session.sql("CREATE TEMPORARY VIEW big AS SELECT order_id AS n FROM orders")
    assert "big" in names.tables()
    assert [name for name, _ in names.columns(("big",))] == ["n"]
    assert names.databases("nope") == ()


def test_every_prefix_of_a_statement_is_completed(session: Session) -> None:
    text = "WITH a AS (SELECT o.`customer`, 'x;y' FROM shop.orders AS o, events) SELECT * -- b\n FROM a;"
    for at in range(len(text) + 1):
        completions = complete(text, at, KnownNames(session))
        assert 0 <= completions.start <= at


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1", False),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT ?;", True),
        ("/* ;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END;", True),
        ("", True),
    ],
)
def test_a_text_is_finished_by_its_semicolon(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def test_parameters_are_found_by_their_colon() -> None:
    assert parameter_names("SELECT :a, ':b' -- :c\n FROM t WHERE x = :a AND y = :d") == ["a", "d"]
