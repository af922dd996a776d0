"""The union read: a snapshot merged with the rows of the log behind it, as if they had been committed.

The table's own writer puts those rows into level-0 files of a scratch folder, numbered after all rows of the
snapshot; one plan over both then merges them as it does any level 0, by every merge engine. Nothing is
committed and no file of the table changes. Memory: a write buffer; disk: the rows of the log, until nobody
refers to the read any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.log_store import LogSystem
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.io.confined import confined, roots_of
from tablestore.io.paths import TablePaths, join
from tablestore.io.scratch import ScratchFileIO, scratch_folder
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log, LogBatch, LogExpired
from tablestore.log.offsets import Offsets, reaches
from tablestore.meta.entries import PartitionFilter
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.read.scan import fallback, time_travel
from tablestore.read.scan.plan import FileChoice, Plan
from tablestore.read.scan.plan import plan as planned
from tablestore.read.scan.scan_mode import ScanTarget, SnapshotState
from tablestore.read.table_log import TableLog, furthest, of_buckets, offsets_at, removes_rows
from tablestore.table.writer import shared_pool
from tablestore.write.table_write import TableWrite, WriteSettings

_OF_THE_TABLE = (
    *("log.", "kafka.", "tablestore.log.", "tablestore.tiering.", "tablestore.scan.log", "scan."),
    *("incremental-", "data-file.", "file-index.", "changelog-", "file.compression", "file.format"),
    "write-mode",
)
_PLAIN = {"file.format": "parquet", "file.compression": "none", "tablestore.history.enabled": "false"}


@dataclass(frozen=True, slots=True)
class UnionPart:
    """One bucket of a union read (None: all), for a task elsewhere: of which snapshot, and from where to
    where in the log. Picklable."""

    snapshot: int | None
    start: Offsets = field(hash=False)
    stop: Offsets = field(hash=False)
    bucket: int | None


@dataclass(frozen=True, eq=False)
class UnionState:
    """The rows of a snapshot (None: of a table without any) and those of the log from its offsets `start` up
    to `stop`; with `bucket` of that one alone.

    `travelled`: the snapshot was asked for by name, so it is read under its own columns.
    """

    snapshot: Snapshot | None
    log: TableLog
    start: Offsets
    stop: Offsets
    travelled: bool = False
    bucket: int | None = None

    whole: ClassVar[bool] = False  # other engines cannot plan it: the log's rows are in nobody else's files

    @cached_property
    def folder(self) -> str:
        """The scratch folder with the log's rows, as long as this is referred to."""
        return scratch_folder(self)

    def under(self, store: Store) -> Store:
        """The store that reads the table and the scratch folder, with today's columns or those that the
        snapshot had."""
        then = time_travel.at(store, self.snapshot) if self.travelled else store
        io = confined(then.io, then.paths.root, (*roots_of(then.io), self.folder))
        return replace(then, io=io)

    @cached_property
    def _behind(self) -> dict[tuple[str, Predicate | None], tuple[ManifestEntry, ...]]:
        return {}

    def behind(self, store: Store, where: Predicate | None = None) -> tuple[ManifestEntry, ...]:
        """The level-0 files that hold the log's rows, but for those that `where` says of themselves that they
        and other rows of their key are not selected; written when they are first asked for."""
        asked = store.paths.root, self._of_keys(store, where)
        if asked not in self._behind:
            folder = join(self.folder, str(len(self._behind)))
            self._behind[asked] = tuple(self._written(store, folder, asked[1]))
        return self._behind[asked]

    def _of_keys(self, store: Store, where: Predicate | None) -> Predicate | None:
        """The part of a condition that all rows of a key meet, or none of them: that on columns of the key.
        Without a key each row stands for itself."""
        if where is None or store.schema.id != self.log.schema.id:  # its columns had other names, maybe
            return None
        keys = frozenset(store.schema.shown.primary_keys) or frozenset(store.schema.shown.names)
        terms = [p for p in predicate.conjuncts(predicate.bind(where, store.schema)) if p.columns <= keys]
        on_keys = predicate.all_of(*terms)
        return on_keys if on_keys.columns else None

    def plan(
        self,
        store: Store,
        where: Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        complete: bool = False,
        partition: PartitionFilter | None = None,
    ) -> Plan:
        """Splits over the snapshot's files and the log's rows; `store` is that of `under`. Raises LogExpired
        where the log no longer has those rows."""
        return planned(
            store,
            self.snapshot,
            where,
            columns=columns,
            files=FileChoice(bucket=self.bucket, partition=partition),
            complete=complete,
            behind=self.behind(store, where),
        )

    def parts(self, store: Store) -> list[UnionPart]:
        """The read in parts, one a bucket, for tasks of an engine; each reads its own part of the log. Where
        rows have no bucket there is one part."""
        snapshot, count = None if self.snapshot is None else self.snapshot.id, store.options.bucket
        buckets: Sequence[int | None] = range(count) if count > 0 else (None,)
        return [UnionPart(snapshot, self.start, self.stop, b) for b in buckets]

    def of_part(self, store: Store, part: UnionPart) -> UnionState:
        """The union read of a part that was planned elsewhere. Raises NotFound where its snapshot has
        expired."""
        snapshot = None if part.snapshot is None else store.snapshots.get(part.snapshot)
        return replace(self, snapshot=snapshot, start=part.start, stop=part.stop, bucket=part.bucket)

    def _written(self, store: Store, folder: str, where: Predicate | None) -> list[ManifestEntry]:
        start, stop = of_buckets(self.start, self.bucket), of_buckets(self.stop, self.bucket)
        if all(start.get(bucket, 0) >= offset for bucket, offset in stop.items()):
            return []
        io, paths = ScratchFileIO(), TablePaths(folder)
        SchemaStore(io, paths).commit(scratch_schema(self.log.schema))
        scratch = Store.open(paths.root, io=io, env=store.env)
        live = store.manifests.live_entries(self.snapshot)
        base = int(live.numbers("max_sequence").max()) + 1 if len(live) else 0
        pool = shared_pool(store.options.write_buffer_bytes)
        entries = []
        settings = WriteSettings(compact=False, changelog=False, sequence_base=base)
        with TableWrite(scratch, settings, pool=pool) as target:
            try:
                for batch in selected_rows(self.log.log, start, stop, self.log.schema.names, where):
                    target.write(batch.rows, batch.kinds)
            except LogExpired as e:
                raise LogExpired(f"{e}; read the snapshot alone, without the log") from None
            for message in target.prepare():
                place = message.partition, message.bucket
                for file in message.new_files:
                    path = join(scratch.bucket_dir(*place), file.file_name)
                    outside = replace(file, external_path=path)
                    entries.append(ManifestEntry(ADD, *place, message.total_buckets, outside))
        return entries


def scratch_schema(schema: TableSchema) -> TableSchema:
    """The schema of a scratch table that holds rows of the log: the same columns, keys and merging, plain
    files."""
    kept = {k: v for k, v in schema.options.items() if not k.startswith(_OF_THE_TABLE)}
    return replace(schema, options={**kept, **_PLAIN})


def union_of(store: Store, log: TableLog | None, target: ScanTarget, moment_ms: int | None) -> UnionState:
    """The union read of what a scan would read: of a snapshot up to the log's end, or up to the moment that
    it was chosen by. Raises InvalidRequest where there is no log, and for reads of something else than the
    state of a table."""
    if log is None:
        raise InvalidRequest(
            f"{store.paths.root} has no log: scan(log=True) is for tables that are created with 'log.system'"
        )
    if not isinstance(target, SnapshotState) or target.since_ms is not None:
        raise InvalidRequest("scan(log=True) reads a state of the table, not changes or some of its files")
    if fallback.newest(store) is not None:
        raise Unsupported("scan(log=True) of a table with a second branch", "the log is of one branch alone")
    snapshot = target.snapshot
    start = offsets_at(store, snapshot)
    if moment_ms is not None:
        stop = log.end_at(store, snapshot, moment_ms)
    elif target.travelled:  # a snapshot by its name: what it holds
        stop = start
    else:
        stop = log.end(store, snapshot)
    adds = bool(store.schema.shown.primary_keys) or store.options.log_system is LogSystem.FLUSS
    behind = stop if adds else _before_removals(log, start, stop)
    return UnionState(snapshot, log, start, behind, target.travelled)


def _before_removals(log: TableLog, start: Offsets, stop: Offsets) -> Offsets:
    """`stop`, or the end of the last transaction before one that removes rows: without a key they are marked
    in the files that have them, which a commit does."""
    if not removes_rows(log.log, log.schema, start, stop):
        return stop
    at: Offsets = start
    for appended in log.log.transactions(start):
        behind = {bucket: at.get(bucket, 0) for bucket in appended.end}
        if not reaches(stop, appended.end) or removes_rows(log.log, log.schema, behind, appended.end):
            break
        at = furthest(at, appended.end)
    return at


def selected_rows(
    log: Log, start: Offsets, stop: Offsets, names: Sequence[str], where: Predicate | None
) -> Iterator[LogBatch]:
    """The rows between two offsets that a bound condition (None: all) selects, with these columns, of each
    bucket in order. Its columns are decoded first, the others only of rows that pass by their own values;
    a condition on values that change (of a table with a key) is for callers who know that. Raises what
    `Log.read` does. Memory: two batches."""
    if where is None:
        yield from log.read(start, stop, names)
    elif isinstance(log, KafkaLog):  # a message is fetched once
        yield from log.read(start, stop, names, where)
    elif isinstance(log, EmbeddedLog):  # by columns: those of the condition cost a part of all
        for batch in log.read(start, stop, sorted(where.columns)):
            yield from _found(log, batch, names, where)
    else:
        asked = list(dict.fromkeys((*names, *sorted(where.columns))))
        for batch in log.read(start, stop, asked):
            selected = _filtered(batch, _mask(where, batch.rows))
            if selected.rows.num_rows:
                yield replace(selected, rows=selected.rows.select(list(names)))


def _found(log: EmbeddedLog, batch: LogBatch, names: Sequence[str], where: Predicate) -> Iterator[LogBatch]:
    """The rows of a batch that the condition on its columns selects, read again with all columns."""
    wanted = batch.offsets[_mask(where, batch.rows)]
    if not len(wanted):
        return
    ends = {batch.bucket: int(wanted[0])}, {batch.bucket: int(wanted[-1]) + 1}
    for whole in log.read(*ends, names):
        chosen = np.isin(whole.offsets, wanted, assume_unique=True)
        if chosen.any():
            yield _filtered(whole, chosen)


def _mask(where: Predicate, rows: pa.RecordBatch) -> np.ndarray:
    return np.asarray(evaluate.mask(where, rows).to_numpy(zero_copy_only=False), dtype=bool)


def _filtered(batch: LogBatch, chosen: np.ndarray) -> LogBatch:
    kept = pa.array(chosen)
    return replace(
        batch,
        offsets=batch.offsets[chosen],
        timestamps=batch.timestamps[chosen],
        kinds=batch.kinds.filter(kept),
        rows=batch.rows.filter(kept),
    )
