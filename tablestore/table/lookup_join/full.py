"""The full cache of a lookup join: all rows of a snapshot, by the columns that are joined, and by key.

A newer snapshot changes it by what its commits changed: their keys are read, those rows go, and what a point
read finds for them comes, so that the cache holds what a scan of that snapshot gives, whatever the merge
engine. Rows that are gone stay in their batches until they are half of all. Where commits do not show which
keys changed, or too many did, the whole snapshot is read. Immutable: a join ends with the one it began with.
Memory: 16 bytes a row and index, and rows up to `lookup.cache-max-memory-size`; the rest lies on a local
disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tablestore.format.manifests.manifest import ADD
from tablestore.format.predicates import evaluate
from tablestore.format.snapshot import APPEND, OVERWRITE, Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import NotByKey, changed_files, changed_keys, expiring_between
from tablestore.read.changes.incremental import DELTA, snapshot_changes
from tablestore.read.points.point_read import PointReader
from tablestore.table.lookup_join.index import RowIndex, codes, comparable, equal
from tablestore.table.lookup_join.rows import CachedRows, RowBounds
from tablestore.table.lookup_join.source import LookupSource, Refreshed, require_went_on
from tablestore.table.scan import snapshot_scan

_MANY = 65_536  # up to so many changed keys it is never better to read all rows


@dataclass(frozen=True)
class FullCache:
    """All rows of `snapshot` that the join may give."""

    source: LookupSource
    snapshot: Snapshot | None
    rows: CachedRows
    by_on: RowIndex
    by_key: RowIndex | None  # None: the join is by key, or the table has none
    gone: np.ndarray  # by place: rows that are replaced or deleted

    @classmethod
    def load(cls, source: LookupSource, snapshot: Snapshot | None, bounds: RowBounds) -> FullCache:
        """The cache of the rows that a scan of the snapshot gives."""
        scan = snapshot_scan(source.store, snapshot, source.columns, source.where)
        batches = scan.to_batches() if snapshot is not None else ()
        return cls._of(source, snapshot, CachedRows.of(scan.schema, batches, bounds))

    @classmethod
    def _of(cls, source: LookupSource, snapshot: Snapshot | None, rows: CachedRows) -> FullCache:
        gone = np.zeros(rows.count, dtype=bool)
        by_on = _index(rows, source.on)
        by_key = _index(rows, source.identity) if source.identity and source.identity != source.on else None
        return cls(source, snapshot, rows, by_on, by_key, gone)

    @property
    def count(self) -> int:
        """Rows that may be found."""
        return self.rows.count - int(self.gone.sum())

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory: rows and indexes."""
        indexes = self.by_on.nbytes + (self.by_key.nbytes if self.by_key is not None else 0)
        return self.rows.memory_bytes + indexes + self.gone.nbytes

    @property
    def disk_bytes(self) -> int:
        """Bytes on the local disk."""
        return self.rows.disk_bytes

    def matches(self, wanted: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """(rows of `wanted`, places) of all pairs that are equal in the joined columns."""
        return found_in(self.rows, self.by_on, self.source.on, wanted)

    def gather(self, places: np.ndarray, names: Sequence[str]) -> list[pa.Array]:
        """Columns of the rows at places that `matches` gave; NULL where one is negative."""
        return self.rows.gather(places, names)

    def at(self, newest: Snapshot, bounds: RowBounds) -> tuple[FullCache, Refreshed]:
        """The cache of a newer snapshot, and what the refresh found."""
        try:
            since = require_went_on(self.source.store, self.snapshot, newest)
            cache, changed = self._changed(since, newest, bounds)
            return cache, Refreshed(newest.id, changed, cache.count)
        except NotByKey as why:
            cache = FullCache.load(self.source, newest, bounds)
            return cache, Refreshed(newest.id, None, cache.count, str(why))

    def _changed(self, since: Snapshot, newest: Snapshot, bounds: RowBounds) -> tuple[FullCache, int]:
        if not self.source.identity:
            more = [b for b in _appended(self.source, since, newest) if b.num_rows]
            gone, changed = self.gone, sum(b.num_rows for b in more)
        else:
            gone, more, changed = self._replaced(since, newest)
        start = self.rows.count
        rows = self.rows.plus(more)
        gone = np.concatenate([gone, np.zeros(rows.count - start, dtype=bool)])
        if int(gone.sum()) * 2 > rows.count:
            kept = CachedRows.of(rows.schema, rows.batches(~gone), bounds)
            return FullCache._of(self.source, newest, kept), changed
        by_on = self.by_on.changed(gone, _index(rows, self.source.on, start))
        by_key = self.by_key
        if by_key is not None:
            by_key = by_key.changed(gone, _index(rows, self.source.identity, start))
        return replace(self, snapshot=newest, rows=rows, by_on=by_on, by_key=by_key, gone=gone), changed

    def _replaced(self, since: Snapshot, newest: Snapshot) -> tuple[np.ndarray, list[pa.RecordBatch], int]:
        """(rows that are gone, rows in their place, how many keys changed)."""
        source, gone = self.source, self.gone.copy()
        for name in source.identity:
            if source.store.schema.by_name[name].type.nullable:  # only of partitions beside the key
                raise NotByKey(f"partition column {name!r} may be NULL, which no index finds")
        files = changed_files(source.store, since, newest)
        changed_rows = sum(e.file.row_count for some in files.values() for e in some)
        if changed_rows > max(_MANY, self.count // 2):
            raise NotByKey(f"{changed_rows:,} rows of {self.count:,} changed")
        reader = PointReader(source.store, newest)
        index = self.by_on if self.by_key is None else self.by_key
        more: list[pa.RecordBatch] = []
        changed = 0
        for (partition, bucket), some in files.items():
            with expiring_between(source.store, since, newest):
                keys = changed_keys(source.store, some)
            changed += keys.num_rows
            gone[_same_keys(self.rows, index, source.identity, keys)] = True
            for batch in reader.read(partition, bucket, keys, source.columns):
                more.append(
                    batch if source.where is None else batch.filter(evaluate.mask(source.where, batch))
                )
        return gone, more, changed


def found_in(
    rows: CachedRows, index: RowIndex, names: Sequence[str], wanted: Sequence[pa.Array]
) -> tuple[np.ndarray, np.ndarray]:
    """(rows of `wanted`, places) of all pairs that are equal in these columns."""
    asking, numbers = codes(wanted)
    asked, places = index.find(numbers)
    asked = asking[asked]
    if index.exact or not len(asked):
        return asked, places
    there = [comparable(c) for c in rows.gather(places, names)]
    same = equal([w.take(pa.array(asked)) for w in wanted], there)
    return asked[same], places[same]


def _same_keys(rows: CachedRows, index: RowIndex, names: Sequence[str], keys: pa.RecordBatch) -> np.ndarray:
    """Places of the rows that have one of these keys: 0.0 and −0.0 are equal, but two keys."""
    asked, places = found_in(rows, index, names, [comparable(keys.column(n)) for n in names])
    floats = [n for n in names if pa.types.is_floating(keys.schema.field(n).type)]
    same = np.ones(len(places), dtype=bool)
    for name, there in zip(floats, rows.gather(places, floats), strict=True):
        wanted = keys.column(name).take(pa.array(asked))
        mine, theirs = (c.to_numpy(zero_copy_only=False) for c in (wanted, there))
        same &= (mine != 0) | (np.signbit(mine) == np.signbit(theirs))
    return places[same]


def _index(rows: CachedRows, names: Sequence[str], start: int = 0) -> RowIndex:
    """The index of the rows from a place on, which is where a batch starts or lies within the last one."""
    columns = rows.gather(np.arange(start, rows.count), names)
    return RowIndex.of([comparable(c) for c in columns], start=start)


def _appended(source: LookupSource, since: Snapshot, newest: Snapshot) -> Iterator[pa.RecordBatch]:
    """Rows that commits added to a table without a key. Raises NotByKey where one replaced or deleted
    rows."""
    store = source.store
    for snapshot_id in range(since.id + 1, newest.id + 1):
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is None:
            raise NotByKey(f"snapshot {snapshot_id} has expired")
        if snapshot.commit_kind == OVERWRITE or _deletes(store, snapshot):
            raise NotByKey(f"snapshot {snapshot_id} replaced or deleted rows")
        if snapshot.commit_kind == APPEND:
            for batch in snapshot_changes(store, snapshot, source.columns, source.where, mode=DELTA):
                yield batch.remove_column(0)


def _deletes(store: Store, snapshot: Snapshot) -> bool:
    """Whether an APPEND takes files away or marks rows of them as deleted."""
    if snapshot.commit_kind != APPEND:
        return False
    counted = store.schema.row_count_field is not None
    removed = (store.manifests.delta_entries(snapshot).numbers("kind", null=ADD) != ADD).any()
    return counted or bool(removed) or bool(store.options.deletion_vectors and snapshot.index_manifest)
