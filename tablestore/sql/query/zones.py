"""Zones of time by their names, and times moved from one to another."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, InvalidRequest

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@lru_cache(maxsize=64)
def zone(name: str) -> dt.tzinfo:
    """The zone of a name, `Europe/Berlin`, `UTC`, `+08:00`, `GMT+8`. Raises InvalidRequest."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes <= 18 * 60:
            return dt.timezone(dt.timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(f"{name!r} is no zone of time") from None


def converted(text: str, start: str, end: str) -> str | None:
    """The text of a time of zone `start` as one of zone `end`; None for a text that is no time."""
    try:
        local = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
        return local.replace(tzinfo=zone(start)).astimezone(zone(end)).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return None


def instants(local: pa.Array, name: str) -> pa.Array:
    """Timestamps without a zone as instants of the zone of that name, in their unit. Where a clock is set
    back it is the earlier of two; a time that is skipped is as much later as the clock is set forward, as in
    Java and by CAST."""
    near = pc.assume_timezone(local, name, ambiguous="earliest", nonexistent="earliest")
    skipped = pc.subtract(local, pc.local_timestamp(near))  # since the last moment before the clock is set
    return pc.add(near, skipped)


def known_zone(name: str) -> str:
    """The name of a zone as Arrow and DuckDB read it. Raises InvalidOption for what is no zone."""
    offset = _OFFSET.fullmatch(name)
    try:
        zone(name)
    except InvalidRequest:
        offset, name = None, ""
    if not name or (offset and offset[3] not in (None, "00")):
        raise InvalidOption(
            "a zone of time is a name such as 'Europe/Berlin', 'UTC' or whole hours: 'GMT+08:00'"
        )
    return f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}" if offset else name
