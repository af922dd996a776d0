"""Captures of a PostgreSQL and the demo: checksums of both sides name the keys that differ, and what a
capture left on the server is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebooks.demo.source_checksums import compare_postgres
from tablestore.cdc.postgres.server import parse_address
from tests.cdc.databases.sources import PostgresSource
from tests.servers.postgres import Postgres
from tests.servers.test_postgres_capture import KINDS, captured


@pytest.mark.large
def test_checksums_agree_for_every_type_and_name_keys_that_differ(
    database: PostgresSource, tmp_path: Path
) -> None:
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
    postgres_server: Postgres, database: PostgresSource, tmp_path: Path
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
