"""Where a stream begins (FORMAT.md 21.2): what its caller says, else the table's `scan.*` options.

A consumer that has a place goes on there, whatever either says, unless `consumer.ignore-progress`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.meta import changelogs, consumers
from tablestore.meta.consumers import ConsumerPlace
from tablestore.meta.store import Store
from tablestore.read.changes.cursor import Cursor
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.scan_mode import StreamStart

Start = str | int | Mapping[str, Any]


def stream_start(
    store: Store, start: Start | None, *, consumer: str | None, until: int | None
) -> StreamStart:
    """Where a stream of this consumer begins; `until` is its last snapshot, which a first state is no newer
    than. Raises InvalidRequest for a start that is none, NotFound for a snapshot that is not there."""
    place = place_of_consumer(store, consumer)
    if place is not None:
        return StreamStart(place.next_snapshot, after=place.after)
    if start is None and scan_mode.mode_of(store) != "latest-full":
        return scan_mode.following(store)
    return _asked(store, "latest-full" if start is None else start, until)


def place_of_consumer(store: Store, consumer: str | None) -> ConsumerPlace | None:
    """Where a consumer goes on, None for one without a place to go on from."""
    if consumer is None or store.options.consumer_ignore_progress:
        return None
    return consumers.place(store, consumer)


def _asked(store: Store, start: Start, until: int | None) -> StreamStart:
    if isinstance(start, Mapping):
        return _of_mapping(store, start)
    if isinstance(start, int):
        if start < 1:
            raise InvalidRequest(f"stream start {start}: snapshots are numbered from 1")
        return StreamStart(start)
    if start.lstrip().startswith("{"):
        cursor = Cursor.parse(start)
        return StreamStart(cursor.snapshot, after=cursor.after)
    latest = store.snapshots.latest_id()
    if start == "latest-full":
        if latest is None:
            return StreamStart()
        return StreamStart(full=store.snapshots.get(latest if until is None else min(latest, until)))
    if start == "latest":
        return StreamStart((latest or 0) + 1)
    if start == "earliest":
        return StreamStart(changelogs.earliest_id(store) or 1)
    raise InvalidRequest(
        f"stream start {start!r} is none of latest-full, latest, earliest, a snapshot id, a cursor"
    )


def _of_mapping(store: Store, start: Mapping[str, Any]) -> StreamStart:
    if set(start) == {"timestamp"}:
        return StreamStart(time_travel.first_after(store, time_travel.millis_of(start["timestamp"])))
    if set(start) <= {"snapshot", "full"} and isinstance(start.get("snapshot"), int):
        number = start["snapshot"]
        return StreamStart(full=store.snapshots.get(number)) if start.get("full") else StreamStart(number)
    if {"v", "snapshot"} <= set(start) <= {"v", "snapshot", "after"}:
        return _asked(store, json.dumps(dict(start)), None)
    raise InvalidRequest(f"stream start {dict(start)!r}: give timestamp, or snapshot with or without full")
