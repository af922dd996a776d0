"""The peer itself: statements run in Flink, and each engine reads the tables that the other wrote."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import tablestore as ts
from tests.peers import flink_env
from tests.peers.flink_sql import FlinkError, FlinkSql
from tests.peers.java_env import Missing

pytestmark = pytest.mark.peer
CREATE = """CREATE TABLE t (
    k INT, s STRING, d DECIMAL(10, 2), made TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED
) WITH ('bucket' = '1')"""
FIRST = """INSERT INTO t VALUES
    (1, 'a', 1.5, TIMESTAMP '2024-01-01 00:00:00'), (2, 'b', 2.25, TIMESTAMP '1969-12-31 23:59:59.5')"""
TWO = [["1", "a", "1.50", "2024-01-01 00:00:00.000"], ["2", "b", "2.25", "1969-12-31 23:59:59.500"]]


@pytest.fixture
def two_rows(flink: FlinkSql, tmp_path: Path) -> FlinkSql:
    flink.start(tmp_path)
    flink.run(CREATE)
    flink.run(FIRST)
    return flink


def test_a_select_gives_names_types_and_texts(two_rows: FlinkSql) -> None:
    outcome = two_rows.run("SELECT * FROM t ORDER BY k")
    columns = [["k", "INT NOT NULL"], ["s", "STRING"], ["d", "DECIMAL(10, 2)"], ["made", "TIMESTAMP(3)"]]
    assert (outcome.columns, outcome.rows, outcome.kinds) == (columns, TWO, ["+I", "+I"])


@pytest.mark.large
def test_rows_change_and_older_snapshots_stay(two_rows: FlinkSql) -> None:
    two_rows.run("UPDATE t SET s = CAST(NULL AS STRING), d = d * 2 WHERE k = 2")
    two_rows.run("DELETE FROM t WHERE k = 1;")
    assert two_rows.run("SELECT k, s, d FROM t").rows == [["2", None, "4.50"]]
    hint = "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */ ORDER BY k"
    assert two_rows.run(hint).rows == TWO
    snapshots = "SELECT snapshot_id, commit_kind, total_record_count FROM t$snapshots ORDER BY 1"
    assert two_rows.run(snapshots).rows == [["1", "APPEND", "2"], ["2", "APPEND", "3"], ["3", "APPEND", "4"]]
    assert two_rows.run("CALL sys.compact('default.t')").rows == [["Success"]]


def test_a_stream_gives_changes_and_ends_at_the_limit(two_rows: FlinkSql) -> None:
    two_rows.run("INSERT INTO t (k, s) VALUES (1, 'A')")
    two_rows.run("SET 'execution.runtime-mode' = 'streaming'")
    hint = "OPTIONS('scan.snapshot-id' = '1', 'continuous.discovery-interval' = '100 ms')"
    outcome = two_rows.run(f"SELECT k, s FROM t /*+ {hint} */", limit=4)
    got = list(zip(outcome.kinds, outcome.rows, strict=True))
    assert sorted(got[:2]) == [("+I", ["1", "a"]), ("+I", ["2", "b"])]
    assert got[2:] == [("-U", ["1", "a"]), ("+U", ["1", "A"])]
    two_rows.run("SET 'execution.runtime-mode' = 'batch'")
    assert two_rows.run("SELECT count(*) FROM t").rows == [["2"]]


def test_refusals_are_errors_and_the_process_lives_on(two_rows: FlinkSql) -> None:
    with pytest.raises(FlinkError, match="Column 'nothing' not found"):
        two_rows.run("SELECT nothing FROM t")
    with pytest.raises(FlinkError, match="ArithmeticException: Division by zero"):
        two_rows.run("SELECT 1 / 0")
    assert two_rows.run("SELECT count(*) FROM t").rows == [["2"]]


def test_a_new_session_knows_nothing_of_the_last(two_rows: FlinkSql, tmp_path: Path) -> None:
    two_rows.run("CREATE TEMPORARY VIEW v AS SELECT 1 AS n")
    two_rows.start(tmp_path / "other")
    assert two_rows.run("SHOW TABLES").rows == []


def test_each_engine_goes_on_with_the_tables_of_the_other(two_rows: FlinkSql, tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    theirs = lake.table("default.t")
    assert [row["s"] for row in theirs.scan().to_arrow().sort_by("k").to_pylist()] == ["a", "b"]
    theirs.write([{"k": 1, "s": "ours"}])
    schema = {"k": ts.BIGINT, "d": ts.DATE}
    ours = lake.create_table("default.ours", schema=schema, primary_key=["k"], options={"bucket": 2})
    ours.write([{"k": 7, "d": date(2024, 2, 29)}])
    two_rows.run("INSERT INTO ours VALUES (8, DATE '1970-01-01')")
    assert two_rows.run("SELECT s FROM t ORDER BY k").rows == [["ours"], ["b"]]
    assert two_rows.run("SELECT * FROM ours ORDER BY k").rows == [["7", "2024-02-29"], ["8", "1970-01-01"]]
    assert lake.table("default.ours").scan().to_arrow().num_rows == 2


@pytest.mark.large
def test_a_version_that_is_not_there_is_a_reason_to_skip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(flink_env, "VERSION", "0.0.0.1")
    with pytest.raises(Missing, match=r"pip could not fetch apache-flink-libraries==0\.0\.0\.1"):
        flink_env.flink_jars()
    assert [path.name for path in (tmp_path / "tablestore-workbench").iterdir()] == ["flink.turn"]
