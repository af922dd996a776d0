"""Cache of decoded manifests and lists by path, shared by all tables of a process, as such files never
change.

It holds up to 200,000 entries of manifests and a quarter of that of lists, and evicts the least recently
used. TABLESTORE_CACHED_ENTRIES in the environment is another number, for a process with less memory, or whose
cache is to be full soon. Of a large manifest it may hold the entries of some partitions alone. Safe to share
between threads.

Memory: a table of few entries holds 27 KB, nearly all for its 29 columns, and the same as one message of
Arrow 3 KB. So all but the 128 of them that were used last are messages: a process that commits for long gains
a manifest of some 8 KB with each commit, until it has 2,000. Lists share the manifests that they have in
common. The live entries that were asked for last are kept while they are few, with their objects, 2 KB each:
what explains a snapshot asks for them again and again, and a writer for those of the next snapshot, of which
it has only the newest manifests to add.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from tablestore.core.options.environment import whole_number
from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.manifests.manifest_columns import SCHEMA
from tablestore.meta.entries import EMPTY, Entries, concatenated

CACHED_ENTRIES = "TABLESTORE_CACHED_ENTRIES"
_MANY_SEARCHES = 8
_COST = 100  # what a manifest or a part weighs beside its entries, in entries
MAX_ENTRIES = whole_number(CACHED_ENTRIES, 200_000, least=_COST)
_MAX_LISTED = MAX_ENTRIES // 4
_MOST_KNOWN = MAX_ENTRIES // _COST
_FEW_ENTRIES = 64  # below that a table is mostly its columns
_MOST_LIVE = 20_000
MOST_TABLES = 128
"""Manifests of few entries that are kept as tables."""
_NONE = SCHEMA.empty_table()


_Part = tuple[str, frozenset[bytes] | None]  # a folder of manifests, and partitions (None: all)
_Key = tuple[str, bytes | None]  # path, and the partition whose entries alone are kept (None: all)


class CachedManifest:
    """The entries of one manifest, with sums over them that are made once. Safe to share between threads."""

    def __init__(self, table: pa.Table) -> None:
        self._table: pa.Table | None = table if table.num_rows else _NONE
        self._message: pa.Buffer | None = None  # once it is there it stays, so that readers need no lock
        self.rows = int(table.num_rows)

    @property
    def packed(self) -> bool:
        """Whether the entries are a message alone."""
        return self._table is None

    @property
    def table(self) -> pa.Table:
        """Its entries as columns."""
        table = self._table
        if table is None:
            table = pa.Table.from_batches([pa.ipc.read_record_batch(self._message, SCHEMA)])
        return table

    def pack(self) -> None:
        """Hold the entries, of which there are some, as a message that a caller of `table` decodes."""
        if self._message is None:
            self._message = self.table.combine_chunks().to_batches()[0].serialize()
        self._table = None

    def unpack(self) -> None:
        """Hold the entries as a table."""
        self._table = self.table

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
        self._tables: OrderedDict[_Key, CachedManifest] = OrderedDict()  # of few entries, not packed
        self._entries = 0
        self._searches: Counter[str] = Counter()
        self._lists: OrderedDict[str, tuple[ManifestFileMeta, ...]] = OrderedDict()
        self._listed = 0
        self._listed_lately: OrderedDict[str, ManifestFileMeta] = OrderedDict()  # by name
        self._live: OrderedDict[_Part, tuple[list[str], Entries]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str, partition: bytes | None = None) -> CachedManifest | None:
        """The manifest at `path`, or its entries of one partition; None if they are not cached."""
        with self._lock:
            cached = self._cached_entries.get((path, partition))
            if cached is not None:
                self._cached_entries.move_to_end((path, partition))
                self._used((path, partition), cached)
            return cached

    def clear(self) -> None:
        """Empty the cache, as in a process that has just started."""
        with self._lock:
            self._cached_entries.clear()
            self._tables.clear()
            self._lists.clear()
            self._listed_lately.clear()
            self._searches.clear()
            self._live.clear()
            self._entries = self._listed = 0

    def live(self, of: _Part, manifests: list[str], entries: Callable[[int], Entries]) -> Entries:
        """The live entries `of` a table, or partitions of it, in manifests of these names. `entries` gives
        those from so many manifests on: the ones behind the manifests that the last answer was made of."""
        names, live = self._live.get(of, ([], EMPTY))
        if not names or manifests[: len(names)] != names:
            names, live = [], EMPTY
        if len(names) < len(manifests):
            live = concatenated([live.table, entries(len(names)).table]).live()
        with self._lock:
            self._live[of] = manifests, live
            self._live.move_to_end(of)
            while self._live and sum(len(kept) + _COST for _, kept in self._live.values()) > _MOST_LIVE:
                self._live.popitem(last=False)
        return live

    def put(self, path: str, table: pa.Table, partition: bytes | None = None) -> CachedManifest:
        """Cache the entries of the manifest at `path`, or those of one partition in it."""
        key = path, partition
        with self._lock:
            if key in self._cached_entries:
                return self._cached_entries[key]
            cached = self._cached_entries[key] = CachedManifest(table)
            self._entries += cached.rows + _COST
            self._used(key, cached)
            while self._entries > MAX_ENTRIES and len(self._cached_entries) > 1:
                oldest, gone = self._cached_entries.popitem(last=False)
                self._tables.pop(oldest, None)
                self._entries -= gone.rows + _COST
            return cached

    def _used(self, key: _Key, cached: CachedManifest) -> None:
        """Keep it as a table, and those of few entries that were used before as messages."""
        if not 0 < cached.rows < _FEW_ENTRIES:
            return
        cached.unpack()
        self._tables[key] = cached
        self._tables.move_to_end(key)
        if len(self._tables) > MOST_TABLES:
            self._tables.popitem(last=False)[1].pack()

    def searched(self, path: str, entries: int) -> bool:
        """Note that some partitions of a manifest of so many entries are looked for; whether that happened so
        often that decoding all of them, once, costs less."""
        with self._lock:
            self._count((path,))
            return self._searches[path] > _MANY_SEARCHES and entries <= MAX_ENTRIES // 2

    def are_new(self, paths: Sequence[str]) -> bool:
        """Note that some entries of these manifests are looked for; whether nothing was so far."""
        with self._lock:
            new = not any(p in self._searches or (p, None) in self._cached_entries for p in paths)
            self._count(paths)
            return new

    def _count(self, searched: Sequence[str]) -> None:
        if len(self._searches) >= _MOST_KNOWN:
            self._searches.clear()  # manifests that are searched now come to their count again
        self._searches.update(searched)

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
            self._lists[path] = tuple(map(self._shared, manifests))
            self._listed += len(manifests) + 1
            while self._listed > _MAX_LISTED and len(self._lists) > 1:
                self._listed -= len(self._lists.popitem(last=False)[1]) + 1

    def _shared(self, manifest: ManifestFileMeta) -> ManifestFileMeta:
        """The object that other lists have for the same manifest."""
        shared = self._listed_lately.setdefault(manifest.file_name, manifest)
        if len(self._listed_lately) > _MOST_KNOWN:
            self._listed_lately.popitem(last=False)
        return shared if shared == manifest else manifest

    def cached_in(self, folder: str) -> list[tuple[str, pa.Table]]:
        """(path, entries) of the cached manifests of one directory."""
        with self._lock:
            return [(p, m.table) for (p, _), m in self._cached_entries.items() if p.startswith(f"{folder}/")]


LOCAL = ManifestCache()
