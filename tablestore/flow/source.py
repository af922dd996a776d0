"""Stream sources: changes that are read between offsets, the same changes however often they are read.

An offset is a JSON object that a source understands; nothing else survives a restart. The driver asks for
offsets and pieces, tasks read the pieces. Sources and pieces are picklable and small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tablestore.format.predicates.predicate import Predicate, all_of, conjuncts

Offset = dict[str, Any]
Changes = Iterator[tuple[pa.RecordBatch, pa.Array]]  # rows, and their row kinds (int8)


class StreamPiece(Protocol):
    """What one task reads."""

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Rows of these columns, in this order: those that meet the condition, and maybe others;
        of an update both or none."""


class StreamSource(Protocol):
    """Changes of rows. `schema` is that of the rows; `appends`: no row is ever taken back."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def appends(self) -> bool: ...

    def initial(self) -> Offset:
        """The offset before the first batch; the same at every call until the first batch is planned."""

    def latest(self) -> Offset | None:
        """The offset at which all that there is now has been read; None for a source without an end."""

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Where a batch from `start` may end, not past `target`; `start` itself where nothing is new."""

    def ended(self, offset: Offset) -> bool:
        """Whether nothing can come after this offset, ever."""

    def pieces(self, start: Offset, end: Offset) -> Sequence[StreamPiece]:
        """The pieces between two offsets; those that must be read in order are in order."""

    def done(self, end: Offset) -> None:
        """What lies before `end` is read and committed: the source may let go of it."""


def of_keys(where: Predicate, keys: Iterable[str]) -> Predicate:
    """The part of a condition that the two rows of an update meet alike: its terms over key columns."""
    return all_of(*(term for term in conjuncts(where) if {*term.columns} <= {*keys}))


@dataclass(frozen=True)
class RowsStream:
    """Rows that are there from the start, read once: those of VALUES. They are their own only piece."""

    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def appends(self) -> bool:
        return True

    def initial(self) -> Offset:
        return {"v": 1, "read": False}

    def latest(self) -> Offset:
        return {"v": 1, "read": True}

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        return self.latest()

    def ended(self, offset: Offset) -> bool:
        return bool(offset["read"])

    def pieces(self, start: Offset, end: Offset) -> list[RowsStream]:
        return [] if start == end else [self]

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """The rows; no condition is pushed down to rows of a text."""
        for batch in self.rows.select(list(columns)).to_batches():
            yield batch, pa.array(np.zeros(batch.num_rows, np.int8))

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""
