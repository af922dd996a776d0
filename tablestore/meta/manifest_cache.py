"""Cache of decoded manifests and lists by path, shared by all tables of a process, as such files never
change.

It holds up to 200,000 entries of manifests and 50,000 of lists, and evicts the least recently used. Of a
large manifest it may hold the entries of some partitions alone. Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection
from functools import cached_property

import numpy as np
import pyarrow as pa

from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.meta.entries import Entries

MAX_ENTRIES = 200_000
_MAX_LISTED = 50_000
_MANY_SEARCHES = 8
_PART_COST = 20  # what a part weighs beside its entries, in entries


_Key = tuple[str, bytes | None]  # path, and the partition whose entries alone are kept (None: all)


class CachedManifest:
    """The entries of one manifest, with sums over them that are made once."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def of_partitions(self, partitions: Collection[bytes]) -> CachedManifest:
        """Its entries of these partitions; itself where it has no others."""
        distinct, codes = self._partitions
        chosen = np.array([p in partitions for p in distinct], dtype=bool)
        return self if chosen.all() else CachedManifest(Entries(self.table).filter(chosen[codes]).table)

    @cached_property
    def _partitions(self) -> tuple[list[bytes], np.ndarray]:
        """The distinct partitions, and each entry's index into them."""
        return Entries(self.table).partitions()

    @cached_property
    def max_sequences(self) -> dict[tuple[bytes, int], int]:
        """The greatest sequence number of each (partition, bucket) among all entries, deleted ones too."""
        entries, (distinct, codes) = Entries(self.table), self._partitions
        pairs = codes.astype(np.int64) << 32 | entries.numbers("bucket") & 0xFFFFFFFF
        groups, inverse = np.unique(pairs, return_inverse=True)
        highest = np.full(len(groups), -1, dtype=np.int64)
        np.maximum.at(highest, inverse, entries.numbers("max_sequence"))
        places = zip((groups >> 32).tolist(), _buckets(groups), strict=True)
        return {(distinct[p], b): t for (p, b), t in zip(places, highest.tolist(), strict=True)}


def _buckets(pairs: np.ndarray) -> list[int]:
    return (pairs & 0xFFFFFFFF).astype(np.uint32).astype(np.int32).tolist()


class ManifestCache:
    """Manifests and lists by path, with eviction of the least recently used."""

    def __init__(self) -> None:
        self._cached_entries: OrderedDict[_Key, CachedManifest] = OrderedDict()
        self._entries = 0
        self._searches: Counter[str] = Counter()
        self._lists: OrderedDict[str, tuple[ManifestFileMeta, ...]] = OrderedDict()
        self._listed = 0
        self._lock = threading.Lock()

    def get(self, path: str, partition: bytes | None = None) -> CachedManifest | None:
        """The manifest at `path`, or its entries of one partition; None if they are not cached."""
        with self._lock:
            cached = self._cached_entries.get((path, partition))
            if cached is not None:
                self._cached_entries.move_to_end((path, partition))
            return cached

    def clear(self) -> None:
        """Empty the cache, as in a process that has just started."""
        with self._lock:
            self._cached_entries.clear()
            self._lists.clear()
            self._searches.clear()
            self._entries = self._listed = 0

    def put(self, path: str, table: pa.Table, partition: bytes | None = None) -> CachedManifest:
        """Cache the entries of the manifest at `path`, or those of one partition in it."""
        key = path, partition
        with self._lock:
            if key in self._cached_entries:
                return self._cached_entries[key]
            cached = self._cached_entries[key] = CachedManifest(table)
            self._entries += _weight(key, cached)
            while self._entries > MAX_ENTRIES and len(self._cached_entries) > 1:
                self._entries -= _weight(*self._cached_entries.popitem(last=False))
            return cached

    def searched(self, path: str, entries: int) -> bool:
        """Note that some partitions of a manifest of so many entries are looked for; whether that happened so
        often that decoding all of them, once, costs less."""
        with self._lock:
            self._searches[path] += 1
            return self._searches[path] > _MANY_SEARCHES and entries <= MAX_ENTRIES // 2

    def get_list(self, path: str) -> tuple[ManifestFileMeta, ...] | None:
        """The manifests of the list at `path`, None if they are not cached."""
        with self._lock:
            cached = self._lists.get(path)
            if cached is not None:
                self._lists.move_to_end(path)
            return cached

    def put_list(self, path: str, manifests: tuple[ManifestFileMeta, ...]) -> None:
        """Cache the manifests of the list at `path`."""
        with self._lock:
            if path in self._lists:
                return
            self._lists[path] = manifests
            self._listed += len(manifests) + 1
            while self._listed > _MAX_LISTED and len(self._lists) > 1:
                self._listed -= len(self._lists.popitem(last=False)[1]) + 1

    def cached_in(self, folder: str) -> list[tuple[str, pa.Table]]:
        """(path, entries) of the cached manifests of one directory."""
        with self._lock:
            return [(p, m.table) for (p, _), m in self._cached_entries.items() if p.startswith(f"{folder}/")]


def _weight(key: _Key, cached: CachedManifest) -> int:
    return int(cached.table.num_rows) + (_PART_COST if key[1] is not None else 0)


LOCAL = ManifestCache()
