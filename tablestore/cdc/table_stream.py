"""The changelog of a table as a stream source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablestore.cdc.change_feed import ChangeFeed, SnapshotPiece
from tablestore.cdc.log_pieces import LogPiece
from tablestore.core.options.log_store import LogSystem
from tablestore.flow.source import Changes, Offset, of_keys
from tablestore.format.predicates.predicate import Predicate


@dataclass(frozen=True)
class TablePiece:
    """A piece of a table's changelog."""

    feed: ChangeFeed
    piece: SnapshotPiece | LogPiece

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Of changes all that have the keys that the condition names: the two rows of an update stay
        together, even where only one of them meets the rest of it."""
        table = self.feed.table
        keys = table.store.schema.shown.primary_keys
        if where is not None and keys and not self.piece.splits:
            where = of_keys(where, keys)
        return self.piece.changes(table, columns, where)


@dataclass(frozen=True)
class TableStream:
    """The changelog of a table: its state first, unless the feed starts elsewhere, then its changes."""

    feed: ChangeFeed

    @property
    def schema(self) -> pa.Schema:
        return self.feed.table.schema

    @property
    def appends(self) -> bool:
        schema, options = self.feed.table.store.schema, self.feed.table.store.options
        if (
            schema.primary_keys
            or schema.row_count_field is not None
            or options.streaming_read_append_overwrite
        ):
            return False
        # a log says which rows went, and only deletion vectors remove rows without a key
        return options.log_system is LogSystem.NONE or not options.deletion_vectors

    def initial(self) -> Offset:
        return self.feed.initial()

    def latest(self) -> Offset:
        return self.feed.newest()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        return self.feed.next(start, limit=None, target=target)

    def ended(self, offset: Offset) -> bool:
        return False

    def pieces(self, start: Offset, end: Offset) -> list[TablePiece]:
        return [TablePiece(self.feed, piece) for piece in self.feed.pieces(start, end)]

    def done(self, end: Offset) -> None:
        self.feed.done(end)
