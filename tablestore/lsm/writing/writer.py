"""MergeTreeWriter: rows of one bucket → level-0 files, their changelog, and compactions → one commit message
(FORMAT.md 10.1).

Sequence numbers are stamped in order of arrival unless the caller gives them. Rows are buffered in the order
of arrival; a flush orders the buffer, folds equal keys and writes level 0. Rows whose keys arrive strictly
increasing are flushed without a sort, gather or copy. Otherwise one stable sort of key codes orders them, and
rows are gathered in pieces that fit the CPU cache. `changelog` writes all rows, before folding, to changelog
files. With `compact` the writer compacts when it prepares, and in between when more than
`num-sorted-run.stop-trigger` runs (leveled: files of level 0) have gathered: the write stall. Tables whose
compaction looks keys up compact level 0 each time; the changelog and deletion vectors of that are in the
message, too. Nothing is visible until it is committed. Belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from tablestore.core.errors import SchemaMismatch
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import APPEND_SOURCE, DataFileMeta
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.compaction.compact_result import CompactResult, rewrite_and_record
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.loop import CompactionLoop
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.recording import planned
from tablestore.lsm.compaction.rewriter import Rewriter
from tablestore.lsm.levels.bucket import Bucket, BucketFiles, FileNames, RollingWriter, write_all
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import ARRIVAL, Groups, MergeFunction, SequenceOrder, grouped, joined, take
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.record_expiry import expired_files
from tablestore.lsm.writing.memory import Flushing, MemoryPool, Workers, settled

_PIECE_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The rows of a buffer, sorted once; can be read merged, raw, or both."""

    batches: tuple[pa.RecordBatch, ...]  # in order of arrival; one batch if `groups` are given
    groups: Groups | None  # None: the batches are in key order, each key once

    def folded(self, function: MergeFunction) -> Iterator[pa.RecordBatch]:
        """One row a key, in key order."""
        if self.groups is None:
            yield from self.batches
            return
        starts, ends = self.groups.starts, self.groups.ends
        first = 0
        while first < len(starts):
            last = int(np.searchsorted(ends, starts[first] + _PIECE_ROWS, side="right"))
            last = max(last, first + 1)
            begin, end = int(starts[first]), int(ends[last - 1])
            piece = Groups(self.groups.order[begin:end], starts[first:last] - begin)
            folded = function.merge(self.batches[0], piece)
            if folded.num_rows:
                yield folded
            first = last

    def raw(self) -> Iterator[pa.RecordBatch]:
        """Every row, in the order in which it is folded."""
        if self.groups is None:
            yield from self.batches
            return
        order = self.groups.order
        for start in range(0, len(order), _PIECE_ROWS):
            yield take(self.batches[0], order[start : start + _PIECE_ROWS])


class WriteBuffer:
    """kv batches of one bucket and the bytes they hold."""

    def __init__(self, keys: Sequence[DataField], sequence: SequenceOrder = ARRIVAL) -> None:
        self._keys, self._sequence = keys, sequence
        self._batches: list[pa.RecordBatch] = []
        self._settled = 0  # leading batches that own their memory
        self.bytes = 0
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows after those before."""
        if batch.num_rows:
            self._batches.append(batch)
            self.bytes += batch.nbytes
            self.rows += batch.num_rows

    def settle(self) -> None:
        """Copy slices of larger batches, so that these can be freed."""
        self._batches[self._settled :] = settled(self._batches[self._settled :])
        self._settled = len(self._batches)

    def drain(self) -> SortedRows:
        """All buffered rows, sorted; the buffer is empty afterwards."""
        batches = tuple(self._batches)
        self._batches, self._settled, self.bytes, self.rows = [], 0, 0, 0
        parts = key_columns.of_columns(batches, self._keys)
        if key_columns.strictly_increasing(parts):
            return SortedRows(batches, None)
        rows = joined(batches)
        return SortedRows((rows,), grouped(key_columns.codes(parts), self._sequence.numbers(rows)))


log = logging.getLogger(__name__)
_LEAST_ROWS = 1_000  # of a piece of a large batch
_MAX_BYTES = 1 << 30  # text columns of one batch must stay below 2 GiB


@dataclass(frozen=True, slots=True)
class FlushedFiles:
    """The files that one flush made."""

    data: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...]


class MergeTreeWriter:
    """Writes one bucket; `next_sequence` is greater than every live sequence number.

    `compact`: compact its files, too; with `produce` compactions write the changelog of the table's
    producer.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        pool: MemoryPool,
        next_sequence: int,
        compact: bool,
        changelog: bool,
        produce: bool = True,
        workers: Workers | None = None,
    ) -> None:
        self._bucket, self._files = bucket, BucketFiles(bucket)
        schema, options = bucket.schema, bucket.options
        self._names = FileNames(self._files)
        self._kv_schema = kv_schema(schema)
        self._function = merge_function(schema, options)
        self._options = CompactionOptions.of(options)
        self._deletions = BucketDeletions(bucket) if compact and options.deletion_vectors else None
        self._compact, self._produce = compact, produce
        self._changelog = changelog
        self._waits = options.lookup_wait or not options.needs_lookup or not produce
        self._next_sequence = next_sequence
        self._loop = CompactionLoop(
            bucket.levels, self._options, carry_out=self._carry_out, now_ms=bucket.env.local_now_ms
        )
        self._buffer = WriteBuffer(schema.key_fields, self._function.sequence)
        self._pool = pool
        self._flushing = Flushing(self, self._take, pool=pool, workers=workers)
        self._new: list[DataFileMeta] = []
        self._new_changelog: list[DataFileMeta] = []
        self._compacted = CompactResult()

    @cached_property
    def _rewriter(self) -> Rewriter:
        """Made for the first compaction, which most commits do without."""
        return Rewriter(self._files, deletions=self._deletions, produce=self._produce)

    @property
    def levels(self) -> Levels:
        """The levels of the bucket once everything flushed and compacted so far is committed."""
        return self._loop.levels

    @property
    def waiting_bytes(self) -> int:
        """Bytes that `prepare` may have to write: the buffer, and files that it may compact."""
        live = sum(f.file_size for f in self.levels.files) if self._compact else 0
        return self._buffer.bytes + live

    def reserve(self, rows: int) -> int:
        """The first of `rows` sequence numbers, which this writer assigns to no other rows."""
        first, self._next_sequence = self._next_sequence, self._next_sequence + rows
        return first

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None:
        """Add rows of the table's columns; row kinds default to +I, sequence numbers to the next ones.

        Either every call passes sequence numbers, or they are reserved. May flush this or another writer of
        the pool. Rows that are larger than the pool twice are added piece by piece.
        """
        rows = values.num_rows
        if kinds is None:
            kinds = pa.array(np.zeros(rows, dtype=np.int8))
        if sequences is None:
            first = self.reserve(rows)
            sequences = pa.array(np.arange(first, first + rows))
        if len(kinds) != rows or len(sequences) != rows:
            raise SchemaMismatch(f"{rows} rows, {len(kinds)} row kinds, {len(sequences)} sequence numbers")
        pieces = max(values.nbytes // self._pool.limit_bytes, 1)
        piece = max(-(-rows // pieces), _LEAST_ROWS)
        for start in range(0, rows, piece):
            part = slice(start, start + piece)
            self._append(values[part], kinds[part], sequences[part])

    def _append(self, values: pa.RecordBatch, kinds: pa.Array, sequences: pa.Array) -> None:
        self._flushing.require_whole()
        batch = pa.RecordBatch.from_arrays([sequences, kinds, *values.columns], schema=self._kv_schema)
        if self._buffer.bytes > _MAX_BYTES:
            self.flush()
        self._buffer.append(batch)
        self._pool.report(self, self._buffer.bytes)

    def settle(self) -> None:
        """Copy slices of larger batches, so that these can be freed."""
        self._buffer.settle()

    def flush(self) -> None:
        """Write the buffered rows to level 0, in the background if there are workers and it pays. If that
        fails the rows are lost, and only `abort` may be called."""
        self._flush(background=True)

    def _flush(self, *, background: bool) -> None:
        self._flushing.require_whole()
        self.wait()
        if not self._buffer.rows:
            return
        if self._compact:
            with self._flushing.losing_rows():
                self._stall()
        buffer = self._buffer
        self._buffer = WriteBuffer(self._bucket.schema.key_fields, self._function.sequence)
        self._flushing.run(partial(self._written, buffer), buffer.bytes, background=background)

    def _written(self, buffer: WriteBuffer) -> FlushedFiles:
        """The files of level 0 made of a buffer; on an error all are deleted. Runs on any thread, one at a
        time."""
        changelog: tuple[DataFileMeta, ...] = ()
        rows = buffer.drain()
        try:
            if self._changelog:
                raw = RollingWriter(
                    self._files, self._names.changelog, level=0, source=APPEND_SOURCE, changelog=True
                )
                changelog = write_all(raw, rows.raw())
            data = RollingWriter(self._files, self._names.data, level=0, source=APPEND_SOURCE)
            return FlushedFiles(write_all(data, rows.folded(self._function)), changelog)
        except BaseException:
            self._files.delete(changelog)
            raise

    def wait(self) -> None:
        """Return when the running flush has ended; raises its error."""
        self._flushing.wait()

    def _take(self, flushed: FlushedFiles) -> None:
        self._new += flushed.data
        self._new_changelog += flushed.changelog
        self._loop.levels = self.levels.apply((), flushed.data)

    def _stall(self) -> None:
        """Compact while there are more runs than the stop trigger."""
        for _ in self._loop.relieve():
            backlog = self._options.backlog(self.levels)
            log.info("%s: waited for compaction, now %d runs", self._bucket.directory, backlog)

    def _compact_fully(self) -> None:
        """Compact everything to the oldest level."""
        must_rewrite = self._deletions.names() if self._deletions is not None else frozenset()
        must_rewrite |= expired_files(self._bucket, self.levels.files)
        self._loop.fully(lambda f: f.file_name in must_rewrite)

    def _carry_out(self, decision: Decision, levels: Levels) -> Levels | None:
        """The levels after a decision is carried out, None if nothing changed."""
        assert self._compact
        assert decision.unit is not None
        rewriter, unit = self._rewriter, decision.unit
        record = planned(
            decision,
            strategy=self._options.strategy.value,
            bucket=self._bucket.number,
            live=len(levels.files),
            stalled=self._loop.stalled,
        )
        result = rewrite_and_record(self._bucket, record, lambda: rewriter.run(unit, levels))
        self._compacted, between = self._compacted.then(result)
        self._files.delete(f.file_name for f in between)
        return levels.apply(result.before, result.after) if result.before else None

    def prepare(self, *, fully: bool = False) -> CommitMessage:
        """The commit message: flushes, compacts while a rule fires (with `fully`, everything); the writer can
        go on afterwards.

        Where commits need not wait for lookups (`lookup-wait` = false) only the files that earlier commits
        left at level 0 are compacted: the rows flushed now are looked up with the next commit, or by a
        compaction.
        """
        if self._waits or fully:
            self._flush(background=False)
        self.wait()
        if fully and self._compact:
            self._compact_fully()
        if self._compact:
            for decision in self._loop.settle():
                log.debug("%s: %s", self._bucket.directory, decision.rule)
        self._flush(background=False)
        new_index, replaced = self._deletions.flush() if self._deletions is not None else ((), ())
        message = self._bucket.message(
            new_files=tuple(self._new),
            changelog_files=tuple(self._new_changelog),
            compact_before=self._compacted.before,
            compact_after=self._compacted.after,
            compact_changelog=self._compacted.changelog,
            compact_new_index=new_index,
            compact_deleted_index=replaced,
            compactions=self._compacted.records,
        )
        self._new, self._new_changelog, self._compacted = [], [], CompactResult()
        self._files.hand_over()
        return message

    def abort(self) -> None:
        """Drop what is buffered and delete every file made since the last `prepare`."""
        self._flushing.abort()
        self._buffer = WriteBuffer(self._bucket.schema.key_fields, self._function.sequence)
        self._new, self._new_changelog, self._compacted = [], [], CompactResult()
        self._files.drop()
