"""Which keys of a table with a primary key may have other rows at a later snapshot than at an earlier one.

The keys of the files that commits add, or, where level 0 is hidden from reads (deletion vectors, first-row),
of the files that compactions take from there; only the key columns are read. Compactions change no row
otherwise (I12). Where files do not show it (an overwrite, rows that expire by age, expired snapshots),
`NotByKey` gives the reason: the whole table must be read then. Memory: the keys of one bucket's files. Used
by lookup joins, and by streams that look up what was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound, SnapshotExpired
from tablestore.core.options.table_options import MergeEngine
from tablestore.format.data_format import FileRequest
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.snapshots import raising_expired
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import read_file

Place = tuple[bytes, int | None]  # partition, bucket (None: any of it)


class NotByKey(Exception):
    """The files of some commits do not show which keys changed; the text says why."""


def hides_level_0(store: Store) -> bool:
    """Whether rows are read only once a compaction has taken them from level 0."""
    options = store.options
    vectors = options.deletion_vectors and not options.merge_on_read
    return vectors or options.merge_engine is MergeEngine.FIRST_ROW


def with_level_0(store: Store) -> Store:
    """The table whose reads include rows at level 0, which deletion vectors hide until a compaction looks
    them up: streams deliver rows when they come."""
    if not store.options.deletion_vectors or store.options.merge_on_read:
        return store
    return store.with_schema(store.schema.with_options({"deletion-vectors.merge-on-read": "true"}))


def changed_files(store: Store, since: Snapshot, until: Snapshot) -> dict[Place, list[ManifestEntry]]:
    """The files whose keys have rows at `until` that may differ from those at `since`, by bucket."""
    if store.options.record_expire_ms is not None:
        raise NotByKey("rows expire by age (record-level.expire-time)")
    if store.options.bucket == POSTPONE_BUCKET:
        raise NotByKey("rows wait in bucket-postpone until a compaction brings them")
    files: dict[Place, list[ManifestEntry]] = {}
    for snapshot_id in range(since.id + 1, until.id + 1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
            changed = changed_of(store, snapshot)
        except NotFound:
            raise NotByKey(f"snapshot {snapshot_id} has expired") from None
        if snapshot.commit_kind == OVERWRITE:
            raise NotByKey(f"snapshot {snapshot_id} is an OVERWRITE")
        for entry in changed:
            files.setdefault((entry.partition, entry.bucket), []).append(entry)
    return files


def changed_of(store: Store, snapshot: Snapshot) -> Entries:
    """The files by which one APPEND or COMPACT snapshot changes rows."""
    hidden = hides_level_0(store)
    if snapshot.commit_kind != (COMPACT if hidden else APPEND):
        return EMPTY
    entries = store.manifests.delta_entries(snapshot)
    if hidden:
        return entries.filter((entries.numbers("kind") == DELETE) & (entries.numbers("level") == 0))
    return entries.filter(entries.numbers("kind") == ADD)


def changed_keys(store: Store, files: Sequence[ManifestEntry]) -> pa.RecordBatch:
    """The distinct keys (trimmed key columns, then those partition columns that are no key) of files of one
    bucket, in key order."""
    schema = store.schema
    names = tuple(dict.fromkeys((*schema.trimmed_primary_keys, *schema.partition_keys)))
    rows = joined([b.select(names) for e in files for b in _rows(store, e, names)])
    codes = key_columns.codes(key_columns.of_batch(rows, schema.key_fields))
    return rows.take(pa.array(np.unique(codes, return_index=True)[1]))


@contextmanager
def expiring_between(store: Store, since: Snapshot, until: Snapshot) -> Iterator[None]:
    """A context that raises NotByKey where a file of the commits between two snapshots is missing because
    they have expired meanwhile."""
    try:
        with raising_expired(store.io, store.paths, range(since.id + 1, until.id + 1)):
            yield
    except SnapshotExpired as e:
        raise NotByKey(str(e)) from e


def _rows(store: Store, entry: ManifestEntry, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    request = FileRequest(names, system=False)
    return read_file(store, entry.partition, entry.bucket, entry.file, request)
