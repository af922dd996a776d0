"""The full changelog of one snapshot: what was before each change is looked up in the snapshot before it.

For tables whose commits hold upserts only: a key that a commit touched is read at the snapshot and at the one
before, so that unchanged rows are left out, updates are −U/+U pairs and a −D has the old values, as the
changelog producer `lookup` would write them. No state is kept: the same snapshot gives the same changes each
time, as long as the one before has not expired. Memory: the keys of one bucket's files (of a partition's, for
an OVERWRITE that streams deliver), the rows of 65,536 of them. Used by Spark's streams, which have no place
for a state that survives, and by `Table.stream` where asked, which by default keeps a state
(`table/normalize.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import rowkind
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined
from tablestore.lsm.merge.keys import equal_rows
from tablestore.meta.store import Store
from tablestore.read.changes.change import StreamLost
from tablestore.read.changes.changed_keys import Place, changed_keys, changed_of, with_level_0
from tablestore.read.changes.incremental import change_schema, moves
from tablestore.read.changes.overwritten import streams_overwrite, with_overwrites
from tablestore.read.points.point_read import PointReader
from tablestore.read.scan.time_travel import expiring

_MAX_KEYS = 65_536
_ALL = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)


def touched(store: Store, snapshot: Snapshot) -> dict[Place, list[ManifestEntry]]:
    """The files whose keys a snapshot may have changed, by bucket; of an OVERWRITE, in which keys may go to
    other buckets, by partition."""
    store = with_level_0(store)
    overwritten = streams_overwrite(with_overwrites(store), snapshot)
    entries = store.manifests.delta_entries(snapshot) if overwritten else changed_of(store, snapshot)
    files: dict[Place, list[ManifestEntry]] = {}
    for entry in entries:
        files.setdefault((entry.partition, None if overwritten else entry.bucket), []).append(entry)
    return files


def require_looked_up(store: Store) -> None:
    """Raise InvalidRequest or Unsupported for a table whose changes cannot be looked up by key."""
    if not store.schema.shown.primary_keys:
        raise InvalidRequest("a stream without a primary key gives each row once: there is no key to go by")
    if store.options.record_expire_ms is not None:
        raise Unsupported("looking changes up where rows expire by age (record-level.expire-time)")
    if store.options.bucket == POSTPONE_BUCKET:
        raise Unsupported("looking changes up where rows wait in bucket-postpone", "set a changelog-producer")


def looked_up_changes(
    store: Store,
    snapshot: Snapshot,
    columns: Sequence[str],
    places: Sequence[Place] | None = None,
    *,
    where: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """The changes of a snapshot in `columns`, `rowkind` first; of some buckets, or (None) of all. A row that
    moves to another partition is deleted before it is inserted. Through a filter, a row that enters it is +I
    and one that leaves it −D.

    Raises StreamLost where the snapshot before has expired.
    """
    store = with_level_0(store)
    files = touched(store, snapshot)
    chosen = files if places is None else {p: files[p] for p in places if p in files}
    reading = _Reading(store, snapshot, tuple(columns), where)
    for only in (_ALL[3:], _ALL[:3]) if moves(store) else (_ALL,):
        for place, some in chosen.items():
            with expiring(store, snapshot.id):
                keys = changed_keys(store, some)
            yield from reading.changes(place, keys, only)


class _Reading:
    """The rows of keys before and after one snapshot."""

    def __init__(
        self, store: Store, snapshot: Snapshot, columns: tuple[str, ...], where: Predicate | None
    ) -> None:
        self._store, self._columns = store, columns
        self._where = None if where is None else predicate.bind(where, store.schema)
        self._schema = change_schema(store, columns)
        keys = store.schema.trimmed_primary_keys
        asked = () if self._where is None else self._where.columns
        self._names = tuple(dict.fromkeys((*columns, *keys, *asked)))
        self._after = PointReader(store, snapshot)
        self._before = PointReader(store, _before(store, snapshot)) if snapshot.id > 1 else None

    def changes(self, place: Place, keys: pa.RecordBatch, only: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        """Changes of the given kinds of a bucket's keys, in key order."""
        for start in range(0, keys.num_rows, _MAX_KEYS):
            some = keys.slice(start, _MAX_KEYS)
            changed = self._differences(
                self._rows(self._before, place, some), self._rows(self._after, place, some), only
            )
            if changed.num_rows:
                yield changed

    def _rows(self, reader: PointReader | None, place: Place, keys: pa.RecordBatch) -> pa.RecordBatch:
        batches = [] if reader is None else list(reader.read(*place, keys, self._names))
        if self._where is not None:
            batches = [batch.filter(evaluate.mask(self._where, batch)) for batch in batches]
        if batches:
            return joined(batches)
        schema = pa.schema([f.arrow for f in self._store.schema.columns(self._names)])
        return pa.RecordBatch.from_pylist([], schema)

    def _differences(self, old: pa.RecordBatch, new: pa.RecordBatch, only: tuple[int, ...]) -> pa.RecordBatch:
        """The difference of two states, each with a key at most once."""
        fields = self._store.schema.key_fields
        both = [key_columns.of_batch(rows, fields) for rows in (old, new)]
        codes = key_columns.codes(key_columns.concatenated(both))
        old_codes, new_codes = codes[: old.num_rows], codes[old.num_rows :]
        _, in_old, in_new = np.intersect1d(old_codes, new_codes, assume_unique=True, return_indices=True)
        kinds = np.repeat(np.array([DELETE, INSERT], dtype=np.int8), [old.num_rows, new.num_rows])
        kinds[in_old], kinds[old.num_rows + in_new] = UPDATE_BEFORE, UPDATE_AFTER
        changed = np.isin(kinds, only)
        values = (rows.select(list(self._columns)) for rows in (old.take(in_old), new.take(in_new)))
        same = equal_rows(*values)
        changed[in_old[same]] = changed[old.num_rows + in_new[same]] = False
        order = np.lexsort((kinds, codes))
        order = order[changed[order]]
        rows = joined([old, new]).take(pa.array(order))
        texts = rowkind.texts(pa.array(kinds[order]))
        return pa.RecordBatch.from_arrays(
            [texts, *(rows.column(n) for n in self._columns)], schema=self._schema
        )


def _before(store: Store, snapshot: Snapshot) -> Snapshot:
    try:
        return store.snapshots.get(snapshot.id - 1)
    except NotFound:
        raise StreamLost(
            f"what was before snapshot {snapshot.id} has expired",
            "start with latest-full (and keep snapshots with a consumer-id), or take changes as they were "
            "written with normalize=false",
        ) from None
