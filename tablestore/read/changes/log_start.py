"""Where the stream of a table with a log begins: with the state of a snapshot, at a place in the log, or with
the files of a snapshot where the log does not go back so far.

Says also which streams read files alone, although there is a log, and why.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.core.options.table_options import MergeEngine
from tablestore.format.snapshot import Snapshot
from tablestore.log.embedded.continuity import LogMismatch
from tablestore.log.offsets import Offsets, reaches
from tablestore.meta import changelogs
from tablestore.meta.store import Store
from tablestore.read.changes.change import StreamLost
from tablestore.read.changes.log_steps import LogPlace
from tablestore.read.changes.stream_start import (
    Cursor,
    Start,
    offsets_of,
    place_of_consumer,
    stream_start,
    was_rolled_back,
)
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.scan_mode import StreamStart
from tablestore.read.table_log import TableLog, offsets_at

_log = logging.getLogger(__name__)
_MADE_SINCE = ("from-file-creation-time", "from-creation-timestamp")


def files_alone(store: Store, *, as_written: bool, look_up: bool) -> str | None:
    """Why a stream of a table with a log reads files alone; None where it reads the log. `as_written`: rows
    are asked for as they were written."""
    options = store.options
    if look_up:
        return "changes are looked up in the snapshot before each"
    keyed, engine = bool(store.schema.shown.primary_keys), options.merge_engine
    if keyed and engine is not MergeEngine.DEDUPLICATE and not as_written:
        return f"rows of the log are no states with merge-engine {engine.value}"
    if options.streaming_delay_ms is not None:
        return "streaming.read.snapshot.delay is of snapshots"
    if options.scan_bounded_watermark is not None:
        return "scan.bounded.watermark is of snapshots"
    if options.streaming_read_overwrite or options.streaming_read_append_overwrite:
        return "what an overwrite replaced is in no log"
    if scan_mode.mode_of(store) in _MADE_SINCE:
        return f"scan.mode {scan_mode.mode_of(store)} is of files"
    return None


def log_start(
    store: Store, log: TableLog, start: Start | None, *, consumer: str | None, until: int | None
) -> Snapshot | LogPlace:
    """The snapshot whose state comes first, or the place at which the stream goes on. Raises InvalidRequest
    for a start that is none, NotFound for a snapshot that is not there."""
    place = place_of_consumer(store, consumer)
    if place is not None:
        if place.log is not None and place.inside:
            return place_of(store, place.log)
        if place.log is not None:
            return LogPlace(place.log, place.next_snapshot - 1)
        return _after(store, place.next_snapshot - 1)
    if start is None:
        mode = scan_mode.mode_of(store)
        if mode == "from-timestamp":
            return _at_moment(store, log, scan_mode.moment_ms(store))
        start = mode if mode in ("latest-full", "latest") else None
    if isinstance(start, str) and start.lstrip().startswith("{"):
        start = _of_text(start)
    if isinstance(start, Mapping) and "log" in start:
        return _at_offsets(store, start)
    if isinstance(start, Mapping) and set(start) == {"timestamp"}:
        return _at_moment(store, log, time_travel.millis_of(start["timestamp"]))
    if start == "latest":
        newest = store.snapshots.latest()
        return place_of(store, log.end(store, newest))
    if start == "earliest":
        return _earliest(store, log)
    return _of_snapshots(store, stream_start(store, start, consumer=None, until=until))


def _of_snapshots(store: Store, start: StreamStart) -> Snapshot | LogPlace:
    """A start among snapshots as one in the log."""
    if start.full is not None:
        return start.full
    if start.next_snapshot is None:
        return LogPlace({})
    before = start.next_snapshot - 1
    if was_rolled_back(store.snapshots, before, start.after):
        text = f"snapshot {before}, which this stream had delivered, was rolled back"
        raise StreamLost(text)
    return _after(store, before)


def _after(store: Store, base: int) -> LogPlace:
    """The place behind the rows of a snapshot that may have expired."""
    if base <= 0:
        return LogPlace({})
    newest = store.snapshots.latest_id() or 0
    if base > newest:
        raise NotFound(f"no snapshot {base + 1} yet, and none before it; the newest is {newest}")
    try:
        return LogPlace(offsets_at(store, store.snapshots.get(base)), base)
    except NotFound:
        return LogPlace(None, base)


def _of_text(text: str) -> Mapping[str, Any]:
    Cursor.parse(text)
    start: Mapping[str, Any] = json.loads(text)
    return start


def _at_offsets(store: Store, start: Mapping[str, Any]) -> LogPlace:
    """The place of a cursor with offsets, or of offsets alone."""
    if set(start) == {"log"}:
        return place_of(store, offsets_of(start["log"]))
    if not {"v", "snapshot", "log"} <= set(start) <= {"v", "snapshot", "after", "log", "inside"}:
        raise InvalidRequest(f"stream start {dict(start)!r}: give the offsets alone, {{'log': {{0: 20}}}}")
    cursor = Cursor.parse(json.dumps(dict(start)))
    assert cursor.log is not None
    base = cursor.snapshot - 1
    if was_rolled_back(store.snapshots, base, cursor.after):
        return place_of(store, cursor.log)
    return LogPlace(cursor.log, base, cursor.inside)


def place_of(store: Store, offsets: Offsets) -> LogPlace:
    """The place at offsets of the log, its base the newest snapshot whose rows all lie before them."""
    for snapshot_id in reversed(store.snapshots.ids()):
        try:
            in_files = offsets_at(store, store.snapshots.get(snapshot_id))
        except NotFound:  # expired meanwhile
            break
        if reaches(offsets, in_files):
            return LogPlace(offsets, snapshot_id, inside=not reaches(in_files, offsets))
    return LogPlace(offsets, 0, inside=any(offsets.values()))


def _earliest(store: Store, log: TableLog) -> LogPlace:
    """The oldest changes that are there: the start of the log while it is whole, else those of files. Before
    any snapshot the log alone has rows: a reader begins at offset 0, and is told of those that are gone."""
    latest = store.snapshots.latest()
    if latest is None:
        return LogPlace({})
    try:
        bounds = log.bounds(store, latest)
    except LogMismatch:
        raise
    except Corrupt as e:  # the stream meets it, where files do not have the rows
        _log.warning("a stream begins with files: %s", e)
        return LogPlace(None, (changelogs.earliest_id(store) or 1) - 1)
    missing = not any(bounds.has.values()) and any(offsets_at(store, latest).values())
    if not any(bounds.start.values()) and not missing:
        return LogPlace({})
    return LogPlace(None, (changelogs.earliest_id(store) or 1) - 1)


def _at_moment(store: Store, log: TableLog, millis: int) -> LogPlace:
    """The first changes of a moment or later: in files, where the log may have begun before it but no longer
    does. Rows that are seen with their snapshot are of its time, whenever they were appended."""
    if log.committed_only:
        place = _after(store, time_travel.first_after(store, millis) - 1)
        if place.offsets is not None:
            return place
    begin, at_millis = log.bounds(store, store.snapshots.latest()).start, log.log.at(millis)
    cut = any(offset and at_millis.get(bucket, 0) <= offset for bucket, offset in begin.items())
    first = time_travel.first_after(store, millis)
    if not cut or first > (store.snapshots.latest_id() or 0):
        return place_of(store, {**begin, **at_millis})
    before = _after(store, first - 1)
    if before.offsets is not None and reaches(before.offsets, begin):
        return place_of(store, at_millis)
    return LogPlace(None, first - 1)
