"""Appends the rows of one writer to a log in Kafka.

Rows wait in memory (64 MB), above that in part files of the table's directory, until the commit sends them in
one transaction. A part file is an Arrow IPC stream of batches with the columns of the table, `_BUCKET` and
`_KIND` in front; order within a bucket is that of writing. Tasks of engines make everything part files, and a
message names them for a commit in another process. Belongs to one thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import CommitUnknown, Corrupt, InvalidRequest, TablestoreError
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.log.kafka.cluster import BrokerCluster, Properties
from tablestore.log.kafka.row_format import RowFormat, overlapped
from tablestore.log.kafka.sender import MessageOffsets, Sender
from tablestore.log.kafka.transactions import HEADER, TransactionMark
from tablestore.log.log import Appended, CommitMark, RowsInBetween
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings

log = logging.getLogger(__name__)
_VISIBLE_SECONDS, _DECIDED_SECONDS = 5.0, 0.5


class KafkaTopic(Protocol):
    """The topic of a table, as its log gives it."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def properties(self) -> Properties:
        """The properties of librdkafka."""

    @property
    def format(self) -> RowFormat:
        """How rows are messages."""

    def sending(self) -> AbstractContextManager[Sender]:
        """The sender, for one transaction."""

    def has_rows(self, bucket: int, start: int, stop: int) -> bool:
        """Whether committed messages lie between two offsets of a bucket."""

    def without_rows(self, at: Offsets, *, committed: bool = False) -> dict[int, int]:
        """The offsets up to which no row follows `at`; `committed`: behind rows of a transaction."""


class KafkaAppender:
    """Appends to the topic of a table."""

    def __init__(self, log: KafkaTopic, settings: LogSettings, io: FileIO, env: Env) -> None:
        self._log, self._settings, self._io, self._env = log, settings, io, env
        self._rows = StagedRows(io, settings.directory, settings.compression.value, env)

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket, in their order; nobody sees them yet."""
        self._rows.write(bucket, kinds, rows)

    def flush(self) -> Appended | None:
        """Send what was written at once, without a mark; None if there was nothing."""
        if not self._settings.eventual:
            raise InvalidRequest("rows of a log with log.consistency = transactional come with their commit")
        return self._send(None, [self._rows], None)

    def stage(self) -> bytes | None:
        """What was written as a message for `commit` in another process; None if there was nothing."""
        return self._rows.stage()

    def commit(
        self, mark: CommitMark, staged: Sequence[bytes] = (), *, after: Offsets | None = None
    ) -> Appended | None:
        """Send what was written, and what others staged, as one transaction; None if there was nothing.

        With `after` the transaction is aborted, and RowsInBetween raised, where rows of others lie between
        these offsets and its own: whatever comes later lies behind them.
        """
        others = [StagedRows.staged(self._io, self._settings.directory, message) for message in staged]
        return self._send(mark, [*others, self._rows], after)

    def abort(self) -> None:
        """Forget what was written and not committed."""
        self._rows.discard()

    def _send(
        self, mark: CommitMark | None, parts: Sequence[StagedRows], after: Offsets | None
    ) -> Appended | None:
        counts: dict[int, int] = {}
        for part in parts:
            for bucket, rows in part.rows.items():
                counts[bucket] = counts.get(bucket, 0) + rows
        if not counts:
            return None
        now = self._env.now_ms()
        with self._log.sending() as sender:
            headers = None if mark is None else [(HEADER, self._header(mark, counts, now))]
            sender.begin()
            marked = set[int]()
            try:
                with closing(self._encoded(parts)) as encoded:
                    for bucket, keys, values in encoded:
                        sender.send(bucket, keys, values, None if bucket in marked else headers)
                        marked.add(bucket)
                if after is not None:
                    self._require_end(after, sender.arrived())
            except BaseException:
                sender.abort()
                raise
            sent = sender.finish()
        for part in parts:
            part.discard()
        if any(s.start < 0 for s in sent.values()):
            raise CommitUnknown(f"topic {self._log.topic!r} did not say where the rows are")
        start, end = {b: s.start for b, s in sent.items()}, {b: s.end for b, s in sent.items()}
        mixed = any(s.end - s.start > counts[b] for b, s in sent.items())
        if not self._settings.eventual:  # else all brokers in sync have them, and readers see them
            end = self._seen(end)
        return Appended(start, end, now, mark, row_count=sum(counts.values()), mixed=mixed)

    def _seen(self, end: dict[int, int]) -> dict[int, int]:
        """Wait until readers see a committed transaction, a few milliseconds after the broker has said so.
        The offsets behind it: behind its end marker, where no row of others lies before that.

        A snapshot that names these stays right when all messages expire."""
        try:
            seen = self._reached(end, _VISIBLE_SECONDS)
            return self._log.without_rows(end, committed=True) if seen else end
        except TablestoreError as e:  # the rows are in the log, whatever can be asked of it now
            log.info("topic %r: where its transaction ends is not known yet: %s", self._log.topic, e)
            return end

    def _encoded(self, parts: Sequence[StagedRows]) -> Generator[tuple[int, pa.Array, pa.Array]]:
        """(bucket, keys, values) of each batch of rows; a large one is encoded while the one before is
        sent."""
        batches = (batch for part in parts for batch in part.batches())
        encode = self._log.format.encode
        return overlapped(batches, lambda b: (b[0], *encode(b[1], b[2])), lambda b: b[2].num_rows)

    def _require_end(self, after: Offsets, sent: Mapping[int, MessageOffsets]) -> None:
        """Raise RowsInBetween where somebody has rows between these offsets and those that were sent, or a
        transaction there that stays open."""
        start = {bucket: offsets.start for bucket, offsets in sent.items()}
        decided = self._reached(start, _DECIDED_SECONDS)
        for bucket, first in start.items():
            if not decided or self._log.has_rows(bucket, after.get(bucket, 0), first):
                text = f"partition {bucket} of topic {self._log.topic!r} has rows of others before {first}"
                raise RowsInBetween(text)

    def _reached(self, offsets: Offsets, seconds: float) -> bool:
        """Wait until what lies before these offsets is committed or aborted; False after that time."""
        places = {(self._log.topic, b): offset for b, offset in offsets.items()}
        return BrokerCluster(self._log.properties).reached(places, seconds)

    def _header(self, mark: CommitMark, counts: dict[int, int], now: int) -> bytes:
        places = [(self._log.topic, b) for b in range(self._settings.buckets)]
        order = sum(BrokerCluster(self._log.properties).latest(places).values())
        return TransactionMark(self._env.uuid(), order, now, counts, mark).encode()


_LIMIT_BYTES = 64 << 20
_BUCKET, _KIND = "_BUCKET", "_KIND"
PARTS = "parts"


class StagedRows:
    """The rows of one writer. `rows`: how many of each bucket."""

    def __init__(self, io: FileIO, directory: str, compression: str, env: Env = SYSTEM) -> None:
        self._io, self._directory, self._env = io, directory, env
        self._compression = compression if compression in ("lz4", "zstd") else None
        self._files: list[str] = []
        self._waiting: list[tuple[int, pa.Array, pa.RecordBatch]] = []
        self._bytes = 0
        self.rows: dict[int, int] = {}

    @classmethod
    def staged(cls, io: FileIO, directory: str, message: bytes) -> StagedRows:
        """The rows that a message of `stage` names; raises Corrupt for anything else."""
        staged = cls(io, directory, "none")
        try:
            body = json.loads(message)
            staged._files = [_plain(name) for name in body["parts"]]
            staged.rows = {int(bucket): int(rows) for bucket, rows in body["rows"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Corrupt(directory, f"{message[:80]!r} does not name staged rows of a log") from None
        return staged

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket."""
        if not rows.num_rows:
            return
        self._waiting.append((bucket, kinds, rows))
        self.rows[bucket] = self.rows.get(bucket, 0) + rows.num_rows
        self._bytes += rows.get_total_buffer_size()
        if self._bytes > _LIMIT_BYTES:
            self._spill()

    def batches(self) -> Iterator[tuple[int, pa.Array, pa.RecordBatch]]:
        """(bucket, kinds, rows) in the order of writing."""
        for name in self._files:
            with self._io.open_input(self._path(name)) as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    bucket = batch.column(0)[0].as_py()
                    yield bucket, batch.column(1), batch.select(range(2, batch.num_columns))
        yield from self._waiting

    def stage(self) -> bytes | None:
        """Put everything into part files; a message that names them, None if there are no rows. Empty
        afterwards."""
        self._spill()
        if not self._files:
            return None
        body: dict[str, Any] = {"parts": self._files, "rows": self.rows}
        self._files, self.rows = [], {}
        return json.dumps(body).encode()

    def discard(self) -> None:
        """Forget the rows and remove their part files."""
        files, self._files = self._files, []
        self._waiting, self._bytes, self.rows = [], 0, {}
        for name in files:
            self._io.delete(self._path(name))

    def _spill(self) -> None:
        if not self._waiting:
            return
        name = f"{self._env.uuid()}.arrow"
        options = pa.ipc.IpcWriteOptions(compression=self._compression)
        with self._io.open_output(self._path(name)) as file:
            self._files.append(name)
            bucket, kinds, rows = self._waiting[0]
            schema = _tagged(bucket, kinds, rows).schema
            with pa.ipc.new_stream(file, schema, options=options) as writer:
                for batch in self._waiting:
                    writer.write_batch(_tagged(*batch))
        self._waiting, self._bytes = [], 0

    def _path(self, name: str) -> str:
        return join(self._directory, PARTS, name)


def _tagged(bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
    buckets = pa.array(np.full(rows.num_rows, bucket, np.int32))
    arrays = [buckets, pc.cast(kinds, pa.int8()), *rows.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[_BUCKET, _KIND, *rows.schema.names])


def _plain(name: Any) -> str:
    if not isinstance(name, str) or "/" in name or name.startswith("."):
        raise ValueError(name)
    return name
