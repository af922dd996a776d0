"""Capture sources: many tables as one stream, which are created, altered, emptied and dropped as it goes.

A batch lies between two offsets. Its events are carried out first, in order; then tasks read its pieces. A
batch with events that change what rows look like has no rows from before them: the source ends a batch in
front of such an event. Offsets are JSON objects; sources, events and pieces are picklable, and the same two
offsets give the same events and the same pieces however often they are asked for. What a piece gives may be
newer when it is read again, and rows may come again in later batches: the last image of a key wins, so a
sink is a keyed table, and its rows are those of the source once a batch is committed that ends at or after
what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.flow.source import LogRetention, Offset
from tablestore.format.types import arrow_types
from tablestore.format.types.data_type import DataType

CAPTURED, ALTERED, RENAMED, EMPTIED, DROPPED, SKIPPED, PAUSED = (
    "captured",  # from here on: there at the start, created, or renamed into what the patterns choose
    "altered",  # its columns are others
    "renamed",  # it goes on under `new_name`
    "emptied",  # all rows are gone: TRUNCATE, or another table took its place
    "dropped",  # it is gone, or its new name is not chosen: its rows stay as they are
    "skipped",  # it is not captured, and the event says why
    "paused",  # it is not captured from here on, and the event says why: its rows stay as they are
)


@dataclass(frozen=True, slots=True)
class ShapeColumn:
    """A column of a table in the source, with its type here and as the source spells it."""

    name: str
    type: DataType
    spelled: str = ""
    comment: str = ""


@dataclass(frozen=True)
class TableShape:
    """The columns of a table in the source, in its order, and its primary key (empty: none). `partial`: they
    are those that were met in messages; the table may have others, which a target keeps."""

    columns: tuple[ShapeColumn, ...]
    primary_key: tuple[str, ...] = ()
    comment: str = ""
    partial: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of its rows."""
        pairs = ((c.name, c.type) for c in self.columns)
        return pa.schema([pa.field(name, arrow_types.to_arrow(t), t.nullable) for name, t in pairs])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


@dataclass(frozen=True, slots=True)
class TableEvent:
    """What happened to a table as such: one of `CAPTURED` … `PAUSED`.

    `shape` is what it is afterwards (None where nothing is known or needed); `statement` the DDL that caused
    it (empty: no one), executed `seconds` after 1970 at `position`; `renamed_columns` maps old names to new
    ones. `rows` is about how many there are to read, `read_again` whether all rows are read once more, since
    the statement may have changed values without an image in the log. `reason` says why in words.
    """

    kind: str
    table: SourceName
    position: str
    shape: TableShape | None = None
    statement: str = ""
    seconds: int = 0
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    new_name: SourceName | None = None
    rows: int | None = None
    read_again: bool = False
    reason: str = ""


@dataclass(frozen=True)
class TableRows:
    """Changes of one table in the order of the source: `rows` with the columns of its shape, their row kinds
    (int8), and when each was committed in the source (int64, seconds after 1970; None: rows of a snapshot).
    They lie at or before `position`."""

    table: SourceName
    rows: pa.RecordBatch
    kinds: pa.Array
    seconds: pa.Array | None
    position: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A change that cannot become a row: what is known of it as JSON in `row`, and the reason. `unheld`: it
    deletes a row that no table of the lake can hold, so that it is no error to pass it over."""

    table: SourceName
    position: str
    kind: int
    reason: str
    row: str
    seconds: int | None = None
    unheld: bool = False


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """A range of the keys of a table, above `low` and not above `high` (None: without that end). `last`: it
    completes the snapshot of its table."""

    table: SourceName
    low: str | None
    high: str | None
    last: bool = False


class CapturePiece(Protocol):
    """What one task reads. Of pieces with rows of one key the later one has the later changes."""

    @property
    def tables(self) -> Mapping[SourceName, TableShape]:
        """The tables that it may have changes of."""

    @property
    def chunk(self) -> ChunkFacts | None:
        """The part of a snapshot that it is; None for changes."""

    def read(self) -> Iterator[TableRows | BadRow]: ...


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What planning a batch has found. `planned` seconds after 1970 it began; the batch ends at `position`;
    `commits` are pairs of (seconds after 1970, transactions committed then) of its log; `log_bytes` is the
    size of its log and `bytes_behind` of what there was beyond its end; `snapshotting` are tables whose rows
    are not all read at its end, `paused` those that were captured before and are not behind it."""

    planned: float
    position: str
    commits: tuple[tuple[int, int], ...] = ()
    log_bytes: int = 0
    bytes_behind: int = 0
    snapshotting: tuple[SourceName, ...] = ()
    paused: tuple[SourceName, ...] = ()


class CaptureSource(Protocol):
    """Tables of a source as one stream."""

    def initial(self) -> Offset:
        """The offset before the first batch; a constant."""

    def next(self, start: Offset) -> Offset:
        """Where a batch from `start` ends; `start` itself where nothing is new."""

    def ended(self, offset: Offset) -> bool:
        """Whether nothing comes after this offset: of a source that stops once it is caught up."""

    def events(self, start: Offset, end: Offset) -> Sequence[TableEvent]: ...

    def pieces(self, start: Offset, end: Offset) -> Sequence[CapturePiece]:
        """The pieces between two offsets; those that must be read in order are in order."""

    def facts(self, start: Offset, end: Offset) -> BatchFacts: ...

    def done(self, end: Offset) -> None:
        """What lies before `end` is read and committed."""


@runtime_checkable
class PausingSource(CaptureSource, Protocol):
    """One that goes on without a table that a sink cannot follow."""

    def paused(self, end: Offset) -> Mapping[SourceName, str]:
        """The tables that are captured no longer behind the batch that ends here, with the reason."""

    def pause(self, end: Offset, tables: Mapping[SourceName, str]) -> bool:
        """Capture these tables no longer behind the batch that ends here; the next one says so, in events.
        False, and nothing is done, where no other table is captured."""


@runtime_checkable
class RetainingSource(CaptureSource, Protocol):
    """One whose log is kept for a limited time, or up to a limited size."""

    def kept(self, end: Offset) -> Sequence[LogRetention]:
        """How much of that is over, of each of its logs, for a capture that has all before `end`: asked now
        and once. Raises Unavailable where the source is away."""


@runtime_checkable
class PreviewSource(CaptureSource, Protocol):
    """One that knows of values which cannot be captured as they are before it reads them."""

    def foreseen(self, end: Offset) -> Mapping[SourceName, str]:
        """In words, what there is of them in the tables that are captured behind a batch that ends here."""
