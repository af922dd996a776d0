"""The partial cache of a lookup join by primary key: rows of keys that were asked for, absent ones too.

Keys that it does not know are read from the snapshot it stands at, all of a batch at once. It keeps those
asked for last, `lookup.cache-rows` of them, and none longer than the `lookup.partial-cache.expire-…` options
say. A newer snapshot takes out the keys that its commits changed, or all where commits do not show them.
Immutable, so any number of threads may ask; what one has read is kept unless another was first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.table_options import TableOptions
from tablestore.format.predicates import evaluate
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.merge.groups import joined
from tablestore.read.changes.changed_keys import NotByKey, changed_files, changed_keys, expiring_between
from tablestore.table.lookup import Lookups
from tablestore.table.lookup_join.full import found_in
from tablestore.table.lookup_join.index import RowIndex, comparable
from tablestore.table.lookup_join.rows import CachedRows
from tablestore.table.lookup_join.source import LookupSource, Refreshed, require_went_on
from tablestore.table.scan import snapshot_scan


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """How many keys are kept, and how long after they were read or last asked for (None: for ever)."""

    keys: int
    after_write_ms: int | None = None
    after_access_ms: int | None = None

    @classmethod
    def of(cls, options: TableOptions) -> KeyBounds:
        """The bounds that a table's options set."""
        return cls(
            max(0, options.lookup_cache_rows),
            options.lookup_expire_write_ms,
            options.lookup_expire_access_ms,
        )


@dataclass(frozen=True)
class PartialCache:
    """Keys that were asked for, with the times (epoch ms) at which each was read and last asked for, and the
    rows that they have at `snapshot`."""

    source: LookupSource
    snapshot: Snapshot | None
    keys: CachedRows
    by_key: RowIndex
    read_ms: np.ndarray
    asked_ms: np.ndarray
    rows: CachedRows
    by_on: RowIndex

    @classmethod
    def empty(cls, source: LookupSource, snapshot: Snapshot | None) -> PartialCache:
        """A cache that knows no key yet."""
        schema = snapshot_scan(source.store, None, source.columns).schema
        nothing = np.zeros(0, dtype=np.int64)
        keys, rows = CachedRows(pa.schema([schema.field(n) for n in source.on])), CachedRows(schema)
        indexes = _index(keys, source.on), _index(rows, source.on)
        return cls(source, snapshot, keys, indexes[0], nothing, nothing, rows, indexes[1])

    @property
    def count(self) -> int:
        """How many rows are cached."""
        return self.rows.count

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory."""
        times = self.read_ms.nbytes + self.asked_ms.nbytes
        indexes = self.by_key.nbytes + self.by_on.nbytes
        return self.keys.memory_bytes + self.rows.memory_bytes + indexes + times

    @property
    def disk_bytes(self) -> int:
        """Nothing is on disk."""
        return 0

    def matches(self, wanted: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """(rows of `wanted`, places) of all pairs that are equal; of known keys only."""
        return found_in(self.rows, self.by_on, self.source.on, wanted)

    def gather(self, places: np.ndarray, names: Sequence[str]) -> list[pa.Array]:
        """Columns of the rows at places that `matches` gave; NULL where one is negative."""
        return self.rows.gather(places, names)

    def known(
        self, keys: pa.RecordBatch, lookups: Lookups, now_ms: int, bounds: KeyBounds
    ) -> tuple[PartialCache, int]:
        """The cache with these keys (in the table's types, none NULL) added, and how many had to be read."""
        kept = self._kept(self._young(now_ms, bounds))
        wanted = [comparable(keys.column(n)) for n in self.source.on]
        asked, places = found_in(kept.keys, kept.by_key, self.source.on, wanted)
        times = kept.asked_ms.copy()
        times[places] = now_ms
        kept = replace(kept, asked_ms=times)
        missing = np.ones(keys.num_rows, dtype=bool)
        missing[asked] = False
        if not missing.any():
            return kept, 0
        new = _distinct(keys.filter(pa.array(missing)))
        return kept._with(new, kept._read(new, lookups), now_ms), new.num_rows

    def trimmed(self, bounds: KeyBounds) -> PartialCache:
        """The cache with at most `bounds.keys` keys, those asked for last."""
        if self.keys.count <= bounds.keys:
            return self
        kept = np.zeros(self.keys.count, dtype=bool)
        kept[np.argsort(self.asked_ms, kind="stable")[self.keys.count - bounds.keys :]] = True
        return self._kept(kept)

    def at(self, newest: Snapshot) -> tuple[PartialCache, Refreshed]:
        """The cache of a newer snapshot, without the keys whose rows may be other ones there, and what the
        refresh found."""
        try:
            since = require_went_on(self.source.store, self.snapshot, newest)
            changed = 0
            kept = np.ones(self.keys.count, dtype=bool)
            for files in changed_files(self.source.store, since, newest).values():
                with expiring_between(self.source.store, since, newest):
                    keys = changed_keys(self.source.store, files)
                changed += keys.num_rows
                wanted = [comparable(keys.column(n)) for n in self.source.on]
                kept[found_in(self.keys, self.by_key, self.source.on, wanted)[1]] = False
            cache = replace(self._kept(kept), snapshot=newest)
            return cache, Refreshed(newest.id, changed, cache.count)
        except NotByKey as why:
            return PartialCache.empty(self.source, newest), Refreshed(newest.id, None, 0, str(why))

    def _young(self, now_ms: int, bounds: KeyBounds) -> np.ndarray:
        young = np.ones(self.keys.count, dtype=bool)
        for times, age in ((self.read_ms, bounds.after_write_ms), (self.asked_ms, bounds.after_access_ms)):
            if age is not None:
                young &= now_ms - times <= age
        return young

    def _read(self, keys: pa.RecordBatch, lookups: Lookups) -> list[pa.RecordBatch]:
        source = self.source
        scan = snapshot_scan(source.store, self.snapshot, source.columns)
        batches = lookups.rows(scan, pa.Table.from_batches([_either_zero(keys)]), source.columns)
        if source.where is None:
            return list(batches)
        return [batch.filter(evaluate.mask(source.where, batch)) for batch in batches]

    def _with(self, new: pa.RecordBatch, rows: Sequence[pa.RecordBatch], now_ms: int) -> PartialCache:
        keys, all_rows = self.keys.plus([new]), self.rows.plus(rows)
        times = np.full(new.num_rows, now_ms, dtype=np.int64)
        return replace(
            self,
            keys=keys,
            by_key=_index(keys, self.source.on),
            read_ms=np.concatenate([self.read_ms, times]),
            asked_ms=np.concatenate([self.asked_ms, times]),
            rows=all_rows,
            by_on=_index(all_rows, self.source.on),
        )

    def _kept(self, kept: np.ndarray) -> PartialCache:
        """The cache of the keys where `kept` is true, with their rows."""
        if kept.all():
            return self
        keys = replace(self.keys, chunks=tuple(self.keys.batches(kept)))
        by_key = _index(keys, self.source.on)
        wanted = [comparable(c) for c in self.rows.gather(np.arange(self.rows.count), self.source.on)]
        stays = np.zeros(self.rows.count, dtype=bool)
        stays[found_in(keys, by_key, self.source.on, wanted)[0]] = True
        rows = replace(self.rows, chunks=tuple(self.rows.batches(stays)))
        return replace(
            self,
            keys=keys,
            by_key=by_key,
            read_ms=self.read_ms[kept],
            asked_ms=self.asked_ms[kept],
            rows=rows,
            by_on=_index(rows, self.source.on),
        )


def _index(rows: CachedRows, names: Sequence[str]) -> RowIndex:
    return RowIndex.of([comparable(c) for c in rows.gather(np.arange(rows.count), names)])


def _either_zero(keys: pa.RecordBatch) -> pa.RecordBatch:
    """The keys, and those with a zero also with its other sign: a join takes both for equal, but they are two
    keys."""
    for i, column in enumerate(keys.columns):
        if not pa.types.is_floating(column.type):
            continue
        zeros = keys.filter(pc.equal(column, 0.0))
        if zeros.num_rows:
            other = zeros.set_column(i, keys.schema.field(i), pc.negate(zeros.column(i)))
            keys = _distinct(joined([keys, other]))
    return keys


def _distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    once = pa.Table.from_batches([keys]).group_by(keys.schema.names, use_threads=False).aggregate([])
    return joined(once.to_batches()).select(keys.schema.names)
