"""A stream source of one table as a capture source: change directories, topics and tables in the same
pipeline as whole databases.

    offset = {"v": 1, "at": offset of the stream, "until": where it ends, null: never, "planned": seconds}

The first batch is the event of the table alone; it takes down where the stream begins, which not every
stream says twice alike.
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
    Shape,
    ShapeColumn,
    TableEvent,
    TableRows,
)
from tablestore.cdc.directory_stream import DirectoryPiece
from tablestore.cdc.source import Chunk
from tablestore.cdc.stream_source import Offset, StreamPiece, StreamSource
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.format.types import arrow_types

VERSION = 1


@dataclass(frozen=True)
class OneTable:
    """The table `name`, whose rows are those of `stream` and have the key `primary_key`. Unless it is to
    `follow`, it ends at what there is when it begins."""

    stream: StreamSource
    name: SourceName
    primary_key: tuple[str, ...]
    follow: bool = True

    @property
    def shape(self) -> Shape:
        """The columns of the stream."""
        columns = [
            ShapeColumn(f.name, arrow_types.from_arrow(f.type, nullable=f.nullable), str(f.type))
            for f in self.stream.schema
        ]
        return Shape(tuple(columns), self.primary_key)

    def initial(self) -> Offset:
        return {"v": VERSION, "at": None, "until": None, "planned": 0}

    def next(self, start: Offset) -> Offset:
        at, until, planned = start["at"], start["until"], SYSTEM.now_ms() / 1000
        if start.get("v") != VERSION:
            raise InvalidRequest(f"{start} is no offset of one table")
        if at is None:
            until = None if self.follow else self.stream.latest()
            return {"v": VERSION, "at": self.stream.initial(), "until": until, "planned": planned}
        end = self.stream.next(at, until)
        return start if end == at else {"v": VERSION, "at": end, "until": until, "planned": planned}

    def ended(self, offset: Offset) -> bool:
        at, until = offset["at"], offset["until"]
        if at is None:
            return False
        reached = until is not None and (at == until or self.stream.next(at, until) == at)
        return reached or self.stream.ended(at)

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        if start["at"] is not None or end["at"] is None:
            return []
        return [TableEvent(CAPTURED, self.name, "", self.shape)]

    def pieces(self, start: Offset, end: Offset) -> Sequence[OneTablePiece]:
        if start["at"] is None or start["at"] == end["at"]:
            return []
        found = self.stream.pieces(start["at"], end["at"])
        return [OneTablePiece(self.name, self.shape, piece, str(end["at"])) for piece in found]

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        full = any(piece.chunk is not None for piece in self.pieces(start, end))
        return BatchFacts(end["planned"], str(end["at"]), snapshotting=(self.name,) if full else ())

    def done(self, end: Offset) -> None:
        if end["at"] is not None:
            self.stream.done(end["at"])


@dataclass(frozen=True)
class OneTablePiece:
    """A piece of the stream. Its changes say no time: streams do not know when they were committed."""

    name: SourceName
    shape: Shape
    piece: StreamPiece
    position: str

    @property
    def tables(self) -> Mapping[SourceName, Shape]:
        return {self.name: self.shape}

    @property
    def chunk(self) -> ChunkFacts | None:
        """Known of change directories."""
        if isinstance(self.piece, DirectoryPiece) and isinstance(self.piece.work, Chunk):
            number = self.piece.work.number
            return ChunkFacts(self.name, f"chunk {number}", f"chunk {number + 1}")
        return None

    def read(self) -> Iterator[TableRows]:
        full = self.chunk is not None
        for rows, kinds in self.piece.read(self.shape.names):
            unknown = None if full else pa.nulls(rows.num_rows, pa.int64())
            yield TableRows(self.name, rows, kinds, unknown, self.position)
