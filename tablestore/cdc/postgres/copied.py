"""Rows of a COPY in its text format, cut into values, which are spelled as the log spells them.

    value TAB value … LF    \\N: NULL    \\b \\f \\n \\r \\t \\v: control characters    \\ and another: that

Text costs the server half of what the binary format with casts to text costs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tablestore.cdc.databases.slices import PADDING, Slices
from tablestore.cdc.postgres.copy_rows import CopiedRows, copied
from tablestore.cdc.postgres.server import Connection

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
