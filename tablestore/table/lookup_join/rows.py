"""Rows that a lookup join caches, found by place: record batches in memory, or mapped from a local disk.

Batches stay in memory up to a bound; beyond it all go to files of this process, which are mapped into memory.
A gather of places takes from each batch once. Immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.io.scratch import Scratch
from tablestore.lsm.merge.groups import joined

_CHUNK_BYTES = 8 << 20
_MOST_TOGETHER = 1 << 30


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bytes that may lie in memory, and on disk beyond that; 0 on disk: everything stays in memory."""

    memory: int
    disk: int


@dataclass(frozen=True)
class CachedRows:
    """Batches of one schema, one after another; those on disk are in `files`."""

    schema: pa.Schema
    chunks: tuple[pa.RecordBatch, ...] = ()
    files: Scratch | None = None
    spilled: int = 0  # how many of the first chunks are on disk

    @classmethod
    def of(cls, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bounds: RowBounds) -> CachedRows:
        """The rows of these batches; raises InvalidRequest if they are more than the disk may hold."""
        chunks: list[pa.RecordBatch] = []
        files: Scratch | None = None
        in_memory = on_disk = 0
        for chunk in _grouped(batches):
            if files is None and in_memory + chunk.nbytes > bounds.memory and bounds.disk:
                files, on_disk = Scratch(), in_memory
                chunks = [files.keep(c) for c in chunks]
            in_memory += chunk.nbytes
            on_disk += chunk.nbytes if files is not None else 0
            if files is not None and on_disk > bounds.disk:
                files.close()
                raise InvalidRequest(
                    f"a full cache takes more than {bounds.disk:,} bytes on disk "
                    "(lookup.cache-max-disk-size): choose columns and rows, or cache='partial'"
                )
            chunks.append(chunk if files is None else files.keep(chunk))
        if files is not None:
            return cls(schema, tuple(chunks), files, len(chunks))
        return cls(schema, _together(chunks))

    @cached_property
    def starts(self) -> np.ndarray:
        """Places at which the batches start, and the number of rows."""
        return np.cumsum([0, *(c.num_rows for c in self.chunks)])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.starts[-1])

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory."""
        return sum(c.nbytes for c in self.chunks[self.spilled :])

    @property
    def disk_bytes(self) -> int:
        """Bytes on the local disk."""
        return sum(c.nbytes for c in self.chunks[: self.spilled])

    def plus(self, more: Sequence[pa.RecordBatch]) -> CachedRows:
        """These rows followed by more, which stay in memory."""
        last = [*self.chunks[self.spilled :], *(b for b in more if b.num_rows)]
        return CachedRows(
            self.schema, (*self.chunks[: self.spilled], *_together(last)), self.files, self.spilled
        )

    def gather(self, places: np.ndarray, names: Sequence[str]) -> list[pa.Array]:
        """Columns of the rows at these places; NULL where a place is negative."""
        missing = places < 0
        if len(self.chunks) == 1:
            at = pa.array(places, mask=missing) if missing.any() else pa.array(places)
            return [self.chunks[0].column(n).take(at) for n in names]
        if missing.all():
            return [pa.nulls(len(places), self.schema.field(n).type) for n in names]
        return self._gathered(places, missing, names)

    def _gathered(self, places: np.ndarray, missing: np.ndarray, names: Sequence[str]) -> list[pa.Array]:
        order = np.argsort(places, kind="stable")[int(missing.sum()) :]
        ordered = places[order]
        cuts = np.searchsorted(ordered, self.starts)
        taken = [
            chunk.select(list(names)).take(pa.array(ordered[low:high] - start))
            for chunk, start, low, high in zip(self.chunks, self.starts, cuts, cuts[1:], strict=False)
            if low < high
        ]
        back = np.full(len(places), -1, dtype=np.int64)
        back[order] = np.arange(len(order))
        at = pa.array(back, mask=missing)
        return [column.take(at) for column in joined(taken).columns]

    def batches(self, alive: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The rows where `alive`, a mask by place, is true."""
        for chunk, start in zip(self.chunks, self.starts, strict=False):
            yield chunk.filter(pa.array(alive[start : start + chunk.num_rows]))


def _together(batches: Sequence[pa.RecordBatch]) -> tuple[pa.RecordBatch, ...]:
    """Batches as one, unless text of 32-bit offsets could overflow in it."""
    if not batches or sum(b.nbytes for b in batches) > _MOST_TOGETHER:
        return tuple(batches)
    return (joined(batches),)


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at least 8 MiB each, but for the last."""
    waiting: list[pa.RecordBatch] = []
    weight = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            weight += batch.nbytes
        if weight >= _CHUNK_BYTES:
            yield joined(waiting)
            waiting, weight = [], 0
    if waiting:
        yield joined(waiting)
