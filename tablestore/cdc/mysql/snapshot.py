"""Rows of a key range as of a known position in the binlog, as Arrow batches.

A chunk is a range of the first column of the primary key. The server compares keys, here bounds are only
carried, so collations and trailing blanks need no twin. The position of a read is that of its read view: a
position asked for before (SHOW MASTER STATUS) may be ahead of what the view shows, since a transaction is in
the binlog before others see it, and whoever goes on from there misses its rows for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.cdc.databases.slices import PADDING
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable, quoted
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.row_slices import BIG, END, FULL, RowSlicer
from tablestore.cdc.mysql.server import Connection, Dialect, own_errors
from tablestore.cdc.mysql.values import text_batch
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable, Unsupported
from tablestore.core.extras import required

Key = int | str
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_LEAST_ESTIMATED = 20_000  # rows of a range that are not counted
_OFF = 4  # times too many or too few rows that a range may seem to have
_NUMERIC = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"}
_TEXTUAL = {"char", "varchar", "date", "datetime", "timestamp", "uuid", "inet4", "inet6"}
_BINARY = {"binary", "varbinary"}
_BUFFER_BYTES, _BATCH_ROWS = 4 << 20, 65_536
_ONE_PACKET = 0xFFFFFF
_QUERY = 3  # COM_QUERY


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows whose key is above `low` and not above `high`; None: without that end. Bounds are numbers, or text
    as the server writes the key (bytes as hexadecimal digits)."""

    low: Key | None = None
    high: Key | None = None


def chunk_key(table: SourceTable) -> SourceColumn | None:
    """The column by which a table is read in ranges; None: only whole, for want of a key that has ranges."""
    if not table.primary_key:
        return None
    column = table.column(table.primary_key[0])
    return column if column.kind in _NUMERIC | _TEXTUAL | _BINARY else None


def next_range(connection: Connection, table: SourceTable, low: Key | None, rows: int) -> KeyRange:
    """The range of about so many rows above `low`; without `high` if it is the last."""
    column = chunk_key(table)
    if column is None:
        if low is not None:
            raise InvalidRequest(f"{table} has no key by which it is read in ranges")
        return KeyRange()
    key = quoted(column.name)
    if column.kind in _INTEGERS and rows >= _LEAST_ESTIMATED:
        estimated = _estimated_range(connection, table, key, low, rows)
        if estimated is not None:
            return estimated
    shown = f"HEX({key})" if column.kind in _BINARY else key
    where = _where(column, KeyRange(low))
    if low is None and column.nullable:
        where = f" WHERE {key} IS NOT NULL"
    # One row more than wanted, so that the last range is known to be the last.
    rows = max(1, int(rows))
    statement = f"SELECT {shown} FROM {table.spelled}{where} ORDER BY {key} LIMIT 2 OFFSET {rows - 1}"
    bounds = connection.rows(statement)
    return KeyRange(low, _bound(column, bounds[0][0]) if len(bounds) > 1 else None)


def _estimated_range(
    connection: Connection, table: SourceTable, key: str, low: Key | None, rows: int
) -> KeyRange | None:
    """A range as if the keys of the table were evenly spread, unless its index says that there are far more
    rows in it, or fewer: to find the exact key of a row, the server counts those before it."""
    ends = connection.rows(f"SELECT MIN({key}), MAX({key}) FROM {table.spelled}")[0]
    all_rows = connection.rows(
        "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        *(table.database, table.name),
    )[0][0]
    if ends[0] is None or not all_rows:
        return None
    least, most = int(ends[0]), int(ends[1])
    after = least - 1 if low is None else int(low)
    high = after + max(1, (most - least + 1) * rows // all_rows)
    inside = _estimated_rows(connection, table, f"{key} > {after} AND {key} <= {min(high, most)}")
    if inside is None or inside > _OFF * rows or (high < most and inside * _OFF < rows):
        return None
    if 2 * inside > 0.9 * all_rows and 2 * rows < all_rows:
        return None  # InnoDB says half of all for whatever is more
    return KeyRange(low, high if high < most else None)


def _estimated_rows(connection: Connection, table: SourceTable, condition: str) -> int | None:
    """About how many rows an index says there are; None where no index is used."""
    plan = connection.named(f"EXPLAIN SELECT 1 FROM {table.spelled} WHERE {condition}")
    usable = len(plan) == 1 and plan[0].get("type") == "range" and plan[0].get("rows")
    return int(plan[0]["rows"]) if usable else None


def ranges(connection: Connection, table: SourceTable, rows: int) -> Iterator[KeyRange]:
    """All ranges of a table in key order, planned one after the other."""
    keys = next_range(connection, table, None, rows)
    yield keys
    while keys.high is not None:
        keys = next_range(connection, table, keys.high, rows)
        yield keys


@contextlib.contextmanager
def read_view(
    connection: Connection,
    dialect: Dialect,
    *,
    at_least: LogPosition | None = None,
    by_gtid: bool = False,
    patience_seconds: float = 60,
    env: Env = SYSTEM,
) -> Iterator[LogPosition]:
    """A read view on the connection while the block runs, and its position: at or after `at_least`, which may
    be of another server of the replication (`by_gtid`).

    Raises Unavailable if the server does not get there.
    """
    end = env.monotonic() + patience_seconds
    while True:
        position = dialect.read_view(connection)
        if at_least is None or (position.includes if by_gtid else position.reaches)(at_least):
            break
        connection.run("COMMIT")
        if env.monotonic() > end:
            raise Unavailable(f"{connection.address}: a read view stays at {position}, before {at_least}")
        env.sleep(0.005)
    try:
        yield position
    finally:
        with contextlib.suppress(Unavailable):
            connection.run("COMMIT")


def read_range(
    connection: Connection, table: SourceTable, keys: KeyRange | None = None, *, any_key: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of the range in the connection's read view, in batches of a few MB. The connection does
    nothing else until the last one; it is closed if the reader stops before. `any_key`: rows with NULL in the
    key, too. Raises Corrupt if the server has other rows than came."""
    schema = table.schema
    columns = ", ".join(column.selected for column in table.columns)
    column = chunk_key(table)
    where = _where(column, keys) if column is not None and keys is not None else ""
    # FOUND_ROWS is then the number of rows that there are, though a limit or a proxy leaves some out.
    statement = f"SELECT SQL_CALC_FOUND_ROWS {columns} FROM {table.spelled}{where}"
    whole, rows = False, 0
    try:
        with own_errors(connection.address):
            raw = connection.raw
            raw._execute_command(_QUERY, statement.encode())
            fields = raw._read_packet().read_length_encoded_integer()
            for _ in range(fields + 1):  # their descriptions, and an EOF packet
                raw._read_packet()
            for slices in _slices(raw, fields):
                rows += slices.rows
                yield text_batch(slices, table.columns, schema, any_key=any_key)
        there = int(connection.rows("SELECT FOUND_ROWS()")[0][0])
        if there != rows:
            raise Corrupt(f"{connection.address}", f"{there} rows of {table} are there, {rows} came")
        whole = True
    finally:
        if not whole:
            connection.close()


def _slices(raw: Any, columns: int) -> Iterator[Any]:
    """Rows until the end of the result, each batch valid until the next. The stream is read as it comes,
    without a call for each packet."""
    stream = raw._rfile
    cutter = RowSlicer(columns, _BATCH_ROWS)
    data, begin, end = bytearray(_BUFFER_BYTES + PADDING), 0, 0
    while True:
        at, why = cutter.cut(data, begin, end)
        begin = at
        if why in (END, FULL, BIG) or end == len(data) - PADDING:
            if cutter.rows:
                yield cutter.taken(data)
            if why == END:
                _end(raw, bytes(data[begin:end]), stream)
                return
            if why == BIG:
                row, rest = _joined(stream, data[begin:end])
                end_of_row = len(row)
                row += bytes(PADDING)
                cutter.cut(row, 0, end_of_row, joined=True)
                yield cutter.taken(row)
                data[: len(rest)] = rest
                begin, end = 0, len(rest)
                continue
            rest = data[begin:end]
            wanted = max(_BUFFER_BYTES, 2 * len(rest)) + PADDING
            if not wanted <= len(data) <= 2 * wanted:
                data = bytearray(wanted)
            data[: len(rest)] = rest
            begin, end = 0, len(rest)
            if why == FULL:
                continue
        end += _filled(stream, data, end)


def _filled(stream: Any, data: bytearray, end: int) -> int:
    received = stream.read1(len(data) - PADDING - end)  # readinto1 would wait for more than is there
    if not received:
        raise OSError("the connection ended in the middle of a result")
    data[end : end + len(received)] = received
    return len(received)


def _joined(stream: Any, start: bytearray) -> tuple[bytearray, bytearray]:
    """(header and value of a row of several packets, what came after it)."""
    row, rest = bytearray(start[:4]), start
    while True:
        while len(rest) < 4:
            rest += stream.read(4 - len(rest))
        size = int.from_bytes(rest[:3], "little")
        if len(rest) < 4 + size:
            rest += stream.read(4 + size - len(rest))
        if len(rest) < 4 + size:
            raise OSError("the connection ended in the middle of a row")
        row += rest[4 : 4 + size]
        rest = rest[4 + size :]
        if size < _ONE_PACKET:
            return row, rest


def _end(raw: Any, tail: bytes, stream: Any) -> None:
    """Read what is left of the last packet; raises what the server says if it is an error."""
    while len(tail) < 4:
        tail += stream.read(4 - len(tail))
    size = int.from_bytes(tail[:3], "little")
    tail += stream.read(max(0, 4 + size - len(tail)))
    if tail[4] == 0xFF:
        required("pymysql.protocol", by="a MySQL or MariaDB source").MysqlPacket(
            tail[4:], raw.encoding
        ).raise_for_error()


def _where(column: SourceColumn, keys: KeyRange) -> str:
    key = quoted(column.name)
    ends = [(">", keys.low), ("<=", keys.high)]
    conditions = [f"{key} {sign} {_literal(column, bound)}" for sign, bound in ends if bound is not None]
    if keys.low is None and keys.high is not None and column.nullable:
        conditions = [f"({conditions[0]} OR {key} IS NULL)"]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _bound(column: SourceColumn, value: Any) -> Key:
    return value if isinstance(value, int) else str(value)


def _literal(column: SourceColumn, bound: Key) -> str:
    """A bound as the server reads it back, whatever is in it."""
    if column.kind in _NUMERIC:
        text = str(bound)
        if not text.lstrip("-").replace(".", "", 1).isdigit():
            raise InvalidRequest(f"{bound!r} is no bound of {column.name!r}")
        return text
    if column.kind in _BINARY:
        return f"X'{bytes.fromhex(str(bound)).hex()}'"
    if column.kind in _TEXTUAL:
        return f"_utf8mb4 X'{str(bound).encode().hex()}'"
    raise Unsupported(f"ranges of {column.name!r} of type {column.spelled}")
