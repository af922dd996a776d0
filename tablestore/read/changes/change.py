"""A step of a stream: the rows that one snapshot changed, or all rows of the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tablestore.core.errors import NotFound

AGAIN = "start again with latest-full"
"""What a stream that lost its place can do."""


Read = Callable[[], Iterator[pa.RecordBatch]]
FILES, LOG = "files", "log"


class StreamLost(NotFound):
    """What a stream would deliver next is gone; its text ends with the way on."""

    def __init__(self, why: str, remedy: str = AGAIN) -> None:
        super().__init__(f"{why}: {remedy}")


@dataclass(frozen=True, slots=True)
class StateSize:
    """How much a normaliser keeps: the last row of each key, in memory and, above a write buffer, on the
    local disk. `in_memory`: those of the `bytes` that are in memory."""

    rows: int
    bytes: int
    in_memory: int = 0

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.bytes:,} bytes ({self.in_memory:,} in memory)"


@dataclass(frozen=True)
class Before:
    """The rows of a table before a step: `rows`, all "+I", then the changes `behind` them."""

    rows: Read
    behind: Read


@dataclass(frozen=True)
class Change:
    """One step of a stream: a snapshot's changes, or with `full` all its rows as "+I", or rows of the log.

    `cursor` is where a stream goes on after this step. `state` is what the normaliser kept after it, None for
    a stream without one. `source` is "log" or "files"; where a table has a log and its files are read,
    `reason` says why. `snapshot` of a step of the log is the newest one of that moment, 0 for none.
    """

    snapshot: int
    full: bool
    cursor: str
    schema: pa.Schema
    _read: Read = field(repr=False)
    _done: Callable[[], None] = field(repr=False)
    state: StateSize | None = None
    source: str = FILES
    reason: str | None = None
    _before: Before | None = field(default=None, repr=False)
    _looked_up: bool = field(default=False, repr=False)  # has what was before, needs no normaliser

    def __repr__(self) -> str:
        what = "rows of the log at" if self.source == LOG else "state of" if self.full else "changes of"
        return f"Change({what} snapshot {self.snapshot}: {', '.join(self.schema.names)})"

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, `rowkind` first; each access reads them again."""
        return self._read()

    def to_arrow(self) -> pa.Table:
        """All rows of this step."""
        return pa.Table.from_batches(self._read(), self.schema)

    def done(self) -> None:
        """Note with the consumer that this step need not come again."""
        self._done()


def with_remedy(read: Read) -> Read:
    """A read whose NotFound, where the snapshot expires below it, says what to do."""

    def reading() -> Iterator[pa.RecordBatch]:
        try:
            yield from read()
        except StreamLost:
            raise
        except NotFound as e:
            raise StreamLost(str(e)) from e

    return reading
