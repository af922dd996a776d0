"""TableWrite: batches of one table → a writer for each bucket → commit messages. No row is visible until they
are committed.

The routing decides which bucket a row goes to; a bucket's writer sorts and merges rows (primary key), appends
them, or puts them aside (postponed buckets). Memory: all writers of a process share one pool of
`write-buffer-size`; when it is full the largest flushes. Belongs to one thread; other threads encode and
prepare buckets at the same time, unless it is a task of an engine. Sequence numbers: without a base each
bucket goes on from its live maximum; with `sequence_base` (a task of an engine) rows are numbered from there
in the order in which they are written, and no manifest is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, SchemaMismatch, SnapshotExpired, Unavailable
from tablestore.core.options.table_options import ChangelogProducer, TableOptions
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.io.confined import roots_of
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.merge.counted import counted
from tablestore.lsm.merge.merge_function import in_table, merge_function
from tablestore.lsm.merge.validate import require_acceptable, wanted_rows
from tablestore.lsm.writing.append_writer import (
    AppendWriter,
    PostponeWriter,
    postponed_options,
    require_inserts,
)
from tablestore.lsm.writing.memory import MemoryPool, Workers
from tablestore.lsm.writing.writer import MergeTreeWriter
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.store import Store, remove_made_anew
from tablestore.write import full_compaction
from tablestore.write.arrow_input import as_batches
from tablestore.write.buckets import LiveFiles, bucket_of
from tablestore.write.commit.commit_or_discard import discarded_on_error
from tablestore.write.commit.conflict_check import conflict_if_expired
from tablestore.write.commit.request import Basis
from tablestore.write.conform import conform
from tablestore.write.log_tee import LogTee
from tablestore.write.routing import routing
from tablestore.write.routing.cross_partition import CrossPartitionRouting, LocatedKeys
from tablestore.write.routing.dynamic_bucket import DynamicRouting
from tablestore.write.routing.routing import (
    ARRIVAL,
    BucketMode,
    Place,
    Routing,
    Slice,
    routing_of_rows,
    routing_to,
)
from tablestore.write.supported import require_parallel_writers, require_writable

KIND, SEQUENCE = "_VALUE_KIND", "_SEQUENCE_NUMBER"
_MAX_THREADS = 4
_MAX_SORTED_ROWS = 65_536  # batches of more are parts of larger writes
_PARALLEL_BYTES = 4 << 20  # buckets with less to write are done before threads take some over


class BucketWriter(Protocol):
    """Writes one bucket: `append` takes rows, with row kinds and sequence numbers or without, `prepare` gives
    the commit message, `abort` deletes the files. `waiting_bytes`: rows that are not yet in files."""

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None: ...
    def prepare(self) -> CommitMessage: ...
    def abort(self) -> None: ...
    @property
    def waiting_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What the writers of one commit do. `compact`: they may compact; `changelog`: they write the input
    changelog, if the table has one; `produce`: compactions write that of its producer.

    `sequence_base`: the first sequence number of a task of an engine. `ignore_live`: as if the table were
    empty, for overwriting. `bucket`: all rows are of this one, of whichever partition; their keys are not
    asked. Without `files` rows go to the table's log alone.
    """

    compact: bool = True
    changelog: bool = True
    produce: bool = True
    sequence_base: int | None = None
    ignore_live: bool = False
    bucket: int | None = None
    files: bool = True

    @property
    def of_task(self) -> bool:
        """Whether the writer is a task of an engine, beside others."""
        return self.sequence_base is not None


class TableWrite:
    """The writers of one table for one commit.

    `located` reads where keys are, which upserts across partitions need; `user` is the commit user, which is
    part of the names of postponed files. `tee` gives what takes the rows to the table's log, if it has one,
    at the snapshot that rows are numbered after.
    """

    def __init__(
        self,
        store: Store,
        settings: WriteSettings,
        *,
        pool: MemoryPool,
        user: str | None = None,
        located: LocatedKeys | None = None,
        tee: Callable[[Snapshot | None], LogTee] | None = None,
    ) -> None:
        require_writable(store.schema, store.options, roots=roots_of(store.io))
        self._store, self._pool, self._settings = store, pool, settings
        self._workers = Workers(0 if settings.of_task else _threads(store.options))
        self._sequence = settings.sequence_base
        self._mode = BucketMode.of(store.schema, store.options)
        self._user = user or store.fresh_user()
        self._routing = _routing(store, self._mode, settings, located)
        keyed = bool(store.schema.primary_keys)
        self._function = merge_function(store.schema, store.options) if keyed else None
        self._writers: dict[Place, BucketWriter] = {}
        self._failure: BaseException | None = None
        self.newest = store.newest()
        self.snapshot = self.newest.snapshot
        self.tee, self.files = None if tee is None else tee(self.snapshot), settings.files
        reads_no_files = not settings.files or settings.ignore_live
        reads_no_files |= self._mode in (BucketMode.UNAWARE, BucketMode.POSTPONE)
        reads_no_files |= settings.of_task and not settings.compact
        self._live = None if reads_no_files else LiveFiles(store, self.snapshot)
        self.rows = 0

    def _files_of(self, place: Place) -> list[DataFileMeta]:
        """The live files of a bucket, for writers that compact; others need none."""
        return self._live.of(place) if self._live is not None and self._settings.compact else []

    def _next_sequence(self, place: Place) -> int:
        return self._live.next_sequence(place) if self._live is not None else 0

    @cached_property
    def _indexes(self) -> dict[Place, list[IndexFileMeta]]:
        """The live index files by bucket."""
        indexes: dict[Place, list[IndexFileMeta]] = defaultdict(list)
        for e in self._store.manifests.index_entries(self.snapshot) if self._live is not None else ():
            indexes[e.partition, e.bucket].append(e.file)
        return indexes

    def write(self, data: Any, kinds: pa.Array | None = None) -> None:
        """Add rows; `kinds` are int8 row kinds of a single batch (absent: `rowkind.field`, else +I).

        Raises SchemaMismatch for data that do not fit.
        """
        self._require_usable()
        for batch in as_batches(data, self.schema):
            self._write(conform(batch, self.schema), kinds)

    def _require_usable(self) -> None:
        if self._failure is not None:
            text = f"a write failed and lost its rows; abort and write again: {self._failure}"
            raise Unavailable(0, text) from self._failure

    @property
    def schema(self) -> TableSchema:
        """The schema that rows are written under."""
        return self._store.schema.shown

    def write_stored(self, batch: pa.RecordBatch, kinds: pa.Array | None = None) -> None:
        """Add rows in the form in which the table stores them: with their counts, if the table counts
        rows."""
        self._require_usable()
        self._write(conform(batch, self._store.schema), kinds)

    def _write(self, batch: pa.RecordBatch, kinds: pa.Array | None) -> None:
        options = self._store.options
        if kinds is None and options.rowkind_field:
            kinds = rowkind.parse(batch.column(options.rowkind_field))
        if kinds is None:
            kinds = pa.array(np.zeros(batch.num_rows, dtype=np.int8))
        if len(kinds) != batch.num_rows:
            raise SchemaMismatch(f"{len(kinds)} row kinds for {batch.num_rows} rows")
        keep = wanted_rows(options, kinds.to_numpy(zero_copy_only=False))
        if keep is not None:
            batch, kinds = batch.filter(keep), kinds.filter(keep)
        if self._function is None:
            require_inserts(kinds)
        else:
            require_acceptable(self._function, options, kinds.to_numpy(zero_copy_only=False))
        self.rows += batch.num_rows
        count = self._store.schema.row_count_field
        if count is not None and count not in batch.schema.names:
            batch, kinds = counted(batch, kinds, count)
        batch = batch.append_column(KIND, kinds)
        if self._sequence is not None:
            numbers = np.arange(self._sequence, self._sequence + batch.num_rows)
            self._sequence += batch.num_rows
            batch = batch.append_column(SEQUENCE, pa.array(numbers))
        try:
            with in_table(self._store.paths.root), self._of_this_table(), self._expiring():
                for partition, bucket, rows in self._routed(batch):
                    if self.tee is not None:
                        self.tee.add(bucket, rows.column(KIND), rows)
                    if self.files:
                        self._append(partition, bucket, rows)
                if self.tee is not None:
                    self.tee.end_batch()
        except BaseException as e:
            self._failure = e  # some of the batch's rows may be written, others not
            raise

    def log_removed(self, bucket: int, rows: pa.RecordBatch) -> None:
        """Tell the log, if there is one, of rows without a key that marks in files remove."""
        if self.tee is not None and rows.num_rows:
            self.tee.add(bucket, pa.array(np.full(rows.num_rows, rowkind.DELETE, np.int8)), rows)

    def _routed(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """A slice for each bucket; in key order for a small commit, so that writers need not gather them
        again."""
        alone = (
            self._settings.bucket is None
            and not self._settings.of_task
            and not self._writers
            and batch.num_rows <= _MAX_SORTED_ROWS
        )
        if alone and self._function is not None and self._mode is BucketMode.FIXED:
            return routing.route(batch, self._store.schema, self._store.options, by_key=True)
        return self._routing.route(batch)

    def _append(self, partition: bytes, bucket: int, rows: pa.RecordBatch) -> None:
        writer = self._writer(partition, bucket)
        sequences = rows.column(SEQUENCE) if self._sequence is not None else None
        if ARRIVAL in rows.schema.names:
            assert isinstance(writer, MergeTreeWriter), "only rows of keys come in key order"
            sequences = pc.add(rows.column(ARRIVAL), writer.reserve(rows.num_rows))
        values = rows.select(list(self._store.schema.names))
        writer.append(values, rows.column(KIND), sequences)

    def _writer(self, partition: bytes, bucket: int) -> BucketWriter:
        place = partition, bucket
        if place not in self._writers:
            if self._mode is BucketMode.POSTPONE:
                self._writers[place] = self._postponed(partition)
            elif self._store.schema.primary_keys:
                self._writers[place] = self._merging(partition, bucket)
            else:
                self._writers[place] = self._appending(partition, bucket)
        return self._writers[place]

    def _merging(self, partition: bytes, number: int) -> MergeTreeWriter:
        place, settings = (partition, number), self._settings
        marks = settings.compact and self._store.options.deletion_vectors
        index_files = self._indexes[place] if marks else ()
        bucket = bucket_of(self._store, *place, files=self._files_of(place), index_files=index_files)
        inputs = self._store.options.changelog_producer is ChangelogProducer.INPUT
        return MergeTreeWriter(
            bucket,
            pool=self._pool,
            next_sequence=self._next_sequence(place),
            compact=settings.compact,
            changelog=settings.changelog and inputs and bucket.options.change_tracking,
            produce=settings.produce and not settings.ignore_live,
            workers=self._workers,
        )

    def _appending(self, partition: bytes, bucket: int) -> AppendWriter:
        place = partition, bucket
        marked = self._live is not None and place in self._marked
        combining = self._settings.compact and self._mode is BucketMode.FIXED and not marked
        return AppendWriter(
            bucket_of(self._store, *place, files=self._files_of(place) if combining else ()),
            pool=self._pool,
            next_sequence=self._next_sequence(place),
            compact=combining,
            workers=self._workers,
        )

    @cached_property
    def _marked(self) -> Container[Place]:
        """The buckets in which deletion vectors mark rows."""
        return deletion_files(self._store, self._store.snapshots.latest())

    def _postponed(self, partition: bytes) -> PostponeWriter:
        number = int(self._store.env.jitter() * (2**31 - 1))
        options = postponed_options(self._store.schema, self._store.options, user=self._user, number=number)
        total = POSTPONE_BUCKET  # which says that they have no number yet
        bucket = bucket_of(self._store, partition, POSTPONE_BUCKET, total_buckets=total, options=options)
        return PostponeWriter(bucket, pool=self._pool, workers=self._workers)

    @property
    def basis(self) -> Basis | None:
        """The snapshot in which keys were located, if they were."""
        routing = self._routing
        return routing.basis if isinstance(routing, CrossPartitionRouting | DynamicRouting) else None

    @property
    def compacted_from(self) -> int:
        """The id of the snapshot whose files the writers compact, 0 for the empty table."""
        return self.snapshot.id if self.snapshot is not None else 0

    def prepare(self) -> list[CommitMessage]:
        """Flush everything; a commit message for each bucket that changed. Writing may go on afterwards."""
        done: dict[Place, CommitMessage] = {}
        with discarded_on_error(self._store, done.values()), self._aborted_on_error():
            self._require_usable()
            with in_table(self._store.paths.root), self._of_this_table(), self._expiring():
                self._prepare_writers(done)
                indexes = self._routing.prepare()
        messages = []
        for m in (done[place] for place in self._writers):
            change = indexes.get((m.partition, m.bucket))
            if change is not None:
                m = replace(m, new_index=(*m.new_index, *change.new), deleted_index=change.deleted)
            messages.append(m)
        return [m for m in messages if not m.empty]

    @contextmanager
    def _of_this_table(self) -> Iterator[None]:
        """A context that raises NotFound where files are missing because the table has gone."""
        try:
            yield
        except (Corrupt, SnapshotExpired):
            self._store.require_same()
            raise

    def _expiring(self) -> AbstractContextManager[None]:
        """A context that raises CommitConflict where the snapshot that is read here expires."""
        return conflict_if_expired(self._store, self.compacted_from)

    def _prepare_writers(self, done: dict[Place, CommitMessage]) -> None:
        """Put each writer's message into `done`; on threads if there is enough to do."""
        fully = self._full_compactions_due()

        def prepare(place: Place, writer: BucketWriter, due: bool) -> None:
            if due:
                assert isinstance(writer, MergeTreeWriter), "only LSM trees are compacted fully"
                done[place] = writer.prepare(fully=True)
            else:
                done[place] = writer.prepare()

        jobs = [partial(prepare, place, writer, fully(place)) for place, writer in self._writers.items()]
        if sum(writer.waiting_bytes for writer in self._writers.values()) >= _PARALLEL_BYTES:
            self._workers.every(jobs)
            return
        for job in jobs:
            job()

    def _full_compactions_due(self) -> Callable[[Place], bool]:
        """The buckets that are compacted fully now; opens writers of those that got no rows."""
        store, every = self._store, full_compaction.interval(self._store.options)
        compacts = self._settings.compact and bool(store.schema.primary_keys)
        if self._live is None or not compacts or every is None:
            return lambda _: False
        due = full_compaction.due(store, self.snapshot, every)
        top = store.options.num_levels - 1
        for place in self._live.places:
            rescaled = self._live.total_buckets(place) != store.options.bucket  # no rows go there any more
            waits = place[1] >= 0 and not rescaled and due(place)
            if waits and any(f.level < top for f in self._live.of(place)):
                self._writer(*place)
        return due

    @contextmanager
    def _aborted_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise

    def __enter__(self) -> TableWrite:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; if the block raised, files that were not prepared are deleted."""
        if kind is not None:
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Delete the files that were written: none is committed."""
        self.close()  # what threads still finish goes, too
        writers, self._writers = list(self._writers.values()), {}
        with ExitStack() as each:  # an interrupt of one keeps none of the others open
            each.callback(remove_made_anew, self._store.io, self._store.paths.root)
            if self.tee is not None:
                each.callback(self.tee.abort)
            for writer in writers:
                each.callback(writer.abort)

    def close(self) -> None:
        """Free buffers and scratch files; files of messages stay."""
        self._workers.close()
        self._routing.close()


def _threads(options: TableOptions) -> int:
    """How many threads a write uses beside its own; none where Arrow may use one only
    (`pa.set_cpu_count`)."""
    if options.write_threads is not None:
        return options.write_threads
    return min(pa.cpu_count(), _MAX_THREADS) if pa.cpu_count() > 1 else 0


def _routing(store: Store, mode: BucketMode, settings: WriteSettings, located: LocatedKeys | None) -> Routing:
    """The routing of the table's rows."""
    if settings.bucket is not None:
        return routing_to(store.schema, settings.bucket)
    if mode in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION):
        empty = settings.ignore_live
        if settings.of_task:
            require_parallel_writers(store.schema, store.options)
        if mode is BucketMode.DYNAMIC:
            return DynamicRouting(store, ignore_live=empty)
        return CrossPartitionRouting(store, tuple if empty or located is None else located, ignore_live=empty)
    return routing_of_rows(store.schema, store.options)


def kinds_column(batch: pa.RecordBatch, column: str) -> tuple[pa.RecordBatch, pa.Array]:
    """(`batch` without its row-kind column, the kinds); raises SchemaMismatch if it has no such column."""
    if column not in batch.schema.names:
        raise SchemaMismatch(
            f"row kind column {column!r} is not in the data; columns: {', '.join(batch.schema.names)}"
        )
    at = batch.schema.get_field_index(column)
    return batch.remove_column(at), rowkind.parse(batch.column(at))
