"""Writers that keep the order of arrival, without sort or merge: of append tables (FORMAT.md 9.6), and of
postponed buckets (`bucket` = -2, FORMAT.md 9.5).

Rows are buffered until the pool is full or there are enough for the next part of a file; the open file then
encodes them at once, so that the pool bounds the memory of a process however many buckets it writes.

Sequence numbers of an append table count rows, from the bucket's last one on or from the caller's. The writer
of a bucketed table combines small neighbouring files when it prepares (`append_compaction`), unless rows of
the bucket are marked as deleted: then, and for tables without buckets, only `Table.compact` does that.
Postponed rows are written without statistics, in Avro where the types allow; sequence number −1 means none.
All files of one writer share a name prefix, by which a compaction reads them in order. Nothing is visible
until the message is committed. Each writer belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.binary_row import is_timestamp
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import APPEND_SOURCE, DataFileMeta
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.compaction import append_compaction
from tablestore.lsm.compaction.append_compaction import AppendCompaction, combine
from tablestore.lsm.compaction.compact_result import CompactResult, rewrite_and_record
from tablestore.lsm.compaction.recording import APPEND, planned
from tablestore.lsm.levels.bucket import AppendRows, Bucket, BucketFiles, FileNames, RollingWriter
from tablestore.lsm.writing.memory import Flushing, MemoryPool, Workers, settled

UNNUMBERED = -1
_BUFFERED_BYTES = 32 << 20  # more are encoded although the pool has room


class BucketRowStream:
    """Writes batches through rolling writers that `open_writer` makes, one for each `finish`."""

    def __init__(
        self, open_writer: Callable[[], RollingWriter], *, pool: MemoryPool, workers: Workers | None = None
    ) -> None:
        self._open, self._pool = open_writer, pool
        self._flushing: Flushing[None] = Flushing(self, lambda _: None, pool=pool, workers=workers)
        self._writer: RollingWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._settled = 0

    @property
    def bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._bytes

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows. May flush this or another stream of the pool."""
        self._flushing.require_whole()
        if batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > _BUFFERED_BYTES:
                self.flush()
            else:
                self._pool.report(self, self._bytes)

    def settle(self) -> None:
        """Copy slices of larger batches, so that these can be freed."""
        self._batches[self._settled :] = settled(self._batches[self._settled :])
        self._settled = len(self._batches)

    def flush(self) -> None:
        """Give the buffered rows to the open file. If that fails the rows are lost, and only `abort` may be
        called."""
        self._hand_over(background=True)

    def _hand_over(self, *, background: bool) -> None:
        self._flushing.require_whole()
        self.wait()
        batches, size = self._batches, self._bytes
        self._batches, self._bytes, self._settled = [], 0, 0
        self._flushing.run(partial(self._encode, batches), size, background=background)

    def _encode(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Runs on any thread, one at a time."""
        if not batches:
            return
        if self._writer is None:
            self._writer = self._open()
        for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
            self._writer.write(batch)
        self._writer.flush()

    def wait(self) -> None:
        """Return when the running flush has ended; raises its error."""
        self._flushing.wait()

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Write everything and close; returns the files in order. The stream can go on with new ones."""
        self._hand_over(background=False)
        writer, self._writer = self._writer, None
        if writer is None:
            return ()
        try:
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def abort(self) -> None:
        """Drop what is buffered and delete the files that are not finished."""
        self._flushing.abort()
        self._batches, self._bytes, self._settled = [], 0, 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()


class AppendWriter:
    """Writes one bucket. `compact`: combine its small files."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        pool: MemoryPool,
        next_sequence: int,
        compact: bool,
        workers: Workers | None = None,
    ) -> None:
        self._bucket, self._files, self._next = bucket, BucketFiles(bucket), next_sequence
        self._names = FileNames(self._files)
        self._live = append_compaction.in_order(bucket.files) if compact else None
        self._stream = BucketRowStream(self._open, pool=pool, workers=workers)
        self._rows = 0
        self._new: list[DataFileMeta] = []
        self._compacted = CompactResult()

    def _open(self) -> RollingWriter:
        return RollingWriter(
            self._files, self._names.data, level=0, source=APPEND_SOURCE, append=AppendRows(self._next)
        )

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None:
        """Add rows of the table's columns, inserts only; `sequences` set where counting begins."""
        require_inserts(kinds)
        if sequences is not None and not self._rows and len(sequences):
            self._next = sequences[0].as_py()
        self._rows += values.num_rows
        self._stream.append(values)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._stream.bytes

    def prepare(self) -> CommitMessage:
        """The commit message: finishes files and combines small ones; the writer can go on afterwards."""
        new = self._stream.finish()
        self._next, self._rows = self._next + self._rows, 0
        self._new += new
        if self._live is not None:
            self._live += new
            self._combine()
        message = self._bucket.message(
            new_files=tuple(self._new),
            compact_before=self._compacted.before,
            compact_after=self._compacted.after,
            compactions=self._compacted.records,
        )
        self._new, self._compacted = [], CompactResult()
        self._files.hand_over()
        return message

    def _combine(self) -> None:
        """Combine neighbours while there are enough of them; their results are not combined again."""
        assert self._live is not None
        options, waiting = AppendCompaction.of(self._bucket.options), list(self._live)
        while (decision := append_compaction.pick(waiting, options)).unit is not None:
            unit = decision.unit.files
            record = planned(decision, strategy=APPEND, bucket=self._bucket.number)
            result = rewrite_and_record(
                self._bucket, record, partial(combine, self._files, self._names.data, unit)
            )
            self._compacted, _ = self._compacted.then(result)
            last = waiting.index(unit[-1])
            waiting = waiting[last + 1 :]
            self._live = append_compaction.in_order(
                [*(f for f in self._live if f not in unit), *result.after]
            )

    def abort(self) -> None:
        """Drop what is buffered and delete every file made since the last `prepare`."""
        self._stream.abort()
        self._new, self._compacted = [], CompactResult()
        self._files.drop()


def require_inserts(kinds: pa.Array | None) -> None:
    """Raise InvalidRequest for anything but +I and +U rows."""
    if kinds is None or not len(kinds):
        return
    retracts = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
    if retracts.any():
        kind = rowkind.TEXTS[int(kinds[int(np.argmax(retracts))].as_py())]
        raise InvalidRequest(
            f"append tables take inserts only, not {kind}; 'ignore-delete' would drop such rows"
        )


class PostponeWriter:
    """Writes one partition: its postponed bucket, whose options are those of `postponed_options`."""

    def __init__(self, bucket: Bucket, *, pool: MemoryPool, workers: Workers | None = None) -> None:
        self._bucket, self._files = bucket, BucketFiles(bucket)
        self._names = FileNames(self._files)
        self._schema = kv_schema(bucket.schema)
        self._stream = BucketRowStream(self._open, pool=pool, workers=workers)

    def _open(self) -> RollingWriter:
        return RollingWriter(self._files, self._names.data, level=0, source=APPEND_SOURCE)

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None:
        """Add rows of the table's columns; sequence numbers are ignored."""
        if kinds is None:
            kinds = pa.array(np.zeros(values.num_rows, dtype=np.int8))
        unnumbered = pa.array(np.full(values.num_rows, UNNUMBERED, dtype=np.int64))
        columns = [unnumbered, kinds, *values.columns]
        self._stream.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._stream.bytes

    def prepare(self) -> CommitMessage:
        """The commit message with the finished files; the writer can go on afterwards."""
        files = self._stream.finish()
        self._files.hand_over()
        return self._bucket.message(new_files=files)

    def abort(self) -> None:
        """Drop what is buffered and delete what was not handed over."""
        self._stream.abort()
        self._files.drop()


def postponed_options(schema: TableSchema, options: TableOptions, *, user: str, number: int) -> TableOptions:
    """The options of one writer's files: with its prefix, and in Avro without statistics if Avro holds the
    table's types."""
    prefix = f"{options.data_file_prefix}-u-{user}-s-{number}-w-"
    if not all(_in_avro(f.type) for f in schema.fields):
        return replace(options, data_file_prefix=prefix)
    return replace(
        options,
        data_file_prefix=prefix,
        stats_mode="none",
        stats_mode_per_level=(),
        file_format="avro",
        file_format_per_level=(),
    )


def _in_avro(t: DataType) -> bool:
    """Whether Paimon's Avro files hold the type."""
    if t.root == "VARIANT" or (t.root == "TIME" and t.precision > 3):
        return False
    if is_timestamp(t) and t.precision > 6:
        return False
    if t.root == "MULTISET" and not t.children[0].type.is_string:
        return False
    return all(_in_avro(f.type) for f in t.children)
