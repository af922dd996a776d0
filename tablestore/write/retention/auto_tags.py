"""Automatic tags: one for each period of commit time or watermark (`tag.automatic-creation`, FORMAT.md 20.1).

After a commit, each snapshot since the last such tag is checked: the first one whose time has passed the end
of a period (plus `tag.creation-delay`) is tagged with the name of that period. Names are times, so the newest
tag says where to go on. `due` decides, purely; times are local wall clock in milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.format.snapshot import Snapshot
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.write.retention import tags

log = logging.getLogger(__name__)
MODES = ("none", "process-time", "watermark", "batch")
_EPOCH = datetime(1970, 1, 1)
_HOUR, _DAY = 3_600_000, 86_400_000
_PERIODS = {"daily": _DAY, "hourly": _HOUR, "two-hours": 2 * _HOUR}
_DAYS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURS = {
    "with_dashes": "%Y-%m-%d %H",
    "without_dashes": "%Y%m%d %H",
    "without_dashes_and_spaces": "%Y%m%d%H",
}


@dataclass(frozen=True, slots=True)
class Periods:
    """How long periods are, how their tags are named, and how long after its end a period is tagged."""

    length_ms: int
    pattern: str
    delay_ms: int = 0
    completes: bool = False

    @classmethod
    def of(cls, options: TableOptions) -> Periods:
        """The periods that the options set; raises InvalidOption for unknown values and a delay as long as
        the period."""
        o, own = options, options.tag_period_ms
        period, formatter = o.tag_creation_period, o.tag_period_formatter
        if formatter not in _DAYS:
            raise InvalidOption(
                f"option 'tag.period-formatter' is {formatter!r}; it must be one of {[*_DAYS]}"
            )
        if own is not None:
            periods = cls(own, "%Y%m%d%H%M", o.tag_creation_delay_ms, o.tag_completes)
        elif period in _PERIODS:
            pattern = {"daily": _DAYS[formatter], "hourly": _HOURS[formatter]}.get(period, "%Y-%m-%d %H")
            periods = cls(_PERIODS[period], pattern, o.tag_creation_delay_ms, o.tag_completes)
        else:
            raise InvalidOption(
                f"option 'tag.creation-period' is {period!r}; it must be one of {[*_PERIODS]}"
            )
        if periods.delay_ms >= periods.length_ms:
            raise InvalidOption("option 'tag.creation-delay' must be shorter than the period of tags")
        return periods

    def time_of(self, name: str) -> int | None:
        """The begin of the period that a tag is named by, None for other tags."""
        try:
            return (datetime.strptime(name, self.pattern) - _EPOCH) // timedelta(milliseconds=1)
        except ValueError:
            return None

    def name_of(self, begin: int) -> str:
        """The name of the period that begins there."""
        return (_EPOCH + timedelta(milliseconds=begin)).strftime(self.pattern)


def due(snapshots: Iterable[tuple[int, int]], last: int | None, periods: Periods) -> list[tuple[int, str]]:
    """(snapshot id, name) of each tag that is due, for snapshots (id, time) after the period that began at
    `last`."""
    due_tags = []
    upcoming = None if last is None else last + periods.length_ms
    for snapshot_id, time in snapshots:
        if upcoming is not None and time - periods.delay_ms < upcoming + periods.length_ms:
            continue
        begin = time // periods.length_ms * periods.length_ms - periods.length_ms
        if periods.completes and upcoming is not None:
            begin = upcoming
        due_tags.append((snapshot_id, periods.name_of(begin)))
        upcoming = begin + periods.length_ms
    return due_tags


def make(store: Store) -> list[str]:
    """Make the tags that are due and remove automatic ones beyond `tag.num-retained-max`; the names of new
    ones."""
    mode, options = store.options.tag_automatic_creation, store.options
    if mode not in MODES:
        raise InvalidOption(
            f"option 'tag.automatic-creation' is {mode!r}; it must be one of {', '.join(MODES)}"
        )
    if mode in ("none", "batch"):  # batch tags are made by engines at the end of a job
        return []
    periods = Periods.of(options)
    time_of_tag = {n: t for n in refs.tag_names(store) if (t := periods.time_of(n)) is not None}
    newest = max(time_of_tag, key=lambda n: time_of_tag[n], default=None)
    after = 0 if newest is None else refs.tagged(store, newest).id
    some = (s for s in store.snapshots.all() if s.id > after)
    times = ((s.id, t) for s in some if (t := _time(store, s, mode)) is not None)
    new_names = []
    for snapshot_id, name in due(times, None if newest is None else time_of_tag[newest], periods):
        if name not in time_of_tag:
            tags.create(store, name, snapshot=snapshot_id, retained_ms=options.tag_time_retained_ms)
            time_of_tag[name] = periods.time_of(name) or 0
            new_names.append(name)
    max_count = options.tag_num_retained_max
    if new_names and max_count is not None:
        for name in sorted(time_of_tag, key=lambda n: time_of_tag[n])[: max(0, len(time_of_tag) - max_count)]:
            tags.delete(store, name)
    return new_names


def _time(store: Store, snapshot: Snapshot, mode: str) -> int | None:
    """The time of a snapshot that decides, on the wall clock of the sink's zone; None if it has no
    watermark."""
    if mode == "process-time":
        return _local(snapshot.time_millis, store.options.process_time_zone)
    if snapshot.watermark is None or snapshot.watermark < 0:
        return None
    return _local(snapshot.watermark, store.options.watermark_time_zone)


def _local(millis: int, zone: str | None) -> int:
    at = datetime.fromtimestamp(millis / 1000, tz=UTC)
    offset = (at.astimezone() if zone is None else at.astimezone(ZoneInfo(zone))).utcoffset()
    return millis + int((offset.total_seconds() if offset else 0) * 1000)
