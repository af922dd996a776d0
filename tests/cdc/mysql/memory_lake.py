"""A database of a MariaDB, four writers over its tables, and a lake in memory that captures it."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tablestore.cdc.capture.names import Patterns, SourceName
from tablestore.cdc.capture.source import ALTERED, CAPTURED, EMPTIED, RENAMED, BadRow, TableEvent
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tests.cdc.mysql.four_writers import FourWriters
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

    def batch(self, *, repeat: bool = False, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """One batch, with its offsets as JSON and all else pickled; False where nothing is new. `repeat`: it
        is read and applied twice, as after the job was killed. `meanwhile` is done between its planning and
        each reading."""
        source = pickle.loads(pickle.dumps(self.source))
        end = json.loads(json.dumps(source.next(self.offset)))
        if end == self.offset:
            return False
        for _ in range(2 if repeat else 1):
            meanwhile()
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
            key = event.shape.primary_key
            if {*key} == {*self.keys.get(name, ())}:  # a keyed table takes columns of a key in any order
                self.rows[name] = {tuple(row[k] for k in key): row for row in self.rows[name].values()}
            self.columns[name], self.keys[name] = event.shape.names, key

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
        assert captured == {n for n in there if self.source.choice.choose(SourceName(database, n))}
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
