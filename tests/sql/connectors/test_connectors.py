"""What all connectors share: their names, options from the environment, print and blackhole."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.sql import Session
from tablestore.sql.connectors.registry import CONNECTORS


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [("datgen", ts.NotFound, "did you mean datagen"), ("tpch-cdcs", ts.NotFound, "connector")],
)
def test_an_unknown_connector_is_refused_when_the_table_is_made(
    session: Session, name: str, error: type[Exception], says: str
):
    with pytest.raises(error, match=says):
        session.sql(f"CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = '{name}')")


def test_every_option_says_what_it_does_or_why_it_is_not_there():
    for connector in CONNECTORS.values():
        assert all(bool(option.text) != bool(option.refused) for option in connector.options)


def test_options_come_from_the_environment_and_are_not_shown(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    session.sql(
        "CREATE TEMPORARY TABLE t (a INT) WITH "
        "('connector' = 'filesystem', 'path' = '${env:OUR_PLACE}/out', 'format' = 'json')"
    )
    monkeypatch.setenv("OUR_PLACE", str(tmp_path))
    session.sql("INSERT INTO t VALUES (1)")
    assert session.sql("SELECT a FROM t").to_arrow().to_pydict() == {"a": [1]}
    assert "'path' = '***'" in session.sql("SHOW CREATE TABLE t").to_arrow().column(0)[0].as_py()
    monkeypatch.setenv("OUR_PLACE", "secret-place")
    session.sql(
        "CREATE TEMPORARY TABLE g (a INT) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '${env:OUR_PLACE}')"
    )
    with pytest.raises(ts.InvalidOption, match=r"a whole number, not \*\*\*"):
        session.sql("SELECT * FROM g")


def test_print_shows_rows(session: Session, capsys: pytest.CaptureFixture[str]):
    session.sql(
        "CREATE TEMPORARY TABLE p (a INT, s STRING, x BYTES) "
        "WITH ('connector' = 'print', 'print-identifier' = 'out')"
    )
    done = session.sql("INSERT INTO p VALUES (1, 'x', x'6869'), (2, NULL, NULL)")
    assert capsys.readouterr().out == "out> +I[1, x, x'6869']\nout> +I[2, null, null]\n"
    assert (done.rows_affected, done.message) == (2, "2 rows into p: shown")


def test_blackhole_only_takes_rows(session: Session):
    session.sql("CREATE TEMPORARY TABLE b (a INT, s STRING) WITH ('connector' = 'blackhole')")
    assert session.sql("INSERT INTO b SELECT order_id, customer FROM orders").rows_affected == 3
    with pytest.raises(ts.Unsupported, match="only takes rows"):
        session.sql("SELECT * FROM b")
    with pytest.raises(ts.Unsupported, match="OVERWRITE"):
        session.sql("INSERT OVERWRITE b SELECT 1, 'x'")
    with pytest.raises(ts.InvalidRequest, match="no versions"):
        session.sql("SELECT * FROM b VERSION AS OF 1")


def test_a_source_takes_no_rows(session: Session):
    session.sql("CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    with pytest.raises(ts.Unsupported, match="only gives rows"):
        session.sql("INSERT INTO g VALUES (1)")


def test_names_of_columns_are_matched(session: Session):
    session.sql("CREATE TEMPORARY TABLE b (a INT, c STRING) WITH ('connector' = 'blackhole')")
    assert session.sql("INSERT INTO b BY NAME SELECT 'x' AS c, 1 AS a").rows_affected == 1
    with pytest.raises(ts.NotFound, match="column"):
        session.sql("INSERT INTO b (d) VALUES (1)")
