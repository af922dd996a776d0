"""The last row of each key of a stream on the local disk: a scratch table of this engine.

Its `changelog-producer` is lookup, so what a step changes comes out as its changelog, and merging is the
source's own, by `sequence.field` too: for a row older than a delete it gives what a lookup changelog would.
Memory stays at a write buffer and a batch a level; the table is as large as its rows, and gone when nobody
refers to it. Belongs to one thread. Used by `last_rows.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import Unavailable
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import ADD
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.schema import TableSchema
from tablestore.io.paths import TablePaths
from tablestore.io.scratch import ScratchFileIO, scratch_folder
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.lookup.lookup import Hits, LevelLookup
from tablestore.lsm.merge.keys import Component
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.read.changes.incremental import snapshot_changes
from tablestore.table import overwriting
from tablestore.write.buckets import bucket_of
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.commit.live_files import LiveFiles
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
