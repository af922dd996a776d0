"""The views of amplification: of the whole table, by snapshot, by bucket or by level.

    write amplification = (bytes ingested + bytes that compactions wrote) / bytes ingested
    read amplification  = sorted runs, and files and bytes of the files that a point or a range read opens
    space amplification = live bytes / bytes of a fully compacted copy

Bytes ingested are those of the data files of writers (level 0 before any compaction; what an OVERWRITE
writes, too); changelog files are counted separately. The flows come from delta manifests and from the
engine's own records of compactions, the states from the ledger, which the simulator keeps, too. Sums of a
view equal those of every other one. Memory: the live files, a row of numbers a row of the view, and events
that are kept for the next view.
Called by `Inspect`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidRequest, TablestoreError
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.result_tables import table_of
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.learned_sizes import learned_sizes
from tablestore.insight.explain.merge_size import around
from tablestore.insight.explain.table_history import (
    BASE,
    BucketEvent,
    EventCache,
    changed_places,
    events,
)
from tablestore.insight.inspect.amplification.ledger import (
    SPACE,
    STATE,
    VIEWS,
    Account,
    Copies,
    Flow,
    Ledger,
    Place,
    Space,
    State,
    level_rows,
    schema,
    state_of,
    whole_state,
)
from tablestore.meta import compaction_history
from tablestore.meta.compaction_history import SnapshotRecord
from tablestore.meta.store import Store
from tablestore.read.scan.time_travel import local_ms

_TRIES = 3
_MOST_VIEWS = 8  # that are kept for one table
_MOST_COPIES = 2_000  # compacted copies that the view by snapshot estimates; the newest come first


def amplification(
    store: Store, per: str, *, partition: str | None = None, bucket: int | None = None, cache: EventCache
) -> pa.Table:
    """The view `per` of the buckets chosen; see `Inspect.amplification`."""
    if per not in VIEWS:
        raise InvalidRequest(f"per {per!r} must be one of {', '.join(VIEWS)}")

    def chosen(place: Place) -> bool:
        return (partition is None or place[0] == partition) and (bucket is None or place[1] == bucket)

    for tried in range(1, _TRIES + 1):
        earliest, book = store.snapshots.earliest_id(), _Book(store, per, chosen, cache)
        try:
            book.read()
            break
        except TablestoreError:
            if tried == _TRIES or store.snapshots.earliest_id() == earliest:
                raise  # else snapshots expired while they were looked at
    return table_of(schema(per), book.rows())


class Amplifications:
    """Views of one table, kept until its snapshots, or the records of expired ones, change. Not
    thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store, self._events = store, EventCache()
        self._made: dict[tuple[str, str | None, int | None], tuple[object, pa.Table]] = {}

    def view(self, per: str, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """As `amplification`."""
        snapshots, kept = self._store.snapshots, self._store.io.list(self._store.paths.history_dir)
        there = (snapshots.ids(), snapshots.latest(), kept)
        made_for, table = self._made.pop((per, partition, bucket), (None, None))
        if table is None or made_for != there:
            table = amplification(self._store, per, partition=partition, bucket=bucket, cache=self._events)
        self._made[per, partition, bucket] = (there, table)
        while len(self._made) > _MOST_VIEWS:
            self._made.pop(next(iter(self._made)))
        return table


class _Book:
    """One pass over a table's history: flows by the key of the view, states from the ledger. One thread."""

    def __init__(self, store: Store, per: str, chosen: Callable[[Place], bool], cache: EventCache) -> None:
        self._store, self._per, self._chosen, self._cache = store, per, chosen, cache
        self._flows: dict[tuple[Any, ...], Flow] = {}
        self._ledger = Ledger(store.key_types, model=learned_sizes(store))
        self._spaces: dict[Place, Space] = {}
        self._deleted: dict[Place, int] = {}
        self._index: str | None = None
        self._done: list[tuple[Any, ...]] = []
        self._total, self._state = Flow(), State()
        self._since: int | None = None
        self._measured = False

    def read(self) -> None:
        """Enter what the table did, as far back as is known without a gap."""
        store = self._store
        snapshots = _last_run(store.snapshots.all())
        if not snapshots:
            return
        gone = _before(compaction_history.expired(store), snapshots[0].id)
        self._since = gone[0].snapshot if gone else snapshots[0].id
        for done in gone:
            self._enter(done.snapshot, _expired_flows(done))
            self._snapshot_row(done.snapshot, done.kind, done.time_ms, None)
        measured_from = self._look_ahead(snapshots) if self._per == "snapshot" else snapshots[-1].id
        by_id = {s.id: s for s in snapshots}
        self._cache.drop_before(snapshots[0].id)
        happened = events(
            store, first=snapshots[0].id, last=snapshots[-1].id, cached=by_id, cache=self._cache
        )
        grouped = groupby(happened, lambda e: e.snapshot)
        at, some = next(grouped, (None, ()))
        for snapshot in snapshots:
            touched: set[Place] = set()
            if at == snapshot.id:
                touched = self._live(snapshot, some)
                at, some = next(grouped, (None, ()))
            touched |= self._marked(snapshot)
            if snapshot.id >= measured_from:
                self._measure(touched if snapshot.id > measured_from else self._ledger.accounts)
            self._snapshot_row(snapshot.id, snapshot.commit_kind, snapshot.time_millis, snapshot)

    def _look_ahead(self, snapshots: Sequence[Snapshot]) -> int:
        """The snapshot from which on copies are estimated."""
        touched, places = Counter[int](), set[Place]()
        for snapshot_id, some in changed_places(self._store, snapshots):
            chosen = set(filter(self._chosen, some))
            touched[snapshot_id] += len(chosen)
            places |= chosen
        first, left = snapshots[-1].id, _MOST_COPIES - len(places)
        while first > snapshots[0].id and left >= touched[first]:
            left -= touched[first]
            first -= 1
        return first

    def _live(self, snapshot: Snapshot, some: Iterable[BucketEvent]) -> set[Place]:
        """Enter the events of a snapshot that is there; the buckets it touched."""
        touched = set()
        flows: list[tuple[Place, int, Flow]] = []
        for event in some:
            if not self._chosen(event.place):
                continue
            before = self._ledger.accounts.get(event.place)
            if self._per == "snapshot" and before is not None:
                self._state.add(state_of(before), -1)
            try:
                self._ledger.enter(event)
            except Corrupt as e:
                raise Corrupt(self._store.paths.snapshot(event.snapshot), e.problem) from None
            if self._per == "snapshot":
                self._state.add(state_of(self._ledger.accounts[event.place]))
            touched.add(event.place)
            if event.kind not in (BASE, COMPACT):
                flows += _new_files(event)
        if snapshot.commit_kind == COMPACT:
            flows += _compactions(compaction_history.of(self._store, snapshot))
        self._enter(snapshot.id, flows)
        return touched

    def _enter(self, snapshot: int, flows: Iterable[tuple[Place, int, Flow]]) -> None:
        for place, level, flow in flows:
            if self._chosen(place):
                keys = {"table": (), "snapshot": (snapshot,), "bucket": place, "level": (level,)}
                self._flows.setdefault(keys[self._per], Flow()).add(flow)
                self._total.add(flow)

    def _marked(self, snapshot: Snapshot) -> set[Place]:
        """Learn how many rows deletion vectors take away; the buckets where that changed."""
        if snapshot.index_manifest == self._index:
            return set()
        self._index = snapshot.index_manifest
        counts: dict[Place, int] = defaultdict(int)
        for e in self._store.manifests.index_entries(snapshot):
            if e.file.index_type == DELETION_VECTORS:
                place = (self._store.partition_text(e.partition), e.bucket)
                counts[place] += sum(r.cardinality or 0 for r in e.file.dv_ranges or ())
        changed = {p for p in {*counts, *self._deleted} if counts.get(p) != self._deleted.get(p)}
        self._deleted = dict(counts)
        return {p for p in changed if p in self._ledger.accounts}

    def _measure(self, places: Iterable[Place]) -> None:
        """Compare these buckets with their fully compacted copies."""
        self._measured = True
        for place in places:
            account, space = self._ledger.accounts[place], self._ledger.space(place)
            marked = self._deleted.get(place)
            if marked is not None:
                share = max(0.0, 1 - marked / account.live_rows) if account.live_rows else 1.0
                least = min(space.compacted_bytes, round(space.live_bytes * share))
                low, high = around(least, least, most=space.live_bytes)
                why = f"{marked:,} rows are marked as deleted"
                space = Space.of(space.live_bytes, least, low, high, why)
            self._spaces[place] = space
            if not space.live_bytes:
                del self._spaces[place]

    def _snapshot_row(self, snapshot: int, kind: str, time_ms: int, there: Snapshot | None) -> None:
        if self._per == "snapshot":
            flow = self._flows.pop((snapshot,), Flow())
            written = self._total.row(self._total.ingested)[6]
            flows = (*flow.row(1)[:6], written, flow.exact)
            blank = (None,) * (len(STATE) + len(SPACE))
            none = (*(None,) * 5, f"not estimated for more than {_MOST_COPIES:,} changes of buckets")
            space = Copies.of(self._spaces).row() if self._measured else none
            state = (*self._state.row(), *space) if there else blank
            self._done.append((snapshot, kind, local_ms(time_ms), *flows, *state, self._since))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of the view."""
        if self._per == "snapshot":
            yield from self._done
        elif self._since is None:
            return
        elif self._per == "table":
            whole = whole_state(self._ledger.accounts.values())
            space = Copies.of(self._spaces).row()
            yield (*self._total.row(self._total.ingested), *whole.row(), *space, self._since)
        elif self._per == "bucket":
            for place in sorted({*self._flows, *self._ledger.accounts}):
                flow, account = self._flows.get(place, Flow()), self._ledger.accounts.get(place, Account())
                own = {place: self._spaces[place]} if place in self._spaces else {}
                state = (*state_of(account).row(), *Copies.of(own).row())
                yield (*place, *flow.row(flow.ingested), *state, self._since)
        else:
            flows = {level: flow for (level,), flow in self._flows.items()}
            yield from level_rows(self._ledger.accounts.values(), flows, self._total.ingested, self._since)


def _last_run(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The newest snapshots without a gap, which a rollback to an expired one leaves."""
    gaps = [i for i in range(1, len(snapshots)) if snapshots[i].id != snapshots[i - 1].id + 1]
    return list(snapshots[gaps[-1] if gaps else 0 :])


def _before(kept: Sequence[SnapshotRecord], first: int) -> list[SnapshotRecord]:
    """What is known of the snapshots up to `first`, without a gap, the oldest first."""
    earlier: list[SnapshotRecord] = []
    for done in reversed(kept):
        if done.snapshot != first - 1 - len(earlier) or done.flushed is None:
            break
        earlier.append(done)
    return earlier[::-1]


def _new_files(event: BucketEvent) -> Iterator[tuple[Place, int, Flow]]:
    sizes: dict[int, int] = defaultdict(int)
    for file in event.flushed:
        sizes[file.level] += file.file_size
    for level, size in sizes.items():
        yield event.place, level, Flow(ingested=size)
    if event.changelog:
        yield event.place, 0, Flow(changelog=sum(f.file_size for f in event.changelog))


def _compactions(records: Iterable[CompactionRecord]) -> Iterator[tuple[Place, int, Flow]]:
    for r in records:
        sums = {"compacted": r.bytes_written, "read": r.bytes_read, "moved": r.bytes_moved}
        flow = Flow(**sums, changelog=r.changelog_bytes, compactions=1, exact=r.rule is not None)
        yield (r.partition, r.bucket), r.output_level, flow


def _expired_flows(done: SnapshotRecord) -> Iterator[tuple[Place, int, Flow]]:
    if done.kind == COMPACT:
        yield from _compactions(done.compactions)
        return
    for new in done.flushed or ():
        place = (new.partition, new.bucket)
        yield place, new.level, Flow(ingested=new.bytes, changelog=new.changelog_bytes)
