"""Rows of MySQL, text or row images, cut into values.

    text rows    packets: length uint24 LE, number uint8, then a value each: length (1, 3, 4 or 9 bytes;
                 251 is NULL), bytes. The last packet is EOF (254 and less than 8 bytes more) or error (255)
    row images   a bitmap of NULLs, then a value each: of fixed width, or length (1 to 4 bytes LE), bytes

These two loops are all that goes value by value; what a value means is worked out by columns (`values`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tablestore.cdc.databases.slices import Slices, compiled, engine

MORE, END, BIG, FULL = 0, 1, 2, 3  # why the cutting of text rows stopped


class RowSlicer:
    """Cuts rows of the text protocol out of a buffer that is filled piece by piece."""

    def __init__(self, columns: int, capacity: int) -> None:
        self._columns, self._capacity = columns, capacity
        self._offsets, self._lengths = _space(columns * capacity)
        self.rows = 0

    def cut(self, data: bytearray, start: int, end: int, *, joined: bool = False) -> tuple[int, int]:
        """(the first byte not yet cut, why it stopped) after as many rows of data[start:end] as are whole.

        BIG: a row of several packets stands there; once they are joined behind the first one's header it is
        cut with `joined`.
        """
        columns, capacity = self._columns, self._capacity
        stopped = compiled(cut_text_rows)(
            _readable(data), start, end, columns, capacity, self.rows, joined, self._offsets, self._lengths
        )
        self.rows, at, why = (int(n) for n in stopped)
        return at, why

    def taken(self, data: bytearray) -> Slices:
        """The rows cut so far, valid until more are cut; the next ones start a new batch."""
        rows, self.rows = self.rows, 0
        shape = (self._columns, self._capacity)
        offsets, lengths = (
            np.asarray(part, np.int64).reshape(shape)[:, :rows] for part in (self._offsets, self._lengths)
        )
        return Slices(np.frombuffer(data, np.uint8), rows, offsets, lengths)


def cut_images(
    data: bytearray,
    starts: list[int],
    ends: list[int],
    kinds: list[tuple[int, int]],
    widths: list[int],
    capacity: int,
) -> Any:
    """Batches of (slices, row kinds, event of each row) of the row images in data[starts[i]:ends[i]].

    `kinds[i]`: the row kinds of the images of event i by turns (of an UPDATE, before and after), which are
    never parted. `widths[c]`: bytes of a value, or −n where its length comes first in n bytes. `data` has
    PADDING bytes at its end. Raises ValueError where images do not end with their event.
    """
    columns = len(widths)
    capacity = max(2, capacity)
    readable = _readable(data)
    arrays = [_ints(part) for part in (starts, ends, [k for pair in kinds for k in pair], widths)]
    event, at = 0, -1
    while event < len(starts):
        offsets, lengths = _space(columns * capacity)
        row_kinds, row_events = _space(capacity)
        cuts = compiled(cut_row_images)(
            readable, *arrays, event, at, columns, capacity, offsets, lengths, row_kinds, row_events
        )
        rows, event, at = (int(n) for n in cuts)
        if rows < 0:
            raise ValueError(f"the images of row event {event} end elsewhere than it does")
        if rows:
            cut = [np.asarray(p, np.int64).reshape(columns, capacity)[:, :rows] for p in (offsets, lengths)]
            yield (
                Slices(np.frombuffer(data, np.uint8), rows, *cut),
                np.asarray(row_kinds, np.int8)[:rows],
                np.asarray(row_events, np.int64)[:rows],
            )


def _readable(data: bytearray) -> Any:
    return data if engine() == "python" else np.frombuffer(data, np.uint8)


def _ints(values: list[int]) -> Any:
    return values if engine() == "python" else np.array(values, np.int64)


def _space(size: int) -> tuple[Any, Any]:
    if engine() == "python":
        return [0] * size, [0] * size
    return np.zeros(size, np.int64), np.zeros(size, np.int64)


def cut_text_rows(
    data: Any,
    start: Any,
    end: Any,
    columns: Any,
    capacity: Any,
    row: Any,
    joined: Any,
    offsets: Any,
    lengths: Any,
) -> Any:
    """(rows, first byte not cut, why it stopped); for Python and numba alike."""
    at = start
    while True:
        if at + 5 > end:
            return row, at, 0
        size = data[at] + data[at + 1] * 256 + data[at + 2] * 65536
        if size == 0xFFFFFF and not joined:
            return row, at, 2
        if not joined and at + 4 + size > end:
            return row, at, 0
        first = data[at + 4]
        if (first == 254 and size < 9) or first == 255:
            return row, at, 1
        if row == capacity:
            return row, at, 3
        p = at + 4
        slot = row
        for _ in range(columns):
            n = data[p] + 0
            p += 1
            if n == 251:
                n = -1
            elif n > 251:
                width = 2 if n == 252 else (3 if n == 253 else 8)
                n = 0
                scale = 1
                for i in range(width if width < 8 else 7):
                    n += data[p + i] * scale
                    scale *= 256
                p += width
            offsets[slot] = p
            lengths[slot] = n
            if n > 0:
                p += n
            slot += capacity
        at = end if joined else at + 4 + size
        row += 1


def cut_row_images(
    data: Any,
    starts: Any,
    ends: Any,
    kinds: Any,
    widths: Any,
    event: Any,
    at: Any,
    columns: Any,
    capacity: Any,
    offsets: Any,
    lengths: Any,
    row_kinds: Any,
    row_events: Any,
) -> Any:
    """(rows, event, first byte not cut or −1 for the event's start); rows −1 for images that do not end with
    their event. For Python and numba alike."""
    bitmap = (columns + 7) // 8
    row = 0
    while event < len(starts):
        if at < 0:
            at = starts[event]
        stop, turn = ends[event], 0
        while at < stop:
            if turn == 0 and row + 2 > capacity:
                return row, event, at
            nulls, slot = at, row
            at += bitmap
            for c in range(columns):
                width = widths[c]
                offsets[slot] = at
                if (data[nulls + c // 8] >> (c % 8)) & 1:
                    lengths[slot] = -1
                elif width >= 0:
                    lengths[slot] = width
                    at += width
                else:
                    n = data[at] + 0
                    if width < -1:
                        n += data[at + 1] * 256
                    if width < -2:
                        n += data[at + 2] * 65536
                    if width < -3:
                        n += data[at + 3] * 16777216
                    at -= width
                    offsets[slot] = at
                    lengths[slot] = n
                    at += n
                slot += capacity
            row_kinds[row] = kinds[2 * event + turn]
            row_events[row] = event
            turn = 1 - turn
            row += 1
            if at > stop:
                return -1, event, at
        if turn == 1 and kinds[2 * event] != kinds[2 * event + 1]:
            return -1, event, at
        at = -1
        event += 1
    return row, event, at
