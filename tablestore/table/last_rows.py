"""The last row of each key of a stream, kept in a scratch table: upserts go in, full changes come out.

The scratch table is one of this engine on the local disk with `changelog-producer` = lookup; its changelog
is what comes out. So merging is the source's own, by `sequence.field` too: for a row older than a delete it
gives what a lookup changelog would. Memory stays at a write buffer and a batch a level; the table is as large
as the columns it needs, and gone when nobody refers to it. Belongs to one thread. Used by `normalize.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Unavailable, Unsupported
from tablestore.format import rowkind
from tablestore.format.manifests.manifest import ADD
from tablestore.format.schema import TableSchema, create_schema
from tablestore.io.paths import TablePaths
from tablestore.io.scratch import ScratchFileIO, scratch_folder
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.read.changes.change import StateSize
from tablestore.read.changes.incremental import snapshot_changes
from tablestore.read.changes.looked_up import moves
from tablestore.table import overwriting
from tablestore.write.commit.committer import CommitRequest, Committer
from tablestore.write.retention.expire import ExpirePolicy, expire
from tablestore.write.table_write import TableWrite

_BUFFER_BYTES = 64 << 20
_MERGING = (
    *("sequence.field", "sequence.field.sort-order", "ignore-delete", "deduplicate.ignore-delete"),
    "ignore-update-before",
)
Batches = Iterable[pa.RecordBatch]


class StepChanges:
    """The changes of one step: called, it reads them from the scratch table, which keeps them as long as it
    exists."""

    def __init__(self, last: LastRows, snapshots: Sequence[int], rows: int) -> None:
        self._last, self._snapshots, self.rows = last, snapshots, rows

    @property
    def first(self) -> int:
        """The oldest snapshot of the scratch table that is needed."""
        return min(self._snapshots)

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The changes; a row that moves to another partition is deleted before it is inserted."""
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


class LastRows:
    """The last row of each key, in a scratch table of the columns `names`; a change in none of those `asked`
    for is silent."""

    def __init__(self, source: Store, names: Sequence[str], asked: Iterable[str]) -> None:
        folder = scratch_folder(self)
        io, paths = ScratchFileIO(), TablePaths(f"{folder}/state")
        SchemaStore(io, paths).commit(_schema_of(source, names, asked))
        self.store, self.moves = Store.open(paths.root, io=io), moves(source)
        self._pool = MemoryPool(min(_BUFFER_BYTES, source.options.write_buffer_bytes))
        self._steps: weakref.WeakSet[StepChanges] = weakref.WeakSet()
        self.size = StateSize(0, 0)

    def fill(self, batches: Batches) -> None:
        """Begin with these rows (`rowkind` first, all +I); they are no changes."""
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

    def apply(self, batches: Batches) -> StepChanges:
        """Write upserts and deletes, their kinds as texts in the first column; gives what they changed."""
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
        changes = StepChanges(self, done.snapshots, rows)
        self._steps.add(changes)
        self._expire()
        return changes

    def _write(self, *, fresh: bool = False) -> TableWrite:
        return TableWrite(self.store, pool=self._pool, compact=True, ignore_live=fresh)

    def _bytes(self) -> int:
        live = self.store.manifests.live_entries(self.store.snapshots.latest())
        return int(live.numbers("file_size").sum()) if len(live) else 0

    def _expire(self) -> None:
        """Expire the snapshots that no step still reads."""
        latest = self.store.snapshots.latest_id() or 0
        kept = latest - min((t.first for t in self._steps if t.rows), default=latest) + 1
        expire(self.store, ExpirePolicy(kept, kept, 0, 1 << 31))


def _schema_of(source: Store, names: Sequence[str], asked: Iterable[str]) -> TableSchema:
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
