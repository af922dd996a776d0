"""The snapshot that a read means: by id, tag, timestamp or watermark, else the newest (FORMAT.md 21.1).

A read of an older snapshot uses the columns of that snapshot's schema and the options of the newest one, as
Paimon does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.snapshot import Snapshot
from tablestore.meta import changelogs, refs, snapshots
from tablestore.meta.snapshots import raising_expired
from tablestore.meta.store import Store

Moment = int | datetime | str
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def resolve(
    store: Store,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: Moment | None = None,
    watermark: int | None = None,
) -> Snapshot | None:
    """The snapshot that the argument means; without one the newest, None for a table that has none.

    `timestamp`: epoch milliseconds, a datetime or ISO text (without a zone: local time). Raises NotFound
    naming what there is, InvalidRequest when more than one is given.
    """
    given = [v for v in (snapshot, tag, timestamp, watermark) if v is not None]
    if len(given) > 1:
        raise InvalidRequest("give one of snapshot, tag, timestamp and watermark")
    if snapshot is not None:
        return _by_id(store, _whole(snapshot, "snapshot"))
    if tag is not None:
        return refs.tagged(store, unwrapped(tag))
    if timestamp is not None:
        return at_or_before(store, millis_of(timestamp))
    if watermark is not None:
        return first_with_watermark(store, _whole(watermark, "watermark"))
    return store.snapshots.latest()


def _by_id(store: Store, snapshot_id: int) -> Snapshot:
    try:
        return store.snapshots.get(snapshot_id)
    except NotFound as e:
        kept = [name for name, tagged in refs.tags(store).items() if tagged.id == snapshot_id]
        if kept:
            raise NotFound(f"{e}; tag {kept[0]!r} keeps it: read it by that name") from None
        raise


def at(store: Store, snapshot: Snapshot | None) -> Store:
    """The store under the schema a read of `snapshot` uses."""
    if snapshot is None or snapshot.schema_id == store.schema.id:
        return store
    then = store.schema_of(snapshot.schema_id)
    return store.with_schema(replace(then, options=store.schema.options))


@contextmanager
def expiring(store: Store, snapshot_id: int, *, changes: bool = False) -> Iterator[None]:
    """A context that raises SnapshotExpired where a file is missing because its snapshot expired meanwhile;
    with `changes`, which a long-lived changelog keeps, because that did, too.

    Other damage is reported with the newest snapshot that is sound.
    """
    try:
        with (
            store.manifests.naming_rows(),
            raising_expired(store.io, store.paths, [snapshot_id], changes=changes),
        ):
            yield
    except Corrupt as e:
        raise snapshots.advised(store.io, store.paths, e) from e


def at_or_before(store: Store, millis: int) -> Snapshot:
    """The newest snapshot such that it and all before it were committed at that time or earlier.

    Where a clock went back, a later snapshot may have an earlier time than one before it: the result is the
    table's state as it was at that moment. Where times ascend this is Paimon's answer. Reads the snapshots up
    to that moment.
    """
    ids = store.snapshots.ids()
    while True:
        try:
            return _at_or_before(store, ids, millis)
        except _Gone:  # look again
            before, ids = ids, store.snapshots.ids()
            ids = [i for i in ids if i not in before or store.snapshots.exists(i)]


class _Gone(Exception):
    """A snapshot that was listed is not there any more."""


def _at_or_before(store: Store, ids: Sequence[int], millis: int) -> Snapshot:
    newest: Snapshot | None = None
    for snapshot_id in ids:
        try:
            snapshot = store.snapshots.get(snapshot_id)
        except NotFound:
            raise _Gone from None
        if snapshot.time_millis > millis:
            if newest is None:
                oldest = _iso(snapshot.time_millis)
                raise NotFound(f"no snapshot at or before {_iso(millis)}; the oldest is of {oldest}")
            break
        newest = snapshot
    if newest is None:
        raise NotFound(f"no snapshot at or before {_iso(millis)}; the table has none yet")
    return newest


def first_after(store: Store, millis: int) -> int:
    """Id of the first snapshot or long-lived changelog of that time or later; if there is none, of the next
    snapshot to come."""
    snapshots = store.snapshots.all()  # first: those that expire meanwhile are among the changelogs, then
    for snapshot in (*changelogs.all_of(store), *snapshots):
        if snapshot.time_millis >= millis:
            return snapshot.id
    return (store.snapshots.latest_id() or 0) + 1


def earliest_change(store: Store) -> int | None:
    """The oldest id whose changes can still be read, None for a table without snapshots."""
    return changelogs.earliest_id(store)


def first_with_watermark(store: Store, watermark: int) -> Snapshot:
    """The oldest snapshot whose watermark has reached `watermark`."""
    for snapshot in store.snapshots.all():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    watermarks = [s.watermark for s in store.snapshots.all() if s.watermark is not None]
    there = f"the highest is {max(watermarks)}" if watermarks else "none has a watermark"
    raise NotFound(f"no snapshot has reached watermark {watermark}; {there}")


def millis_of(moment: Moment) -> int:
    """Epoch milliseconds of a number of them, a datetime or ISO text."""
    if isinstance(moment, bool) or not isinstance(moment, int | datetime | str):
        raise InvalidRequest(f"timestamp {moment!r} must be epoch milliseconds, a datetime or ISO text")
    if isinstance(moment, int):
        return moment
    instant: Any = moment
    if isinstance(moment, str):
        try:
            instant = datetime.fromisoformat(moment)
        except ValueError:
            raise InvalidRequest(
                f"timestamp {moment!r} is no ISO text such as '2026-01-31 12:00:00'"
            ) from None
    if hasattr(instant, "to_pydatetime"):  # of pandas: without a zone it does not know astimezone
        instant = instant.to_pydatetime()
    try:
        return int((instant.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError, TypeError, AttributeError):
        raise InvalidRequest(f"timestamp {moment!r} is no moment between the years 1 and 9999") from None


def local_ms(millis: int) -> int:
    """The local wall clock of an instant, as milliseconds without a zone."""
    offset = datetime.fromtimestamp(millis / 1000).astimezone().utcoffset()
    return millis + int((offset.total_seconds() if offset else 0) * 1000)


def _iso(millis: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(sep=" ", timespec="milliseconds")
    except OverflowError:
        return f"{millis} ms"


def _whole(value: Any, what: str) -> int:
    value = unwrapped(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{what} {value!r} must be a whole number")
    return value
