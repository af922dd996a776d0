"""The race between the binlog and a SELECT, as an experiment: how many rows a reader misses for ever.

A reader reads a part of a table and then follows the binlog from a position. The textbook asks for the end of
the binlog first (SHOW MASTER STATUS) and selects then. But a transaction is in the binlog before others see
it: the position is ahead of what the SELECT sees, and the rows between them come neither way. Ours takes the
position of the read view itself. Both read alternately, under the same writers.

What is lost is counted without either of them: each writer asks the server for the GTID of its transaction;
a row is lost by a read that did not see it although its transaction is at or before the position.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from notebooks.demo.mariadb import MariaDb
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.binlog import RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import read_view

DATABASE, TABLE = "race", "payments"
TEXTBOOK, OURS = "position, then SELECT", "position of the read view"
_NEWEST = 2_000  # keys below the newest that a read covers: the last range of a snapshot


@dataclass(frozen=True, slots=True)
class Read:
    """The keys above `low` that a reader saw, and the position from which it would follow."""

    reader: str
    position: LogPosition
    low: int
    keys: frozenset[int]


@dataclass(slots=True)
class Race:
    """What was written (the number of each row's transaction by its key), and all reads."""

    written: dict[int, int] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)

    def lost(self, read: Read) -> frozenset[int]:
        """Keys in its range that it did not see and that the log behind its position does not have."""
        end = _number(read.position.gtid)
        there = {key for key, number in self.written.items() if key > read.low and number <= end}
        return frozenset(there - read.keys)

    def to_arrow(self) -> pa.Table:
        """A row a reader: reads, reads that lost rows, rows lost, and the most of one read."""
        rows = []
        for reader in (TEXTBOOK, OURS):
            lost = [len(self.lost(read)) for read in self.reads if read.reader == reader]
            counts = {"reads": len(lost), "reads_that_lost": sum(map(bool, lost))}
            rows.append({"reader": reader, **counts, "rows_lost": sum(lost), "most": max(lost, default=0)})
        return pa.Table.from_pylist(rows)

    def worst(self) -> Read | None:
        """The read that lost most; None if none did."""
        worst = max(self.reads, key=lambda read: len(self.lost(read)), default=None)
        return worst if worst is not None and self.lost(worst) else None

    def __str__(self) -> str:
        lines = [f"{len(self.written):,} transactions of one row each"]
        for row in self.to_arrow().to_pylist():
            share = 100 * row["reads_that_lost"] / max(row["reads"], 1)
            lines.append(
                f"{row['reader']:<26} {row['reads']:>6,} reads, {share:>3.0f} % lost rows, "
                f"{row['rows_lost']:,} rows lost, at most {row['most']} in one read"
            )
        return "\n".join(lines)


def run(server: MariaDb, address: Address, *, seconds: float = 5.0, writers: int = 4) -> Race:
    """Write and read for so long. The server should write its log durably (`mariadb.DURABLE`), as one that
    matters does: then the log is ahead for as long as a disk takes. `address` is of a user who may read."""
    columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, writer INT NOT NULL"
    server.run(
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"CREATE OR REPLACE TABLE {DATABASE}.{TABLE} ({columns})",
    )
    race, stop, failed = Race(), threading.Event(), list[BaseException]()

    def guarded(work: Any, *values: Any) -> None:
        try:
            work(*values)
        except BaseException as error:  # raised by who waits
            failed.append(error)
            stop.set()

    def write(number: int) -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(f"INSERT INTO {DATABASE}.{TABLE} (writer) VALUES ({number})")
                key = cursor.lastrowid
                cursor.execute("SELECT @@last_gtid")
                race.written[key] = _number(cursor.fetchone()[0])

    threads = [threading.Thread(target=guarded, args=(write, n), daemon=True) for n in range(writers)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    try:
        with Connection.open(address) as connection:
            while time.monotonic() < until and not stop.is_set():
                race.reads += [_textbook(connection), _ours(connection)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    return race


def _textbook(connection: Connection) -> Read:
    low = _low(connection)
    ((file, offset, *_),) = connection.rows("SHOW MASTER STATUS")
    keys = _keys(connection, low)
    ((gtid,),) = connection.rows("SELECT BINLOG_GTID_POS(%s, %s)", file, offset)
    return Read(TEXTBOOK, LogPosition(file, int(offset), gtid), low, keys)


def _ours(connection: Connection) -> Read:
    low = _low(connection)
    with read_view(connection, dialect_of(connection)) as position:
        return Read(OURS, position, low, _keys(connection, low))


def _low(connection: Connection) -> int:
    ((newest,),) = connection.rows(f"SELECT COALESCE(MAX(id), 0) FROM {DATABASE}.{TABLE}")
    return max(int(newest) - _NEWEST, 0)


def _keys(connection: Connection, low: int) -> frozenset[int]:
    return frozenset(key for (key,) in connection.rows(f"SELECT id FROM {DATABASE}.{TABLE} WHERE id > {low}"))


def _number(gtid: str) -> int:
    """The number of a transaction in its domain; 0 without one."""
    return int(gtid.rpartition("-")[2] or 0)


def keys_in_log(address: Address, read: Read) -> frozenset[int]:
    """The keys that really come when the log is followed from the position of a read to its end."""
    with Connection.open(address) as connection:
        table = SourceTable.read(connection, DATABASE, TABLE)
        end = dialect_of(connection).position(connection)
    changes = read_log(address, [table], start=read.position, until=end)
    images = [change.batch["id"] for change in changes if isinstance(change, RowImages)]
    return frozenset(key for column in images for key in column.to_pylist())
