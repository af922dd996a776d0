"""A step of a stream: the rows that one snapshot changed, or all rows of the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

Read = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class StateSize:
    """How much a normaliser keeps: the last row of each key, on the local disk."""

    rows: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.bytes:,} bytes"


@dataclass(frozen=True)
class Change:
    """One step of a stream: a snapshot's changes, or with `full` all its rows as "+I".

    `cursor` is where a stream goes on after this step. `state` is what the normaliser kept after it, None for
    a stream without one.
    """

    snapshot: int
    full: bool
    cursor: str
    schema: pa.Schema
    _read: Read = field(repr=False)
    _done: Callable[[], None] = field(repr=False)
    state: StateSize | None = None

    def __repr__(self) -> str:
        what = "state" if self.full else "changes"
        return f"Change({what} of snapshot {self.snapshot}: {', '.join(self.schema.names)})"

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
