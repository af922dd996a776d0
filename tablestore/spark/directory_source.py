"""`format("tablestore-cdc")`: a change directory as a stream whose rows are descriptions of work, not data.

Each row is (ordinal, work): a chunk or a range of the log, as JSON, with the position that is reached when it
and all before it are done. Spark plans, checkpoints and retries them; the task that gets a row reads the data
itself. Offset = `cdc.source.Position`. Options: path, table, chunksPerBatch, logBytesPerBatch, tasks, start
(a position as JSON).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tablestore.cdc.source import ChangeDirectory, Chunk, LogRange, Position, Work
from tablestore.core.errors import InvalidRequest
from tablestore.io.fileio import LocalFileIO

SCHEMA = "ordinal int, work string"


@dataclass
class WorkPartition(InputPartition):
    """One row of the stream."""

    ordinal: int
    work: str


class ChangeDirectorySource(DataSource):
    """The data source Spark makes by name."""

    @classmethod
    def name(cls) -> str:
        return "tablestore-cdc"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ChangeDirectoryStream(dict(self.options))


class ChangeDirectoryStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's helper process. Positions are cut so that a batch planned twice is the
    same.
    """

    def __init__(self, options: dict[str, str]) -> None:
        for name in ("path", "table"):
            if name not in options:
                raise InvalidRequest(f'format("tablestore-cdc") needs the option {name!r}')
        self._path, self._table = options["path"], options["table"]
        self._chunks = int(options.get("chunksperbatch", options.get("chunksPerBatch", 8)))
        self._log_bytes = int(options.get("logbytesperbatch", options.get("logBytesPerBatch", 256 << 20)))
        self._tasks = int(options.get("tasks", 2))
        self._start = Position.of(options["start"]) if options.get("start") else Position()
        self._target: Position | None = None

    @property
    def _source(self) -> ChangeDirectory:
        """The source, opened each time: readers are pickled, open sources are not."""
        return ChangeDirectory(LocalFileIO(), self._path, self._table)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch: constant, since Spark calls this more than once before it
        records one."""
        return self._start.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._chunks)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._source.end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        source = self._source
        if isinstance(limit, ReadAllAvailable):
            return (self._target or source.end()).to_dict()
        here = Position.of(start)
        found = source.next(here, chunks=self._chunks, log_bytes=self._log_bytes)
        if self._target is not None and found.order > self._target.order:
            found = max(here, self._target, key=attrgetter("order"))
        return found.to_dict()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._source.end().to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, stop = Position.of(start), Position.of(end)
        pieces = self._source.work(begin, stop, tasks=self._tasks)
        return [WorkPartition(i, encode_work(piece, stop)) for i, piece in enumerate(pieces)]

    def read(self, partition: WorkPartition) -> Iterator[tuple[int, str]]:  # type: ignore[override]  # its own partitions only
        yield partition.ordinal, partition.work


def encode_work(work: Work, batch_end: Position) -> str:
    """A piece of work, and the position its batch ends at, as one string."""
    kind = "chunk" if isinstance(work, Chunk) else "log"
    return json.dumps({"v": 1, "kind": kind, "work": asdict(work), "end": batch_end.to_dict()})


def decode_work(text: str) -> tuple[Work, Position]:
    """The piece of work and the position that `encode_work` wrote."""
    found = json.loads(text)
    if found.get("v") != 1:
        raise InvalidRequest(f"work of version {found.get('v')!r}; version 1 is known")
    kind = Chunk if found["kind"] == "chunk" else LogRange
    return kind(**found["work"]), Position.of(found["end"])
