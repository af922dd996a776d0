"""Tables of a MariaDB as one source: what it gives equals them, whatever is written and altered meanwhile."""

from __future__ import annotations

import json
import pickle
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tablestore.cdc.capture.names import Patterns, SourceName
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    DROPPED,
    EMPTIED,
    RENAMED,
    SKIPPED,
    BadRow,
    TableEvent,
)
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.database_pieces import log_pieces
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import NotFound, Unsupported
from tests.cdc.mysql.four_writers import FourWriters
from tests.servers import mariadb as servers
from tests.servers.mariadb import PASSWORD, MariaDb

KEYS: Mapping[str, tuple[str, Callable[[int], Any]]] = {
    "a": ("INT", lambda n: n),
    "b": ("VARCHAR(20)", lambda n: f"{'aBcD'[n % 4]}{n}"),
    "c": ("BIGINT UNSIGNED", lambda n: (1 << 63) + n),
}


class Lake:
    """Keeps the last row of each key of each table, by the names of columns, as keyed tables do."""

    def __init__(self, source: MysqlDatabase) -> None:
        self.source, self.offset = source, source.initial()
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {}
        self.columns: dict[str, tuple[str, ...]] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.events: list[TableEvent] = []
        self.bad: list[BadRow] = []
        self.batches = 0

    def batch(self, *, repeat: bool = False) -> bool:
        """One batch, with its offsets as JSON and all else pickled; False where nothing is new. `repeat`: it
        is read and applied twice, as after the job was killed."""
        source = pickle.loads(pickle.dumps(self.source))
        end = json.loads(json.dumps(source.next(self.offset)))
        if end == self.offset:
            return False
        for _ in range(2 if repeat else 1):
            source = pickle.loads(pickle.dumps(self.source))
            events = source.events(self.offset, end)
            pieces = source.pieces(self.offset, end)
            assert not (events and pieces)
            if _ == 0:
                for event in events:
                    self.carry_out(pickle.loads(pickle.dumps(event)))
            logs = [piece for piece in pieces if piece.chunk is None]
            random.Random(self.batches).shuffle(logs)  # no key is in two of them
            for piece in [*logs, *(piece for piece in pieces if piece.chunk is not None)]:
                self.apply(piece)
        self.offset = end
        self.batches += 1
        return True

    def carry_out(self, event: TableEvent) -> None:
        self.events.append(event)
        name = event.table.table
        if event.kind == RENAMED:
            assert event.new_name is not None
            new = event.new_name.table
            for kept in (self.rows, self.columns, self.keys):
                kept[new] = kept.pop(name)
        elif event.kind == EMPTIED:
            self.rows[name] = {}
        elif event.kind in (CAPTURED, ALTERED):
            assert event.shape is not None
            if event.kind == CAPTURED:
                self.rows.setdefault(name, {})
            renamed = event.renamed_columns
            for row in self.rows[name].values():
                moved = {renamed.get(column, column): value for column, value in row.items()}
                row.clear()
                row.update({column: moved.get(column) for column in event.shape.names})
            self.columns[name], self.keys[name] = event.shape.names, event.shape.primary_key

    def apply(self, piece: Any) -> None:
        sent = pickle.dumps(piece)
        assert PASSWORD.encode() not in sent
        piece = pickle.loads(sent)
        for found in piece.read():
            if isinstance(found, BadRow):
                self.bad.append(found)
                continue
            name = found.table.table
            assert found.table in piece.tables
            assert tuple(found.rows.schema.names) == self.columns[name]
            rows, key = self.rows[name], self.keys[name]
            if piece.chunk is None:
                assert found.seconds is not None
                assert min(found.seconds.to_pylist()) > 0
            for row, kind in zip(found.rows.to_pylist(), found.kinds.to_pylist(), strict=True):
                at = tuple(row[column] for column in key)
                if kind in (0, 2):
                    rows[at] = row
                elif kind == 3:
                    rows.pop(at, None)

    def catch_up(self) -> None:
        while self.batch():
            assert self.batches < 2_000

    def equals(self, server: MariaDb, database: str) -> None:
        """Columns and values are those of the source, table by table."""
        there = [row[0] for row in server.run(f"SHOW TABLES IN `{database}`")]
        captured = {n for n in there if SourceName(database, n) in self.progress("log")}
        assert captured == {n for n in there if self.source.chosen(SourceName(database, n))}
        for name in captured:
            with server.connect(database=database) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM `{name}`")
                columns = tuple(column[0] for column in cursor.description)
                rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
            assert self.columns[name] == columns
            found = {tuple(row[k] for k in self.keys[name]): row for row in rows}
            assert self.rows[name] == found, name

    def progress(self, *states: str) -> set[SourceName]:
        tables = self.offset["tables"]
        return {SourceName(d, t) for d in tables for t, one in tables[d].items() if one["state"] in states}

    def kinds(self, begin: int = 0) -> list[tuple[str, str]]:
        return [(event.kind, event.table.table) for event in self.events[begin:]]


class Source:
    """A database and what writes to it."""

    def __init__(self, server: MariaDb, address: Address, checkpoint: Path) -> None:
        self.server, self.address, self.checkpoint = server, address, checkpoint
        self.name = address.database

    def run(self, *statements: str) -> None:
        self.server.run(f"USE {self.name}", *statements)

    def made(self, rows: int, tables: str = "abc") -> None:
        with self.server.connect(database=self.name) as connection, connection.cursor() as cursor:
            for table in tables:
                kind, key = KEYS[table]
                cursor.execute(f"CREATE TABLE {table} (k {kind} PRIMARY KEY, v INT, s VARCHAR(20))")
                values = [(key(n), n, "x") for n in range(0, 2 * rows, 2)]
                cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s)", values)

    def opened(self, include: str = "*", **how: Any) -> MysqlDatabase:
        patterns = Patterns.of(include, database=self.name)
        how = {"chunk_rows": 100, "chunks": 3, "checkpoint": str(self.checkpoint), **how}
        return MysqlDatabase.open(self.address, patterns, **how)

    def lake(self, include: str = "*", **how: Any) -> Lake:
        return Lake(self.opened(include, **how))


class Writers(FourWriters):
    """Over three tables: inserts, updates, deletes and moves of keys in transactions."""

    def __init__(self, source: Source, seed: int, keys: int) -> None:
        self._keys = keys
        super().__init__(source.server, source.name, seed)

    def _change(self, cursor: Any, r: random.Random) -> None:
        table = r.choice("abc")
        one, other = (KEYS[table][1](r.randrange(self._keys)) for _ in range(2))
        action = r.randrange(4)
        if action == 0:
            cursor.execute(
                f"REPLACE INTO {table} (k, v, s) VALUES (%s, %s, %s)",
                (one, r.randrange(1000), "é" * r.randrange(9)),
            )
        elif action == 1:
            cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE k = %s", (one,))
        elif action == 2:
            cursor.execute(f"DELETE FROM {table} WHERE k = %s", (one,))
        else:
            cursor.execute(f"UPDATE {table} SET k = %s WHERE k = %s", (other, one))


@pytest.fixture
def source(mariadb: MariaDb, address: Address, tmp_path: Path) -> Source:
    return Source(mariadb, address, tmp_path)


def test_what_a_database_gives_equals_it(source: Source, seeds: tuple[int, ...]) -> None:
    """Four writers over three tables while they are read and afterwards; batches are repeated."""
    source.made(700)
    for seed in seeds[::5]:
        r = random.Random(seed)
        lake = source.lake(chunk_rows=r.choice([70, 200]), chunks=r.choice([1, 4]))
        with Writers(source, seed, 1_400) as writers:
            while lake.offset["position"] is None or lake.progress("snapshot", "settling"):
                assert lake.batch(repeat=r.random() < 0.3)
            for _ in range(3):
                lake.batch(repeat=r.random() < 0.3)
        lake.catch_up()
        lake.equals(source.server, source.name)
        assert writers.written > 20
        assert lake.kinds() == [(CAPTURED, "a"), (CAPTURED, "b"), (CAPTURED, "c")]


CAPTURE_ALL = [(CAPTURED, "a"), (CAPTURED, "b"), (CAPTURED, "c")]
ADDED = "INSERT INTO a (k, v, s) VALUES (1001, 1, 'n')"
STATEMENTS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "add": (["ALTER TABLE a ADD w INT AFTER k", ADDED, "UPDATE a SET w = k WHERE k < 20"], [(ALTERED, "a")]),
    "add with a value": (["ALTER TABLE a ADD w INT DEFAULT 7", ADDED], [(ALTERED, "a")]),
    "add with a default": (["ALTER TABLE a ADD w INT NOT NULL DEFAULT 7 FIRST", ADDED], [(ALTERED, "a")]),
    "generated": (["ALTER TABLE a ADD w INT AS (v * 2) STORED", ADDED], [(ALTERED, "a")]),
    "drop": (["DELETE FROM a WHERE k = 2", "ALTER TABLE a DROP s", "UPDATE a SET v = 1"], [(ALTERED, "a")]),
    "rename a column": (["ALTER TABLE a RENAME COLUMN s TO t, ADD u INT"], [(ALTERED, "a")]),
    "swap columns": (["ALTER TABLE a CHANGE v s INT, CHANGE s v VARCHAR(20)"], [(ALTERED, "a")]),
    "widen": (["ALTER TABLE a MODIFY v BIGINT", "UPDATE a SET v = 5000000000 WHERE k = 4"], [(ALTERED, "a")]),
    "convert": (["ALTER TABLE a MODIFY v VARCHAR(9)", ADDED], [(ALTERED, "a")]),
    "cut": (
        ["UPDATE a SET s = 'long'", "SET sql_mode = ''", "ALTER TABLE a MODIFY s CHAR(2)"],
        [(ALTERED, "a")],
    ),
    "index": (["CREATE INDEX i ON a (v)", "ALTER TABLE a ADD INDEX j (s)", ADDED], []),
    "truncate": (["TRUNCATE a", ADDED], [(EMPTIED, "a")]),
    "delete all": (["DELETE FROM a", ADDED], []),
    "rename": (["RENAME TABLE a TO z", "INSERT INTO z VALUES (1001, 1, 'n')"], [(RENAMED, "a")]),
    "rename and alter": (
        ["ALTER TABLE a ADD w INT DEFAULT 3, RENAME TO z", "DELETE FROM z WHERE k = 4"],
        [(RENAMED, "a"), (ALTERED, "z")],
    ),
    "rename away": (["RENAME TABLE a TO _a_old", "ALTER TABLE _a_old ADD w INT"], [(DROPPED, "a")]),
    "drop a table": (["DROP TABLE a", "UPDATE b SET v = 3"], [(DROPPED, "a")]),
    "create": (
        ["CREATE TABLE z (k INT PRIMARY KEY, e ENUM('x', 'y'))", "INSERT INTO z VALUES (1, 'y')"],
        [(CAPTURED, "z")],
    ),
    "create as": (["CREATE TABLE z (PRIMARY KEY (k)) AS SELECT * FROM a", ADDED], [(CAPTURED, "z")]),
    "create like": (["CREATE TABLE z LIKE a", "INSERT INTO z SELECT * FROM a"], [(CAPTURED, "z")]),
    "drop and create": (
        ["DROP TABLE a", "CREATE TABLE a (k INT PRIMARY KEY, u UUID)", "INSERT INTO a VALUES (9, UUID())"],
        [(DROPPED, "a"), (CAPTURED, "a"), (EMPTIED, "a")],
    ),
    "replace": (
        ["CREATE OR REPLACE TABLE a (k INT PRIMARY KEY, x DATE)", "INSERT INTO a VALUES (9, '2024-02-29')"],
        [(EMPTIED, "a"), (ALTERED, "a")],
    ),
    "gh-ost": (
        [
            "CREATE TABLE _a_gho LIKE a",
            "ALTER TABLE _a_gho ADD w INT DEFAULT 5",
            "INSERT INTO _a_gho (k, v, s) SELECT * FROM a",
            "RENAME TABLE a TO _a_del, _a_gho TO a",
            "DELETE FROM a WHERE k = 6",
        ],
        [(ALTERED, "a")],
    ),
    "swap": (
        [
            "CREATE TABLE _n_old (k INT PRIMARY KEY, v INT)",
            "INSERT INTO _n_old VALUES (5, 5), (6, 6)",
            "RENAME TABLE a TO _a_old, _n_old TO a",
            "UPDATE a SET v = 7 WHERE k = 5",
        ],
        [(EMPTIED, "a"), (ALTERED, "a")],
    ),
    "swap of two": (
        ["CREATE TABLE z LIKE a", "INSERT INTO z VALUES (1, 1, '')", "RENAME TABLE a TO y, z TO a, y TO z"],
        [(CAPTURED, "z"), (EMPTIED, "a"), (ALTERED, "a"), (EMPTIED, "z"), (ALTERED, "z")],
    ),
    "rotate": (
        [
            "CREATE TABLE _n_new LIKE a",
            "RENAME TABLE a TO a1, _n_new TO a",
            "INSERT INTO a VALUES (3, 3, '')",
        ],
        [(RENAMED, "a"), (CAPTURED, "a")],
    ),
    "chain": (["RENAME TABLE b TO b2, a TO b", "UPDATE b SET v = 2"], [(RENAMED, "b"), (RENAMED, "a")]),
    "partition": (
        [
            "ALTER TABLE a PARTITION BY RANGE (k) (PARTITION p VALUES LESS THAN (20), PARTITION q VALUES LESS"
            " THAN MAXVALUE)",
            "ALTER TABLE a DROP PARTITION p",
        ],
        [(EMPTIED, "a"), (ALTERED, "a")],
    ),
    "comment": (["ALTER TABLE a MODIFY v INT COMMENT 'how many'"], [(ALTERED, "a")]),
    "two with rows between": (
        [
            "ALTER TABLE a ADD w INT",
            ADDED,
            "UPDATE a SET w = 4",
            "ALTER TABLE a MODIFY w VARCHAR(9)",
            "DELETE FROM a WHERE k = 8",
        ],
        [(ALTERED, "a"), (ALTERED, "a")],
    ),
    "several at once": (
        [
            "ALTER TABLE a ADD w INT",
            "ALTER TABLE a RENAME COLUMN w TO x",
            "ALTER TABLE a CHANGE v s INT, CHANGE s v VARCHAR(20)",
            "RENAME TABLE a TO z",
            "ALTER TABLE z ADD y UUID",
            "UPDATE z SET x = 3, y = UUID() WHERE k < 10",
        ],
        [(ALTERED, "a"), (RENAMED, "a")],
    ),
    "altered and dropped": (["ALTER TABLE a ADD w INT", "DROP TABLE a"], [(DROPPED, "a")]),
    "altered, used and dropped": (
        ["ALTER TABLE a ADD w INT, MODIFY s CHAR(9)", "UPDATE a SET w = 1", "DROP TABLE a"],
        [(ALTERED, "a"), (DROPPED, "a")],
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every statement in the log; every third of them, from the seed on, while rows are read: all with more
    than five `--rounds`."""
    if "name" in metafunc.fixturenames:
        options, names = metafunc.config.option, list(STATEMENTS)
        whole = options.rounds > 5 or "in_the_log" in metafunc.function.__name__
        metafunc.parametrize("name", names if whole else names[options.seed % 3 :: 3])


def test_statements_are_followed_in_the_log(source: Source, name: str) -> None:
    """Statements between two batches; the batches with their events are repeated."""
    statements, wanted = STATEMENTS[name]
    source.made(20)
    lake = source.lake()
    lake.catch_up()
    assert lake.kinds() == CAPTURE_ALL
    source.run(*statements)
    while lake.batch(repeat=True):
        pass
    assert lake.kinds(3) == wanted
    lake.equals(source.server, source.name)


def test_statements_are_followed_while_rows_are_read(source: Source, name: str) -> None:
    """Statements when some chunks are read, and between the planning of chunks and their reading."""
    statements, _ = STATEMENTS[name]
    source.made(20)
    lake = source.lake(chunk_rows=10, chunks=1)
    for _ in range(2):
        lake.batch()
    assert lake.progress("snapshot")
    source.run("UPDATE a SET v = v + 1", "DELETE FROM a WHERE k = 2")
    end = lake.source.next(lake.offset)
    source.run(*statements)
    for piece in lake.source.pieces(lake.offset, end):
        lake.apply(piece)
    lake.offset = end
    lake.catch_up()
    lake.equals(source.server, source.name)


class Alterations:
    """Statements at random about the tables of a database, whatever they are by then."""

    def __init__(self, source: Source, r: random.Random) -> None:
        self._source, self._r, self._number = source, r, 0

    def one(self) -> str | None:
        """A statement that was carried out; None where the server did not like it."""
        r = self._r
        there = [row[0] for row in self._source.server.run(f"SHOW TABLES IN {self._source.name}")]
        name, other = r.choice(there), r.choice(there)
        columns = self._columns(name)
        column, second = r.choice(columns), r.choice(columns)
        self._number += 1
        n = self._number
        kinds = ["INT", "BIGINT", "VARCHAR(20)", "VARCHAR(90)", "CHAR(4)", "TEXT", "DECIMAL(12,2)", "UUID"]
        kind = r.choice(kinds)
        rest = "" if column == second else f", CHANGE `{second}` `{column}` {r.choice(kinds)}"
        found = r.choice(
            [
                f"ALTER TABLE {name} ADD c{n} {kind}{r.choice(['', ' FIRST', f' AFTER `{column}`'])}",
                f"ALTER TABLE {name} ADD c{n} INT DEFAULT {n}",
                f"ALTER TABLE {name} DROP `{column}`" if len(columns) > 2 else "SELECT 1",
                f"ALTER TABLE {name} RENAME COLUMN `{column}` TO c{n}",
                f"ALTER TABLE {name} CHANGE `{column}` `{second}` {kind}{rest}",
                f"ALTER TABLE {name} MODIFY `{column}` {kind}",
                f"ALTER TABLE {name} MODIFY k {r.choice(['INT', 'BIGINT'])}",
                f"TRUNCATE {name}",
                f"RENAME TABLE {name} TO t{n}",
                f"RENAME TABLE {name} TO t{n}, {other} TO {name}",
                f"RENAME TABLE {name} TO _x_old, {other} TO {name}, _x_old TO {other}",
                f"CREATE OR REPLACE TABLE {name} (k INT PRIMARY KEY, v INT, s VARCHAR(20))",
                f"CREATE TABLE t{n} LIKE {name}",
                f"CREATE TABLE t{n} (PRIMARY KEY (k)) SELECT * FROM {name}",
                f"DROP TABLE {name}" if len(there) > 2 else "SELECT 1",
            ]
        )
        try:
            self._source.run("SET sql_mode = ''", found)
        except pymysql.Error:
            return None
        return found

    def _columns(self, name: str) -> list[str]:
        """All but the key."""
        rows = self._source.server.run(f"DESCRIBE {self._source.name}.{name}")
        return [row[0] for row in rows if row[0] != "k"]

    def write(self) -> None:
        """Some changes of rows of any table."""
        r = self._r
        for row in self._source.server.run(f"SHOW TABLES IN {self._source.name}"):
            name = row[0]
            if r.random() < 0.5:
                continue
            columns = self._columns(name)
            changes = [f"INSERT IGNORE INTO {name} (k) SELECT seq FROM seq_{r.randrange(30)}_to_60"]
            changes += [f"UPDATE IGNORE {name} SET `{r.choice(columns)}` = {r.randrange(99)} WHERE k > 30"]
            changes += [f"DELETE FROM {name} ORDER BY k LIMIT 2", f"UPDATE IGNORE {name} SET k = k + 5"]
            self._source.run("SET sql_mode = ''", *r.sample(changes, r.randrange(1, 4)))


def test_statements_at_random_moments_are_followed(source: Source, seeds: tuple[int, ...]) -> None:
    """Statements and changes while rows are read, in the log, one or several between two batches."""
    for seed in seeds[::3]:
        r = random.Random(seed)
        source.run(f"DROP DATABASE {source.name}", f"CREATE DATABASE {source.name}")
        source.made(60, "ac")
        lake = source.lake(chunk_rows=r.choice([10, 50]), chunks=r.choice([1, 3]))
        alterations = Alterations(source, r)
        done: list[str | None] = []
        for _ in range(8):
            for _ in range(r.randrange(4)):
                lake.batch(repeat=r.random() < 0.2)
            if r.random() < 0.3:
                lake.catch_up()
            for _ in range(r.choice([1, 1, 2, 4])):
                done.append(alterations.one())
                if r.random() < 0.6:
                    alterations.write()
        try:
            lake.catch_up()
            lake.equals(source.server, source.name)
        except Exception as e:
            e.add_note(f"seed {seed}: {done}")
            raise


def test_the_log_is_followed_over_files_and_in_bounded_batches(source: Source) -> None:
    source.made(20)
    lake = source.lake(log_bytes=20_000)
    lake.catch_up()
    begin = lake.batches
    for i in range(40):
        source.run(f"UPDATE a SET v = v + 1, s = REPEAT('{i % 10}', 20)", "UPDATE b SET v = v - 1")
        if i % 15 == 7:
            source.run("FLUSH BINARY LOGS")
    sizes, commits, behind = [], 0, []
    while True:
        offset = lake.offset
        if not lake.batch(repeat=True):
            break
        facts = lake.source.facts(offset, lake.offset)
        sizes.append(facts.log_bytes)
        behind.append(facts.bytes_behind)
        commits += sum(n for _, n in facts.commits)
        assert facts.snapshotting == ()
    lake.equals(source.server, source.name)
    assert lake.batches - begin > 3
    assert max(sizes) < 26_000
    assert commits == 80
    assert behind == sorted(behind, reverse=True)
    assert behind[-1] == 0


def test_what_concerns_others_makes_no_batches(source: Source) -> None:
    source.made(20, "ab")
    lake = source.lake("a")
    lake.catch_up()
    source.run("UPDATE b SET v = 3", "ALTER TABLE b ADD w INT", "CREATE TABLE c (k INT)")
    assert not lake.batch()
    source.run("FLUSH BINARY LOGS", "UPDATE b SET v = 4")
    assert lake.batch()  # the position moves on with the files
    assert not lake.batch()
    source.run("UPDATE a SET v = 4")
    lake.catch_up()
    assert {row["v"] for row in lake.rows["a"].values()} == {4}
    assert lake.kinds() == [(CAPTURED, "a")]


def test_a_bounded_capture_ends_and_another_run_goes_on(source: Source) -> None:
    source.made(50)
    lake = source.lake(bounded=True)
    for run in range(2):
        if run == 1:
            lake.source = source.opened(bounded=True)
            assert not lake.source.ended(lake.offset)
            source.run(
                "UPDATE a SET v = -5", "CREATE TABLE d (k INT PRIMARY KEY)", "INSERT INTO d VALUES (1)"
            )
        while not lake.source.ended(lake.offset):
            assert lake.batch()
            assert lake.batches < 30
        assert not lake.batch()
        lake.equals(source.server, source.name)


def test_definitions_that_are_lost_are_read_again(source: Source) -> None:
    source.made(30)
    lake = source.lake(chunk_rows=20, chunks=2)
    for _ in range(3):
        lake.batch()
    source.run("UPDATE a SET v = 8", "DELETE FROM c WHERE v < 20", "ALTER TABLE a ADD w INT FIRST")
    source.run("INSERT INTO a VALUES (7, 4001, 1, 'x')")
    end = json.loads(json.dumps(lake.source.next(lake.offset)))
    for file in (source.checkpoint / "tablestore-source").iterdir():
        file.unlink()
    lake.source = source.opened(chunk_rows=20, chunks=2)
    for piece in lake.source.pieces(lake.offset, end):  # a batch that is done again
        lake.apply(piece)
    lake.offset = end
    lake.source = source.opened(chunk_rows=20, chunks=2)
    for file in (source.checkpoint / "tablestore-source").iterdir():
        file.unlink()
    begin = len(lake.events)
    lake.catch_up()
    lake.equals(source.server, source.name)
    assert {event.reason for event in lake.events[begin : begin + 3]} == {
        "its definition, which the checkpoint held, is lost"
    }


def test_tables_that_cannot_be_captured_are_skipped_with_the_reason(source: Source) -> None:
    source.made(3, "a")
    source.run(
        "CREATE TABLE n (x INT, y VARCHAR(9))",
        "INSERT INTO n VALUES (1, 'a'), (2, 'b'), (NULL, 'c')",
        "CREATE TABLE g (k INT PRIMARY KEY, p POINT)",
    )
    lake = source.lake()
    lake.catch_up()
    assert lake.kinds() == [(CAPTURED, "a"), (SKIPPED, "g"), (SKIPPED, "n")]
    reasons = [event.reason for event in lake.events if event.kind == SKIPPED]
    assert "column 'p' of type point" in reasons[0]
    assert "it has no primary key" in reasons[1]
    source.run("UPDATE n SET y = 'd'", "DELETE FROM n WHERE x IS NULL", "ALTER TABLE n ADD PRIMARY KEY (x)")
    lake.catch_up()
    lake.source = source.opened(left_out={f"{source.name}.g": ["p"]})
    source.run("INSERT INTO g VALUES (1, NULL)", "ALTER TABLE g COMMENT 'a'")
    lake.catch_up()
    assert lake.kinds(3) == [(CAPTURED, "n"), (CAPTURED, "g")]
    assert lake.rows["n"] == {(1,): {"x": 1, "y": "d"}, (2,): {"x": 2, "y": "d"}}
    assert lake.rows["g"] == {(1,): {"k": 1}}
    source.run("ALTER TABLE n DROP PRIMARY KEY")
    lake.catch_up()
    assert lake.kinds(5) == [(SKIPPED, "n")]
    with pytest.raises(Unsupported, match="it has no primary key"):
        source.lake("a,n")
    with pytest.raises(NotFound, match="nowhere"):
        source.lake("a,nowhere")


def test_a_key_may_be_named_by_others(source: Source) -> None:
    source.run("CREATE TABLE n (x INT, y VARCHAR(9))")
    source.run("INSERT INTO n SELECT seq, 'a' FROM seq_1_to_30", "INSERT INTO n VALUES (NULL, 'z')")
    lake = source.lake(chunk_rows=10, primary_keys={f"{source.name}.n": ["x"]})
    lake.catch_up()
    source.run("UPDATE n SET y = 'b' WHERE x > 20 OR x IS NULL", "DELETE FROM n WHERE x = 1")
    source.run("UPDATE n SET x = NULL WHERE x = 2", "UPDATE n SET x = 40 WHERE x = 3")
    lake.catch_up()
    rows = source.server.run(f"SELECT x, y FROM {source.name}.n WHERE x IS NOT NULL")
    assert lake.rows["n"] == {(x,): {"x": x, "y": y} for x, y in rows}
    assert len(rows) == 28
    shown = [(bad.kind, json.loads(bad.row), bad.seconds is None) for bad in lake.bad]
    assert shown == [
        (0, {"x": None, "y": "z"}, True),
        (2, {"x": None, "y": "b"}, False),
        (0, {"x": None, "y": "a"}, False),
    ]
    assert {bad.reason for bad in lake.bad} == {"column 'x' of the key has no value"}


def test_another_server_and_a_log_that_is_gone(source: Source) -> None:
    source.made(30, "ab")
    lake = source.lake(chunk_rows=20, chunks=1)
    for moment in ("reading", "log"):
        if moment == "log":
            lake.catch_up()
        else:
            lake.batch()
            lake.batch()
        gtid = lake.offset["position"][2]
        lake.offset |= {"position": ["its-own.000077", 5, gtid], "server": 4712}
        source.run(
            "UPDATE a SET v = v + 1", "ALTER TABLE b ADD COLUMN IF NOT EXISTS w INT", "DELETE FROM b LIMIT 2"
        )
        lake.catch_up()
        lake.equals(source.server, source.name)
        assert lake.offset["server"] == 4711
    source.run("FLUSH BINARY LOGS", "UPDATE a SET v = 0")
    source.run(f"PURGE BINARY LOGS TO '{lake.source._patiently(position).file}'")
    with pytest.raises(NotFound, match=r"is gone .*start with a new snapshot"):
        lake.catch_up()


def test_a_server_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    with servers.mariadb() as server:
        server.run("CREATE DATABASE d")
        source = Source(server, Address.parse(f"{server.url}/d"), tmp_path)
        source.made(60, "ab")
        lake = source.lake(chunk_rows=20, chunks=2, patience_seconds=30)
        for key in (501, 503, 505, 507):
            lake.batch()
            source.run(f"INSERT INTO a VALUES ({key}, 0, 'new')", "UPDATE b SET v = v + 1")
            server.kill()
            later = threading.Timer(0.3, server.start)
            later.start()
            lake.batch()
            later.join()
        lake.catch_up()
        lake.equals(server, "d")


def test_the_log_of_tables_is_divided_among_tasks() -> None:
    mb = 1 << 20
    a, b, c = (SourceName("d", name) for name in "abc")
    assert log_pieces({}, 4) == []
    assert log_pieces({a: 100, b: 50}, 4) == [[(a, (0, 1)), (b, (0, 1))]]
    assert log_pieces({a: 8 * mb, b: 7 * mb, c: 2 * mb}, 2) == [
        [(a, (0, 1))],
        [(b, (0, 1)), (c, (0, 1))],
    ]
    assert log_pieces({a: 40 * mb, b: mb}, 2) == [[(a, (0, 2)), (b, (0, 1))], [(a, (1, 2))]]
    for sizes in ({a: 90 * mb, b: 30 * mb, c: 60 * mb}, {a: 33 * mb, b: 5 * mb, c: 4 * mb}):
        for tasks in (1, 2, 3, 8):
            found = log_pieces(sizes, tasks)
            assert len(found) <= tasks
            parts = sorted(one for piece in found for one in piece)
            assert parts == sorted({*parts})
            for name in sizes:
                mine = [part for one, part in parts if one == name]
                assert mine == [(i, len(mine)) for i in range(len(mine))]
            for piece in found:
                assert len({name for name, _ in piece}) == len(piece)


def test_a_hot_table_is_read_in_parts(source: Source) -> None:
    source.run("CREATE TABLE a (k INT PRIMARY KEY, v INT, s VARCHAR(400))")
    lake = source.lake(tasks=3)
    lake.catch_up()
    source.run("INSERT INTO a SELECT seq, 0, REPEAT('x', 400) FROM seq_1_to_9000")
    source.run("UPDATE a SET v = 1 WHERE k < 9000", "UPDATE a SET k = k + 10000 WHERE k % 9 = 0")
    end = lake.source.next(lake.offset)
    pieces = lake.source.pieces(lake.offset, end)
    assert [len(piece.parts) for piece in pieces] == [1, 1, 1]
    while lake.batch(repeat=True):
        pass
    lake.equals(source.server, source.name)


def position(connection: Connection) -> LogPosition:
    return dialect_of(connection).position(connection)


def test_a_table_whose_foreign_key_changes_rows_unlogged_says_so(
    mariadb: MariaDb, database: str, address: Address, tmp_path: Path
):
    with mariadb.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parent (k INT PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE child (k INT PRIMARY KEY, p INT, CONSTRAINT up FOREIGN KEY (p) "
            "REFERENCES parent (k) ON DELETE CASCADE ON UPDATE RESTRICT)"
        )
        cursor.execute("CREATE TABLE safe (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (k))")
    patterns = Patterns.of("*", database=database)
    lake = Lake(MysqlDatabase.open(address, patterns, checkpoint=str(tmp_path)))
    lake.catch_up()
    reasons = {event.table.table: event.reason for event in lake.events}
    assert reasons.keys() == {"parent", "child", "safe"}
    assert (reasons["parent"], reasons["safe"]) == ("", "")
    assert "foreign key 'up' (ON DELETE CASCADE)" in reasons["child"]
