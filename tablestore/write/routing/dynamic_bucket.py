"""Dynamic buckets: a key stays in the bucket it first went to, new keys fill buckets in order
(FORMAT.md 15.2).

An index file of each bucket holds its key hashes; those of a partition are read when its first row comes and
kept sorted: 6 bytes a key hash, so 100 million keys of the partitions written take 600 MB. `assign` looks a
whole batch up by binary search. `prepare` writes new index files of the buckets that got new hashes; the
commit replaces the old ones and is refused when another writer did so meanwhile: one writer at a time, as in
Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.table_options import TableOptions
from tablestore.format import checksums, hashing
from tablestore.format.manifests.index_manifest import HASH, IndexEntry, IndexFileMeta
from tablestore.format.manifests.manifest import ADD
from tablestore.meta.deletion_files import read_hashes
from tablestore.meta.store import Store
from tablestore.write.commit.request import Basis
from tablestore.write.routing import routing
from tablestore.write.routing.routing import IndexChange, Place, Slice

MAX_BUCKETS = 32_767


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """How many keys a bucket takes, how many buckets a partition has (None: up to 32,767), and over how many
    new keys are spread at once: hash h goes to buckets i with i mod `initial` = |h mod `initial`|."""

    rows: int
    max_buckets: int | None = None
    initial: int = 1


@dataclass(slots=True)
class PartitionIndex:
    """Key hashes of one partition and the bucket of each. `hashes` are sorted, `buckets` are parallel."""

    limits: BucketLimits
    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    buckets: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    counts: dict[int, int] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, limits: BucketLimits, hashes_of_buckets: Mapping[int, np.ndarray]) -> PartitionIndex:
        """The index of buckets whose hashes were read."""
        hashes = [*hashes_of_buckets.values(), np.zeros(0, dtype=np.int32)]
        buckets = [np.full(len(h), b, dtype=np.int16) for b, h in hashes_of_buckets.items()]
        index = cls(limits, counts={b: len(h) for b, h in sorted(hashes_of_buckets.items())})
        index._put(np.concatenate(hashes), np.concatenate([*buckets, index.buckets]))
        return index

    def assign(self, wanted: np.ndarray) -> np.ndarray:
        """int32 bucket of each key hash; hashes not seen before are given one, in order of appearance."""
        distinct, first, inverse = np.unique(wanted, return_index=True, return_inverse=True)
        at = np.searchsorted(self.hashes, distinct)
        there = at < len(self.hashes)
        there[there] = self.hashes[at[there]] == distinct[there]
        buckets = np.zeros(len(distinct), dtype=np.int32)
        buckets[there] = self.buckets[at[there]]
        fresh = np.flatnonzero(~there)
        if len(fresh):
            fresh = fresh[np.argsort(first[fresh], kind="stable")]
            buckets[fresh] = self._place(distinct[fresh])
            self._put(distinct[fresh], buckets[fresh])
        return buckets[inverse]

    def _put(self, hashes: np.ndarray, buckets: np.ndarray) -> None:
        together = np.concatenate([self.hashes, hashes.astype(np.int32)])
        order = np.argsort(together, kind="stable")
        self.hashes = together[order]
        self.buckets = np.concatenate([self.buckets, buckets.astype(np.int16)])[order]

    def _place(self, fresh: np.ndarray) -> np.ndarray:
        """Buckets for new hashes."""
        initial = self.limits.initial
        placed = np.zeros(len(fresh), dtype=np.int32)
        groups = np.abs(np.fmod(fresh.astype(np.int64), initial))
        for group in range(initial) if len(fresh) else ():
            rows = np.flatnonzero(groups == group)
            placed[rows] = self._place_group(fresh[rows], group)
        self.changed.update(np.unique(placed).tolist())
        return placed

    def _place_group(self, fresh: np.ndarray, group: int) -> np.ndarray:
        """Buckets for new hashes of a group: the lowest that have room, then new ones, then any of the
        group."""
        chosen, left = [np.zeros(0, dtype=np.int32)], len(fresh)
        rooms = self._rooms(group)
        while left:
            bucket = next(rooms, None)
            if bucket is None:
                chosen.append(self._any(fresh[len(fresh) - left :], group))
                break
            taken = min(left, self.limits.rows - self.counts.get(bucket, 0))
            chosen.append(np.full(taken, bucket, dtype=np.int32))
            self.counts[bucket] = self.counts.get(bucket, 0) + taken
            left -= taken
        return np.concatenate(chosen)

    def _rooms(self, group: int) -> Iterator[int]:
        """The group's buckets below the limit, lowest first, then ids it does not use yet."""
        max_buckets, step = self.limits.max_buckets or MAX_BUCKETS, self.limits.initial
        own = sorted(b for b in self.counts if b % step == group)
        yield from [b for b in own if self.counts[b] < self.limits.rows]
        yield from sorted(set(range(group, max_buckets, step)).difference(own))
        if self.limits.max_buckets is None:
            text = f"a partition needs more than {MAX_BUCKETS} buckets; raise 'dynamic-bucket.target-row-num'"
            raise InvalidRequest(text)

    def _any(self, fresh: np.ndarray, group: int) -> np.ndarray:
        """Full buckets, spread by the hash: the same key goes to the same bucket when a write is repeated."""
        own = [b for b in sorted(self.counts) if b % self.limits.initial == group]
        ids = np.array(own or sorted(self.counts) or [0], dtype=np.int32)
        placed = ids[np.abs(fresh.astype(np.int64)) % len(ids)]
        for bucket, more in zip(*np.unique(placed, return_counts=True), strict=True):
            self.counts[int(bucket)] = self.counts.get(int(bucket), 0) + int(more)
        return placed

    def of_bucket(self, bucket: int) -> np.ndarray:
        """The hashes of one bucket."""
        return self.hashes[self.buckets == bucket]


def limits_of(options: TableOptions) -> BucketLimits:
    """The limits a table's options set."""
    max_buckets = options.dynamic_bucket_max
    return BucketLimits(
        options.dynamic_bucket_rows,
        None if max_buckets == -1 else max_buckets,
        min(options.dynamic_bucket_initial or 1, MAX_BUCKETS if max_buckets == -1 else max_buckets),
    )


class DynamicRouting:
    """Routes rows of a table with dynamic buckets. `ignore_live`: as if the table were empty, for
    overwriting."""

    def __init__(self, store: Store, *, ignore_live: bool = False) -> None:
        self._store = store
        self._limits = limits_of(store.options)
        self._entries: dict[bytes, list[IndexEntry]] = {}
        latest = store.snapshots.latest()
        self.basis = None if ignore_live else Basis(latest, appends=True)
        for e in [] if ignore_live else store.manifests.index_entries(latest):
            if e.file.index_type == HASH:
                self._entries.setdefault(e.partition, []).append(e)
        self._partitions: dict[bytes, PartitionIndex] = {}
        self._written: list[str] = []
        self._uuid, self._count = store.env.uuid(), 0

    def route(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """The slices of a batch; its new keys are given buckets."""
        for piece in routing.pieces(batch):
            yield from self._route(piece)

    def _route(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        fields = self._store.schema.key_fields
        hashes = hashing.hash_rows([batch.column(f.name) for f in fields], [f.type for f in fields])
        partitions, codes = routing.partitions_of(batch, self._store.schema)
        buckets = np.zeros(batch.num_rows, dtype=np.int32)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(partitions)), side="right")
        start = 0
        for partition, end in zip(partitions, ends.tolist(), strict=True):
            rows = order[start:end]
            buckets[rows] = self._index(partition).assign(hashes[rows])
            start = end
        yield from routing.cut(batch, partitions, codes, buckets)

    def _index(self, partition: bytes) -> PartitionIndex:
        if partition not in self._partitions:
            hashes = {e.bucket: read_hashes(self._store, e) for e in self._entries.get(partition, [])}
            self._partitions[partition] = PartitionIndex.of(self._limits, hashes)
        return self._partitions[partition]

    def prepare(self) -> Mapping[Place, IndexChange]:
        """Write the index files of buckets that got new keys."""
        changes: dict[Place, IndexChange] = {}
        for partition, index in self._partitions.items():
            old = {e.bucket: e for e in self._entries.get(partition, [])}
            for bucket in sorted(index.changed):
                new = self._write(partition, bucket, index.of_bucket(bucket))
                gone = (old[bucket].file,) if bucket in old else ()
                changes[partition, bucket] = IndexChange((new,), gone)
                old[bucket] = IndexEntry(ADD, partition, bucket, new)
            index.changed.clear()
            self._entries[partition] = list(old.values())
        self._written = []
        return changes

    def _write(self, partition: bytes, bucket: int, hashes: np.ndarray) -> IndexFileMeta:
        data = hashing.encode_index(hashes)
        name = f"index-{checksums.named(self._uuid, data)}-{self._count}"
        self._count += 1
        path = self._store.index_path(partition, bucket, name)
        self._written.append(path)
        self._store.io.write(path, data)
        return IndexFileMeta(HASH, name, len(data), len(hashes))

    def close(self) -> None:
        """Delete index files that were written and are in no commit message."""
        for path in self._written:
            self._store.io.delete(path)
        self._written = []
