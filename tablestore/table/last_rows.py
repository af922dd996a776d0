"""The last row of each key of a stream: upserts go in, full changes come out.

Rows lie in memory (`lsm/lookup/memtable.py`) up to a write buffer, then in a scratch table on the local disk,
and new ones in memory again. A small step looks the rows before it up in both, and is merged with them as a
compaction with lookups merges level 0 with older levels. A large step goes through the scratch table, whose
changelog is what comes out: its `changelog-producer` is lookup and its merging the source's own, by
`sequence.field` too, so for a row older than a delete it gives what a lookup changelog would. The scratch
table is as large as its rows, and gone when nobody refers to it. Memory: two write buffers, and a small step
with its changes. Belongs to one thread. Used by `normalize.py` and pieces of logs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import Env
from tablestore.core.errors import Unavailable, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import ADD
from tablestore.format.parquet.schema import KIND, SEQUENCE, kv_schema
from tablestore.format.schema import TableSchema, create_schema
from tablestore.io.paths import TablePaths
from tablestore.io.scratch import ScratchFileIO, scratch_folder
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.lookup.lookup import Hits, LevelLookup
from tablestore.lsm.lookup.memtable import Memtable
from tablestore.lsm.merge import changelog
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.changelog import ChangelogSpec, RowWindow
from tablestore.lsm.merge.groups import grouped, joined, kinds_of, plain, take
from tablestore.lsm.merge.keys import Component
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.validate import wanted_rows
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.read.changes.change import Read, StateSize
from tablestore.read.changes.incremental import change_schema, moves, snapshot_changes
from tablestore.table import overwriting
from tablestore.write.buckets import LiveFiles, bucket_of
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.conform import conform
from tablestore.write.retention.expire import ExpirePolicy, expire
from tablestore.write.table_write import TableWrite, WriteSettings

_EXPIRE_EVERY = 8  # commits: expiry costs a sixth of a small one
Batches = Iterable[pa.RecordBatch]


class ScratchChanges:
    """The changes of one step: called, it reads them from the scratch table, which keeps them as long as it
    exists. `rows`: how many; `deletes`: −U and −D among them."""

    def __init__(self, scratch: ScratchRows, snapshots: Sequence[int]) -> None:
        self._scratch, self._snapshots = scratch, snapshots
        store = scratch.store
        changelogs = [store.manifests.changelog_entries(store.snapshots.get(i)) for i in snapshots]
        files = [e.file for entries in changelogs for e in entries if e.kind == ADD]
        self.rows = sum(f.row_count for f in files)
        self.deletes = sum(f.delete_count or 0 for f in files)

    @property
    def first(self) -> int:
        """The oldest snapshot of the scratch table that is needed."""
        return min(self._snapshots)

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The changes, `rowkind` first."""
        store = self._scratch.store
        for snapshot in self._snapshots:
            yield from snapshot_changes(store, store.snapshots.get(snapshot))


class ScratchRows:
    """The rows of a table with this schema, which has one bucket and the lookup changelog producer."""

    def __init__(self, schema: TableSchema, env: Env) -> None:
        io, paths = ScratchFileIO(), TablePaths(f"{scratch_folder(self)}/state")
        SchemaStore(io, paths).commit(schema)
        self.store = Store.open(paths.root, io=io, env=env)
        self._pool = MemoryPool(self.store.options.write_buffer_bytes)
        self._steps: weakref.WeakSet[ScratchChanges] = weakref.WeakSet()
        self._commits = 0

    @cached_property
    def bytes(self) -> int:
        """Bytes of the live files."""
        live = self.store.manifests.live_entries(self.store.snapshots.latest())
        return int(live.numbers("file_size").sum()) if len(live) else 0

    def fill(self, batches: Batches) -> int:
        """Begin with these rows, in columns of the table; how many there are."""
        rows = 0

        def write(target: TableWrite) -> None:
            nonlocal rows
            for batch in batches:
                target.write(batch)
            rows = target.rows

        fresh = partial(TableWrite, self.store, WriteSettings(ignore_live=True), pool=self._pool)
        request = CommitRequest(self.store.env.uuid())
        overwriting.overwrite(self.store, fresh, write, request, named=None, dynamic=False)
        self._forget_files()
        return rows

    def put(self, rows: pa.RecordBatch) -> None:
        """Write kv rows, of which the changes are known."""
        with TableWrite(self.store, WriteSettings(produce=False), pool=self._pool) as target:
            target.write(rows.drop_columns([SEQUENCE, KIND]), rows.column(KIND))
            self._commit(target.prepare())

    def apply(self, batches: Batches) -> ScratchChanges:
        """Write upserts and deletes, their kinds as texts in the first column; gives what they changed."""
        with TableWrite(self.store, WriteSettings(), pool=self._pool) as target:
            for batch in batches:
                target.write(batch.remove_column(0), rowkind.parse(batch.column(0)))
            done = self._commit(target.prepare())
        changes = ScratchChanges(self, done.snapshots)
        if changes.rows:
            self._steps.add(changes)
        return changes

    def find(self, wanted: Sequence[Component]) -> Hits | None:
        """The rows of these keys, which are strictly increasing; deletes are rows, too."""
        return None if self._lookup is None else self._lookup.find(wanted)

    @cached_property
    def _lookup(self) -> LevelLookup | None:
        live = LiveFiles(self.store, self.store.snapshots.latest())
        place = next(iter(live.places), None)
        if place is None:
            return None
        bucket = bucket_of(self.store, *place, files=live.of(place))
        assert not bucket.levels.level0, "every commit compacts level 0"
        return LevelLookup(BucketFiles(bucket), bucket.levels, older_than=0, deletions=None, rows=True)

    def _forget_files(self) -> None:
        """Look at the live files again, since there are others."""
        for name in ("_lookup", "bytes"):
            self.__dict__.pop(name, None)

    def _commit(self, messages: Sequence[CommitMessage]) -> Committed:
        self._forget_files()
        self._commits += 1
        if self._commits % _EXPIRE_EVERY == 0:
            self._expire()
        done = Committer(self.store).commit(messages, CommitRequest(self.store.env.uuid()))
        if done.lost_compaction is not None:  # nobody else writes here: the store failed
            raise Unavailable(0, f"the state of a normaliser failed: {done.lost_compaction}")
        return done

    def _expire(self) -> None:
        """Expire the snapshots that no step still reads."""
        latest = self.store.snapshots.latest_id() or 0
        kept = latest - min((t.first for t in self._steps), default=latest) + 1
        expire(self.store, ExpirePolicy(kept, kept, 0, 1 << 31))


_MEMORY_BYTES = 128 << 20  # a million rows of 100 bytes
_SMALL_BYTES = 4 << 20  # of a step that is merged in memory
_MERGING = (
    *("sequence.field", "sequence.field.sort-order", "ignore-delete", "deduplicate.ignore-delete"),
    "ignore-update-before",
)
_BEFORE_ALL = -1  # sequence number of rows that were spilled


@dataclass(frozen=True, slots=True)
class LastRowChanges:
    """The changes of one step: called, it gives them, `rowkind` first; as often as one likes. `moves`: keys
    may move to other partitions, so a row is deleted before another is inserted."""

    rows: int
    moves: bool
    read: Read

    def __call__(self) -> Iterator[pa.RecordBatch]:
        if not self.moves:
            yield from self.read()
            return
        for deletes in (True, False):
            for batch in self.read():
                gone = pc.equal(batch.column(0), rowkind.TEXTS[rowkind.DELETE])
                chosen = batch.filter(gone if deletes else pc.invert(gone))
                if chosen.num_rows:
                    yield chosen


class LastRows:
    """The last row of each key, in the columns `names`; a change in none of those `asked` for is silent."""

    def __init__(self, source: Store, names: Sequence[str], asked: Iterable[str]) -> None:
        self._schema, self._moves = _schema_of(source, names, asked), moves(source)
        self._env = source.env
        self._options = TableOptions.parse(self._schema.options)
        self._shown = change_schema(source, names)
        self._function = merge_function(self._schema, self._options)
        self._changelog = ChangelogSpec.of(self._schema, self._options, produced=True)
        self._memory = Memtable(self._schema.key_fields)
        self._scratch: ScratchRows | None = None
        self._rows, self._sequence = 0, 0

    @property
    def size(self) -> StateSize:
        """How many rows there are, and how large they are in memory and on the disk."""
        memory = self._memory.bytes
        return StateSize(self._rows, memory + (0 if self._scratch is None else self._scratch.bytes), memory)

    def fill(self, batches: Batches) -> None:
        """Begin with these rows (`rowkind` first, all +I); they are no changes."""
        rows = (batch.remove_column(0) for batch in batches)
        some, more = _up_to(rows, self._options.write_buffer_bytes)
        if more is not None:
            self._rows = self._on_disk.fill(chain(some, more))
        elif some:
            batch = self._stored(joined([conform(b, self._schema) for b in some]), None)
            window = self._window(batch)
            self._memory.add(take(batch, window.first_rows), drop_deletes=False)
            self._rows = len(window.first_rows)

    def apply(self, batches: Batches) -> LastRowChanges:
        """Take upserts and deletes, their kinds as texts in the first column; gives what they changed."""
        some, more = _up_to(batches, min(_SMALL_BYTES, self._options.write_buffer_bytes))
        if more is not None:
            self._spill()
            on_disk = self._on_disk.apply(chain(some, more))
            self._rows += on_disk.rows - 2 * on_disk.deletes
            return LastRowChanges(on_disk.rows, self._moves, on_disk)
        changes = self._merged(some)
        gone = 0 if changes is None else int(rowkind.retracts(kinds_of(changes)).sum())
        rows = 0 if changes is None else changes.num_rows
        self._rows += rows - 2 * gone
        if self._memory.bytes > self._options.write_buffer_bytes:
            self._spill()
        if changes is None or not rows:
            return LastRowChanges(0, self._moves, lambda: iter(()))
        columns = [changes.column(n) for n in self._schema.names]
        shown = pa.RecordBatch.from_arrays(
            [rowkind.texts(changes.column(KIND)), *columns], schema=self._shown
        )
        return LastRowChanges(rows, self._moves, lambda: iter((shown,)))

    def _merged(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
        """What these upserts and deletes changed, as kv rows in key order; None for no rows."""
        kept = []
        for batch in batches:
            kinds = rowkind.parse(batch.column(0))
            values = conform(batch.remove_column(0), self._schema)
            keep = wanted_rows(self._options, kinds.to_numpy(zero_copy_only=False))
            if keep is not None:
                values, kinds = values.filter(keep), kinds.filter(keep)
            if values.num_rows:
                kept.append(self._stored(values, kinds))
        if not kept:
            return None
        window = self._window(joined(kept))
        keys = take(window.rows, window.first_rows)
        for places, rows in self._find(key_columns.of_batch(keys, self._schema.key_fields)):
            window = window.with_older(rows, places, self._function)
        merged = changelog.looked_up(window, self._function, self._changelog)
        self._memory.add(merged.rows, drop_deletes=self._scratch is None)
        return merged.changes

    def _window(self, rows: pa.RecordBatch) -> RowWindow:
        """Rows of level 0, grouped by key."""
        codes = key_columns.codes(key_columns.of_batch(rows, self._schema.key_fields))
        groups = grouped(codes, self._function.sequence.numbers(rows))
        return RowWindow(rows, codes, np.zeros(rows.num_rows, np.int8), groups)

    def _find(self, wanted: Sequence[Component]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """(positions among these keys, the row before of each), each position once."""
        missing = np.ones(len(wanted[0]), dtype=bool)
        for places, rows in self._memory.find(wanted):
            missing[places] = False
            yield places, rows
        if self._scratch is None or not missing.any():
            return
        places = np.flatnonzero(missing)
        hits = self._scratch.find(key_columns.taken(wanted, places))
        if hits is None or hits.rows is None:
            return
        rows = plain(hits.rows)
        number = rows.schema.get_field_index(SEQUENCE)
        before = pa.array(np.full(rows.num_rows, _BEFORE_ALL))
        yield places[hits.asked], rows.set_column(number, rows.schema.field(number), before)

    def _stored(self, values: pa.RecordBatch, kinds: pa.Array | None) -> pa.RecordBatch:
        """Values as kv rows with the next sequence numbers."""
        first, self._sequence = self._sequence, self._sequence + values.num_rows
        numbers = pa.array(np.arange(first, self._sequence))
        kinds = pa.array(np.zeros(values.num_rows, np.int8)) if kinds is None else kinds
        return pa.RecordBatch.from_arrays([numbers, kinds, *values.columns], schema=kv_schema(self._schema))

    @property
    def _on_disk(self) -> ScratchRows:
        if self._scratch is None:
            self._scratch = ScratchRows(self._schema, self._env)
        return self._scratch

    def _spill(self) -> None:
        """Move the rows in memory to the disk."""
        rows = self._memory.drain()
        if rows is not None:
            self._on_disk.put(rows)


def _up_to(
    batches: Batches, limit_bytes: int
) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """(the first batches, the rest), which is None where all together are no larger than the limit."""
    first, size, rest = [], 0, iter(batches)
    for batch in rest:
        first.append(batch)
        size += batch.nbytes
        if size > limit_bytes:
            return first, rest
    return first, None


def _schema_of(source: Store, names: Sequence[str], asked: Iterable[str]) -> TableSchema:
    """The schema of the rows and of their scratch table. Partition columns are in its key: a row may move to
    another one."""
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
    given["write-buffer-size"] = f"{min(_MEMORY_BYTES, options.write_buffer_bytes)} b"
    fields = tuple(replace(f, default=None, description=None) for f in schema.columns(tuple(names)))
    return create_schema(
        fields,
        primary_key=keys,
        partition_by=(),
        options=given,
        comment=None,
        time_millis=source.env.now_ms(),
    )
