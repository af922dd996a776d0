"""Rows as a server sends them, cut into values: where in the bytes the value of each row and column lies.

Loops that go value by value are compiled where numba is installed, else Python runs the same lines, and
reading takes some five times as long: `engine()` says which. What a value means is worked out by columns.

Columns of digits in the text protocol are read where they lie, where numba compiles the loops: integers,
decimals of up to 18 digits, dates. Without numba Arrow's casts read copies of them.

    integer   [-]digits      decimal   [-]digits.digits, as many behind the point as its scale      NULL: 0
    date      YYYY-MM-DD

A column in which a value is otherwise (more digits, an impossible date) is not read so.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tablestore.core.extras import available

log = logging.getLogger(__name__)

PADDING = 64  # bytes after the data, so that any part of a value (or NULL) at their end can be read in eights
Ints = npt.NDArray[Any]


@dataclass(frozen=True)
class Slices:
    """The values of `rows` rows: `offsets[c][r]` and `lengths[c][r]` in `data`, length −1 for NULL.

    Down a column offsets rise. `data` has PADDING bytes more than the values need.
    """

    data: npt.NDArray[np.uint8]
    rows: int
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def taken(self, rows: npt.NDArray[np.bool_]) -> Slices:
        """Some of the rows."""
        return Slices(self.data, int(rows.sum()), self.offsets[:, rows], self.lengths[:, rows])

    def nulls(self, c: int) -> npt.NDArray[np.bool_]:
        """Where column c is NULL."""
        return self.lengths[c] < 0

    def numbers(self, c: int, dtype: str, skip: int = 0) -> Ints:
        """The fixed-width number at `skip` bytes from the start of each value; anything for NULL."""
        size = np.dtype(dtype).itemsize
        everywhere = np.ndarray((len(self.data) - size + 1,), dtype, self.data, strides=(1,))
        return np.asarray(everywhere[self.offsets[c] + skip])

    def binary(self, c: int) -> pa.Array:
        """The values as they are, of Arrow's type binary."""
        begins, lengths = self.offsets[c], self.lengths[c]
        if engine() == "numba":
            return self._copied(begins, lengths)
        edges = np.empty(2 * self.rows + 1, np.int32)  # each value, and what lies between it and the next
        edges[:-1:2] = begins
        edges[1::2] = begins + np.maximum(lengths, 0)
        edges[-1] = edges[-2] if self.rows else 0
        both = pa.Array.from_buffers(
            pa.binary(), 2 * self.rows, [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        )
        wanted = np.arange(0, 2 * self.rows, 2, dtype=np.int32)
        return both.take(pa.array(wanted, mask=lengths < 0))

    def _copied(self, begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> pa.Array:
        sizes = np.maximum(lengths, 0)
        edges = np.zeros(self.rows + 1, np.int32)
        np.cumsum(sizes, out=edges[1:])
        values = np.empty(edges[-1], np.uint8)
        compiled(copy_values)(self.data, begins, sizes, edges, values)
        null = lengths < 0
        valid = pa.array(~null).buffers()[1] if null.any() else None
        return pa.Array.from_buffers(
            pa.binary(), self.rows, [valid, pa.py_buffer(edges), pa.py_buffer(values)]
        )


def engine() -> str:
    """What runs the loops over values: numba or python."""
    return "python" if available("numba") is None else "numba"


@functools.cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as numba compiles it, where it is installed, else as it is. What is compiled is kept on the
    disk, unless neither the package's folder nor a home can be written: then each process compiles."""
    numba = available("numba")
    log.info("%s runs in %s", loop.__name__, engine())
    if numba is None:
        return loop
    try:
        return numba.njit(cache=True, nogil=True)(loop)
    except RuntimeError as e:  # numba's error where it has no folder for it
        log.info("%s is compiled by each process: %s", loop.__name__, e)
        return numba.njit(nogil=True)(loop)


def copy_values(data: Any, begins: Any, sizes: Any, edges: Any, values: Any) -> None:
    """Copy values, one behind the other, to where their edges are."""
    for r in range(len(begins)):
        at, to = begins[r], edges[r]
        for i in range(sizes[r]):
            values[to + i] = data[at + i]


_MOST_DIGITS = 18  # that always fit 64 bits
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


def digit_column(slices: Slices, c: int, type_: pa.DataType) -> pa.Array | None:
    """Column c as an integer, decimal or date type; None where it cannot be read here."""
    if engine() != "numba" or not slices.rows:
        return None
    offsets, lengths = slices.offsets[c], slices.lengths[c]
    if pa.types.is_decimal(type_):
        values: Any = np.empty((slices.rows, 2), np.int64)
        read = compiled(decimals)(slices.data, offsets, lengths, type_.scale, values)
    elif pa.types.is_date32(type_):
        values = np.empty(slices.rows, np.int32)
        read = compiled(days)(slices.data, offsets, lengths, _DAYS, values)
    elif pa.types.is_signed_integer(type_):
        values = np.empty(slices.rows, type_.to_pandas_dtype())
        read = compiled(integers)(slices.data, offsets, lengths, values)
    else:
        return None
    if not read:
        return None
    nulls = slices.nulls(c)
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(type_, slices.rows, [valid, pa.py_buffer(values)])


def integers(data: Any, offsets: Any, lengths: Any, values: Any) -> Any:
    """Whether all values are integers; they are in `values`."""
    for r in range(len(offsets)):
        at = offsets[r]
        end = at + lengths[r]
        negative = lengths[r] > 0 and data[at] == 45
        if negative:
            at += 1
        if end - at > _MOST_DIGITS or lengths[r] == 0 or (negative and at == end):
            return False
        value = 0
        while at < end:
            digit = data[at] - 48 if data[at] >= 48 else 10
            if digit > 9:
                return False
            value = value * 10 + digit
            at += 1
        values[r] = -value if negative else value
    return True


def decimals(data: Any, offsets: Any, lengths: Any, scale: Any, values: Any) -> Any:
    """Whether all values are decimals of this scale; they are in `values`, as 128 bits."""
    for r in range(len(offsets)):
        at = offsets[r]
        end = at + lengths[r]
        if lengths[r] < 0:
            values[r, 0] = 0
            values[r, 1] = 0
            continue
        negative = lengths[r] > 0 and data[at] == 45
        if negative:
            at += 1
        point = end - scale - 1 if scale else end
        digits = end - at - (1 if scale else 0)
        if digits < 1 or digits > _MOST_DIGITS or point < at:
            return False
        value = 0
        while at < end:
            if at == point:
                if data[at] != 46:
                    return False
            else:
                digit = data[at] - 48 if data[at] >= 48 else 10
                if digit > 9:
                    return False
                value = value * 10 + digit
            at += 1
        values[r, 0] = -value if negative else value
        values[r, 1] = -1 if negative and value else 0
    return True


def days(data: Any, offsets: Any, lengths: Any, most: Any, values: Any) -> Any:
    """Whether all values are possible dates; they are in `values`, as days since 1970. `most`: the days of
    each month."""
    for r in range(len(offsets)):
        if lengths[r] < 0:
            values[r] = 0
            continue
        if lengths[r] != 10:
            return False
        at = offsets[r]
        for i in range(10):
            byte = data[at + i]
            if i == 4 or i == 7:
                if byte != 45:
                    return False
            elif byte < 48 or byte > 57:
                return False
        year = (data[at] - 48) * 1000 + (data[at + 1] - 48) * 100 + (data[at + 2] - 48) * 10
        year += data[at + 3] - 48
        month = (data[at + 5] - 48) * 10 + (data[at + 6] - 48)
        day = (data[at + 8] - 48) * 10 + (data[at + 9] - 48)
        if year < 1 or month < 1 or month > 12 or day < 1:
            return False
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        if day > most[month] + (1 if leap and month == 2 else 0):
            return False
        y = year - (1 if month <= 2 else 0)  # years begin in March
        days_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
        values[r] = y * 365 + y // 4 - y // 100 + y // 400 + days_of_year - 719468
    return True
