"""A change directory as a stream source, and its table as a capture source: its chunks first, then its log,
transaction by transaction.

    offset of a capture = {"v": 1, "at": position in the directory, null before the first batch,
                           "planned": seconds}

The first batch of a capture is the event of the table alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import (
    CAPTURED,
    BatchFacts,
    ChunkFacts,
    ShapeColumn,
    TableEvent,
    TableRows,
    TableShape,
)
from tablestore.cdc.source import ChangeDirectory, Chunk, LogBytes, Position, Work
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.flow.source import Changes, Offset, of_keys
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.types import arrow_types
from tablestore.io.routed import file_io_for
from tablestore.table.lazy_read import bind


@dataclass(frozen=True)
class DirectoryStream:
    """Table `table` of the directory `path`, in these columns and types. A batch has at most so many chunks,
    or about so many bytes of the log, never both. Raises NotFound for a column that the source has not.

    Memory: a row group of a chunk, or 48 MB of the log with its rows.
    """

    path: str
    table: str
    schema: pa.Schema
    chunks_per_batch: int = 8
    log_bytes_per_batch: int = 64 << 20

    def __post_init__(self) -> None:
        names = self.directory.schema.names
        for name in self.schema.names:
            if name not in names:
                raise NotFound.among("column", name, names)

    @property
    def directory(self) -> ChangeDirectory:
        """The source, opened each time: it may grow."""
        return ChangeDirectory(file_io_for(self.path), self.path, self.table)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The key that the rows have in the source, none where the stream lacks a column of it."""
        key = self.directory.primary_key
        return key if set(key) <= set(self.schema.names) else ()

    @property
    def appends(self) -> bool:
        return False

    def initial(self) -> Offset:
        return Position().to_dict()

    def latest(self) -> Offset:
        return self.directory.end().to_dict()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        here = Position.of(start)
        end = self.directory.next(here, chunks=self.chunks_per_batch, log_bytes=self.log_bytes_per_batch)
        if target is not None:
            by = attrgetter("order")
            end = max(here, min(end, Position.of(target), key=by), key=by)
        return end.to_dict()

    def ended(self, offset: Offset) -> bool:
        directory = self.directory
        return directory.finished() and Position.of(offset).order >= directory.end().order

    def pieces(self, start: Offset, end: Offset) -> list[DirectoryPiece]:
        work = self.directory.work(Position.of(start), Position.of(end))
        return [DirectoryPiece(self, piece) for piece in work]

    def done(self, end: Offset) -> None:
        """The directory keeps what it has."""


@dataclass(frozen=True)
class DirectoryPiece:
    """One chunk, or a range of the log."""

    stream: DirectoryStream
    work: Work

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """As `TablePiece.read`: the two rows of an update stay together."""
        schema, keys = self.stream.schema, {*self.stream.primary_key}
        if where is not None and isinstance(self.work, LogBytes):
            where = of_keys(where, keys)
        bound = None if where is None else bind(where, schema)
        tested = [] if bound is None else [n for n in schema.names if n in bound.columns and n not in columns]
        read = pa.schema([schema.field(n) for n in (*columns, *tested)])
        for changes in self.stream.directory.read(self.work, read):
            rows, kinds = changes.rows, changes.kinds
            if bound is not None:
                keep = evaluate.mask(bound, rows)
                rows, kinds = rows.filter(keep), kinds.filter(keep)
            if rows.num_rows:
                yield rows.select(list(columns)), kinds


VERSION = 1


def position_of(offset: Offset) -> Position:
    """Where in the directory an offset is. Raises InvalidRequest for an offset of another source."""
    if offset.get("v") != VERSION or "at" not in offset:
        raise InvalidRequest(f"{offset} is no offset of a change directory")
    return Position() if offset["at"] is None else Position.of(offset["at"])


@dataclass(frozen=True)
class DirectoryTable:
    """The table `name`, whose rows are those of `stream`. It ends at `until` (None: where the directory is
    complete)."""

    stream: DirectoryStream
    name: SourceName
    until: Offset | None = None

    @property
    def shape(self) -> TableShape:
        """The columns of the stream."""
        columns = [
            ShapeColumn(f.name, arrow_types.from_arrow(f.type, nullable=f.nullable), str(f.type))
            for f in self.stream.schema
        ]
        return TableShape(tuple(columns), self.stream.primary_key)

    def initial(self) -> Offset:
        return {"v": VERSION, "at": None, "planned": 0}

    def next(self, start: Offset) -> Offset:
        position_of(start)
        at, planned = start["at"], SYSTEM.now_ms() / 1000
        if at is None:
            return {"v": VERSION, "at": self.stream.initial(), "planned": planned}
        end = self.stream.next(at, self.until)
        return start if end == at else {"v": VERSION, "at": end, "planned": planned}

    def ended(self, offset: Offset) -> bool:
        if offset["at"] is None:
            return False
        reached = self.until is not None and position_of(offset).order >= Position.of(self.until).order
        return reached or self.stream.ended(offset["at"])

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        if start["at"] is not None or end["at"] is None:
            return []
        rows = self.stream.directory.snapshot_rows
        return [TableEvent(CAPTURED, self.name, "", self.shape, rows=rows)]

    def pieces(self, start: Offset, end: Offset) -> Sequence[DirectoryTablePiece]:
        if start["at"] is None or start["at"] == end["at"]:
            return []
        pieces, at, shape = self.stream.pieces(start["at"], end["at"]), str(position_of(end)), self.shape
        chunks = _chunks(self.name, self.stream.directory) if isinstance(pieces[0].work, Chunk) else []
        return [
            DirectoryTablePiece(
                self.name,
                shape,
                piece,
                chunks[piece.work.number] if isinstance(piece.work, Chunk) else None,
                at,
            )
            for piece in pieces
        ]

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        directory, begun, here = self.stream.directory, position_of(start), position_of(end)
        reading = here.chunks < len(directory.chunks)
        newest, at = directory.log_bytes(directory.end()), directory.log_bytes(here)
        return BatchFacts(
            end["planned"],
            str(here),
            log_bytes=at - directory.log_bytes(begun),
            bytes_behind=max(newest - at, 0),
            snapshotting=(self.name,) if reading else (),
        )

    def done(self, end: Offset) -> None:
        if end["at"] is not None:
            self.stream.done(end["at"])


def _chunks(name: SourceName, directory: ChangeDirectory) -> list[ChunkFacts]:
    """The ranges of keys of its chunks; by their numbers where the directory does not say them."""
    marks = directory.chunk_marks
    ends = [f"chunk {mark.number + 1}" if mark.hi is None else str(mark.hi) for mark in marks]
    last = len(marks) - 1
    return [
        ChunkFacts(name, None if i == 0 else ends[i - 1], None if i == last else ends[i], i == last)
        for i in range(len(marks))
    ]


@dataclass(frozen=True)
class DirectoryTablePiece:
    """A chunk, or a range of the log. Its changes say no time: those of a generated log are not real."""

    name: SourceName
    shape: TableShape
    piece: DirectoryPiece
    chunk: ChunkFacts | None
    position: str

    @property
    def tables(self) -> Mapping[SourceName, TableShape]:
        return {self.name: self.shape}

    def read(self) -> Iterator[TableRows]:
        for rows, kinds in self.piece.read(self.shape.names):
            unknown = None if self.chunk is not None else pa.nulls(rows.num_rows, pa.int64())
            yield TableRows(self.name, rows, kinds, unknown, self.position)
