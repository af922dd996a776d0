"""A private PostgreSQL and TPC-H in it: nothing of it stays, nobody else gets in, and its rows are those of
the generator; checksums of both sides name the keys that differ."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

import tablestore as ts
from datasets import cdc, verify
from notebooks.demo import postgres as private
from notebooks.demo.source_checksums import compare_postgres
from notebooks.demo.tpch_database import DEFINITIONS, TABLES, RefreshWriter
from notebooks.demo.tpch_postgres import KEEP, SCHEMA, load
from tablestore.cdc.postgres.server import parse_address
from tests.demo.test_mariadb import alive
from tests.servers.postgres import Postgres
from tests.servers.postgres_database import Database, database
from tests.servers.test_postgres_capture import KINDS, captured
from tests.suite import counterparts

__all__ = ["database"]
SCALE, PAIRS = "0.001", 2
_MAKER = """
from notebooks.demo.postgres import Postgres
server = Postgres()
print(server.folder, server.port, server.process.pid, flush=True)
input()
"""


@pytest.mark.large
def test_nothing_stays_when_the_maker_is_killed() -> None:
    counterparts.need("PostgreSQL")
    maker = subprocess.Popen([sys.executable, "-c", _MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    place, port, server = maker.stdout.readline().decode().split()
    folder = Path(place)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
    at = {"host": "127.0.0.1", "port": port, "dbname": "postgres"}
    for name in ("root", "postgres", "reader"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**at, user=name)
    password = (folder / "password").read_text()
    with psycopg.connect(**at, user="reader", password=password) as reader:
        for statement in ("CREATE DATABASE d", "CREATE TABLE public.t (a int)", "CREATE ROLE r"):
            with pytest.raises(psycopg.Error):
                reader.execute(statement)
            reader.rollback()
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    until = time.monotonic() + 240
    while folder.exists() or alive(int(server)):
        assert time.monotonic() < until, "the server or its directory is still there"
        time.sleep(0.05)


@pytest.mark.large
def test_a_long_path_of_the_temporary_directory_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's path may have 107 characters: the server has none."""
    counterparts.need("PostgreSQL")
    with tempfile.TemporaryDirectory(prefix="x" * 100) as folder:
        os.chmod(folder, 0o711)  # the server is another user's where we are root
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with private.Postgres() as server:
            server.run("CREATE DATABASE d")
            assert len(str(server.folder)) > 107


def test_a_machine_without_it_learns_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_programs", lambda: None)
    with pytest.raises(ts.Unsupported, match=r"initdb not found; .*apt-get install .* postgresql"):
        Postgres()


@pytest.fixture
def tpch(postgres_server: Postgres) -> Iterator[str]:
    name = f"tpch_{uuid.uuid4().hex[:12]}"
    yield name
    postgres_server.run(f"DROP DATABASE IF EXISTS {name}")


@pytest.mark.large
def test_the_rows_are_those_of_the_generator(postgres_server: Postgres, tpch: str, tmp_path: Path) -> None:
    shown: list[int] = []
    rows = load(postgres_server.connect, SCALE, database=tpch, show=shown.append)

    def run_pairs() -> RefreshWriter:
        writer = RefreshWriter(
            lambda: postgres_server.connect(tpch),
            SCALE,
            pairs=PAIRS,
            seed=7,
            seconds_a_pair=0,
            database=SCHEMA,
            keep=KEEP,
        )
        with writer:
            writer.wait()
        return writer

    with postgres_server.connect(tpch) as reader:
        counts = {t: reader.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}
        assert rows == sum(counts.values())
        assert shown[-1] - rows == 100, "keys of partsupp that are there twice"
        assert (counts["lineitem"], counts["orders"], counts["nation"]) == (6005, 1500, 25)
        writer = run_pairs()
        assert (writer.error, writer.finished, len(writer.commits)) == (None, True, writer.transactions)
        source = cdc.generate(
            tmp_path, SCALE, pairs=PAIRS, seed=7, tables=("orders", "lineitem"), progress=False
        )
        reader.row_factory = dict_row
        for table in ("orders", "lineitem"):
            expected = [row for batch in verify.expected(source, table=table) for row in batch.to_pylist()]
            padded = re.findall(r"(\w+) CHAR\(", DEFINITIONS[table])
            found = [
                {**row, **{name: row[name].rstrip() for name in padded}}
                for row in reader.execute(f"SELECT * FROM {table}").fetchall()
            ]
            assert sorted(map(str, found)) == sorted(map(str, expected)), table
        assert run_pairs().finished
        assert len(reader.execute("SELECT 1 FROM lineitem").fetchall()) == len(expected)


@pytest.mark.large
def test_checksums_agree_for_every_type_and_name_keys_that_differ(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0)")
    database.run(f"CREATE TABLE t (id bigint PRIMARY KEY, {', '.join(KINDS)})")
    for i in range(3):
        values = ", ".join(v[i] if i < len(v) else "NULL" for v in KINDS.values())
        database.run(f"INSERT INTO t VALUES ({i * 100 - 100}, {values})")
    target = captured(database, tmp_path).lake.table("ods.t")
    address = parse_address(database.url)
    agreed = compare_postgres(address, "public", "t", target)
    assert (agreed.rows, agreed.left_out, agreed.differences) == (3, ("f", "g", "s"), ())
    assert agreed.columns == len(KINDS) - 2
    for spelled in KINDS:
        column = spelled.split()[0]
        if column in agreed.left_out:
            continue
        database.run(f"UPDATE t SET {column} = NULL WHERE id = -100")
        differs = compare_postgres(address, "public", "t", target).differences
        assert differs == ("public.t and ods.t: differ in (-100)",), spelled
        first = KINDS[spelled][0]
        database.run(f"UPDATE t SET {column} = {first} WHERE id = -100")
    database.run("DELETE FROM t WHERE id = -100", "UPDATE t SET a = true WHERE id = 100")
    database.run("INSERT INTO t (id) VALUES (9999)")
    lines = compare_postgres(address, "public", "t", target).differences
    assert sorted(line.partition(": ")[2] for line in lines) == [
        "differ in (100)",
        "only the lake has (-100)",
        "only the source has (9999)",
    ]


@pytest.mark.large
def test_slot_and_publication_of_a_capture_are_taken_away(
    postgres_server: Postgres, database: Database, tmp_path: Path
) -> None:
    """Those of other databases stay."""
    other = f"other_{database.name}"
    database.run(f"SELECT pg_create_logical_replication_slot('{other}', 'pgoutput')")
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    captured(database, tmp_path)
    assert len(database.slots()) == 2
    postgres_server.withdraw("postgres")
    assert len(database.slots()) == 2
    postgres_server.withdraw(database.name)
    assert database.slots() == []
    assert database.rows("SELECT pubname FROM pg_publication") == []
    postgres_server.publish(database.name)
    assert database.rows("SELECT puballtables FROM pg_publication") == [(True,)]
