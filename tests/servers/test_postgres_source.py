"""The source of a database of PostgreSQL by itself: names, keys and tables that are altered and altered back,
partitions, and positions that move on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tablestore.cdc.opening import rules_of, source_address
from tablestore.cdc.postgres import server as postgres_server
from tablestore.cdc.postgres.copy_rows import copied, values_of
from tablestore.cdc.postgres.server import Connection
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable, Unsupported
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.databases.sources import PostgresSource


def count(connection: Connection, query: str, values: Sequence[Any] = (), *, binary: bool = False) -> int:
    """How many rows a query gives."""
    return sum(len(rows.starts) for rows in copied(connection, query, values, binary=binary))


def captured(database: PostgresSource, **how: Any) -> LastRowsLake:
    """A capture that has all that there is."""
    lake = database.lake(**how)
    lake.catch_up()
    return lake


def test_names_that_mean_something_in_statements_are_names(database: PostgresSource) -> None:
    database.run(
        'CREATE TABLE "50%" (id int, "%s" text, "a""%b" text, long text, PRIMARY KEY (id, "%s"))',
        'ALTER TABLE "50%" ALTER long SET STORAGE EXTERNAL',
        """INSERT INTO "50%" SELECT i, '%s', 'x%', repeat('y', 4000) FROM generate_series(1, 7) i""",
    )
    lake = captured(database, chunk_rows=2, chunks=1)
    lake.equals(database)
    database.run("""UPDATE "50%" SET "a""%b" = 'changed'""")
    lake.catch_up()
    lake.equals(database)


def test_a_long_key_that_an_update_leaves_alone_is_the_key(database: PostgresSource) -> None:
    database.run(
        "CREATE TABLE t (id text PRIMARY KEY, n int)",
        "ALTER TABLE t ALTER id SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT repeat(md5(i::text), 64), i FROM generate_series(1, 5) i",
    )
    lake = captured(database)
    database.run("UPDATE t SET n = -n")
    lake.catch_up()
    assert len(lake.rows["t"]) == 5
    lake.equals(database)


SWAP = [
    "ALTER TABLE t RENAME n TO x",
    "ALTER TABLE t RENAME k TO n",
    "ALTER TABLE t RENAME x TO k",
]
BACK = {
    "a column came and went": [
        "ALTER TABLE t ADD x int",
        "UPDATE t SET x = 1, n = 10",
        "ALTER TABLE t DROP x",
    ],
    "a column had another name": [
        "ALTER TABLE t RENAME n TO m",
        "UPDATE t SET m = 11",
        "ALTER TABLE t RENAME m TO n",
    ],
    "two had the name of the other": [*SWAP, "UPDATE t SET n = n + 12", *SWAP],
    "old rows had another key": [
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key",
        "UPDATE t SET id = id + 100",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
    ],
    "it was not published": [
        "ALTER PUBLICATION mine DROP TABLE t",
        "UPDATE t SET n = 13",
        "ALTER PUBLICATION mine ADD TABLE t",
    ],
    "deletions were not published": [
        "ALTER PUBLICATION mine SET (publish = 'insert')",
        "DELETE FROM t WHERE id = 2",
        "ALTER PUBLICATION mine SET (publish = 'insert, update, delete, truncate')",
    ],
}


@pytest.mark.parametrize("statements", BACK.values(), ids=BACK)
def test_a_table_that_was_altered_and_altered_back_has_its_rows(
    database: PostgresSource, statements: list[str]
) -> None:
    """The catalog is what it was, and the log has rows that are otherwise, or has them not at all."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, k int NOT NULL UNIQUE)",
        "CREATE TABLE calm (id int PRIMARY KEY)",
        "CREATE PUBLICATION mine FOR TABLE t, calm",
        "INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)",
        "INSERT INTO calm VALUES (1)",
    )
    lake = captured(database, publication="mine")
    lake.events.clear()
    database.run(*statements, "INSERT INTO calm VALUES (2)")
    lake.catch_up()
    lake.equals(database)
    assert {event.kind for event in lake.events} == {"altered", "emptied"}


def test_rows_are_read_under_the_names_that_they_have_by_then(database: PostgresSource) -> None:
    """A chunk, and rows with long values, of a table that is named otherwise just while they are read."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, long text)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, i, repeat('x', 4000) FROM generate_series(1, 9) i",
    )
    there = ["ALTER TABLE t RENAME n TO m", "ALTER TABLE t RENAME id TO key", "ALTER TABLE t RENAME TO u"]
    back = ["ALTER TABLE u RENAME TO t", "ALTER TABLE t RENAME key TO id", "ALTER TABLE t RENAME m TO n"]
    lake = database.lake(chunk_rows=4)

    def read() -> bool:
        is_new = lake.batch(meanwhile=lambda: database.run(*there))
        database.run(*back if is_new else ())
        return is_new

    assert [read() for _ in range(4)][:2] == [True, True]
    lake.equals(database)
    database.run("UPDATE t SET n = n + 1")
    assert read()
    lake.equals(database)


def test_who_writes_other_tables_for_long_is_not_waited_for(
    database: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_server, "_OPEN_SECONDS", 1.0)
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    lake = captured(database)
    with psycopg.connect(database.url) as connection:
        connection.execute("INSERT INTO other VALUES (1)")
        pid = connection.info.backend_pid
        sleeper = threading.Thread(target=_sleep, args=(connection,))
        sleeper.start()
        try:
            database.run("INSERT INTO t VALUES (1)", "TRUNCATE t", "INSERT INTO t VALUES (2)")
            lake.catch_up()
            lake.equals(database)
        finally:
            database.run(f"SELECT pg_cancel_backend({pid})")
            sleeper.join()


def _sleep(connection: Any) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(600)")


def test_a_partitioned_table_is_one_table(database: PostgresSource) -> None:
    """Rows that come, move to another partition and go; partitions that are attached, cut and taken away."""
    database.run(
        "ALTER PUBLICATION tablestore SET (publish_via_partition_root = true)",
        "CREATE TABLE t (id int PRIMARY KEY, n int, long text) PARTITION BY RANGE (id)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high (n int, gone int, long text, id int PRIMARY KEY)",  # in another order
        "ALTER TABLE high DROP gone, ALTER id SET NOT NULL",
        "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t SELECT i, i, repeat('x', 4000) FROM generate_series(1, 19) i",
    )
    lake = captured(database, chunk_rows=4)
    lake.events.clear()
    lake.equals(database)
    for statement in (
        "UPDATE t SET n = n + 1 WHERE id % 2 = 0",
        "UPDATE t SET id = id + 9 WHERE id = 3 OR id = 9",
        "DELETE FROM t WHERE id < 3 OR id = 15",
        "INSERT INTO low VALUES (1, 7)",
    ):
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            database.run(statement)
        lake.catch_up()
        lake.equals(database)
    assert lake.events == []
    for statement in (
        "CREATE TABLE more AS SELECT 25 AS id, 1 AS n, 'y' AS long; ALTER TABLE more ADD PRIMARY KEY (id)",
        "ALTER TABLE t ATTACH PARTITION more FOR VALUES FROM (20) TO (30)",
        "TRUNCATE high",
        "ALTER TABLE t DETACH PARTITION low",
    ):
        database.run(statement)
        lake.catch_up()
        lake.equals(database)


def test_rows_that_the_role_does_not_see_are_a_reason_not_to_capture(
    database: PostgresSource, tmp_path: Path
) -> None:
    role = f"{database.name}_reader"
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT SELECT ON t TO {role}",
    )
    try:
        url = database.url.replace("postgres@", f"{role}@")
        address = source_address(url, "t", {})
        with pytest.raises(Unsupported, match="ALTER ROLE … BYPASSRLS"):
            address.open(rules_of(address, {"into": "ods"}), checkpoint=str(tmp_path), follow=True)
    finally:
        database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_the_position_moves_on_where_others_write_much(database: PostgresSource) -> None:
    """A place that stands still is decoded to the end of the log at each look."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    lake = captured(database)
    source = lake.source
    assert source.next(lake.offset) == lake.offset
    database.run("SELECT pg_logical_emit_message(false, 'others', repeat('x', 2 << 20))")
    end = source.next(lake.offset)
    assert end["position"] - lake.offset["position"] >= 2 << 20
    assert source.pieces(lake.offset, end) == source.events(lake.offset, end) == []


def test_an_error_of_the_server_amid_rows_is_told(database: PostgresSource) -> None:
    with Connection.open(database.address) as connection:
        with pytest.raises(InvalidRequest, match="division by zero"):
            count(connection, "SELECT 1 / (90000 - i) FROM generate_series(1, 100000) i")
        with pytest.raises(NotFound, match="missing"):
            count(connection, "SELECT missing FROM pg_class")
        assert connection.rows("SELECT 1") == [(1,)]
        for binary in (False, True):
            assert count(connection, "SELECT 1 WHERE false", binary=binary) == 0
            assert count(connection, "SELECT generate_series(1, %s)", [70_000], binary=binary) == 70_000
        long = "SELECT repeat('x', i * 700000) FROM generate_series(1, 5) i"
        assert [
            int(slices.lengths[0, r]) for slices in values_of(connection, long, 1) for r in range(slices.rows)
        ] == [700_000 * i for i in range(1, 6)]


@pytest.mark.parametrize("binary", [False, True])
def test_a_connection_is_closed_where_not_all_rows_are_read(database: PostgresSource, binary: bool) -> None:
    with Connection.open(database.address) as connection:
        begun = copied(connection, "SELECT generate_series(1, 1000000)", binary=binary)
        next(begun)
        begun.close()
        with pytest.raises(Unavailable, match="closed"):
            connection.rows("SELECT 2")


def test_a_connection_that_the_server_ends_is_unavailable(database: PostgresSource) -> None:
    with Connection.open(database.address) as connection:
        pid = connection.raw.info.backend_pid
        rows = copied(connection, "SELECT i, pg_sleep(i / 500000) FROM generate_series(1, 1000000) i")
        next(rows)
        database.run(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(Unavailable, match="terminating connection"):
            list(rows)


def test_a_server_that_was_set_back_is_an_error(database: PostgresSource) -> None:
    """Its slot stays where it is."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    lake = captured(database)
    places = "SELECT confirmed_flush_lsn FROM pg_replication_slots"
    before = database.rows(places)
    lake.offset = {**lake.offset, "position": lake.offset["position"] + (1 << 40)}
    with pytest.raises(NotFound, match="was set back to an earlier state: read_again="):
        lake.source.next(lake.offset)
    assert database.rows(places) == before
