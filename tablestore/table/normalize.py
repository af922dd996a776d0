"""The consumer-side normaliser: upserts as a table stores them → changes that tell what was before.

Without a changelog producer a commit adds rows by key: a +I or +U may replace a row or repeat it, a −D may
name a key that is not there. Normalised, rows that did not change are silent, updates are −U/+U pairs, a −D
has the old values, and deletes of absent keys are nothing: replayed on the state before the first, the
changes give the state after each step. (A stream from "earliest" knows nothing before: keys are new when it
first meets them.) The state of a normaliser, the last row of each key, is a scratch table of this engine on
the local disk with `changelog-producer` = lookup, whose changelog is what is told. So merging is the table's
own, by `sequence.field` too: of a row older than a delete it tells what a lookup changelog would. Memory
stays at a write buffer and a batch a level; the state is as large as the columns it needs, and gone with the
stream. A filter is asked of what comes out: a row that enters it is +I, one that leaves it −D. Belongs to
one thread. Called by `Table.stream`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format import rowkind
from tablestore.format.manifests.manifest import ADD
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.schema import create_schema
from tablestore.format.snapshot import APPEND
from tablestore.io.paths import TablePaths
from tablestore.io.scratch import ScratchFileIO, scratch_folder
from tablestore.lsm.merge.equality import equal_rows
from tablestore.lsm.merge.merge_function import joined
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta import consumers
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.changes.incremental import change_schema, snapshot_changes
from tablestore.read.changes.looked_up import moves
from tablestore.read.changes.stream import (
    Change,
    Start,
    StateSize,
    is_upsert_stream,
    require_streamable,
    stream,
)
from tablestore.read.scan.plan import plan
from tablestore.read.scan.pruning import TRUE, Filters, Pruner
from tablestore.read.scan.split_generator import splits
from tablestore.table import overwriting
from tablestore.write.commit.committer import CommitRequest, Committer
from tablestore.write.retention.expire import ExpirePolicy, expire
from tablestore.write.table_write import TableWrite

LOOK_UP = "lookup"
_BUFFER_BYTES = 64 << 20
_MERGING = (
    *("sequence.field", "sequence.field.sort-order", "ignore-delete", "deduplicate.ignore-delete"),
    "ignore-update-before",
)
Batches = Iterable[pa.RecordBatch]


def follow(store: Store, *, normalize: bool | str | None = None, **options: Any) -> Iterator[Change]:
    """`read.changes.stream.stream`, normalised where that is asked for (None: where the table tells raw
    upserts and `scan.remove-normalize` does not say otherwise)."""
    if normalize == LOOK_UP:
        return stream(store, look_up=True, **options)
    if normalize is not None and not isinstance(normalize, bool):
        raise InvalidRequest(f"stream normalize {normalize!r} must be True, False, None or {LOOK_UP!r}")
    if normalize is not False:
        require_streamable(store)
    if normalize is None:
        normalize = is_upsert_stream(store) and not store.options.remove_normalize
    elif normalize:
        _require_normalizable(store)
    return NormalizedStream(store, **options) if normalize else stream(store, **options)


def _require_normalizable(store: Store) -> None:
    producer, engine = store.options.changelog_producer, store.options.merge_engine
    if not store.schema.shown.primary_keys:
        raise InvalidRequest("a stream without a primary key tells each row once: there is no key to go by")
    if producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
        raise InvalidRequest(
            f"changelog-producer {producer.value} tells changes with what was before; to leave out pairs of "
            "equal rows set 'changelog-producer.row-deduplicate'"
        )
    if engine is not MergeEngine.DEDUPLICATE:
        raise Unsupported(f"normalising a stream of merge-engine {engine.value}", "its rows are no states")


class NormalizedStream:
    """The steps of a stream, normalised. `state` is what is held for it now."""

    def __init__(
        self,
        store: Store,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        start: Start | None = None,
        consumer: str | None = None,
        **options: Any,
    ) -> None:
        schema = store.schema
        if isinstance(columns, str):
            raise InvalidRequest(f"columns are a list of names, not {columns!r}")
        self._names = tuple(columns if columns is not None else schema.names)
        where = condition(where, schema)
        bound = None if where is None else predicate.bind(where, schema)
        filters = Filters.of(bound, schema)
        below = [p for p in (filters.partition, filters.key) if p != TRUE]
        rest = [p for p in predicate.conjuncts(bound) if p not in _parts(below)] if bound is not None else []
        self._rest = predicate.all_of(*rest) if rest else None
        sequence = store.options.sequence_fields
        asked = {*self._names, *(c for p in rest for c in p.columns)}
        needed = {*asked, *schema.primary_keys, *schema.partition_keys, *sequence}
        self._store = store
        self._from_nothing = start == "earliest" and not _goes_on(store, consumer)
        self._raw = stream(
            store,
            start=start,
            consumer=consumer,
            columns=[n for n in schema.names if n in needed],
            where=predicate.all_of(*below) if below else None,
            **options,
        )
        self._kept = tuple(n for n in schema.names if n in needed)
        self._below = predicate.all_of(*below) if below else None
        self._last: _LastRows | None = None
        self._full: Change | None = None
        self._asked = asked

    @property
    def state(self) -> StateSize:
        """What the normaliser holds."""
        return self._last.size if self._last is not None else StateSize(0, 0)

    def __iter__(self) -> NormalizedStream:
        return self

    def __next__(self) -> Change:
        for change in self._raw:
            if change.full:
                self._full = change
                return self._shaped(change, change._read)
            try:
                told = self._rows(change).tell(change._read())
            except BaseException:
                self.close()  # else the next call would pass this step over
                raise
            if told.rows:
                return self._shaped(change, told)
        raise StopIteration

    def close(self) -> None:
        """End the stream; steps that are still held stay readable."""
        self._raw.close()
        self._last = None

    def _rows(self, change: Change) -> _LastRows:
        """The last rows before a change: those of the first step, or of the snapshot before."""
        if self._last is not None:
            return self._last
        last = _LastRows(self._store, self._kept, self._asked)
        if self._from_nothing:
            self._last = last
            return last
        full, self._full = self._full, None
        try:
            last.fill(full._read() if full is not None else self._before(change.snapshot))
        except NotFound:
            if full is None:
                raise
            last.fill(self._before(change.snapshot))  # the first step's snapshot expired meanwhile
        self._last = last
        return last

    def _before(self, snapshot: int) -> Iterator[pa.RecordBatch]:
        schema = change_schema(self._store, self._kept)
        for batch in state_before(self._store, snapshot, self._kept, self._below):
            kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), batch.num_rows)
            yield pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)

    def _shaped(self, change: Change, read: Callable[[], Iterator[pa.RecordBatch]]) -> Change:
        """The step with the columns and rows that were asked for."""
        schema = change_schema(self._store, self._names)
        if self._rest is None:
            shaped = partial(_selected, read, schema)
        else:
            shaped = partial(_entering, read, schema, self._rest)
        return replace(change, schema=schema, _read=shaped, state=self.state)

    def __repr__(self) -> str:
        return f"NormalizedStream({self._store.paths.root}: {', '.join(self._names)}; state {self.state})"


def _goes_on(store: Store, consumer: str | None) -> bool:
    """Whether that consumer, or the one of the options, has a place to go on from."""
    name = store.options.consumer_id if consumer is None else consumer
    if name is None or store.options.consumer_ignore_progress:
        return False
    return consumers.next_snapshot(store, name) is not None


def _parts(some: Iterable[Predicate]) -> list[Predicate]:
    return [part for p in some for part in predicate.conjuncts(p)]


def _selected(read: Callable[[], Iterator[pa.RecordBatch]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in read():
        yield pa.RecordBatch.from_arrays([batch.column(n) for n in schema.names], schema=schema)


def _entering(
    read: Callable[[], Iterator[pa.RecordBatch]], schema: pa.Schema, where: Predicate
) -> Iterator[pa.RecordBatch]:
    """Changes as seen through a filter: of a −U/+U pair that it parts, half is left as +I or −D; pairs that
    are equal in the columns asked for are silent."""
    before, after = (rowkind.TEXTS[k] for k in (rowkind.UPDATE_BEFORE, rowkind.UPDATE_AFTER))
    held: pa.RecordBatch | None = None  # a −U at the end of a batch waits for its +U
    for batch in read():
        rows = batch if held is None else joined([held, batch])
        held = None
        if rows.column(0)[-1].as_py() == before:
            rows, held = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        if rows.num_rows:
            yield from _parted(rows, schema, where, before, after)
    assert held is None, "a −U has its +U"


def _parted(
    rows: pa.RecordBatch, schema: pa.Schema, where: Predicate, before: str, after: str
) -> Iterator[pa.RecordBatch]:
    inside = predicate.mask(where, rows).to_numpy(zero_copy_only=False).astype(bool)
    kinds = np.asarray(rows.column(0).to_numpy(zero_copy_only=False), dtype=object)
    old = np.flatnonzero(kinds == before)
    new = old + 1
    assert (kinds[new] == after).all(), "a −U has its +U"
    both = inside[old] & inside[new]
    kinds[old[~both]], kinds[new[~both]] = rowkind.TEXTS[rowkind.DELETE], rowkind.TEXTS[rowkind.INSERT]
    values = rows.select(schema.names[1:])
    same = np.flatnonzero(both)
    same = same[equal_rows(values.take(pa.array(old[same])), values.take(pa.array(new[same])))]
    inside[old[same]] = inside[new[same]] = False
    told = [pa.array(kinds, pa.string()), *values.columns]
    kept = pa.RecordBatch.from_arrays(told, schema=schema).filter(pa.array(inside))
    if kept.num_rows:
        yield kept


def state_before(
    store: Store, snapshot: int, names: Sequence[str], where: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the table before a snapshot, also where the one before has expired but nothing it had.

    Raises NotFound where that state cannot be read any more.
    """
    if snapshot == 1:
        return
    store = with_level_0(store)
    if store.snapshots.exists(snapshot - 1):
        found = plan(store, store.snapshots.get(snapshot - 1), where, columns=names)
        for split in found.splits:
            yield from split.read(store, names, found.where)
        return
    kept = store.snapshots.get(snapshot) if store.snapshots.exists(snapshot) else None
    if kept is None or kept.commit_kind != APPEND:  # others take files away
        raise NotFound(
            f"the state before snapshot {snapshot} has expired: start with latest-full, or take changes as "
            "they were written with normalize=False"
        )
    entries = store.manifests.read_manifests(store.manifests.read_list(kept.base_manifest_list)).live()
    pruner = Pruner(
        store.schema, store.options, Filters.of(None, store.schema), store.partition_values, store.schema_of
    )
    entries = entries.filter(pruner.keep(entries))
    vectors = deletion_files(store, kept) if store.options.deletion_vectors else {}
    made = splits(entries, snapshot_id=kept.id, schema=store.schema, options=store.options, deletions=vectors)
    for split in made:
        yield from split.read(store, names, where)


class _Told:
    """What one step changed, read from the scratch table for as long as this is held."""

    def __init__(self, last: _LastRows, snapshots: Sequence[int], rows: int) -> None:
        self._last, self._snapshots, self.rows = last, snapshots, rows

    @property
    def first(self) -> int:
        """The oldest snapshot of the scratch table that is needed."""
        return min(self._snapshots)

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """A row that moves to another partition is deleted before it is inserted."""
        if not self._last.moves:
            yield from self._changes()
            return
        for deletes in (True, False):
            for batch in self._changes():
                gone = pc.equal(batch.column(0), rowkind.TEXTS[rowkind.DELETE])
                chosen = batch.filter(gone if deletes else pc.invert(gone))
                if chosen.num_rows:
                    yield chosen

    def _changes(self) -> Iterator[pa.RecordBatch]:
        store = self._last.store
        for snapshot in self._snapshots:
            yield from snapshot_changes(store, store.snapshots.get(snapshot))


class _LastRows:
    """The last row of each key, in a scratch table: give it upserts, it tells changes."""

    def __init__(self, source: Store, names: Sequence[str], asked: Iterable[str]) -> None:
        folder = scratch_folder(self)
        io, paths = ScratchFileIO(), TablePaths(f"{folder}/state")
        SchemaStore(io, paths).commit(_schema_of(source, names, asked))
        self.store, self.moves = Store.open(paths.root, io=io), moves(source)
        self._pool = MemoryPool(min(_BUFFER_BYTES, source.options.write_buffer_bytes))
        self._held: weakref.WeakSet[_Told] = weakref.WeakSet()
        self.size = StateSize(0, 0)

    def fill(self, batches: Batches) -> None:
        """Begin with these rows (`rowkind` first, all +I); nothing is told of them."""
        request = CommitRequest(SYSTEM.uuid())
        rows = 0

        def write(target: TableWrite) -> None:
            nonlocal rows
            for batch in batches:
                target.write(batch.remove_column(0))
            rows = target.rows

        overwriting.overwrite(
            self.store, partial(self._write, fresh=True), write, request, named=None, dynamic=False
        )
        self.size = StateSize(rows, self._bytes())

    def tell(self, batches: Batches) -> _Told:
        """Take in upserts and deletes, their kinds as texts in the first column, and tell what changed."""
        with self._write() as target:
            for batch in batches:
                target.write(batch.remove_column(0), rowkind.parse(batch.column(0)))
            messages = target.prepare()
        done = Committer(self.store).commit(messages, CommitRequest(SYSTEM.uuid()))
        if done.lost_compaction is not None:  # nobody else writes here: the store failed
            raise Unavailable(0, f"the state of a normaliser failed: {done.lost_compaction}")
        snapshots = [self.store.snapshots.get(i) for i in done.snapshots]
        files = [
            e.file for s in snapshots for e in self.store.manifests.changelog_entries(s) if e.kind == ADD
        ]
        rows, gone = sum(f.row_count for f in files), sum(f.delete_count or 0 for f in files)
        self.size = StateSize(self.size.rows + rows - 2 * gone, self._bytes())
        told = _Told(self, done.snapshots, rows)
        self._held.add(told)
        self._expire()
        return told

    def _write(self, *, fresh: bool = False) -> TableWrite:
        return TableWrite(self.store, pool=self._pool, compact=True, ignore_live=fresh)

    def _bytes(self) -> int:
        live = self.store.manifests.live_entries(self.store.snapshots.latest())
        return int(live.numbers("file_size").sum()) if len(live) else 0

    def _expire(self) -> None:
        """Remove what no step that is still held is read from."""
        latest = self.store.snapshots.latest_id() or 0
        kept = latest - min((t.first for t in self._held if t.rows), default=latest) + 1
        expire(self.store, ExpirePolicy(kept, kept, 0, 1 << 31))


def _schema_of(source: Store, names: Sequence[str], asked: Iterable[str]) -> Any:
    """The schema of the scratch table. Partition columns are in its key: a row may move to another one."""
    schema, options = source.schema, source.options
    keys = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    for name in keys:
        if schema.by_name[name].type.nullable:
            raise Unsupported(
                f"normalising a stream of a table whose partition column {name!r} may be NULL",
                "normalize=False",
            )
    given = {k: v for k, v in schema.options.items() if k in _MERGING}
    silent = [n for n in names if n not in asked and n not in keys]
    given |= {"bucket": "1", "changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
    given["tablestore.history.enabled"] = "false"
    if silent:
        given["changelog-producer.row-deduplicate-ignore-fields"] = ",".join(silent)
    given["write-buffer-size"] = f"{min(_BUFFER_BYTES, options.write_buffer_bytes)} b"
    fields = tuple(replace(f, default=None, description=None) for f in schema.columns(tuple(names)))
    return create_schema(
        fields, primary_key=keys, partition_by=(), options=given, comment=None, time_millis=SYSTEM.now_ms()
    )
