"""`format("tablestore-feed")`: a table's changelog as a stream whose rows are descriptions of work, not
data.

Each row is (ordinal, piece, position): what one task reads, and the snapshot that is reached when its batch
is done. For queries that read the changes in Python workers themselves, such as `summary`. Options: path,
start (latest-full, latest, a snapshot id).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tablestore.cdc.change_feed import ChangeFeed, Piece
from tablestore.core.errors import InvalidRequest
from tablestore.io.confined import roots_in
from tablestore.spark.source_options import require_only

SCHEMA = "ordinal int, piece binary, position string"


@dataclass
class FeedPartition(InputPartition):
    """One row of the stream."""

    ordinal: int
    piece: bytes
    position: str


class FeedSource(DataSource):
    """The data source Spark makes by name."""

    @classmethod
    def name(cls) -> str:
        return "tablestore-feed"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FeedReader(dict(self.options))


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's helper process."""

    def __init__(self, options: dict[str, str]) -> None:
        if not options.get("path"):
            raise InvalidRequest('format("tablestore-feed") needs the option path')
        require_only(options, ("path", "start", "roots"))
        start, roots = options.get("start", "latest-full"), roots_in(options.get("roots")) or ()
        self._feed = ChangeFeed(options["path"], start=start, roots=roots)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._feed.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._feed.latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._feed.next(start, limit=None, target=self._target)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        position = str(self._feed.snapshot(end))
        pieces = self._feed.pieces(start, end)
        return [FeedPartition(i, pickle.dumps(piece), position) for i, piece in enumerate(pieces)]

    def read(self, partition: FeedPartition) -> Iterator[tuple[int, bytes, str]]:  # type: ignore[override]  # its own partitions only
        yield partition.ordinal, partition.piece, partition.position


def decode_piece(data: bytes) -> Piece:
    """The piece of a row; it is pickled, since it never leaves the processes of one query."""
    return pickle.loads(data)
