"""Stream sources: changes that are read between offsets, the same changes however often they are read.

An offset is a JSON object that a source understands; nothing else survives a restart. The driver asks for
offsets and pieces, tasks read the pieces. Sources and pieces are picklable and small. A source says how much
of what its log keeps is over: beyond that, rows go before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from tablestore.core.quantities import duration, size
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


SECONDS: Literal["seconds"] = "seconds"
BYTES: Literal["bytes"] = "bytes"
_OF = {SECONDS: "time is over for which", BYTES: "size is over up to which"}


@dataclass(frozen=True, slots=True)
class LogRetention:
    """Of the log that is called `log`: `used` of `limit`, in seconds since what is read next may be removed,
    or in bytes that are kept for the reader. `limit` None: it is kept until it is read."""

    log: str
    unit: Literal["seconds", "bytes"]
    used: float
    limit: float | None = None

    @property
    def left(self) -> float | None:
        """What is left of the limit; None without one."""
        return None if self.limit is None else max(self.limit - self.used, 0.0)

    def ill(self, what: str = "what is not read") -> list[str]:
        """What is ill about it, where `what` is kept for the reader; empty where less than half is over.

        >>> LogRetention("slot s", BYTES, 3 << 20, 4 << 20).ill()
        ['half of the size is over up to which slot s keeps what is not read: 3.00 MiB of 4.00 MiB']
        """
        if self.limit is None or not self.used or self.used < self.limit / 2:
            return []
        used, limit = (
            size(round(n)) if self.unit == BYTES else duration(round(1000 * n))
            for n in (self.used, self.limit)
        )
        return [f"half of the {_OF[self.unit]} {self.log} keeps {what}: {used} of {limit}"]
