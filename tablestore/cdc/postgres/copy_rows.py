"""The rows of a COPY as they come from the server, in blocks of about 1 MB, each read while the one before it
is used, and in the text format cut into values. Memory: two blocks; of a longer row, twice its bytes.

    d length 4, row in text or binary format       E length 4, fields: code 1, text NUL: an error
    Z length 4, state: the end                     others are passed over

They are read from the socket by themselves, since a call of the client for each row costs more than all that
is done with it. Where the connection is encrypted, or loops are not compiled, the client reads.

    value TAB value … LF    \\N: NULL    \\b \\f \\n \\r \\t \\v: control characters    \\ and another: that

Values are spelled as the log spells them. Text costs the server half of what the binary format with casts to
text costs it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tablestore.cdc.databases.slices import PADDING, Slices, compiled, engine
from tablestore.cdc.postgres.server import Connection, error_of_fields, own_errors
from tablestore.core.extras import required

_BLOCK_BYTES = 1 << 20  # what fits the caches of a processor is cut several times faster
_HEAD_BYTES = 5  # of a message: its code, and how many bytes follow the code
_ERROR, _END = b"EZ"
_SIGNATURE, _SIGNATURE_BYTES = b"P"[0], 19  # in front of the first row in binary format
_LEAST_TEXT, _LEAST_BINARY = 1, 3  # bytes of a row; the end of the binary format has two
_SILENT_SECONDS = 86_400  # of a server whose machine answers


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Rows in `data`, up to `end`: each begins at its place in `starts`. In front of it there may be bytes
    that are no row's, and none of them is TAB or LF. `data` has PADDING bytes more, and is the owner's to
    change."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    end: int

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Self:
        """Rows that are one object each."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ends = np.cumsum(lengths)
        data = np.frombuffer(bytearray().join([*rows, bytes(PADDING)]), np.uint8)
        return cls(data, ends - lengths, len(data) - PADDING)


def copied(
    connection: Connection, query: str, values: Sequence[Any] = (), *, binary: bool = False
) -> Iterator[CopiedRows]:
    """The rows of a query, in the format of text, or in that of binary: int16 columns, then of each its
    length int32 (−1: NULL) and its bytes; big-endian. A connection whose rows are not all read is closed."""
    statement = f"COPY ({query}) TO STDOUT" + (" (FORMAT binary)" if binary else "")
    by_client = connection.raw.pgconn.ssl_in_use or engine() == "python"
    read_all = _read_by_client if by_client else _read_from_socket
    read = read_all(connection, statement, values, _LEAST_BINARY if binary else _LEAST_TEXT)
    try:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(next, read, None)
            while (rows := coming.result()) is not None:
                coming = pool.submit(next, read, None)
                if binary:
                    rows = _without_signature(rows)
                if len(rows.starts):
                    yield rows
    finally:
        read.close()


def _without_signature(rows: CopiedRows) -> CopiedRows:
    """The rows without what the format begins with, which may be in front of the first, or of the
    format's end, or alone."""
    starts = rows.starts
    if len(starts) and rows.data[starts[0]] == _SIGNATURE:
        at = int(starts[0]) + _SIGNATURE_BYTES
        columns = int.from_bytes(rows.data[at : at + 2].tobytes(), "big", signed=True)
        follows = at < (starts[1] if len(starts) > 1 else rows.end) and columns > 0
        starts = np.concatenate([np.full(int(follows), at), starts[1:]])
    return CopiedRows(rows.data, starts, rows.end)


def _read_by_client(
    connection: Connection, statement: str, values: Sequence[Any], least: int
) -> Generator[CopiedRows, None, None]:
    with (
        own_errors(connection.address),
        connection.raw.cursor() as cursor,
        cursor.copy(statement, tuple(values)) as copy,
    ):
        yield from map(CopiedRows.of, _blocks(row for row in map(bytes, copy) if len(row) >= least))


def _blocks(rows: Iterable[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for row in rows:
        block.append(row)
        size += len(row)
        if size > _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _read_from_socket(
    connection: Connection, statement: str, values: Sequence[Any], least: int
) -> Generator[CopiedRows, None, None]:
    psycopg = required("psycopg", by="a PostgreSQL source")
    text = psycopg.ClientCursor(connection.raw).mogrify(statement, tuple(values)).encode() + b"\0"
    ended = False
    try:
        with (
            own_errors(connection.address),
            socket.socket(fileno=os.dup(connection.raw.pgconn.socket)) as server,
        ):
            server.settimeout(_SILENT_SECONDS)  # with any the socket stays as the client needs it
            try:
                server.sendall(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
                error = yield from _received(server, least)
            except OSError as e:
                raise psycopg.OperationalError(f"the connection was lost: {e}") from None
            ended = True
            if error:
                raise error_of_fields(error[b"C"], error[b"M"])
    finally:
        if not ended:
            connection.raw.close()


def _received(server: socket.socket, least: int) -> Generator[CopiedRows, None, Mapping[bytes, str]]:
    """Rows up to the end; then the error of the server by codes of its fields, empty without one."""
    data, size = np.empty(_BLOCK_BYTES + PADDING, np.uint8), 0
    error: Mapping[bytes, str] = {}
    while True:
        starts = np.empty(len(data) // _HEAD_BYTES, np.int64)
        rows = at = 0
        while size < len(data) - PADDING:
            received = server.recv_into(data.data[size:-PADDING])
            if not received:
                if error:
                    return error
                raise ConnectionError("the server closed it")
            size += received
            rows, at = compiled(walk)(data, at, size, least, starts, rows)
            while at < size and data[at] in (_ERROR, _END) and at + _bytes_of_message(data[at:size]) <= size:
                message = data[at : at + _bytes_of_message(data[at:size])].tobytes()
                if message[0] == _END:
                    yield CopiedRows(data, starts[:rows], at)
                    return error
                fields = message[_HEAD_BYTES:].split(b"\0")
                error = {field[:1]: field[1:].decode(errors="replace") for field in fields if field}
                data[at : at + len(message)] = 0
                rows, at = compiled(walk)(data, at + len(message), size, least, starts, rows)
        yield CopiedRows(data, starts[:rows], at)
        rest = data[at:size]
        data = np.empty(max(_BLOCK_BYTES, _bytes_of_message(rest)) + PADDING, np.uint8)
        size = len(rest)
        data[:size] = rest


def _bytes_of_message(data: npt.NDArray[np.uint8]) -> int:
    """How long the message is that these are the first bytes of."""
    return 1 + int.from_bytes(data[1:_HEAD_BYTES].tobytes().ljust(4, b"\0"), "big")


def walk(data: Any, at: Any, size: Any, least: Any, starts: Any, rows: Any) -> Any:
    """(how many rows lie whole before `size`, where what is behind them begins: an error, the end, or a
    message that is not all there). What is not a row's becomes zero. For Python and numba."""
    while at + 5 <= size and data[at] != 69 and data[at] != 90:
        length = 0
        for i in range(1, 5):
            length = length * 256 + int(data[at + i])
        if at + 1 + length > size:
            break
        behind = at + 1 + length
        if data[at] == 100 and length >= 4 + least:
            starts[rows] = at + 5
            rows += 1
            behind = at + 5
        for i in range(at, behind):
            data[i] = 0
        at += 1 + length
    return rows, at


_TAB, _LF, _ESCAPE, _NULL = b"\t\n\\N"
_MEANT = np.arange(256, dtype=np.uint8)
_MEANT[np.frombuffer(b"bfnrtv", np.uint8)] = np.frombuffer(b"\b\f\n\r\t\v", np.uint8)


def values_of(
    connection: Connection, query: str, columns: int, values: Sequence[Any] = ()
) -> Iterator[Slices]:
    """The rows of a query of so many columns, in blocks. The connection is closed where not all are read."""
    for rows in copied(connection, query, values):
        yield cut(rows, columns)


def cut(rows: CopiedRows, columns: int) -> Slices:
    """The values of rows."""
    data = rows.data[: rows.end]
    ends = np.flatnonzero((data == _TAB) | (data == _LF))
    begins = np.empty_like(ends)
    begins[1:] = ends[:-1] + 1
    begins[:: max(columns, 1)] = rows.starts
    null = np.zeros(len(ends), np.bool_)
    escapes = np.flatnonzero(data == _ESCAPE)
    if len(escapes):
        two = np.flatnonzero(ends - begins == 2)
        null[two] = (data[begins[two]] == _ESCAPE) & (data[begins[two] + 1] == _NULL)
        data[begins[null]] = 0
        escapes = escapes[data[escapes] == _ESCAPE]
    if len(escapes):
        runs = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)  # where escapes in a row begin
        nth = np.arange(len(escapes)) - np.repeat(runs, np.diff(runs, append=len(escapes)))
        escapes = escapes[nth % 2 == 0]  # of two the second is what the first one means
        data[escapes + 1] = _MEANT[data[escapes + 1]]
        data = np.concatenate([np.delete(data, escapes), np.zeros(PADDING, np.uint8)])
        begins, ends = (at - np.searchsorted(escapes, at) for at in (begins, ends))
    else:
        data = rows.data
    lengths = np.where(null, -1, ends - begins)
    shape = (len(rows.starts), max(columns, 1))
    offsets, lengths = (np.ascontiguousarray(a.reshape(shape).T[:columns]) for a in (begins, lengths))
    return Slices(data, len(rows.starts), offsets, lengths)
