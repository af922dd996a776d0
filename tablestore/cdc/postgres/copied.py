"""Rows of a COPY in its text format, cut into values, which are spelled as the log spells them.

    value TAB value … LF    \\N: NULL    \\b \\f \\n \\r \\t \\v: control characters    \\ and another: that

Text costs the server half of what the binary format with casts to text costs it. While a block is used, the
next one is read by a thread. Memory: two blocks of some MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tablestore.cdc.databases.slices import PADDING, Slices, blocks

_TAB, _LF, _ESCAPE, _NULL = b"\t\n\\N"
_MEANT = np.arange(256, dtype=np.uint8)
_MEANT[np.frombuffer(b"bfnrtv", np.uint8)] = np.frombuffer(b"\b\f\n\r\t\v", np.uint8)


def copied_rows(lines: Iterable[bytes], columns: int) -> Iterator[Slices]:
    """The rows of these lines, of so many columns each, in blocks."""
    read = blocks(lines)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, read, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, read, None)
            yield cut(block, columns)


def cut(lines: list[bytes], columns: int) -> Slices:
    """The values of lines."""
    data = np.frombuffer(b"".join(lines), np.uint8)
    ends = np.flatnonzero((data == _TAB) | (data == _LF))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    escapes = np.flatnonzero(data == _ESCAPE)
    null = np.zeros(len(ends), np.bool_)
    if len(escapes):
        two = np.flatnonzero(ends - begins == 2)
        null[two] = (data[begins[two]] == _ESCAPE) & (data[begins[two] + 1] == _NULL)
        runs = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)  # where escapes in a row begin
        nth = np.arange(len(escapes)) - np.repeat(runs, np.diff(runs, append=len(escapes)))
        escapes = escapes[nth % 2 == 0]  # of two the second is what the first one means
        data = data.copy()
        data[escapes + 1] = _MEANT[data[escapes + 1]]
        data = np.delete(data, escapes)
        begins, ends = (at - np.searchsorted(escapes, at) for at in (begins, ends))
    lengths = np.where(null, -1, ends - begins)
    shape = (len(lines), max(columns, 1))
    offsets, lengths = (np.ascontiguousarray(a.reshape(shape).T[:columns]) for a in (begins, lengths))
    return Slices(np.concatenate([data, np.zeros(PADDING, np.uint8)]), len(lines), offsets, lengths)
