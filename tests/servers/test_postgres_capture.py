"""Capture of a real PostgreSQL: what is in the lake is what the server has, by value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cdc.capture.preview import preview
from tablestore.cdc.opening import rules_of, source_address
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tests.cdc.databases.sources import PostgresSource


def captured(database: PostgresSource, path: Path, **how: Any) -> Any:
    """The job of a capture that reads all there is, and ends."""
    how = {"into": "ods", "options": {"bucket": 1}, "interval": "10ms", **how}
    checkpoint = str(path / "checkpoint")
    job = ts.connect(str(path / "lake")).ingest(
        database.url, engine="local", checkpoint=checkpoint, follow=False, **how
    )
    assert job.wait(120)
    return job


def rows_of(job: Any, name: str, key: str = "id") -> list[dict[str, Any]]:
    rows = job.lake.table(f"ods.{name}").scan().to_arrow().sort_by(key)
    return rows.to_pylist()


KINDS = {
    "a bool": ["true", "false"],
    "b int2": ["-32768", "32767"],
    "c int8": ["-9223372036854775808", "9223372036854775807"],
    "d numeric(38,10)": ["-1234567890123456789012345678.0123456789", "0"],
    "e numeric": ["1e100", "'NaN'", "0.000001"],
    "f float4": ["0.1", "'Infinity'"],
    "g float8": ["-1.7976931348623157e308", "'NaN'"],
    "h char(5)": ["'ab'", "''"],
    "i varchar(9)": ["E'\\\\N'", "'ä€😀'"],
    "j bytea": ["'\\x00ff7f'", "''"],
    "k date": ["'0001-01-01'", "'9999-12-31'"],
    "l timestamp(3)": ["'2024-02-29 23:59:59.9994'", "'0001-01-01 00:00:00'"],
    "m timestamptz": ["'2024-02-29 23:59:59.123456+05:30'", "'1969-12-31 23:59:59.9+00'"],
    "n uuid": ["'00000000-0000-0000-0000-00000000000a'"],
    "o jsonb": ["""'{"b": [1, null], "a": "x"}'"""],
    "p int4[]": ["'{1,NULL,3}'"],
    "q inet": ["'10.0.0.1'", "'10.0.0.0/8'"],
    "r interval": ["'1 year 2 days 03:04:05.678'"],
    "s money": ["-1234.56"],
    "t time": ["'24:00:00'"],
    "u mood": ["'sad'"],
    "v even": ["4"],
    "w oid": ["4294967295"],
}


def test_all_kinds_of_values_are_alike_in_chunks_and_in_the_log(
    database: PostgresSource, tmp_path: Path
) -> None:
    """Snapshot and log give the same value, and it is that of the server."""
    database.run("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0)")
    columns = ", ".join(KINDS)
    database.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})" for name in ("early", "late")))

    def fill(name: str) -> None:
        for i in range(3):
            values = ", ".join(v[i] if i < len(v) else "NULL" for v in KINDS.values())
            database.run(f"INSERT INTO {name} VALUES ({i}, {values})")

    fill("early")
    captured(database, tmp_path)
    fill("late")
    job = captured(database, tmp_path)
    early, late = rows_of(job, "early"), rows_of(job, "late")
    assert len(early) == 3
    assert repr(early) == repr(late)
    database.run("SET TimeZone = 'UTC'", "SET IntervalStyle = iso_8601")
    texts = ["e", "i", "n", "o", "p", "q", "r", "t", "u"]
    there = [
        dict(zip(texts, row, strict=True))
        for row in database.connection.execute(
            f"SELECT {', '.join(f'format($$%s$$, {c})' for c in texts)} FROM early ORDER BY id"
        ).fetchall()
    ]
    assert [{c: row[c] or "" for c in texts} for row in early] == there
    plain = "id a b c d j k l m v w"
    wanted = database.connection.execute(
        f"SELECT {', '.join(plain.split())} FROM early ORDER BY id"
    ).fetchall()
    assert [tuple(row[c] for c in plain.split()) for row in early] == wanted
    assert [row["f"] for row in early] == pa.array([0.1, float("inf"), None], pa.float32()).to_pylist()
    assert [str(row["g"]) for row in early] == ["-1.7976931348623157e+308", "nan", "None"]
    assert [row["h"] for row in early] == ["ab", "", None]
    assert str(early[0]["s"]) == "-1234.56"


def test_a_value_that_no_type_here_has_is_a_dead_letter(database: PostgresSource, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, day date)", "INSERT INTO t VALUES (1, 'infinity'), (2, NULL)"
    )
    job = captured(database, tmp_path, bad_rows="dead-letter")
    database.run("INSERT INTO t VALUES (3, '0044-03-15 BC'), (4, '2024-01-01')")
    job = captured(database, tmp_path, bad_rows="dead-letter")
    assert [row["id"] for row in rows_of(job, "t")] == [2, 4]
    letters = [name for name in job.lake.tables() if name not in ("ods.t",)]
    assert len(letters) == 1
    rows = job.lake.table(letters[0]).scan().to_arrow().to_pylist()
    assert sorted("infinity" in str(row) for row in rows) == [False, True]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_long_values_that_an_update_leaves_alone_stay(
    database: PostgresSource, tmp_path: Path, identity: str
) -> None:
    """TOAST: also where the key moves, and where the row is changed again or deleted before it is read."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, long text)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
        "INSERT INTO t SELECT i, 0, repeat(i::text || '-', 3000) FROM generate_series(1, 20) i",
    )
    captured(database, tmp_path)
    database.run(
        "UPDATE t SET n = n + 1",
        "UPDATE t SET id = id + 100 WHERE id <= 5",
        "UPDATE t SET n = 7 WHERE id = 10",
        "UPDATE t SET long = repeat('new', 3000) WHERE id = 10",
        "DELETE FROM t WHERE id IN (11, 103)",
        "INSERT INTO t VALUES (11, 5, repeat('again', 2000))",
    )
    job = captured(database, tmp_path)
    wanted = database.connection.execute("SELECT id, n, long FROM t ORDER BY id").fetchall()
    assert [tuple(row.values()) for row in rows_of(job, "t")] == wanted


def test_tables_that_are_altered_truncated_made_and_dropped(database: PostgresSource, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY, x int)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "CREATE TABLE gone (id int PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        "CREATE TABLE cut (id int PRIMARY KEY)",
        "INSERT INTO cut VALUES (1)",
    )
    captured(database, tmp_path)
    database.run(
        "INSERT INTO a VALUES (3, 3)",
        "ALTER TABLE a ADD y text",
        "UPDATE a SET y = 'y' WHERE id = 2",
        "DROP TABLE gone",
        "INSERT INTO cut VALUES (2)",
        "TRUNCATE cut",
        "INSERT INTO cut VALUES (3)",
        'CREATE TABLE "odd Name" (id int PRIMARY KEY, "x""y" int)',
        'INSERT INTO "odd Name" VALUES (1, 2)',
    )
    job = captured(database, tmp_path)
    assert rows_of(job, "a") == [
        {"id": 1, "x": 1, "y": None},
        {"id": 2, "x": 2, "y": "y"},
        {"id": 3, "x": 3, "y": None},
    ]
    assert rows_of(job, "cut") == [{"id": 3}]
    assert rows_of(job, "gone") == [{"id": 1}]
    assert rows_of(job, "odd Name") == [{"id": 1, 'x"y': 2}]
    database.run(
        "ALTER TABLE a ADD z int DEFAULT 5",
        "ALTER TABLE a ALTER x TYPE bigint USING x * 10",
        "ALTER TABLE a RENAME y TO w",
    )
    job = captured(database, tmp_path)
    assert rows_of(job, "a") == [
        {"id": 1, "x": 10, "w": None, "z": 5},
        {"id": 2, "x": 20, "w": "y", "z": 5},
        {"id": 3, "x": 30, "w": None, "z": 5},
    ]


def test_commits_that_did_not_wait_for_the_disk_are_in_a_batch_that_is_planned_behind_them(
    database: PostgresSource, tmp_path: Path
) -> None:
    """What others see is read, and never lies across the end of a batch."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "SET synchronous_commit = off")
    address = source_address(database.url, (), {})
    source = address.open(rules_of(address, {"into": "ods"}), checkpoint=str(tmp_path), follow=True)
    at = source.initial()
    while source.next(at) != at:
        at = source.next(at)
    for row in range(20):
        database.run(f"INSERT INTO t VALUES ({row})")
        end = source.next(at)
        assert end["position"] > at["position"]
        (piece,) = source.pieces(at, end)
        assert [rows.rows.to_pylist() for rows in piece.read()] == [[{"id": row}]]
        at = end


def test_a_slot_that_is_lost_or_moved_is_an_error_and_reading_again_mends_it(
    database: PostgresSource, tmp_path: Path
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    captured(database, tmp_path)
    (slot,) = database.slots()
    database.run("INSERT INTO t VALUES (2)")
    database.run(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())")
    with pytest.raises(NotFound, match="somebody moved it"):
        captured(database, tmp_path)
    database.run(f"SELECT pg_drop_replication_slot('{slot}')")
    with pytest.raises(NotFound, match="is gone, and with it changes: read_again"):
        captured(database, tmp_path)
    job = captured(database, tmp_path, read_again="*.*")
    assert [row["id"] for row in rows_of(job, "t")] == [1, 2]
    database.run("INSERT INTO t VALUES (3)")
    assert [row["id"] for row in rows_of(captured(database, tmp_path), "t")] == [1, 2, 3]


def test_the_plan_says_which_tables_are_left_out_and_changes_nothing(
    database: PostgresSource, tmp_path: Path
) -> None:
    database.run(
        "CREATE TABLE long (id int PRIMARY KEY, x text)",
        "CREATE TABLE keyless (id int)",
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL UNIQUE)",
        "ALTER TABLE other REPLICA IDENTITY USING INDEX other_n_key",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    )
    address = source_address(database.url, (), {})
    rules = rules_of(address, {"into": "ods"})
    by_table = {
        p.source.table: p for p in preview(address.open(rules, checkpoint=str(tmp_path), follow=False), rules)
    }
    assert by_table["long"].target == "ods.long"
    assert "REPLICA IDENTITY DEFAULT" in by_table["long"].warning
    for name, reason in {
        "keyless": "ADD PRIMARY KEY",
        "unlogged": "SET LOGGED",
        "nothing": "REPLICA IDENTITY DEFAULT",
        "other": "REPLICA IDENTITY DEFAULT",
        "parts": "SET (publish_via_partition_root = true)",
    }.items():
        assert reason in by_table[name].reason
    assert database.slots() == []


def test_what_a_server_must_be_set_to_is_said_at_once(database: PostgresSource, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE keyless (id int)")
    with pytest.raises(InvalidRequest, match='CREATE PUBLICATION "mine"'):
        captured(database, tmp_path, publication="mine")
    with pytest.raises(Unsupported, match="ADD PRIMARY KEY"):
        captured(database, tmp_path, tables="public.keyless")
    with pytest.raises(NotFound, match="nowhere"):
        captured(database, tmp_path, tables="public.nowhere")
    with pytest.raises(Unsupported, match="primary_keys"):
        captured(database, tmp_path, primary_keys={"public.t": ["id"]})
    with pytest.raises(Unsupported, match="changelog-producer"):
        captured(database, tmp_path, options={"changelog-producer": "input"})
    with pytest.raises(InvalidRequest, match="password"):
        ts.connect(str(tmp_path)).ingest("postgresql://me:secret@localhost/x")


def test_the_command_says_its_plan_and_captures(database: PostgresSource, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, x text)", "INSERT INTO t VALUES (1, 'a')")
    command = [sys.executable, "-P", "-m", "notebooks.cli", "cdc", "--from", database.url]
    command += ["--slot", database.name, "--into", "ods", "--warehouse", str(tmp_path / "lake")]

    def out(*more: str) -> str:
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    plan = out("--plan")
    assert "ods.t" in plan
    assert "REPLICA IDENTITY DEFAULT" in plan
    assert database.slots() == []
    out("--once", "--engine", "local")
    assert database.slots() == [database.name]
    rows = ts.connect(str(tmp_path / "lake")).table("ods.t").scan().to_arrow()
    assert rows.to_pylist() == [{"id": 1, "x": "a"}]
