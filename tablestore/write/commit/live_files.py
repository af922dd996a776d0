"""The live files of a snapshot by bucket, and each bucket's next sequence number: what writers start from.

Objects are made only for buckets that are written to. A writer that does not compact needs no files at all,
only a sequence number above all others, which each manifest has once.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

Place = tuple[bytes, int]  # partition, bucket


class LiveFiles:
    """The live files of `snapshot`, bucket by bucket."""

    def __init__(self, store: Store, snapshot: Snapshot | None) -> None:
        self._store, self._snapshot = store, snapshot

    def of(self, place: Place) -> list[DataFileMeta]:
        """The files of a bucket, in manifest order."""
        rows = self._rows.get(place)
        return [] if rows is None else [e.file for e in self._entries.take(rows)]

    def next_sequence(self, place: Place) -> int:
        """The sequence number that a writer of the bucket starts with."""
        return max((tops.get(place, -1) for tops in self._tops), default=-1) + 1

    @cached_property
    def _tops(self) -> list[dict[Place, int]]:
        return self._store.manifests.max_sequences(self._snapshot)

    def total_buckets(self, place: Place) -> int:
        """How many buckets the partition has, as the files of this bucket say."""
        return int(self._entries.numbers("total_buckets")[self._rows[place][0]])

    @cached_property
    def places(self) -> frozenset[Place]:
        """Every bucket that holds files, but for postponed ones."""
        return frozenset(p for p in self._rows if p[1] != POSTPONE_BUCKET)

    @cached_property
    def _entries(self) -> Entries:
        return self._store.manifests.live_entries(self._snapshot)

    @cached_property
    def _rows(self) -> dict[Place, np.ndarray]:
        entries = self._entries
        if not len(entries):
            return {}
        partitions, codes = entries.partitions()
        buckets = entries.numbers("bucket")
        order = np.lexsort((buckets, codes))
        codes, buckets = codes[order], buckets[order]
        starts = np.flatnonzero(np.r_[True, (np.diff(codes) != 0) | (np.diff(buckets) != 0)])
        parts = np.split(order, starts[1:])
        return {(partitions[codes[s]], int(buckets[s])): part for s, part in zip(starts, parts, strict=True)}
