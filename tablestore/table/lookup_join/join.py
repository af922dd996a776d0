"""Lookup join: any Arrow batches of facts, joined with a table by its key or by any other columns.

Facts are joined with the rows of the snapshot that the last refresh found: later changes of the table affect
later facts only, and what was joined once does not come again. Every cache answers as a scan of that snapshot
with the same filter would; caches differ in what they keep (`full.py`, `partial.py`). Safe to share between
threads: the state is swapped as a whole. Made by `Table.lookup`.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.core.options.table_options import ENDLESS, LookupCacheMode
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.change import Change
from tablestore.table.lookup import Lookups
from tablestore.table.lookup_join.full import FullCache
from tablestore.table.lookup_join.index import comparable
from tablestore.table.lookup_join.partial import KeyBounds, PartialCache
from tablestore.table.lookup_join.rows import RowBounds
from tablestore.table.lookup_join.source import Columns, On, Refreshed, joinable, mode_of, pairs_of, source_of
from tablestore.write.arrow_input import as_batches, fitted_values
from tablestore.write.routing.routing import pieces

HOW = ("left", "inner")


@dataclass(frozen=True, slots=True)
class LookupState:
    """The state of a lookup join: what its cache holds now, and what it did since it was made."""

    cache: str
    snapshot: int | None
    rows: int
    memory_bytes: int
    disk_bytes: int
    facts: int = 0
    matched: int = 0
    keys_read: int = 0
    refreshes: int = 0
    keys_changed: int = 0
    loads: int = 0


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """What is looked up, and when: the arguments of `Table.lookup`; `at`: the snapshot at which it stays."""

    on: On | None = None
    columns: Columns | None = None
    where: Predicate | str | None = None
    fill: Mapping[str, Any] | None = None
    cache: str | None = None
    follow: bool = True
    at: Snapshot | None = None


class LookupJoin:
    """A table that facts are joined with. `refresh()` brings it to the newest snapshot; `join` does so by
    itself when `lookup.continuous.discovery-interval` has passed, unless `follow` is False."""

    def __init__(self, store: Store, name: str, settings: JoinSettings) -> None:
        self._settings, self._counts = settings, Counter[str]()
        self._pairs = pairs_of(store, name, settings.on)
        self._source, self._names = source_of(store, name, self._pairs, settings.columns, settings.where)
        self._fill = self._fillers(settings.fill)
        self._mode = mode_of(self._source, settings.cache)
        self._bounds, self._keys = _row_bounds(store, self._mode), KeyBounds.of(store.options)
        self._lookups = Lookups()
        self._state_lock, self._refresh_lock = threading.Lock(), threading.Lock()
        self._refreshing: tuple[ThreadPoolExecutor, Future[Refreshed]] | None = None
        self._cache, self._closed = self._load(), False
        self._looked = store.env.monotonic()

    # joining

    def join(self, facts: Any, *, how: str = "left") -> pa.Table:
        """The facts, in their order, with the columns of the rows that match; once for each row that matches.

        `facts` are anything Arrow-like, or a step of a stream: its rows keep their `rowkind`. Of facts that
        none matches, `how` "left" keeps one with NULLs, or what `fill` says, "inner" none. Rows that take
        back (−U, −D) are joined with the table as it is now, as all facts are, which may be another row than
        the one that was given with the row they take back: who applies them goes by the key. A NULL in a
        joined column matches nothing. Raises InvalidRequest for columns that both sides have, and for joined
        columns of different types.

        >>> join = orders.lookup({"order_id": "id"}, columns=["status"])
        >>> join.join([{"id": 2}, {"id": 9}], how="inner").to_pylist()
        [{'id': 2, 'status': 'paid'}]
        """
        if how not in HOW:
            raise InvalidRequest(f"how {how!r} must be one of {', '.join(HOW)}")
        self._look()
        batches: list[pa.RecordBatch] = []
        schema = None
        for batch in as_batches(facts.batches if isinstance(facts, Change) else facts):
            schema = schema or self._joined_schema(batch.schema)
            for piece in pieces(batch):
                batches.append(self._joined(piece, schema, how))
        if schema is None:
            given = getattr(facts, "schema", None)
            schema = self._joined_schema(given) if isinstance(given, pa.Schema) else self._columns_schema()
        return pa.Table.from_batches(batches, schema)

    def join_each(self, batches: Iterable[Any], *, how: str = "left") -> Iterator[pa.Table]:
        """`join` of each of the batches, in their order.

        `batches` are anything Arrow-like, or the steps of `table.stream()`; `how` is that of `join`. With
        `lookup.async` the next batches are joined meanwhile on `lookup.async-thread-number` threads; steps
        are not, since a consumer moves on when the next one is asked for.

        >>> join = orders.lookup({"order_id": "id"}, columns=["status"])
        >>> [found["status"].to_pylist() for found in join.join_each([[{"id": 1}], [{"id": 2}]])]
        [['new'], ['paid']]
        """
        options = self._source.store.options
        if not options.lookup_async:
            for batch in batches:
                yield self.join(batch, how=how)
            return
        threads = max(1, options.lookup_threads)
        waiting: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(threads, "tablestore-lookup") as pool:
            try:
                for batch in batches:
                    if isinstance(batch, Change):
                        yield self.join(batch, how=how)
                        continue
                    waiting.append(pool.submit(self.join, batch, how=how))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for left in waiting:
                    left.cancel()

    # keeping up

    def refresh(self, snapshot: int | None = None) -> Refreshed:
        """Bring the cache to the newest snapshot of the table, by what changed since the last one; what that
        was. With `snapshot` to that one, where it stays until another is named.

        >>> join = orders.lookup({"order_id": "id"}, columns=["status"], follow=False)
        >>> _ = orders.update({"status": "sent"}, where="order_id = 2")
        >>> join.refresh().snapshot
        3
        >>> join.join([{"id": 2}])["status"].to_pylist()
        ['sent']
        """
        with self._refresh_lock:
            if snapshot is not None:
                self._settings = replace(self._settings, at=self._source.store.snapshots.get(snapshot))
            newest, cache = self._newest(), self._cache
            if newest is None or newest == cache.snapshot:
                return Refreshed(newest.id if newest else None, 0, cache.count)
            newer: FullCache | PartialCache
            if isinstance(cache, FullCache):
                newer, refreshed = cache.at(newest, self._bounds)
            else:
                newer, refreshed = cache.at(newest)
            with self._state_lock:
                self._cache, self._closed = newer, False
                self._counts["refreshes"] += 1
                self._counts["loads"] += refreshed.changed is None
                self._counts["keys_changed"] += refreshed.changed or 0
            return refreshed

    def _newest(self) -> Snapshot | None:
        at = self._settings.at
        return self._source.store.snapshots.latest() if at is None else at

    def _look(self) -> None:
        """Load what was closed; refresh, if it is time to."""
        if self._closed:
            with self._refresh_lock:
                self._cache, self._closed = self._load(), False
        if not self._settings.follow or self._settings.at is not None:
            return
        store = self._source.store
        pause = store.options.lookup_discovery_ms
        every = store.options.discovery_interval_ms if pause is None else pause
        with self._state_lock:
            now = store.env.monotonic()
            if now - self._looked < every / 1000:
                return
            self._looked = now
        if not store.options.lookup_refresh_async:
            self.refresh()
            return
        self._refresh_behind()

    def _refresh_behind(self) -> None:
        """Refresh on a thread; wait for it where the cache is too far behind. Its error is raised here, or
        by the next join."""
        store, cached = self._source.store, self._cache.snapshot
        pool, running = self._refreshing or (ThreadPoolExecutor(1, "tablestore-refresh"), None)
        if running is not None and running.done():
            running.result()
        if running is None or running.done():
            running = pool.submit(self.refresh)
        self._refreshing = pool, running
        behind = (store.snapshots.latest_id() or 0) - (cached.id if cached is not None else 0)
        if behind > store.options.lookup_refresh_pending:
            running.result()

    def _load(self) -> FullCache | PartialCache:
        newest = self._newest()
        self._counts["loads"] += 1
        if self._mode is LookupCacheMode.PARTIAL:
            return PartialCache.empty(self._source, newest)
        return FullCache.load(self._source, newest, self._bounds)

    def close(self) -> None:
        """Drop the cache, and end a refresh that is running. A later join loads it again.

        >>> orders.lookup().close()
        """
        refreshing, self._refreshing = self._refreshing, None
        if refreshing is not None:
            refreshing[0].shutdown(wait=True)
        with self._refresh_lock, self._state_lock:
            empty = PartialCache.empty(self._source, None)
            self._cache = empty if self._mode is LookupCacheMode.PARTIAL else self._nothing()
            self._closed = True

    def _nothing(self) -> FullCache:
        return FullCache.load(self._source, None, self._bounds)

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers load what they look up themselves."""
        return LookupJoin, (self._source.store, self._source.name, self._settings)

    def __enter__(self) -> LookupJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # one batch

    def _joined(self, facts: pa.RecordBatch, schema: pa.Schema, how: str) -> pa.RecordBatch:
        columns = [self._fitted(facts.column(theirs), self._type(ours)) for ours, theirs in self._pairs]
        wanted = [comparable(c) for c in columns]
        cache = self._cache_for(columns)
        asked, places = cache.matches(wanted)
        with self._state_lock:
            self._counts["facts"] += facts.num_rows
            self._counts["matched"] += min(len(asked), 1) + int(np.count_nonzero(np.diff(asked)))
        if how == "left":
            asked, places = _with_the_rest(asked, places, facts.num_rows)
        if len(asked) != facts.num_rows or (np.diff(asked) != 1).any():
            facts = facts.take(pa.array(asked))
        gathered = cache.gather(places, tuple(self._names))
        arrays = [self._filled(c, n) for c, n in zip(gathered, self._names.values(), strict=True)]
        return pa.RecordBatch.from_arrays([*facts.columns, *arrays], schema=schema)

    def _cache_for(self, columns: Sequence[pa.Array]) -> FullCache | PartialCache:
        """A cache that knows the keys of these facts."""
        cache = self._cache
        if isinstance(cache, FullCache):
            return cache
        keys = pa.RecordBatch.from_arrays(list(columns), names=list(self._source.on)).drop_null()
        now = self._source.store.env.now_ms()
        try:
            filled, read = cache.known(keys, self._lookups, now, self._keys)
        except NotFound:  # the snapshot it stands at has expired
            if self.refresh().snapshot in (None, cache.snapshot and cache.snapshot.id):
                raise
            return self._cache_for(columns)
        with self._state_lock:
            self._counts["keys_read"] += read
            if self._cache is cache:
                self._cache = filled.trimmed(self._keys)
        return filled

    def _fitted(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """A joined column of the facts in the type of the table's; numbers that do not fit in become NULL,
        which matches nothing."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type == kind:
            return column
        if not pa.types.is_integer(kind):
            return column.cast(kind)
        narrow = column.cast(kind, safe=False)
        fits = pc.equal(narrow.cast(column.type, safe=False), column)
        return pc.if_else(fits, narrow, pa.scalar(None, kind))

    def _type(self, name: str) -> pa.DataType:
        return self._source.store.schema.by_name[name].arrow.type

    def _fillers(self, fill: Mapping[str, Any] | None) -> dict[str, pa.Scalar]:
        """What stands for NULL, in the types of the columns."""
        if not isinstance(fill, Mapping | None):
            raise InvalidRequest(f"fill is a mapping of columns to values, not {fill!r}")
        ours = {as_: name for name, as_ in self._names.items()}
        fillers = {}
        for name, value in (fill or {}).items():
            if name not in ours:
                raise NotFound.among("column", name, ours)
            try:
                fillers[name] = fitted_values({ours[name]: value}, self._source.store.schema)[ours[name]]
            except SchemaMismatch as e:
                kind = self._type(ours[name])
                raise InvalidRequest(f"fill {value!r} is no value of {name}, which is {kind}: {e}") from None
        return fillers

    def _filled(self, column: pa.Array, name: str) -> pa.Array:
        return pc.fill_null(column, self._fill[name]) if name in self._fill else column

    def _columns_schema(self) -> pa.Schema:
        fields = self._source.store.schema.by_name
        return pa.schema(
            [fields[n].arrow.with_name(as_).with_nullable(True) for n, as_ in self._names.items()]
        )

    def _joined_schema(self, facts: pa.Schema) -> pa.Schema:
        """Columns of the result; raises InvalidRequest for facts that cannot be joined."""
        for ours, theirs in self._pairs:
            if theirs not in facts.names:
                raise NotFound.among("column", theirs, facts.names)
            given, kind = facts.field(theirs).type, self._type(ours)
            if not joinable(given, kind):
                raise InvalidRequest(
                    f"{theirs} of the facts is {given} and {ours} of {self._source.name} {kind}: cast it"
                )
        both = [n for n in self._names.values() if n in facts.names]
        if both:
            example = ", ".join(f"{n!r}: '{self._source.name.split('.')[-1]}_{n}'" for n in both)
            raise InvalidRequest(
                f"the facts have {', '.join(both)} already: name other columns, or new names with "
                f"columns={{{example}, …}}"
            )
        return pa.schema([*facts, *self._columns_schema()])

    # its state

    @property
    def state(self) -> LookupState:
        """What its cache holds, and what it did."""
        with self._state_lock:
            cache = self._cache
            return LookupState(
                "partial" if isinstance(cache, PartialCache) else "full",
                cache.snapshot.id if cache.snapshot is not None else None,
                cache.count,
                cache.memory_bytes,
                cache.disk_bytes,
                **self._counts,
            )

    def __repr__(self) -> str:
        s = self.state
        on = ", ".join(ours if ours == theirs else f"{ours} = {theirs}" for ours, theirs in self._pairs)
        disk = f", {s.disk_bytes / 1e6:,.1f} MB on disk" if s.disk_bytes else ""
        read = f", {s.keys_read:,} keys read" if s.cache == "partial" else ""
        hits = f"; {s.facts:,} facts, {s.matched / s.facts:.1%} matched" if s.facts else ""
        return (
            f"LookupJoin({self._source.name} on {on}: {s.cache} cache at snapshot {s.snapshot}, "
            f"{s.rows:,} rows, {s.memory_bytes / 1e6:,.1f} MB{disk}{read}{hits})"
        )


def _row_bounds(store: Store, mode: LookupCacheMode) -> RowBounds:
    if mode is LookupCacheMode.MEMORY:
        return RowBounds(ENDLESS, 0)
    return RowBounds(store.options.lookup_cache_bytes, store.options.lookup_cache_disk_bytes)


def _with_the_rest(asked: np.ndarray, places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs, in order, and a pair with the place −1 for each fact that is in none."""
    matches = np.bincount(asked, minlength=count)
    facts = np.repeat(np.arange(count), np.maximum(matches, 1))
    all_places = np.full(len(facts), -1, dtype=np.int64)
    all_places[matches[facts] > 0] = places
    return facts, all_places
