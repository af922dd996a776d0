"""Where a stream begins and goes on: its cursor, what its caller says, else the table's `scan.*` options
(FORMAT.md 21.2).

A consumer that has a place goes on there, whatever either says, unless `consumer.ignore-progress`. A cursor
is the next snapshot, and which one came before it; of a log its offsets. Text form: JSON `{"v": 1,
"snapshot": 8, "after": "…"}`. `after` is the uuid of snapshot 7, or who committed it and when: after a
rollback another snapshot may have its id. With `"log": {"0": 20}` the stream goes on in the log there, where
all rows of snapshot 7 are delivered; with `"inside": true` some of snapshot 8, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets
from tablestore.log.offsets import Offsets
from tablestore.meta import changelogs, consumers
from tablestore.meta.consumers import ConsumerPlace
from tablestore.meta.snapshots import SnapshotStore
from tablestore.meta.store import Store
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.scan_mode import StreamStart

VERSION = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a stream goes on: at `snapshot`, if the one before still has the mark `after` (None: unknown), or
    at the offsets `log`; `inside`: these lie within what that snapshot adds."""

    snapshot: int
    after: str | None = None
    log: Offsets | None = field(default=None, hash=False)
    inside: bool = False

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor of a text; raises InvalidRequest for one that `text` did not make."""
        try:
            body = json.loads(text)
            version, snapshot = body["v"], body["snapshot"]
        except (ValueError, KeyError, TypeError):
            raise InvalidRequest(f"{text!r} is no cursor of a stream") from None
        if version != VERSION or not isinstance(snapshot, int):
            raise InvalidRequest(f"cursor {text!r} is of version {version!r}; version {VERSION} is known")
        log = None if body.get("log") is None else offsets_of(body["log"])
        return cls(snapshot, body.get("after"), log, bool(body.get("inside", False)))

    @property
    def text(self) -> str:
        """The cursor as it is stored."""
        fields: dict[str, Any] = {} if self.after is None else {"after": self.after}
        if self.log is not None:
            fields["log"] = {str(bucket): self.log[bucket] for bucket in sorted(self.log)}
        if self.inside:
            fields["inside"] = True
        return json.dumps({"v": VERSION, "snapshot": self.snapshot, **fields})


def offsets_of(value: Any) -> dict[int, int]:
    """The offsets of a log as a caller gives them, {bucket: offset}; raises InvalidRequest for others."""
    try:
        return offsets.parse(json.dumps({str(k): v for k, v in value.items()}), "")
    except (Corrupt, AttributeError, TypeError, ValueError):
        text = "are a mapping of each bucket to its offset, such as {0: 20}"
        raise InvalidRequest(f"{value!r} is no place in a log: offsets {text}") from None


def was_rolled_back(snapshots: SnapshotStore, snapshot: int, mark: str | None) -> bool:
    """Whether a snapshot that was delivered under this mark (None: unknown) is gone, and not by expiry."""
    if mark is None or snapshot < (snapshots.earliest_id() or 0):
        return False
    try:
        return mark_of(snapshots.get(snapshot)) != mark
    except NotFound:
        return snapshot >= (snapshots.earliest_id() or 0)


def mark_of(snapshot: Snapshot) -> str:
    """What distinguishes a snapshot from another one of its id."""
    who = f"{snapshot.commit_user} {snapshot.commit_identifier} {snapshot.time_millis}"
    return snapshot.uuid or who


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
