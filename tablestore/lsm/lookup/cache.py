"""LookupCache: parts of data files in memory, for lookups of all tables of a process: layouts, keys, row
groups.

Files never change under their names, so entries never become stale; the least recently used are evicted.
After every `put` the cache holds no more bytes than the table of that `put` allows
(`lookup.cache-max-memory-size`; 0: nothing is cached). Layouts and keys are small and used by every lookup;
while they take less than `lookup.cache.high-priority-pool-ratio` of the bytes, row groups are evicted before
them. Nothing is on disk: `lookup.cache-max-disk-size` and `lookup.cache-file-retention` have no effect. Safe
to share between threads. Used by `keyed_file`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from tablestore.core.options.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """Limits of a table: bytes in all, and the share of them in which keys have priority over row groups."""

    max_bytes: int
    key_share: float = 0.25

    @classmethod
    def of(cls, options: TableOptions) -> CacheBounds:
        """The limits in a table's options."""
        return cls(max(0, options.lookup_cache_bytes), options.lookup_cache_key_share)


@dataclass(frozen=True, slots=True)
class CacheState:
    """Counters of the cache: what it holds, and hits and misses since the process began."""

    entries: int
    key_bytes: int
    row_bytes: int
    hits: int
    misses: int

    @property
    def used_bytes(self) -> int:
        """Bytes in all."""
        return self.key_bytes + self.row_bytes


@dataclass(slots=True)
class _Cached:
    value: Any
    nbytes: int
    turn: int  # of the last use


class LookupCache:
    """A cache of two queues, least recently used first: keys with layouts, and row groups."""

    def __init__(self) -> None:
        self._queues_lock = threading.Lock()
        self._keys: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._rows: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._key_bytes = self._row_bytes = self._hits = self._misses = self._turn = 0

    def get(self, name: Hashable) -> Any:
        """The value of a name, None if it is not cached."""
        with self._queues_lock:
            for queue in (self._keys, self._rows):
                if name in queue:
                    queue.move_to_end(name)
                    self._hits += 1
                    kept = queue[name]
                    kept.turn = self._turn = self._turn + 1
                    return kept.value
            self._misses += 1
            return None

    def put(
        self, name: Hashable, value: Any, *, nbytes: int, bounds: CacheBounds, rows: bool = False
    ) -> None:
        """Cache a value of `nbytes`, unless it alone exceeds the bounds."""
        with self._queues_lock:
            if nbytes <= bounds.max_bytes:
                self._forget(name)
                self._turn += 1
                (self._rows if rows else self._keys)[name] = _Cached(value, nbytes, self._turn)
                self._weigh(nbytes, rows)
            self._shrink(bounds)

    def load(
        self,
        name: Hashable,
        make: Callable[[], Any],
        *,
        weigh: Callable[[Any], int],
        bounds: CacheBounds,
        rows: bool = False,
    ) -> Any:
        """The value of a name, made by `make` if it is not cached. Two threads may both make it."""
        value = self.get(name)
        if value is None:
            value = make()
            self.put(name, value, nbytes=weigh(value), bounds=bounds, rows=rows)
        return value

    def _weigh(self, change: int, rows: bool) -> None:
        if rows:
            self._row_bytes += change
        else:
            self._key_bytes += change

    def _forget(self, name: Hashable) -> None:
        for queue, rows in ((self._keys, False), (self._rows, True)):
            if name in queue:
                self._weigh(-queue.pop(name).nbytes, rows)

    def _shrink(self, bounds: CacheBounds) -> None:
        while self._key_bytes + self._row_bytes > bounds.max_bytes:
            rows = self._rows_go_first(bounds)
            _, kept = (self._rows if rows else self._keys).popitem(last=False)
            self._weigh(-kept.nbytes, rows)

    def _rows_go_first(self, bounds: CacheBounds) -> bool:
        if not self._rows or not self._keys:
            return bool(self._rows)
        if self._key_bytes <= bounds.key_share * bounds.max_bytes:
            return True
        return next(iter(self._rows.values())).turn < next(iter(self._keys.values())).turn

    def clear(self) -> None:
        """Empty the cache, as in a process that has just started."""
        with self._queues_lock:
            self._keys.clear()
            self._rows.clear()
            self._key_bytes = self._row_bytes = 0

    @property
    def state(self) -> CacheState:
        """The counters at this moment."""
        with self._queues_lock:
            count = len(self._keys) + len(self._rows)
            return CacheState(count, self._key_bytes, self._row_bytes, self._hits, self._misses)

    def __repr__(self) -> str:
        s = self.state
        return (
            f"LookupCache({s.entries:,} entries: {s.key_bytes / 1e6:.1f} MB keys, {s.row_bytes / 1e6:.1f} MB"
            f" rows, {s.hits:,} hits, {s.misses:,} misses)"
        )


LOCAL = LookupCache()
