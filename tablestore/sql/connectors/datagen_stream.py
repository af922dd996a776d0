"""`datagen` as a stream: rows that come at `rows-per-second`, the same rows between two offsets whenever they
are read.

An offset holds the seed, the time at which the first row came, and how many rows there were: a stream that is
resumed in another process goes on with its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.sql.connectors.connector import inserts, matching

Chunk = Callable[[Offset, int, Sequence[str]], pa.RecordBatch]
_PIECE_CHUNKS = 4


@dataclass
class RowSchedule:
    """How many rows may have come by now, at so many a second; the first second's at once. It begins anew
    in each process."""

    per_second: int
    began: tuple[float, int] | None = None  # seconds, rows

    def due(self, rows: int) -> int:
        """The rows that may have come; there are `rows` already."""
        now = SYSTEM.monotonic()
        if self.began is None:
            self.began = now, rows
        since, before = self.began
        return before + int(self.per_second * (1 + now - since))


@dataclass(frozen=True)
class NumberedRows:
    """Rows by number, `rows` of them or without end (None). `chunk` makes all columns of one chunk of
    `chunk_rows`, of a stream with the seed and time of an offset. Picklable."""

    schema: pa.Schema
    chunk: Chunk
    chunk_rows: int
    rows: int | None
    pace: RowSchedule
    seed: int
    began_ms: int

    @property
    def appends(self) -> bool:
        return True

    def initial(self) -> Offset:
        return {"v": 1, "seed": self.seed, "beganMs": self.began_ms, "rows": 0}

    def latest(self) -> Offset | None:
        return None if self.rows is None else {**self.initial(), "rows": self.rows}

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        here = int(start["rows"])
        ends = [self.pace.due(here), *([] if self.rows is None else [self.rows])]
        ends += [] if target is None else [int(target["rows"])]
        return {**start, "rows": max(here, min(ends))}

    def ended(self, offset: Offset) -> bool:
        return self.rows is not None and int(offset["rows"]) >= self.rows

    def pieces(self, start: Offset, end: Offset) -> list[RowPiece]:
        step = self.chunk_rows * _PIECE_CHUNKS
        first, last = int(start["rows"]), int(end["rows"])
        cuts = [first, *range((first // step + 1) * step, last, step), last]
        return [RowPiece(self, end, a, b) for a, b in pairwise(cuts) if a < b]

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class RowPiece:
    """Rows `first` to `last`."""

    stream: NumberedRows
    offset: Offset = field(repr=False)
    first: int
    last: int

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        return inserts(matching(self, self.stream.schema, columns, where))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these columns; a chunk is made whole, so that its rows do not depend on the piece."""
        size = self.stream.chunk_rows
        for number in range(self.first // size, (self.last - 1) // size + 1):
            start = number * size
            whole = self.stream.chunk(self.offset, start, columns)
            begin, end = max(self.first, start) - start, min(self.last, start + size) - start
            yield whole.slice(begin, end - begin)
