"""A lake in memory that captures a database."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from tablestore.cdc.capture.source import ALTERED, CAPTURED, EMPTIED, RENAMED, BadRow, TableEvent
from tests.servers.mariadb import PASSWORD

if TYPE_CHECKING:
    from tests.cdc.databases.sources import Source


class LastRowsLake:
    """Keeps the last row of each key of each table, by the names of columns, as keyed tables do."""

    def __init__(self, source: Any) -> None:
        self.source, self.offset = source, source.initial()
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {}
        self.columns: dict[str, tuple[str, ...]] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.events: list[TableEvent] = []
        self.bad: list[BadRow] = []
        self.batches = 0

    def batch(self, *, repeat: bool = False, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """One batch, with its offsets as JSON and all else pickled; False where nothing is new. `repeat`: it
        is read twice, as after a kill, and some of its tables were committed before. `meanwhile` is done
        between its planning and each reading."""
        source = pickle.loads(pickle.dumps(self.source))
        end = json.loads(json.dumps(source.next(self.offset)))
        if end == self.offset:
            return False
        r, committed = random.Random(self.batches), set[str]()
        for first in (True, False) if repeat else (False,):
            meanwhile()
            source = pickle.loads(pickle.dumps(self.source))
            events = source.events(self.offset, end)
            pieces = source.pieces(self.offset, end)
            assert not (events and pieces)
            if first == repeat:
                for event in events:
                    self.carry_out(pickle.loads(pickle.dumps(event)))
            logs = [piece for piece in pieces if piece.chunk is None]
            r.shuffle(logs)  # no key is in two of them
            chosen = {name for name in self.rows if name not in committed and (not first or r.random() < 0.5)}
            for piece in [*logs, *(piece for piece in pieces if piece.chunk is not None)]:
                self.apply(piece, chosen)
            committed |= chosen
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

    def apply(self, piece: Any, chosen: Container[str] | None = None) -> None:
        """Commit what it has, of the tables that are chosen; None: of all."""
        sent = pickle.dumps(piece)
        assert PASSWORD.encode() not in sent
        piece = pickle.loads(sent)
        for piece_rows in piece.read():
            name = piece_rows.table.table
            if chosen is not None and name not in chosen:
                continue
            if isinstance(piece_rows, BadRow):
                self.bad.append(piece_rows)
                continue
            assert piece_rows.table in piece.tables
            assert tuple(piece_rows.rows.schema.names) == self.columns[name]
            rows, key = self.rows[name], self.keys[name]
            if piece.chunk is None:
                assert piece_rows.seconds is not None
                assert min(piece_rows.seconds.to_pylist()) > 0
            for row, kind in zip(piece_rows.rows.to_pylist(), piece_rows.kinds.to_pylist(), strict=True):
                at = tuple(row[column] for column in key)
                if kind in (0, 2):
                    rows[at] = row
                elif kind == 3:
                    rows.pop(at, None)

    def catch_up(self) -> None:
        while self.batch():
            assert self.batches < 2_000

    def equals(self, source: Source) -> None:
        """Columns and values are those of the source, table by table."""
        captured = self.progress("log")
        assert captured == source.chosen(self.source)
        for name in captured:
            columns, rows = source.table(name)
            assert self.columns[name] == columns
            expected = {tuple(row[k] for k in self.keys[name]): row for row in rows}
            actual = self.rows[name]
            keys = [key for key in actual | expected if actual.get(key) != expected.get(key)]
            assert not keys, (name, [(actual.get(key), expected.get(key)) for key in keys[:5]])

    def progress(self, *states: str) -> set[str]:
        """The names of tables in one of these states."""
        tables = self.offset["tables"]  # by database, or a list with schemas
        if isinstance(tables, dict):
            tables = [(d, t, item) for d, items in tables.items() for t, item in items.items()]
        return {name for _, name, item in tables if item["state"] in states}

    def kinds(self, begin: int = 0) -> list[tuple[str, str]]:
        return [(event.kind, event.table.table) for event in self.events[begin:]]
