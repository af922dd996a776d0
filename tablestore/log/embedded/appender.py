"""The appender of an embedded log: rows → chunks → one log file, which is the transaction.

Few rows lie in the log file itself. Above `memory_bytes` they wait in a part file, chunk by chunk, and so do
those that a task stages: the log file then only names them, so nothing is copied at commit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablestore.core.errors import CommitUnknown, Corrupt, InvalidRequest, SchemaMismatch, TablestoreError
from tablestore.core.options.log_store import LogCompression
from tablestore.log.embedded import files
from tablestore.log.embedded.directory import LogDirectory
from tablestore.log.embedded.files import LogChunk, LogHeader, LogTransaction
from tablestore.log.log import Appended, CommitMark, RowsInBetween
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings

log = logging.getLogger(__name__)


class EmbeddedAppender:
    """Appends rows of one writer to an embedded log. Belongs to one thread. Memory: `memory_bytes`."""

    def __init__(
        self,
        directory: LogDirectory,
        settings: LogSettings,
        *,
        memory_bytes: int,
        appended: Callable[[int], None],
    ) -> None:
        self._directory, self._memory_bytes, self._appended = directory, memory_bytes, appended
        self._schema, self._buckets, self._fsync = settings.schema, settings.buckets, settings.fsync
        self._table = settings.uuid
        self._compression = (
            None if settings.compression is LogCompression.NONE else settings.compression.value
        )
        schema = settings.schema
        kind = pa.field(files.KIND, pa.int8(), nullable=False)
        self._arrow = pa.schema([kind, *schema.arrow])
        self._pending: dict[int, list[pa.RecordBatch]] = {}
        self._pending_bytes = 0
        self._chunks: list[LogChunk] = []
        self._body: list[pa.Buffer] = []
        self._part: _PartFile | None = None
        self._staged_parts: list[str] = []
        self._in_doubt: LogTransaction | None = None
        self._failure: BaseException | None = None

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket, in their order; nobody sees them yet."""
        self._require_sound()
        if not 0 <= bucket < self._buckets:
            raise InvalidRequest(f"bucket {bucket} of a log of {self._buckets} buckets")
        if not rows.num_rows:
            return
        batch = self._batch(kinds, rows)
        self._pending.setdefault(bucket, []).append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes > self._memory_bytes:
            self._spill()

    def flush(self) -> Appended | None:
        """Make what was written visible now, without a mark; None if there was nothing."""
        return self._append(None, (), None)

    def stage(self) -> bytes | None:
        """What was written as a message for `commit` in another process; None if there was nothing."""
        self._require_sound()
        if not self._pending and not self._chunks:
            return None
        self._spill()
        part = self._close_part()
        message = json.dumps({"chunks": [files.chunk_to_json(chunk) for chunk in self._chunks]}).encode()
        self._staged_parts.append(part)
        self._chunks = []
        return message

    def commit(
        self, mark: CommitMark, staged: Sequence[bytes] = (), *, after: Offsets | None = None
    ) -> Appended | None:
        """Append what was written, and what others staged, as one transaction; None if there was nothing.

        With `after` only if its buckets have no rows behind these offsets, else RowsInBetween is raised; the
        next number is taken only by who has seen what comes before it. After CommitUnknown the same call
        again finds out what happened, and appends only what is not there.
        """
        return self._append(mark, staged, after)

    def abort(self) -> None:
        """Forget what was written and not committed; staged parts of this appender go, too. Parts of a
        transaction that may be there stay."""
        in_doubt, self._in_doubt, self._failure = self._in_doubt, None, None
        self._pending, self._pending_bytes, self._chunks, self._body = {}, 0, [], []
        part, self._part = self._part, None
        uuids, self._staged_parts = self._staged_parts, []
        if part is not None:
            with contextlib.suppress(TablestoreError, OSError):
                part.sink.close()
            uuids.append(part.uuid)
        if in_doubt is None:
            for uuid in uuids:
                self._directory.io.delete(self._directory.part_path(uuid))

    def _batch(self, kinds: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
        missing = [name for name in self._schema.names if name not in rows.schema.names]
        if missing:
            raise SchemaMismatch(f"rows for the log lack column {missing[0]!r}")
        columns = [rows.column(name) for name in self._schema.names]
        types = self._arrow.types
        arrays = [a if a.type == t else a.cast(t) for a, t in zip([kinds, *columns], types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _append(
        self, mark: CommitMark | None, staged: Sequence[bytes], after: Offsets | None
    ) -> Appended | None:
        self._require_sound()
        if self._in_doubt is not None:
            landed, self._in_doubt = self._landed(self._in_doubt), None
            if landed is not None:
                return self._done(landed)
        self._encode()
        chunks = [*self._chunks, *(chunk for message in staged for chunk in _staged(message))]
        if not chunks:
            return None
        while True:
            header = self._header(mark, chunks)
            transaction = header.transactions[0]
            if after is not None:
                self._require_end(after, transaction.ranges)
            try:
                published = self._directory.put(header, self._body, fsync=self._fsync)
            except CommitUnknown:
                self._in_doubt = transaction
                raise
            if published:
                return self._done(transaction)
            self._directory.end()

    def _require_end(self, after: Offsets, buckets: Iterable[int]) -> None:
        """Raise RowsInBetween where the log, as last seen, has rows behind these offsets."""
        end = self._directory.last_end().offsets
        for bucket in buckets:
            if end.get(bucket, 0) > after.get(bucket, 0):
                raise RowsInBetween(
                    f"bucket {bucket} of the log ends at offset {end[bucket]}, not {after.get(bucket, 0)}"
                )

    def _header(self, mark: CommitMark | None, chunks: Sequence[LogChunk]) -> LogHeader:
        end = self._directory.last_end()
        start = end.next_start(self._buckets)
        offsets = dict(start)
        placed = []
        for chunk in chunks:
            placed.append(chunk.at(offsets.get(chunk.bucket, 0)))
            offsets[chunk.bucket] = placed[-1].end
        ranges = {c.bucket: (start.get(c.bucket, 0), offsets[c.bucket]) for c in chunks}
        env = self._directory.env
        now = max(env.now_ms(), end.timestamp_ms)  # a clock that jumps back does not change the order
        number = end.number + 1
        transaction = LogTransaction(number, env.uuid(), now, ranges, mark)
        length = sum(len(buffer) for buffer in self._body)
        return LogHeader(number, number, start, (transaction,), placed, length, end.cut, self._table)

    def _done(self, transaction: LogTransaction) -> Appended:
        self._chunks, self._body, self._staged_parts = [], [], []
        self._appended(transaction.number)
        return transaction.appended

    def _landed(self, transaction: LogTransaction) -> LogTransaction | None:
        """The transaction if it is in the log."""
        self._directory.end()
        self._directory.forget()
        for first, last in self._directory.chain():
            if first <= transaction.number <= last:
                try:
                    transactions = self._directory.file((first, last)).header.transactions
                except Corrupt:
                    return None
                return next((t for t in transactions if t.uuid == transaction.uuid), None)
        return None

    def _encode(self) -> None:
        """Make chunks of the rows that wait: in the part file if there is one, else for the log file."""
        if self._part is not None:
            self._spill()
            self._close_part()
            return
        for bucket, batches in self._pending.items():
            data = files.encode_rows(batches, self._compression)
            position = sum(len(buffer) for buffer in self._body)
            self._chunks.append(self._chunk(bucket, batches, data, position, None))
            self._body.append(data)
        self._pending, self._pending_bytes = {}, 0

    def _spill(self) -> None:
        """Move all rows that wait to the part file."""
        try:
            if self._part is None:
                uuid = self._directory.env.uuid()
                self._part = _PartFile(uuid, self._directory.io.open_output(self._directory.part_path(uuid)))
            part = self._part
            for bucket in list(self._pending):
                batches = self._pending.pop(bucket)
                data = files.encode_rows(batches, self._compression)
                part.sink.write(data)
                self._chunks.append(self._chunk(bucket, batches, data, part.length, part.uuid))
                part.length += len(data)
            inline, self._body = self._body, []
            if inline:  # rows of a transaction that failed before
                moved = iter(inline)
                for i, chunk in enumerate(self._chunks):
                    if chunk.part is None:
                        part.sink.write(data := next(moved))
                        self._chunks[i] = replace(chunk, part=part.uuid, position=part.length)
                        part.length += len(data)
        except (TablestoreError, OSError) as e:
            self._failure = e
            raise
        self._pending_bytes = 0

    def _close_part(self) -> str:
        assert self._part is not None
        part, self._part = self._part, None
        try:
            part.sink.close()
        except (TablestoreError, OSError) as e:
            self._failure, self._part = e, part
            raise
        return part.uuid

    def _chunk(
        self, bucket: int, batches: list[pa.RecordBatch], data: pa.Buffer, position: int, part: str | None
    ) -> LogChunk:
        rows = sum(batch.num_rows for batch in batches)
        return LogChunk(bucket, self._schema.id, 0, rows, rows, position, len(data), zlib.crc32(data), part)

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise InvalidRequest(
                f"rows of this appender were lost, abort() and write them again: {self._failure}"
            )


@dataclass(slots=True)
class _PartFile:
    """A part file that is being written."""

    uuid: str
    sink: Any
    length: int = 0


def _staged(message: bytes) -> list[LogChunk]:
    try:
        return [LogChunk(*chunk) for chunk in json.loads(message)["chunks"]]
    except (ValueError, KeyError, TypeError):
        raise InvalidRequest("a staged message of a log cannot be read") from None
