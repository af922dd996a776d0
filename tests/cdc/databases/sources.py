"""Databases of their own in real servers, as captures and streams of them see them: what tests do with a
database of any kind, and in a class of each kind how that is said there."""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pymysql

import tablestore as ts
from notebooks.demo.private_database import PrivateDatabase
from tablestore.cdc.capture.names import Patterns, SourceName
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.cdc.postgres.database import PostgresDatabase
from tablestore.cdc.postgres.server import parse_address
from tablestore.cdc.postgres.slot import Slot
from tablestore.cdc.postgres.stream import PostgresStream
from tablestore.core.errors import Unavailable
from tests.cdc.databases import postgres_traffic
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.mysql.traffic import CRASH_SAFE, Traffic, differences
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres

Row = dict[str, Any]


class Source(ABC):
    """A database of its own, which is named in the name of a test by its `kind`."""

    kind: ClassVar[str]
    errors: ClassVar[type[Exception]]
    """What a statement raises."""
    key_types: ClassVar[Mapping[str, str]]
    """Those of the keys of tables a, b and c."""
    time_type: ClassVar[str]
    """That of a time without a zone, to the microsecond."""

    def __init__(self, server: PrivateDatabase, address: Address, url: str, checkpoint: Path) -> None:
        self.server, self.address, self.url, self.checkpoint = server, address, url, checkpoint
        self.name = address.database

    @property
    @abstractmethod
    def schema(self) -> str:
        """The first part of the names of tables."""

    @abstractmethod
    def connect(self) -> Any:
        """A connection, each statement its own transaction unless it says otherwise."""

    @abstractmethod
    def put(self, cursor: Any, table: str, row: tuple[Any, ...]) -> None:
        """Insert a row (k, v, s), or replace the one with its key."""

    @abstractmethod
    def opened(self, include: str = "*", **how: Any) -> Any:
        """A capture of tables."""

    @abstractmethod
    def stream(self, table: str, **how: Any) -> Any:
        """One table as a stream, which begins with its rows."""

    @abstractmethod
    def let_stream(self, table: str) -> None:
        """Have all that a stream needs in the log of a table."""

    @abstractmethod
    def stream_options(self, name: str) -> dict[str, str]:
        """Options of a table of SQL, by its name, that is read as a stream."""

    @property
    @abstractmethod
    def sql_options(self) -> dict[str, str]:
        """Those of its tables in SQL that no other kind has."""

    @abstractmethod
    def chosen(self, capture: Any) -> set[str]:
        """The names of tables that are there and chosen."""

    @abstractmethod
    def begin_traffic(self, seed: int) -> None:
        """Make the tables of `traffic` anew, and no others."""

    @abstractmethod
    def traffic(
        self, seed: int, *, altered: bool, pause_seconds: float = 0.005
    ) -> AbstractContextManager[object]:
        """Writers of several tables, and maybe one who alters them, while the block runs."""

    @abstractmethod
    def differences(self, lake: ts.Lake) -> list[str]:
        """Where database `ods` of the lake does not hold what is there now, after traffic."""

    @abstractmethod
    def end_captures(self) -> None:
        """Take away what captures that have ended left on the server."""

    @contextlib.contextmanager
    def altered_log(self, r: random.Random) -> Iterator[Callable[[LastRowsLake], None]]:
        """A function that may do something to the log of the server which a capture is to bear."""
        yield lambda lake: None

    def run(self, *statements: str) -> None:
        """Statements in one session."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def table(self, name: str) -> tuple[tuple[str, ...], list[Row]]:
        """(columns, rows) of a table."""
        quote = "`" if self.kind == "MariaDB" else '"'
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {quote}{name}{quote}")
            columns = tuple(column[0] for column in cursor.description)
            return columns, [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def key(self, table: str, number: int) -> Any:
        """A key of table a, b or c; of others whole numbers."""
        return {"b": f"{'aBcD'[number % 4]}{number}", "c": (1 << 63) + number}.get(table, number)

    def made(self, rows: int, tables: str = "abc") -> None:
        """Tables with k, v and s, and so many rows of even numbers."""
        with self.connect() as connection, connection.cursor() as cursor:
            for table in tables:
                key = self.key_types.get(table, "INT")
                cursor.execute(f"CREATE TABLE {table} (k {key} PRIMARY KEY, v INT, s VARCHAR(20))")
                values = [(self.key(table, n), n, "x") for n in range(0, 2 * rows, 2)]
                cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s)", values)

    def lake(self, include: str = "*", **how: Any) -> LastRowsLake:
        return LastRowsLake(self.opened(include, **how))

    def restart(self, pause_seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill the server, and start it again in a moment. What is done meanwhile may end because it is away,
        as of a job that begins anew then."""
        self.server.kill()
        later = threading.Timer(pause_seconds, self.server.start)
        later.start()
        try:
            with contextlib.suppress(Unavailable):
                meanwhile()
        finally:
            later.join()


class MariaDbSource(Source):
    """A database of a MariaDB."""

    kind, errors = "MariaDB", pymysql.Error
    key_types: ClassVar[Mapping[str, str]] = {"a": "INT", "b": "VARCHAR(20)", "c": "BIGINT UNSIGNED"}
    time_type = "DATETIME(6)"

    def __init__(self, server: MariaDb, address: Address, checkpoint: Path) -> None:
        super().__init__(server, address, f"{server.url}/{address.database}", checkpoint)
        self.server: MariaDb = server

    @property
    def schema(self) -> str:
        return self.name

    def connect(self) -> Any:
        return self.server.connect(database=self.name)

    def put(self, cursor: Any, table: str, row: tuple[Any, ...]) -> None:
        cursor.execute(f"REPLACE INTO {table} (k, v, s) VALUES (%s, %s, %s)", row)

    def opened(self, include: str = "*", **how: Any) -> MysqlDatabase:
        of_choice = {field.name: how.pop(field.name) for field in fields(TableChoice) if field.name in how}
        choice = TableChoice(Patterns.of(include, database=self.name), **of_choice)
        how = {"chunk_rows": 100, "chunks": 3, "checkpoint": str(self.checkpoint), **how}
        return MysqlDatabase.open(self.address, choice, **how)

    def stream(self, table: str, **how: Any) -> MysqlTable:
        return MysqlTable.open(self.address, table, **how)

    def let_stream(self, table: str) -> None:
        """It is there."""

    def stream_options(self, name: str) -> dict[str, str]:
        return {"scan__incremental__snapshot__chunk__size": "200"}

    @property
    def sql_options(self) -> dict[str, str]:
        return {"connector": "mysql-cdc"}

    def chosen(self, capture: MysqlDatabase) -> set[str]:
        there = [row[0] for row in self.server.run(f"SHOW TABLES IN `{self.name}`")]
        return {name for name in there if capture.choice.choose(SourceName(self.name, name))}

    def begin_traffic(self, seed: int) -> None:
        self.server.run(f"DROP DATABASE IF EXISTS {self.name}")
        Traffic(self.server, self.name, seed=seed).make()

    def traffic(self, seed: int, *, altered: bool, pause_seconds: float = 0.005) -> Traffic:
        kinds = CRASH_SAFE if altered else ()
        return Traffic(self.server, self.name, seed=seed, ddl=kinds, pause=pause_seconds, ddl_pause=0.2)

    def differences(self, lake: ts.Lake) -> list[str]:
        return differences(lake, self.server.url, self.name)

    def end_captures(self) -> None:
        """There is nothing."""

    @contextlib.contextmanager
    def altered_log(self, r: random.Random) -> Iterator[Callable[[LastRowsLake], None]]:
        """It begins a file, removes those that a capture has read, compresses what comes or stops that."""

        def alter(lake: LastRowsLake) -> None:
            action = r.randrange(8)
            if action == 0:
                self.run("FLUSH BINARY LOGS")
            elif action == 1 and lake.offset["position"] is not None:
                self.run(f"PURGE BINARY LOGS TO '{lake.offset['position'][0]}'")
            elif action == 2:
                self.run(f"SET GLOBAL log_bin_compress = {r.choice(['ON', 'OFF'])}")

        names = ("log_bin_compress", "log_bin_compress_min_len")
        before = [self.server.run(f"SELECT @@global.{name}")[0][0] for name in names]
        self.run("SET GLOBAL log_bin_compress_min_len = 10")
        try:
            yield alter
        finally:
            self.run(*(f"SET GLOBAL {name} = {value}" for name, value in zip(names, before, strict=True)))


class PostgresSource(Source):
    """A database of a PostgreSQL, with a publication of all its tables. `connection` stays open, but for a
    kill of the server."""

    kind, errors = "PostgreSQL", psycopg.Error
    key_types: ClassVar[Mapping[str, str]] = {"a": "INT", "b": 'VARCHAR(20) COLLATE "C"', "c": "NUMERIC(20)"}
    time_type = "TIMESTAMP(6)"

    def __init__(self, server: Postgres, name: str, checkpoint: Path) -> None:
        url = server.owner_url.rpartition("/")[0] + f"/{name}"
        super().__init__(server, parse_address(url), url, checkpoint)
        self.server: Postgres = server
        self.connection = self.connect()

    @property
    def schema(self) -> str:
        return "public"

    def connect(self) -> Any:
        connection: Any = psycopg.connect(self.url, autocommit=True)
        connection.execute("SET synchronous_commit = on")
        return connection

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return sorted(self.connection.execute(statement).fetchall(), key=repr)

    def slots(self) -> list[str]:
        rows = self.rows(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.name}'")
        return [name for (name,) in rows]

    def end_captures(self) -> None:
        for slot in self.slots():
            self.run(f"SELECT pg_drop_replication_slot('{slot}')")

    def restart(self, pause_seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().restart(pause_seconds, meanwhile)
        self.connection = self.connect()

    def put(self, cursor: Any, table: str, row: tuple[Any, ...]) -> None:
        both = "ON CONFLICT (k) DO UPDATE SET v = excluded.v, s = excluded.s"
        cursor.execute(f"INSERT INTO {table} (k, v, s) VALUES (%s, %s, %s) {both}", row)

    def opened(self, include: str = "*", *, publication: str = "tablestore", **how: Any) -> PostgresDatabase:
        patterns, slot = Patterns.of(include, database=self.schema), Slot(self.name, publication)
        return PostgresDatabase.open(self.address, patterns, slot, **{"chunk_rows": 100, "chunks": 3, **how})

    def stream(self, table: str, **how: Any) -> PostgresStream:
        self.let_stream(table)
        slot = Slot(f"s{uuid.uuid4().hex[:12]}", "tablestore")
        return PostgresStream.open(self.address, self.schema, table, slot, **how)

    def let_stream(self, table: str) -> None:
        self.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def stream_options(self, name: str) -> dict[str, str]:
        return {"slot__name": f"{name}_{self.name}", "scan__incremental__snapshot__chunk__size": "200"}

    @property
    def sql_options(self) -> dict[str, str]:
        return {"connector": "postgres-cdc", "schema-name": self.schema, "slot.name": f"slot_{self.name}"}

    def chosen(self, capture: PostgresDatabase) -> set[str]:
        there = self.rows(
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind IN ('r', 'p') AND NOT relispartition"
        )
        return {name for (name,) in there if capture.patterns.choose(SourceName("public", name))}

    def begin_traffic(self, seed: int) -> None:
        for table in postgres_traffic.TABLES:
            self.run(f"DROP TABLE IF EXISTS {table}, other", *postgres_traffic.creation(table))

    @contextlib.contextmanager
    def traffic(self, seed: int, *, altered: bool, pause_seconds: float = 0.005) -> Iterator[None]:
        with postgres_traffic.traffic(self.url, seed, altered=altered, pause_seconds=pause_seconds):
            yield
        for table in postgres_traffic.TABLES:  # whatever was at work when it ended
            if self.rows(f"SELECT to_regclass('{table}') IS NULL") == [(True,)]:
                renamed = self.rows("SELECT to_regclass('other') IS NOT NULL") == [(True,)]
                back = [f"ALTER TABLE other RENAME TO {table}"]
                self.run(*(back if renamed else postgres_traffic.creation(table)))

    def differences(self, lake: ts.Lake) -> list[str]:
        wrong = []
        for name in postgres_traffic.TABLES:
            columns, rows = self.table(name)
            actual = lake.table(f"ods.{name}").scan(columns=columns).to_arrow().to_pylist()
            here, there = ({row["id"]: row for row in side} for side in (actual, rows))
            lines = [f"{name}: {key}" for key in {*here, *there} if here.get(key) != there.get(key)]
            wrong += lines + [f"{name}: a key twice"] * (len(actual) != len(here))
        return wrong


@contextlib.contextmanager
def mariadb_source(server: MariaDb, checkpoint: Path) -> Iterator[MariaDbSource]:
    """A database that is gone with the block."""
    name = f"d{uuid.uuid4().hex[:12]}"
    server.run(f"CREATE DATABASE {name}")
    yield MariaDbSource(server, Address.parse(f"{server.url}/{name}"), checkpoint)
    server.run(f"DROP DATABASE {name}")


@contextlib.contextmanager
def postgres_source(server: Postgres, checkpoint: Path) -> Iterator[PostgresSource]:
    """A database that is gone with the block, and its slots."""
    name = f"capture_{uuid.uuid4().hex[:12]}"
    server.run(f"CREATE DATABASE {name}")
    server.publish(name)
    source = PostgresSource(server, name, checkpoint)
    try:
        yield source
    finally:
        source.end_captures()
        source.connection.close()
        server.run(f"DROP DATABASE {name} WITH (FORCE)")
