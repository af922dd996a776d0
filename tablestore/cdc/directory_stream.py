"""A change directory as a stream source: its chunks first, then its log, transaction by transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from tablestore.cdc.source import ChangeDirectory, LogBytes, Position, Work
from tablestore.core.errors import NotFound
from tablestore.flow.source import Changes, Offset, of_keys
from tablestore.format.predicates import evaluate
from tablestore.format.predicates.predicate import Predicate
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
