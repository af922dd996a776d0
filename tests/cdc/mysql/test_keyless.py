"""Tables without a primary key: each row once, whenever a chunk of it is read."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from tablestore.cdc.capture.names import APPEND, SourceName
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    EMPTIED,
    RENAMED,
    SKIPPED,
    BadRow,
    TableEvent,
    TableRows,
)
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.core.errors import Unsupported
from tests.cdc.databases.sources import MariaDbSource
from tests.cdc.databases.writers import FourWriters

COLUMNS = "(n INT, f FLOAT, d DECIMAL(12, 3), s VARCHAR(9), b VARBINARY(6), at DATETIME(3))"


class RowCounts:
    """Counts the rows of one table: +1 for what comes, −1 for what goes."""

    def __init__(self, source: MysqlDatabase, table: str) -> None:
        self.source, self.offset = source, source.initial()
        self.name = SourceName(source.address.database, table)
        self.rows: Counter[str] = Counter()
        self.events: list[TableEvent] = []

    def batch(self) -> bool:
        """One batch, whose pieces are read twice: they give the same rows each time."""
        end = json.loads(json.dumps(self.source.next(self.offset)))
        if end == self.offset:
            return False
        for event in self.source.events(self.offset, end):
            self.events.append(event)
            if event.kind == RENAMED and event.new_name is not None:
                self.name = event.new_name
            if event.kind == EMPTIED:
                self.rows.clear()
        actual = self._read(end)
        assert self._read(end) == actual
        self.rows.update(actual)
        self.offset = end
        return True

    def _read(self, end: Any) -> Counter[str]:
        collected: Counter[str] = Counter()
        for piece in self.source.pieces(self.offset, end):
            for part in piece.read():
                assert isinstance(part, TableRows)
                signs = [-1 if kind in (1, 3) else 1 for kind in part.kinds.to_pylist()]
                for row, sign in zip(part.rows.to_pylist(), signs, strict=True):
                    collected[str(row)] += sign
        return collected

    def catch_up(self) -> Counter[str]:
        while self.batch():
            pass
        assert all(n >= 0 for n in self.rows.values())
        return +self.rows


def there(source: MariaDbSource, table: str) -> Counter[str]:
    """The rows as a capture that begins now reads them."""
    return RowCounts(source.opened(table, keyless=APPEND), table).catch_up()


class Writers(FourWriters):
    """Equal rows are inserted, changed and deleted in one table."""

    def _change(self, cursor: Any, r: random.Random) -> None:
        n = r.randrange(40)
        if r.random() < 0.5:
            number = "NULL" if n % 7 == 0 else str(n)
            values = (
                f"{number}, {n / 10}, {n / 8}, REPEAT('é ', {n % 4}), UNHEX('0100'), '2024-05-06 01:02:03.4'"
            )
            cursor.execute(f"INSERT INTO t VALUES ({values}), ({values})")
        elif r.random() < 0.5:
            cursor.execute("UPDATE t SET d = d + 1 WHERE n = %s LIMIT 2", (n,))
        else:
            cursor.execute("DELETE FROM t WHERE n = %s LIMIT 1", (n,))


def test_rows_of_a_table_without_a_key_come_once_while_it_is_written(
    source: MariaDbSource, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[::5]:
        source.run(f"CREATE OR REPLACE TABLE t {COLUMNS}")
        source.run("INSERT INTO t SELECT seq % 40, 0.1, 1, 'x', 'y', NOW(3) FROM seq_1_to_20000")
        rows = RowCounts(source.opened("t", keyless=APPEND), "t")
        assert rows.batch()
        source.run("INSERT INTO t (n) VALUES (1)", "DELETE FROM t WHERE n = 2 LIMIT 1")
        with Writers(source, seed) as writers:
            for _ in range(8):
                rows.batch()
        assert writers.written > 5
        assert rows.catch_up() == there(source, "t")
        assert rows.rows.total() > 0
        assert [event.kind for event in rows.events] == [CAPTURED]


def test_a_chunk_has_the_rows_of_its_position_whenever_it_is_read(source: MariaDbSource) -> None:
    source.run(f"CREATE TABLE t {COLUMNS}", "INSERT INTO t (n, s) VALUES (1, 'a '), (1, 'a '), (2, NULL)")
    before = there(source, "t")
    rows = RowCounts(source.opened("t", keyless=APPEND), "t")
    rows.batch()
    end = rows.source.next(rows.offset)
    source.run(
        "INSERT INTO t (n, s) VALUES (1, 'a '), (3, 'c'), (3, 'c')",
        "UPDATE t SET s = 'b' WHERE n < 3",
        "DELETE FROM t WHERE s = 'b' LIMIT 1",
        "DELETE FROM t WHERE n = 3 LIMIT 1",
    )
    assert rows._read(end) == before
    assert rows.catch_up() == there(source, "t")
    assert rows.rows.total() == 4


def test_a_table_without_a_key_is_emptied_before_its_rows_are_read_again(source: MariaDbSource) -> None:
    source.run("CREATE TABLE t (n INT, s VARCHAR(5))", "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    rows = RowCounts(source.opened("*", keyless=APPEND), "t")
    assert rows.batch()
    assert rows.batch()  # its rows are read, and the log has not reached them yet
    source.run("ALTER TABLE t ADD m INT NOT NULL DEFAULT 3", "INSERT INTO t VALUES (3, 'b', 4)")
    assert rows.catch_up() == there(source, "t")
    source.run("ALTER TABLE t MODIFY s VARCHAR(3) CHARACTER SET latin1", "RENAME TABLE t TO u")
    assert rows.catch_up() == there(source, "u")
    source.run("TRUNCATE u", "INSERT INTO u VALUES (9, 'z', 9)")
    assert rows.catch_up().total() == 1
    kinds = [event.kind for event in rows.events]
    assert kinds[:3] == [CAPTURED, ALTERED, EMPTIED]
    for at, event in enumerate(rows.events):
        if event.read_again:
            assert rows.events[at + 1].kind == EMPTIED


def test_a_key_that_goes_is_noticed_where_rows_follow(source: MariaDbSource) -> None:
    """And one that comes back."""
    source.run("CREATE TABLE t (n INT PRIMARY KEY, s VARCHAR(5))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    rows = RowCounts(source.opened("*", keyless=APPEND), "t")
    rows.catch_up()
    source.run("ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, 'c')")
    assert rows.catch_up() == there(source, "t")
    assert rows.rows.total() == 5
    assert [event.kind for event in rows.events[1:]] == [ALTERED, EMPTIED]
    assert rows.events[1].shape is not None
    assert rows.events[1].shape.primary_key == ()
    source.run("DELETE FROM t WHERE s = 'a' LIMIT 2", "DELETE FROM t WHERE s = 'c'")
    source.run("ALTER TABLE t ADD PRIMARY KEY (n)", "INSERT INTO t VALUES (3, 'd')")
    rows.catch_up()
    assert rows.events[3].shape is not None
    assert rows.events[3].shape.primary_key == ("n",)


def test_without_its_checkpoint_a_table_without_a_key_begins_empty(
    source: MariaDbSource, tmp_path: Any
) -> None:
    source.run("CREATE TABLE t (n INT)", "INSERT INTO t VALUES (1), (1)")
    rows = RowCounts(source.opened("t", keyless=APPEND), "t")
    rows.catch_up()
    source.run("INSERT INTO t VALUES (2)")
    rows.source = source.opened("t", keyless=APPEND, checkpoint=str(tmp_path / "fresh"))
    assert rows.catch_up() == there(source, "t")
    assert [event.kind for event in rows.events] == [CAPTURED, ALTERED, EMPTIED]


def test_by_default_it_is_refused(source: MariaDbSource) -> None:
    source.run("CREATE TABLE t (n INT)")
    rows = RowCounts(source.opened(), "t")
    rows.batch()
    (event,) = rows.events
    assert event.kind == SKIPPED
    assert "keyless='append'" in event.reason
    with pytest.raises(Unsupported, match="has no primary key"):
        source.opened("t")
    assert not isinstance(event, BadRow)
