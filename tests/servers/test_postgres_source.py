"""The source of a database of PostgreSQL by itself, beside those who write and alter: batches that are read
again after a kill of the process or of the server, each table of them committed once, end at the rows of the
server."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ALTERED, CAPTURED, DROPPED, EMPTIED, TableRows
from tablestore.cdc.opening import rules_of, source_address
from tablestore.core.errors import NotFound, Unsupported
from tablestore.flow.source import Offset
from tablestore.format.rowkind import DELETE
from tests.servers.postgres_database import (
    Database,
    alter,
    creation,
    database,
    restore,
    write,
)

__all__ = ["database"]
WRITERS = 6
Rows = dict[Any, dict[str, Any]]


@dataclass
class Followed:
    """The rows that a capture has, by table and key."""

    database: Database
    checkpoint: Path
    settings: dict[str, Any]
    at: Offset = field(default_factory=dict)
    rows: dict[SourceName, Rows] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def open(self, *, follow: bool = True) -> Any:
        """The source as a process that starts has it."""
        address = source_address(self.database.url, (), self.settings)
        return address.open(
            rules_of(address, {"into": "ods"}), checkpoint=str(self.checkpoint), follow=follow
        )

    def batch(self, source: Any, end: Offset, tables: set[SourceName]) -> None:
        """Commit the batch up to there, for some of the tables alone."""
        for event in source.events(self.at, end):
            if event.table in tables:
                self.events.append(f"{event.kind} {event.reason}")
                assert event.kind in (CAPTURED, ALTERED, DROPPED, EMPTIED), event
                if event.kind == EMPTIED:
                    self.rows[event.table] = {}
        for piece in source.pieces(self.at, end):
            for change in piece.read():
                assert isinstance(change, TableRows), change
                if change.table in tables:
                    _apply(self.rows.setdefault(change.table, {}), change)

    def catch_up(self) -> None:
        """Have all that is there now."""
        source = self.open(follow=False)
        while not source.ended(self.at):
            end = source.next(self.at)
            self.batch(source, end, self.names(end))
            self.at = end

    def names(self, end: Offset) -> set[SourceName]:
        return {SourceName(schema, table) for schema, table, _ in end["tables"]}

    def differences(self, table: str) -> list[Any]:
        cursor = self.database.connection.execute(f"SELECT * FROM {table} ORDER BY id")
        names = [column.name for column in cursor.description]
        there = {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
        here = self.rows[SourceName("public", table.strip('"'))]
        mine = {key: {name: row.get(name) for name in names} for key, row in here.items()}
        return [
            (key, mine.get(key), there.get(key)) for key in {*mine, *there} if mine.get(key) != there.get(key)
        ]


def _apply(rows: Rows, change: TableRows) -> None:
    for row, kind in zip(change.rows.to_pylist(), change.kinds.to_pylist(), strict=True):
        if kind == DELETE:
            rows.pop(row["id"], None)
        else:
            rows[row["id"]] = row


@contextmanager
def traffic(database: Database, seed: int, *, altered: bool) -> Iterator[None]:
    """Six who write, and maybe one who alters tables, while the block runs."""
    for table in ("a", "b"):
        database.run(f"DROP TABLE IF EXISTS {table}, other", *creation(table))
    stopping = threading.Event()
    arguments = [(database.url, seed * 9 + i, stopping, 0.05) for i in range(WRITERS)]
    threads = [threading.Thread(target=write, args=these) for these in arguments]
    threads += [threading.Thread(target=alter, args=(database.url, seed, stopping))] * altered
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        restore(database)


def caught_up(database: Database, path: Path, **settings: Any) -> Followed:
    """A capture that has all that there is."""
    state = Followed(database, path, settings)
    state.at = state.open().initial()
    state.catch_up()
    return state


def test_names_that_mean_something_in_statements_are_names(database: Database, tmp_path: Path) -> None:
    database.run(
        'CREATE TABLE "50%" (id int, "%s" text, "a""%b" text, long text, PRIMARY KEY (id, "%s"))',
        'ALTER TABLE "50%" ALTER long SET STORAGE EXTERNAL',
        """INSERT INTO "50%" SELECT i, '%s', 'x%', repeat('y', 4000) FROM generate_series(1, 7) i""",
    )
    state = caught_up(database, tmp_path, chunk_rows=2, chunks=1)
    assert state.differences('"50%"') == []
    database.run("""UPDATE "50%" SET "a""%b" = 'changed'""")
    state.catch_up()
    assert state.differences('"50%"') == []


def test_a_long_key_that_an_update_leaves_alone_is_the_key(database: Database, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE t (id text PRIMARY KEY, n int)",
        "ALTER TABLE t ALTER id SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT repeat(md5(i::text), 64), i FROM generate_series(1, 5) i",
    )
    state = caught_up(database, tmp_path)
    database.run("UPDATE t SET n = -n")
    state.catch_up()
    assert len(state.rows[SourceName("public", "t")]) == 5
    assert state.differences("t") == []


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
    database: Database, tmp_path: Path, statements: list[str]
) -> None:
    """The catalog is what it was, and the log has rows that are otherwise, or has them not at all."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, k int NOT NULL UNIQUE)",
        "CREATE TABLE calm (id int PRIMARY KEY)",
        "CREATE PUBLICATION mine FOR TABLE t, calm",
        "INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)",
        "INSERT INTO calm VALUES (1)",
    )
    state = caught_up(database, tmp_path, publication="mine")
    state.events.clear()
    database.run(*statements, "INSERT INTO calm VALUES (2)")
    state.catch_up()
    assert state.differences("t") + state.differences("calm") == []
    assert {event.split()[0] for event in state.events} == {"altered", "emptied"}


def test_rows_are_read_under_the_names_that_they_have_by_then(database: Database, tmp_path: Path) -> None:
    """A chunk, and rows with long values, of a table that is named otherwise just while they are read."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, long text)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, i, repeat('x', 4000) FROM generate_series(1, 9) i",
    )
    there = ["ALTER TABLE t RENAME n TO m", "ALTER TABLE t RENAME id TO key", "ALTER TABLE t RENAME TO u"]
    back = ["ALTER TABLE u RENAME TO t", "ALTER TABLE t RENAME key TO id", "ALTER TABLE t RENAME m TO n"]
    state = Followed(database, tmp_path, {"chunk_rows": 4})
    source = state.open()
    state.at = source.initial()

    def read() -> None:
        end = source.next(state.at)
        database.run(*there)
        state.batch(source, end, state.names(end))
        database.run(*back)
        state.at = end

    for _ in range(3):
        read()
    assert state.differences("t") == []
    database.run("UPDATE t SET n = n + 1")
    read()
    assert state.differences("t") == []


def test_who_writes_other_tables_for_long_is_not_waited_for(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    state = caught_up(database, tmp_path, patience_seconds=1)
    with psycopg.connect(database.url) as connection:
        connection.execute("INSERT INTO other VALUES (1)")
        pid = connection.info.backend_pid
        sleeper = threading.Thread(target=_sleep, args=(connection,))
        sleeper.start()
        try:
            database.run("INSERT INTO t VALUES (1)", "TRUNCATE t", "INSERT INTO t VALUES (2)")
            state.catch_up()
            assert state.differences("t") == []
        finally:
            database.run(f"SELECT pg_cancel_backend({pid})")
            sleeper.join()


def _sleep(connection: Any) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(600)")


def test_a_partitioned_table_is_one_table(database: Database, tmp_path: Path) -> None:
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
    state = caught_up(database, tmp_path, chunk_rows=4)
    state.events.clear()
    assert state.differences("t") == []
    for statement in (
        "UPDATE t SET n = n + 1 WHERE id % 2 = 0",
        "UPDATE t SET id = id + 9 WHERE id = 3 OR id = 9",
        "DELETE FROM t WHERE id < 3 OR id = 15",
        "INSERT INTO low VALUES (1, 7)",
    ):
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            database.run(statement)
        state.catch_up()
        assert state.differences("t") == []
    assert state.events == []
    for statement in (
        "CREATE TABLE more AS SELECT 25 AS id, 1 AS n, 'y' AS long; ALTER TABLE more ADD PRIMARY KEY (id)",
        "ALTER TABLE t ATTACH PARTITION more FOR VALUES FROM (20) TO (30)",
        "TRUNCATE high",
        "ALTER TABLE t DETACH PARTITION low",
    ):
        database.run(statement)
        state.catch_up()
        assert state.differences("t") == []


def test_rows_that_the_role_does_not_see_are_a_reason_not_to_capture(
    database: Database, tmp_path: Path
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


def test_the_position_moves_on_where_others_write_much(database: Database, tmp_path: Path) -> None:
    """A place that stands still is decoded to the end of the log at each look."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    state = caught_up(database, tmp_path)
    source = state.open()
    assert source.next(state.at) == state.at
    database.run("SELECT pg_logical_emit_message(false, 'others', repeat('x', 2 << 20))")
    end = source.next(state.at)
    assert end["position"] - state.at["position"] >= 2 << 20
    assert source.pieces(state.at, end) == source.events(state.at, end) == []


def test_a_server_that_was_set_back_is_an_error(database: Database, tmp_path: Path) -> None:
    """Its slot stays where it is."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    state = caught_up(database, tmp_path)
    places = "SELECT confirmed_flush_lsn FROM pg_replication_slots"
    before = database.rows(places)
    state.at = {**state.at, "position": state.at["position"] + (1 << 40)}
    with pytest.raises(NotFound, match="was set back to an earlier state: read_again="):
        state.open().next(state.at)
    assert database.rows(places) == before


@pytest.mark.large
@pytest.mark.parametrize("altered", [False, True], ids=["rows", "ddl"])
def test_batches_that_are_read_again_end_at_the_rows_of_the_server(
    database: Database, tmp_path: Path, seeds: tuple[int, ...], altered: bool
) -> None:
    for seed in seeds[: 1 if len(seeds) < 5 else None]:
        r = random.Random(seed)
        settings = {
            "chunk_rows": r.choice([20, 60]),
            "chunks": r.choice([1, 3]),
            "log_bytes": 1 << r.randint(18, 22),
        }
        state = Followed(database, tmp_path / str(seed), settings)
        with traffic(database, seed, altered=altered):
            source = state.open()
            state.at = source.initial()
            for _ in range(25):
                end = source.next(state.at)
                committed: set[SourceName] = set()
                if r.random() < 0.4:  # a kill: some tables are committed, and the batch is noted
                    committed = {name for name in state.names(end) if r.random() < 0.5}
                    state.batch(source, end, committed)
                    if r.random() < 0.3:
                        database.restart(r.uniform(0, 0.2))
                    source = state.open()
                state.batch(source, end, state.names(end) - committed)
                state.at = end
        state.catch_up()
        assert [(t, state.differences(t)) for t in ("a", "b") if state.differences(t)] == [], (
            seed,
            state.events,
        )
        print(seed, settings, len(state.events), {*state.events})
        for slot in database.slots():
            database.run(f"SELECT pg_drop_replication_slot('{slot}')")
