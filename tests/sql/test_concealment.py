"""No error, result or file shows a secret of a statement, or a value that came from the environment."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.options.environment import value_of
from tablestore.sql import Session
from tablestore.sql.problems import concealed, pointed, secret_parts
from tablestore.sql.streaming.job_directory import JobDirectories
from tablestore.sql.streaming.jobs import Job

SECRET = "hunter2-and-more"
CATALOG = "CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}', "
# Statements that fail, each with the secret in the line that the error quotes.
FAILING = [
    CATALOG + "'metastore' = 'jdbc', 'uri' = 'postgresql://me:{secret}@127.0.0.1:1/db?connect_timeout=1')",
    CATALOG + "'metastore' = 'jdbc', 'uri' = 'oracle://me:{secret}@h/db')",
    CATALOG + "'jdbc.password' = '{secret}')",
    CATALOG + "'jdbc.pasword' = '{secret}')",
    CATALOG + "'s3.secret-key' '{secret}')",
    CATALOG + "'s3.secret-key' = {secret})",
    CATALOG + "'s3.secret-key' = /* it's */ '{secret}', 'no.such' = 'x')",
    CATALOG + "'s3.secret-key' = '{secret}', 'type' = 'paimon')",
    CATALOG + "'s3.secret-key' = '{secret}) AND MORE",
    "CREATE CATALOG c WITH ('warehouse = '/x', 's3.secret-key' = '{secret}')",
    "CREATE CATALOG c WITH ('s3.secret-key' = '{secret}'",
    "CREATE CATALOG c WITH (s3.secret-key = '{secret}', 'type' = 'other')",
    "CREATE CATALOG c -- 's3.secret-key' = '{secret}'",
    "CREATE CATALOG c WITH ('type' = 'other', -- 's3.secret-key' = '{secret}'\n 's3.endpoint' = 'x')",
    "CREATE TABLE t (k INT) WITH ('s3.secret-key' = '{secret}')",
    "CREATE TABLE t (k INT) WITH ('my.uri' = 'mysql://me:{secret}@h/db')",
    "CREATE TABLE t (k INT) TBLPROPERTIES ('kafka.ssl.keystore.key' = '{secret}')",
    "ALTER TABLE orders SET ('kafka.sasl.password' = '{secret}')",
    "CREATE TEMPORARY TABLE t (k INT) WITH ('connector' = 'mysql-cdc', 'password' = '{secret}')",
    "CREATE TEMPORARY TABLE t (k INT) WITH ('connector' = 'postgres-cdc', 'password' = '{secret}')",
    "SELECT * FROM orders /*+ OPTIONS('s3.accesskey' = '{secret}') */",
    "SELECT * FROM nowhere /*+ OPTIONS('s3.accesskey' = '{secret}') */",
    "INSERT INTO orders /*+ OPTIONS('s3.sse-c.key' = '{secret}') */ VALUES (9, 'x', 1)",
    "CALL sys.what_if(`table` => 'shop.orders', options => 's3.secret-key={secret},num-levels=x')",
    "CALL sys.compact(`table` => 'shop.nowhere', options => 'kafka.sasl.password={secret}')",
    "SET 'table-storage.s3.secret-key' = '{secret}'",
    "SET s3.secret-key = {secret}",
    "SET 'kafka.sasl.password' = '{secret}'",
]


@pytest.mark.parametrize("statement", FAILING)
def test_an_error_shows_no_secret_of_its_statement(session: Session, tmp_path: Path, statement: str) -> None:
    text = "SHOW DATABASES;\n" + statement.replace("{secret}", SECRET).replace("{lake}", f"{tmp_path}/c")
    with pytest.raises(ts.TablestoreError) as failed:
        list(session.script(text))
    shown = "".join(traceback.format_exception(failed.value.with_traceback(None)))
    assert SECRET not in shown + repr(vars(failed.value)) + repr(failed.value.args)
    assert "line 2" in shown
    assert shown.splitlines()[-1] != ""


def test_what_is_no_secret_is_quoted_as_it_is(session: Session) -> None:
    with pytest.raises(ts.NotFound) as failed:
        session.sql("SELECT token, k FROM nowhere AS n WHERE n.token = n.k AND customer = 'ann'")
    assert "WHERE n.token = n.k AND customer = 'ann'" in str(failed.value)


def test_the_mark_stands_under_what_is_wrong(tmp_path: Path) -> None:
    text = f"CREATE CATALOG c WITH ('s3.secret-key' = '{SECRET}', 'typ' = 'x')"
    line, mark = pointed("why", text, text.index("'typ'")).splitlines()[1:]
    assert line == "  CREATE CATALOG c WITH ('s3.secret-key' = '***', 'typ' = 'x')"
    assert mark.index("^") == line.index("'typ'")
    for at in range(text.index(SECRET), text.index(SECRET) + len(SECRET) + 1):
        line, mark = pointed("why", text, at).splitlines()[1:]
        assert SECRET not in line
        assert line.index("***") <= mark.index("^") <= line.index("***") + 3


def test_a_parameter_that_is_a_secret_is_not_quoted(session: Session) -> None:
    for text in (
        "CREATE CATALOG c WITH ('s3.secret-key' ?)",
        "CREATE CATALOG c WITH ('s3.secret-key' = :k 'x')",
    ):
        given = [SECRET] if "?" in text else {"k": SECRET}
        with pytest.raises(ts.TablestoreError) as failed:
            session.sql(text, given)
        assert SECRET not in str(failed.value)


def test_a_result_shows_no_secret_of_its_statement(session: Session, tmp_path: Path) -> None:
    result = session.sql(
        f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}/c', 'metastore' = 'jdbc', "
        f"'uri' = 'sqlite:{tmp_path}/c.sqlite', 'jdbc.password' = '{SECRET}')"
    )
    shown = [result.statement, repr(result), result._repr_html_()]
    shown += [str(session.sql(f"{verb} c")) for verb in ("SHOW CREATE CATALOG", "DESCRIBE CATALOG EXTENDED")]
    assert [text for text in shown if SECRET in text] == []
    assert "'jdbc.password' = '***'" in result.statement


def test_a_long_text_is_looked_through_at_once(session: Session) -> None:
    rows = ",".join(f"({i}, 'name{i}', {i}.5)" for i in range(10_000))
    assert secret_parts(f"INSERT INTO orders VALUES {rows}") == []
    with_secret = f"SELECT 1 /* {rows} */; CREATE CATALOG c WITH ('s3.secret-key' = '{SECRET}')"
    assert SECRET not in concealed(with_secret)


@pytest.mark.parametrize("value", ['it\'s "me"\\ö', "abc", "a", "/root/of all"])
def test_no_value_of_the_environment_is_in_an_error(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SOME_VALUE", value)
    session.sql(
        "CREATE TEMPORARY TABLE f (id INT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path}/nowhere ${{env:SOME_VALUE}} more')"
    )
    with pytest.raises(ts.NotFound) as failed:
        session.sql("SELECT * FROM f").to_arrow()
    assert "nowhere *** more" in str(failed.value)
    assert value not in str(failed.value).partition("nowhere")[2].partition(" more")[0]


def test_rows_that_come_later_raise_no_value_either(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VALUE", "folder-of-ann")
    (tmp_path / "folder-of-ann").mkdir()
    (tmp_path / "folder-of-ann" / "a.csv").write_text("1\nx\n")
    session.sql(
        "CREATE TEMPORARY TABLE f (id INT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path}/${{env:SOME_VALUE}}')"
    )
    with pytest.raises(ts.SchemaMismatch, match=r"/\*\*\*/a\.csv") as failed:
        session.sql("SELECT * FROM f").to_arrow()
    shown = "".join(traceback.format_exception(failed.value.with_traceback(None)))
    assert "folder-of-ann" not in shown


def test_a_cause_shows_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VALUE", SECRET)
    value_of("SOME_VALUE")

    class Odd(Exception):
        def __str__(self) -> str:
            return f"odd {SECRET}"

    def run(*_: object) -> None:
        try:
            raise Odd
        except Odd as odd:
            raise ts.Unavailable(f"about {SECRET}") from odd

    monkeypatch.setattr("tablestore.sql.session.placed", lambda *_: None)
    monkeypatch.setattr(session, "_read", lambda _: type("Failing", (), {"run": run})())
    with pytest.raises(ts.Unavailable, match=r"about \*\*\*") as failed:
        session.sql("SHOW DATABASES")
    assert SECRET not in "".join(traceback.format_exception(failed.value.with_traceback(None)))


def test_no_error_of_mysql_shows_one(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"USER": "user-of-the-shop", "HOST": "127.0.0.1", "DB": "database-of-the-shop"}
    for name, value in given.items():
        monkeypatch.setenv(f"SHOP_{name}", value)
    session.sql(
        "CREATE TEMPORARY TABLE m (k INT) WITH ('connector' = 'mysql-cdc', 'hostname' = '${env:SHOP_HOST}', "
        "'port' = '1', 'username' = '${env:SHOP_USER}', 'database-name' = '${env:SHOP_DB}', "
        "'table-name' = 't', 'connect.timeout' = '1 s')"
    )
    with pytest.raises(ts.Unavailable, match=r"mysql://\*\*\*@\*\*\*:1/\*\*\*") as failed:
        session.sql("SELECT * FROM m").to_arrow()
    shown = "".join(traceback.format_exception(failed.value.with_traceback(None)))
    assert [value for value in given.values() if value in shown] == []


def test_a_job_keeps_none_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VALUE", SECRET)
    value_of("SOME_VALUE")
    job = Job("copied", (), (), JobDirectories(str(tmp_path)))
    job._end(RuntimeError(f"org.apache.spark.SparkException: no topic at {SECRET}:9092"))
    assert "no topic at ***:9092" in str(job.error)
    assert "no topic at ***:9092" in job.status.error
    assert [path for path in tmp_path.rglob("*.json") if SECRET in path.read_text()] == []
