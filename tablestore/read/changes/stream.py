"""Following a table: the state at the start, then what each snapshot changed (FORMAT.md 21.4).

Each item has a `cursor` to go on from; an item counts as done when the next one is asked for, or `done()` is
called. A named consumer keeps that place with the table, and snapshots it has not read from expiring.
Snapshots that expired go on being delivered where their changelogs live longer. A cursor knows the snapshot
it came after: where a rollback took that away, the stream ends with NotFound, also if the ids are used again.
Delivery is at least once: after a crash the item that was not done comes again. Rows have the columns of
the schema at the start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format import rowkind
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.snapshot import Snapshot
from tablestore.meta import changelogs, consumers
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.changes.incremental import (
    change_schema,
    changed_entries,
    snapshot_changes,
    streams_overwrite,
)
from tablestore.read.changes.looked_up import looked_up_changes, require_looked_up, touched
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.plan import Plan, plan
from tablestore.read.supported import require_readable

CURSOR_VERSION = 1
Start = str | int | Mapping[str, Any]
SnapshotId = int
Seconds = float


@dataclass(frozen=True, slots=True)
class StateSize:
    """What a normaliser holds: the last row of each key, on the local disk."""

    rows: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.bytes:,} bytes"


@dataclass(frozen=True)
class Change:
    """One step of a stream: a snapshot's changes, or with `full` its whole state as "+I" rows.

    `state`: what the normaliser held after this step, None for a stream without one.
    """

    snapshot: int
    full: bool
    cursor: str
    schema: pa.Schema
    _read: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False)
    _done: Callable[[], None] = field(repr=False)
    state: StateSize | None = None

    def __repr__(self) -> str:
        what = "state" if self.full else "changes"
        return f"Change({what} of snapshot {self.snapshot}: {', '.join(self.schema.names)})"

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, `rowkind` first; each access reads anew."""
        return self._read()

    def to_arrow(self) -> pa.Table:
        """All rows of this step."""
        return pa.Table.from_batches(self._read(), self.schema)

    def done(self) -> None:
        """Note with the consumer that this step need not come again."""
        self._done()


def stream(
    store: Store,
    *,
    start: Start | None = None,
    until: int | None = None,
    timeout: float | None = None,
    follow: bool = True,
    consumer: str | None = None,
    poll_seconds: float | None = None,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    look_up: bool = False,
) -> Generator[Change]:
    """Steps of a table, waiting for snapshots to come.

    `start`: "latest-full" (state, then changes), "latest" (later changes only), "earliest", a snapshot id
    (its changes first), a cursor, {"timestamp": moment}, {"snapshot": id, "full": True}; None means what
    `scan.mode` and its companions say, else "latest-full". A consumer (by default that of `consumer-id`) that
    is known goes on where it was, whatever `start` says, unless `consumer.ignore-progress`. Ends after
    snapshot `until`, after `timeout` seconds without a new one, at `scan.bounded.watermark`, or, unless
    `follow`, when there is none. A snapshot counts as new once it is as old as
    `streaming.read.snapshot.delay`. `look_up`: changes are looked up in the snapshot before each, instead of
    taken as they were written. Raises NotFound when the next snapshot has expired.
    """
    _require_single_changelog(store)
    if look_up:
        require_looked_up(store)
    _require_bounds(until, timeout=timeout, poll_seconds=poll_seconds)
    if isinstance(columns, str):
        raise InvalidRequest(f"columns are a list of names, not {columns!r}")
    names = tuple(columns if columns is not None else store.schema.shown.names)
    for name in names:
        if name not in store.schema.shown.by_name:
            raise NotFound.among("column", name, store.schema.shown.names)
    where = condition(where, store.schema)
    bound = None if where is None else predicate.bind(where, store.schema)
    require_readable(store.schema, store.options, names if bound is None else (*names, *bound.columns))
    consumer = store.options.consumer_id if consumer is None else consumer
    follower = _Follower(store, names, bound, until, timeout, follow, consumer, poll_seconds, look_up)
    return follower.run(start)


def _require_bounds(until: int | None, **seconds: float | None) -> None:
    """Raise InvalidRequest for an end that is no snapshot id and waits that are no seconds."""
    if until is not None and (isinstance(until, bool) or not isinstance(until, int)):
        raise InvalidRequest(f"stream until {until!r} must be a snapshot id")
    for name, value in seconds.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise InvalidRequest(f"stream {name} {value!r} must be a number of seconds")


def _require_single_changelog(store: Store) -> None:
    producer = store.options.changelog_producer
    compacting = producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    if store.options.streaming_read_overwrite and store.schema.primary_keys and compacting:
        raise InvalidOption(
            f"option 'streaming-read-overwrite' with changelog-producer {producer.value!r} tells changes "
            "twice; leave it out"
        )


def first_state(
    store: Store,
    snapshot: Snapshot,
    where: Predicate | None = None,
    *,
    columns: Sequence[str],
    made_since: int | None = None,
    look_up: bool = False,
) -> Plan:
    """The plan of the state that a stream begins with: what a changelog of a later compaction will deliver is
    left out, what waits at level 0 but was delivered when it came is in it."""
    return plan(
        with_level_0(store) if look_up else first_store(store),
        snapshot,
        where,
        columns=columns,
        min_level=0 if look_up else _min_state_level(store),
        made_since=None if made_since is None else time_travel.local_ms(made_since),
    )


def first_store(store: Store) -> Store:
    """The table as its splits of `first_state` are read."""
    return store if _min_state_level(store) else with_level_0(store)


def _min_state_level(store: Store) -> int:
    """The level below which rows are not in the first state: a compaction's changelog will deliver them."""
    producer = store.options.changelog_producer
    if not store.schema.primary_keys:
        return 0
    if producer is ChangelogProducer.FULL_COMPACTION:
        return store.options.num_levels - 1
    return int(producer is ChangelogProducer.LOOKUP)


def is_upsert_stream(store: Store) -> bool:
    """Whether commits hold what rows are and not what they were: streams of it are normalised."""
    keyed = bool(store.schema.shown.primary_keys)
    plain = store.options.merge_engine is MergeEngine.DEDUPLICATE
    return keyed and plain and store.options.changelog_producer is ChangelogProducer.NONE


def require_streamable(store: Store) -> None:
    """Raise Unsupported for a table whose commits add rows that only a merge makes states of."""
    options, engine = store.options, store.options.merge_engine
    if not store.schema.shown.primary_keys or engine is MergeEngine.DEDUPLICATE:
        return
    if options.changelog_producer is ChangelogProducer.NONE:
        remedy = "lookup" if engine is MergeEngine.FIRST_ROW else "lookup or full-compaction"
        raise Unsupported(
            f"a stream of merge-engine {engine.value} without a changelog",
            f"set 'changelog-producer' = {remedy}, look changes up in the snapshot before each: "
            "normalize='lookup', or take the rows as they were written: normalize=False",
        )


def last_streamable(store: Store) -> int:
    """The newest snapshot that a stream may deliver by now, 0 if there is none: old enough for
    `streaming.read.snapshot.delay`, and before the first that passes `scan.bounded.watermark`."""
    delay, bound = store.options.streaming_delay_ms, store.options.scan_bounded_watermark
    newest = store.snapshots.latest_id() or 0
    if delay is None and bound is None:
        return newest
    last = 0
    for found in store.snapshots.all():
        if delay is not None and found.time_millis > store.env.now_ms() - delay:
            break
        if _passes(found, bound):
            break
        last = found.id
    return last


def _passes(snapshot: Snapshot, bound: int | None) -> bool:
    """Whether a snapshot's watermark is beyond the bound at which streams end."""
    return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound


def cursor_of(next_snapshot: int, after: str | None = None) -> str:
    """The cursor of a reader that goes on at a snapshot; `after` is the mark of the one before."""
    known = {} if after is None else {"after": after}
    return json.dumps({"v": CURSOR_VERSION, "snapshot": next_snapshot, **known})


def _mark(snapshot: Snapshot) -> str:
    """What distinguishes a snapshot from another one of its id."""
    who = f"{snapshot.commit_user} {snapshot.commit_identifier} {snapshot.time_millis}"
    return snapshot.uuid or who


def parse_cursor(text: str) -> int:
    """The next snapshot of a cursor; raises InvalidRequest for one that is none of ours."""
    try:
        body = json.loads(text)
        version, found = body["v"], body["snapshot"]
    except (ValueError, KeyError, TypeError):
        raise InvalidRequest(f"{text!r} is no cursor of a stream") from None
    if version != CURSOR_VERSION or not isinstance(found, int):
        raise InvalidRequest(f"cursor {text!r} is of version {version!r}; version {CURSOR_VERSION} is known")
    return found


@dataclass
class _Follower:
    """The state of one stream. One thread."""

    store: Store
    names: tuple[str, ...]
    where: Predicate | None
    until: int | None
    timeout: float | None
    follow: bool
    consumer: str | None
    poll_seconds: float | None
    look_up: bool
    after: str | None = None  # mark of the snapshot before the next one, if it is known

    def run(self, start: Start | None) -> Generator[Change]:
        first, full, made_since = self._first(start)
        if (
            full is None and first is None
        ):  # a full start of a table without snapshots: its first one, once it is there
            if not self._wait(1):
                return
            full = self.store.snapshots.latest()
        if full is not None:
            self.after = _mark(full)
            yield from self._step(full.id, self._state(full, made_since), full=True)
            if self._ended(full):
                return
            first = full.id + 1
        assert first is not None
        self._record_progress(first)
        while (self.until is None or first <= self.until) and self._wait(first):
            found = self._get(first)
            self._require_not_rolled_back(first)
            if self._ended(found) or not self._old_enough(found):
                return
            self.after = _mark(found)
            with time_travel.expiring(self.store, first):
                changed = self._has_changes(found)
            if changed:
                yield from self._step(first, self._changes(found), full=False)
            first += 1
            self._record_progress(first)

    def _first(self, start: Start | None) -> tuple[int | None, Snapshot | None, int | None]:
        """(next snapshot, snapshot whose state comes first, made since); all None if there is none yet."""
        known = None
        if self.consumer is not None and not self.store.options.consumer_ignore_progress:
            known = consumers.next_snapshot(self.store, self.consumer)
        if known is not None:
            return known, None, None
        if start is None and scan_mode.mode_of(self.store) != "latest-full":
            return scan_mode.following(self.store)
        return *self._begin("latest-full" if start is None else start), None

    def _ended(self, snapshot: Snapshot) -> bool:
        """Whether the bound that `scan.bounded.watermark` sets is passed."""
        return _passes(snapshot, self.store.options.scan_bounded_watermark)

    def _begin(self, start: Start) -> tuple[int | None, Snapshot | None]:
        """(next snapshot, snapshot whose state comes first); neither if the table has none yet."""
        snapshots = self.store.snapshots
        latest = snapshots.latest_id()
        if isinstance(start, bool) or not isinstance(start, str | int | Mapping):
            raise InvalidRequest(f"stream start {start!r} is neither a name, a snapshot id nor a cursor")
        if isinstance(start, int) and start < 1:
            raise InvalidRequest(f"stream start {start}: snapshots are numbered from 1")
        if isinstance(start, int):
            return start, None
        if isinstance(start, Mapping):
            return self._begin_at(start)
        if start.lstrip().startswith("{"):
            found = parse_cursor(start)
            self.after = json.loads(start).get("after")
            return found, None
        if start == "latest-full":
            if latest is None:
                return None, None
            return None, snapshots.get(latest if self.until is None else min(latest, self.until))
        if start == "latest":
            return (latest or 0) + 1, None
        if start == "earliest":
            return changelogs.earliest_id(self.store) or 1, None
        raise InvalidRequest(
            f"stream start {start!r} is none of latest-full, latest, earliest, a snapshot id, a cursor"
        )

    def _begin_at(self, start: Mapping[str, Any]) -> tuple[int | None, Snapshot | None]:
        if set(start) == {"timestamp"}:
            return time_travel.first_after(self.store, time_travel.millis_of(start["timestamp"])), None
        if set(start) <= {"snapshot", "full"} and isinstance(start.get("snapshot"), int):
            found = start["snapshot"]
            return (None, self.store.snapshots.get(found)) if start.get("full") else (found, None)
        if {"v", "snapshot"} <= set(start) <= {"v", "snapshot", "after"}:
            return self._begin(json.dumps(dict(start)))
        raise InvalidRequest(
            f"stream start {dict(start)!r}: give timestamp, or snapshot with or without full"
        )

    def _step(
        self, snapshot: int, read: Callable[[], Iterator[pa.RecordBatch]], *, full: bool
    ) -> Iterator[Change]:
        schema = change_schema(self.store, self.names)
        after = snapshot + 1
        cursor = cursor_of(after, self.after)
        yield Change(snapshot, full, cursor, schema, read, lambda: self._record_progress(after))

    def _has_changes(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot may have changed something."""
        if self.look_up:
            return bool(touched(self.store, snapshot))
        return streams_overwrite(self.store, snapshot) or bool(changed_entries(self.store, snapshot))

    def _record_progress(self, next_snapshot: int) -> None:
        if self.consumer is not None:
            consumers.record(self.store, self.consumer, next_snapshot)

    def _get(self, snapshot: int) -> Snapshot:
        try:
            return changelogs.snapshot_or_changelog(self.store, snapshot)
        except NotFound:
            raise self._missing(snapshot) from None

    def _wait(self, snapshot: int) -> bool:
        """Whether that snapshot is there, after waiting for it as long as was asked for."""
        env, snapshots = self.store.env, self.store.snapshots
        pause = (
            self.store.options.discovery_interval_ms / 1000
            if self.poll_seconds is None
            else self.poll_seconds
        )
        end = None if self.timeout is None else env.monotonic() + self.timeout
        while not changelogs.exists(self.store, snapshot):
            latest = snapshots.latest_id()
            if latest is not None and (latest >= snapshot or latest < snapshot - 1):
                if changelogs.exists(self.store, snapshot):  # it came between the two looks
                    return True
                raise self._missing(snapshot)
            remaining = None if end is None else end - env.monotonic()
            if not self.follow or (remaining is not None and remaining <= 0):
                return False
            env.sleep(pause if remaining is None else min(pause, remaining))
        return True

    def _old_enough(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot is as old as `streaming.read.snapshot.delay`, after waiting for that."""
        delay, env = self.store.options.streaming_delay_ms, self.store.env
        if delay is None:
            return True
        end = None if self.timeout is None else env.monotonic() + self.timeout
        while (young := snapshot.time_millis + delay - env.now_ms()) > 0:
            remaining = None if end is None else end - env.monotonic()
            if not self.follow or (remaining is not None and remaining <= 0):
                return False
            env.sleep(young / 1000 if remaining is None else min(young / 1000, remaining))
        return True

    def _require_not_rolled_back(self, snapshot: int) -> None:
        """Raise NotFound if the snapshot before is not the one that was delivered: it was rolled back."""
        snapshots, before = self.store.snapshots, snapshot - 1
        if self.after is None or before < (snapshots.earliest_id() or 0):  # it has expired
            return
        try:
            same = _mark(snapshots.get(before)) == self.after
        except NotFound:
            same = before < (snapshots.earliest_id() or 0)
        if not same:
            text = (
                f"snapshot {before}, which this stream had delivered, was rolled back and its id used again"
            )
            raise NotFound(f"{text}: start again with latest-full")

    def _missing(self, snapshot: int) -> NotFound:
        ids = self.store.snapshots.ids()
        existing = f"there are {ids[0]}..{ids[-1]}" if ids else "there is none"
        why = "was rolled back" if ids and ids[-1] < snapshot else "has expired"
        return NotFound(
            f"snapshot {snapshot}, the next of this stream, {why}; {existing}: start again with latest-full"
        )

    def _state(self, snapshot: Snapshot, made_since: int | None) -> Callable[[], Iterator[pa.RecordBatch]]:
        schema = change_schema(self.store, self.names)

        def read() -> Iterator[pa.RecordBatch]:
            found = first_state(
                self.store,
                snapshot,
                self.where,
                columns=self.names,
                made_since=made_since,
                look_up=self.look_up,
            )
            for split in found.splits:
                for batch in split.read(found.store, self.names, found.where):
                    kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), batch.num_rows)
                    yield pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)

        return read

    def _changes(self, snapshot: Snapshot) -> Callable[[], Iterator[pa.RecordBatch]]:
        if self.look_up:
            return lambda: looked_up_changes(self.store, snapshot, self.names, where=self.where)
        return lambda: snapshot_changes(self.store, snapshot, self.names, self.where)
