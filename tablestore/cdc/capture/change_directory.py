"""A table of a change directory as a capture source.

    offset = {"v": 1, "at": position in the directory, null before the first batch, "planned": seconds}

The first batch is the event of the table alone. Then come the chunks of its rows, and the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from tablestore.cdc.directory_stream import DirectoryPiece, DirectoryStream
from tablestore.cdc.source import ChangeDirectory, Chunk, Position
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.flow.source import Offset
from tablestore.format.types import arrow_types

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
