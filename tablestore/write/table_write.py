"""TableWrite: batches of one table → one LSM writer a bucket → commit messages. Nothing is visible until
they are committed.

Memory: all writers of a process share one pool of `write-buffer-size`; when it is full the largest flushes.
Belongs to one thread.
Sequence numbers: without a base each bucket goes on from its live maximum; with `sequence_base` (a task of
an engine) rows are
numbered from there in the order in which they are written, and no manifest is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.errors import CommitConflict, SchemaMismatch
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifest import DataFileMeta
from tablestore.lsm.memory import MemoryPool
from tablestore.lsm.sorted_run import Levels
from tablestore.lsm.writer import MergeTreeWriter
from tablestore.meta.store import Store
from tablestore.options import ChangelogProducer
from tablestore.write import bucketing
from tablestore.write.conform import as_batches, conform
from tablestore.write.support import require_writable

KIND, SEQUENCE = "_VALUE_KIND", "_SEQUENCE_NUMBER"


class TableWrite:
    """Writers of one table for one commit. `compact`: let writers compact; `changelog`: write the input
    changelog, if it has one."""

    def __init__(
        self,
        store: Store,
        *,
        pool: MemoryPool,
        compact: bool,
        changelog: bool = True,
        sequence_base: int | None = None,
        ignore_live: bool = False,
    ) -> None:
        require_writable(store.schema, store.options)
        self._store, self._pool, self._compact = store, pool, compact
        self._changelog = changelog and store.options.changelog_producer is ChangelogProducer.INPUT
        self._sequence = sequence_base
        self._writers: dict[tuple[bytes, int], MergeTreeWriter] = {}
        self._live = (
            None if ignore_live or (sequence_base is not None and not compact) else self._live_files()
        )
        self.rows = 0

    def _live_files(self) -> dict[tuple[bytes, int], list[DataFileMeta]]:
        files: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
        for e in self._store.manifests.live_entries(self._store.snapshots.latest()):
            files[e.partition, e.bucket].append(e.file)
        return files

    def write(self, data: Any, kinds: pa.Array | None = None) -> None:
        """Add rows; `kinds` are int8 row kinds of a single batch (absent: `rowkind.field`, else +I).

        Raises SchemaMismatch for data that do not fit.
        """
        for batch in as_batches(data):
            self._write(conform(batch, self._store.schema), kinds)

    def _write(self, batch: pa.RecordBatch, kinds: pa.Array | None) -> None:
        options = self._store.options
        if kinds is None and options.rowkind_field:
            kinds = rowkind.parse(batch.column(options.rowkind_field))
        if kinds is None:
            kinds = pa.array(np.zeros(batch.num_rows, dtype=np.int8))
        if len(kinds) != batch.num_rows:
            raise SchemaMismatch(f"{len(kinds)} row kinds for {batch.num_rows} rows")
        if options.ignore_delete:
            keep = pa.array(~rowkind.retracts(kinds.to_numpy(zero_copy_only=False)))
            batch, kinds = batch.filter(keep), kinds.filter(keep)
        self.rows += batch.num_rows
        batch = batch.append_column(KIND, kinds)
        if self._sequence is not None:
            numbers = np.arange(self._sequence, self._sequence + batch.num_rows)
            self._sequence += batch.num_rows
            batch = batch.append_column(SEQUENCE, pa.array(numbers))
        for piece in bucketing.pieces(batch):
            for partition, bucket, rows in bucketing.route(piece, self._store.schema, options):
                self._append(partition, bucket, rows)

    def _append(self, partition: bytes, bucket: int, rows: pa.RecordBatch) -> None:
        sequences = rows.column(SEQUENCE) if self._sequence is not None else None
        values = rows.select(list(self._store.schema.names))
        self._writer(partition, bucket).append(values, rows.column(KIND), sequences)

    def _writer(self, partition: bytes, bucket: int) -> MergeTreeWriter:
        if (partition, bucket) not in self._writers:
            store, files = self._store, (self._live or {}).get((partition, bucket), [])
            self._writers[partition, bucket] = MergeTreeWriter(
                store.env,
                store.io,
                store.schema,
                store.options,
                partition=partition,
                bucket=bucket,
                total_buckets=store.options.bucket,
                directory=store.bucket_dir(partition, bucket),
                levels=Levels.of(files, store.options.num_levels, store.key_order),
                pool=self._pool,
                next_sequence=max((f.max_sequence for f in files), default=-1) + 1,
                compact=self._compact,
                changelog=self._changelog,
                schema_of=store.schema_of,
            )
        return self._writers[partition, bucket]

    def prepare(self) -> list[CommitMessage]:
        """Flush everything; one message for each bucket that changed. Writing may go on afterwards."""
        messages: list[CommitMessage] = []
        try:
            for writer in self._writers.values():
                messages.append(writer.prepare())
        except BaseException:
            self.abort()
            discard(self._store, messages)
            raise
        return [m for m in messages if not m.empty]

    def abort(self) -> None:
        """Delete what was written: nothing of it was committed."""
        writers, self._writers = list(self._writers.values()), {}
        for writer in writers:
            writer.abort()


def kinds_column(batch: pa.RecordBatch, column: str) -> tuple[pa.RecordBatch, pa.Array]:
    """`batch` without its row-kind column, and the kinds; raises SchemaMismatch if it has none."""
    if column not in batch.schema.names:
        raise SchemaMismatch(
            f"row kind column {column!r} is not in the data; columns: {', '.join(batch.schema.names)}"
        )
    at = batch.schema.get_field_index(column)
    return batch.remove_column(at), rowkind.parse(batch.column(at))


@contextmanager
def refused_leaves_nothing(store: Store, messages: Sequence[CommitMessage]) -> Iterator[None]:
    """Around a commit of messages that nobody will commit again: if it is refused, their files go."""
    try:
        yield
    except CommitConflict as e:
        discard(store, messages, compactions_only=bool(e.published))
        raise


def discard(store: Store, messages: Iterable[CommitMessage], *, compactions_only: bool = False) -> None:
    """Delete the files of messages that no snapshot names and none ever will (their commit was refused)."""
    for m in messages:
        moved = {f.file_name for f in m.compact_before}
        files = [f for f in (*m.compact_after, *m.compact_changelog) if f.file_name not in moved]
        if not compactions_only:
            files += [*m.new_files, *m.changelog_files]
        for file in files:
            store.io.delete(store.file_path(m.partition, m.bucket, file))
