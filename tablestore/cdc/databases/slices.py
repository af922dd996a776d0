"""Rows as a server sends them, cut into values: where in the bytes the value of each row and column lies.

Loops that go value by value are compiled where numba is installed, else Python runs the same lines, and
reading takes some five times as long: `engine()` says which. What a value means is worked out by columns.
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
