"""What the writer of a bucket starts from: the `Bucket` itself, its live files and next sequence number.

Objects are made only for buckets that are written to. A writer that does not compact needs no files at all,
only a sequence number above all others, which each manifest has once. The first few partitions that are asked
for are read one by one, which decodes little of a large table; a writer to more of them reads all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.levels.bucket import Bucket
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

Place = tuple[bytes, int]  # partition, bucket
_FEW = 8  # partitions that are read one by one


def bucket_of(
    store: Store,
    partition: bytes,
    number: int,
    *,
    total_buckets: int | None = None,
    options: TableOptions | None = None,
    files: Iterable[DataFileMeta] = (),
    index_files: Iterable[IndexFileMeta] = (),
) -> Bucket:
    """A `Bucket` of the table with these live files. `total_buckets` and `options` default to the table's; in
    its options `change_tracking` is that of the partition."""
    chosen = store.options if options is None else options
    tracks = store.tracks_changes(partition)
    if chosen.change_tracking != tracks:
        chosen = replace(chosen, change_tracking=tracks)
    return Bucket(
        store.env,
        store.io,
        partition,
        number,
        store.options.bucket if total_buckets is None else total_buckets,
        store.bucket_dir(partition, number),
        store.schema,
        chosen,
        store.schema_of,
        partial(store.index_path, partition, number),
        tuple(files),
        tuple(index_files),
    )


class LiveFiles:
    """The live files of `snapshot`, bucket by bucket."""

    def __init__(self, store: Store, snapshot: Snapshot | None) -> None:
        self._store, self._snapshot = store, snapshot
        self._files: dict[bytes, _Placed] = {}  # of the partitions that were read one by one
        self._tops: dict[bytes, list[dict[Place, int]]] = {}
        self._every_top: list[dict[Place, int]] | None = None

    def of(self, place: Place) -> list[DataFileMeta]:
        """The files of a bucket, in manifest order."""
        partition = place[0]
        if "_every_file" in self.__dict__ or (partition not in self._files and len(self._files) >= _FEW):
            return self._every_file.of(place)
        if partition not in self._files:
            live = self._store.manifests.live_entries(self._snapshot, partitions=(partition,))
            self._files[partition] = _Placed(live)
        return self._files[partition].of(place)

    def next_sequence(self, place: Place) -> int:
        """The sequence number that a writer of the bucket starts with."""
        return max((tops.get(place, -1) for tops in self._tops_of(place[0])), default=-1) + 1

    def _tops_of(self, partition: bytes) -> list[dict[Place, int]]:
        """The greatest sequence numbers of a partition's buckets, of each manifest."""
        if self._every_top is not None:
            return self._every_top
        if partition not in self._tops:
            if len(self._tops) >= _FEW:
                self._every_top = self._store.manifests.max_sequences(self._snapshot)
                return self._every_top
            self._tops[partition] = self._store.manifests.max_sequences(self._snapshot, (partition,))
        return self._tops[partition]

    def total_buckets(self, place: Place) -> int:
        """How many buckets the partition has, as the files of this bucket say."""
        return self._every_file.total_buckets(place)

    @cached_property
    def places(self) -> frozenset[Place]:
        """Every bucket that holds files, but for postponed ones."""
        return frozenset(p for p in self._every_file.rows if p[1] != POSTPONE_BUCKET)

    @cached_property
    def _every_file(self) -> _Placed:
        return _Placed(self._store.manifests.live_entries(self._snapshot))


class _Placed:
    """Live entries by bucket; objects are made of those that are asked for."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self.rows = _rows(entries)

    def of(self, place: Place) -> list[DataFileMeta]:
        """The files of a bucket, in manifest order."""
        rows = self.rows.get(place)
        return [] if rows is None else [e.file for e in self._entries.take(rows)]

    def total_buckets(self, place: Place) -> int:
        """The number of buckets that the first file of this one names."""
        return int(self._entries.numbers("total_buckets")[self.rows[place][0]])


def _rows(entries: Entries) -> dict[Place, np.ndarray]:
    """The positions of the entries of each bucket."""
    if not len(entries):
        return {}
    partitions, codes = entries.partitions()
    buckets = entries.numbers("bucket")
    order = np.lexsort((buckets, codes))
    codes, buckets = codes[order], buckets[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(codes) != 0) | (np.diff(buckets) != 0)])
    parts = np.split(order, starts[1:])
    return {(partitions[codes[s]], int(buckets[s])): part for s, part in zip(starts, parts, strict=True)}
