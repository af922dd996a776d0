"""What maintenance aims at in a table, and what it may spend: bytes of an hour, hours of a day.

Immutable values, but for the budget, which remembers what was spent; that is not thread-safe.
"""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.values import duration_ms, memory_size

DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """What is aimed at in a table.

    `runs`: the sorted runs that a reader of a bucket has to merge at most (None: as many as the table's own
    trigger allows). `freshness`: how long files of level 0 wait for a compaction at most ("10 min"; None: as
    long as the rules let them). `findings`: whether what the doctor finds and mends without a decision is
    mended. `partitions`: whether partitions beyond `partition.expiration-time` go. `orphans_every` and
    `analyze_every`: how often orphan files are removed and statistics made (None: never).
    """

    runs: int | None = None
    freshness: str | None = None
    findings: bool = True
    partitions: bool = True
    orphans_every: str | None = "1 d"
    analyze_every: str | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.runs, int) and not isinstance(self.runs, bool)
        if self.runs is not None and not (whole and self.runs >= 1):
            raise InvalidRequest(f"runs {self.runs!r} of a policy must be a whole number, from 1 on")
        for name in ("freshness", "orphans_every", "analyze_every"):
            self.milliseconds(name)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """A policy by the names of its fields. Raises NotFound for another name, with the nearest."""
        names = {each.name for each in fields(cls)}
        for name in values:
            if name not in names:
                raise NotFound.among("field of a policy", name, names)
        return cls(**values)

    def milliseconds(self, name: str) -> int | None:
        """A duration among the fields, None where it is not set. Raises InvalidRequest for what is none."""
        text = getattr(self, name)
        if text is None:
            return None
        try:
            if not str(text).strip().isdigit():  # it would be milliseconds, which nobody means here
                return duration_ms(str(text))
        except ValueError:
            pass
        raise InvalidRequest(f"{name} {text!r} of a policy must be a duration with a unit such as '10 min'")


@dataclass(frozen=True, slots=True)
class DayWindow:
    """Hours of the day in local time, "22:00-06:00" over midnight; minutes after midnight."""

    first: int
    end: int

    @classmethod
    def of(cls, text: str) -> DayWindow:
        """Raises InvalidRequest for another text."""
        match = _WINDOW.fullmatch(text.strip())
        hours = [int(part) for part in match.groups()] if match else []
        if not hours or max(hours[1], hours[3]) > 59 or max(hours[0], hours[2]) > 24:
            raise InvalidRequest(f"window {text!r} must be two times of the day such as '22:00-06:00'")
        first, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
        if first == end or max(first, end) > DAY_MINUTES:
            raise InvalidRequest(f"window {text!r} must begin and end at two times of one day")
        return cls(first, end)

    def __str__(self) -> str:
        times = (f"{minute // 60:02}:{minute % 60:02}" for minute in (self.first, self.end))
        return "-".join(times)

    def holds(self, minute: int) -> bool:
        """Whether a minute of the day lies in it."""
        if self.first < self.end:
            return self.first <= minute < self.end
        return minute >= self.first or minute < self.end


@dataclass(frozen=True, slots=True)
class MaintenanceLimits:
    """What all tables together may cost: `hour_bytes`, read by compactions in any hour, and the `windows` of
    the day. What makes writers wait is done in spite of both."""

    hour_bytes: int | None = None
    windows: tuple[DayWindow, ...] = ()

    @classmethod
    def of(cls, bytes_per_hour: int | str | None, windows: Iterable[str]) -> MaintenanceLimits:
        """Limits as users say them: 10 gb, ("22:00-06:00",). Raises InvalidRequest for others."""
        try:
            hour = None if bytes_per_hour is None else memory_size(str(bytes_per_hour))
        except ValueError:
            hour = 0
        if hour is not None and hour < 1:
            raise InvalidRequest(f"bytes_per_hour {bytes_per_hour!r} must be a size such as '10 gb'")
        return cls(hour, tuple(DayWindow.of(text) for text in windows))


@dataclass(frozen=True, slots=True)
class PolicyBook:
    """The policies of tables: the first pattern of `db.table` that fits decides."""

    policies: tuple[tuple[str, MaintenancePolicy], ...]

    @classmethod
    def of(cls, policy: MaintenancePolicy | Mapping[str, Any] | None, patterns: Iterable[str]) -> PolicyBook:
        """One policy for the tables of `patterns` (none: all), or a mapping of patterns to policies."""
        chosen = [pattern.strip() for pattern in patterns if pattern.strip()] or ["*"]
        if policy is None or isinstance(policy, MaintenancePolicy):
            return cls(tuple((pattern, policy or MaintenancePolicy()) for pattern in chosen))
        if not isinstance(policy, Mapping):
            kind = type(policy).__name__
            raise InvalidRequest(
                f"policy takes a MaintenancePolicy, or a mapping of patterns to them, not {kind}"
            )
        if chosen != ["*"]:
            raise InvalidRequest("a mapping of patterns to policies names the tables: leave tables= out")
        if not policy:
            raise InvalidRequest("a mapping of patterns to policies must name a table")
        return cls(tuple((pattern, _policy(pattern, value)) for pattern, value in policy.items()))

    def policy(self, table: str) -> MaintenancePolicy | None:
        """The policy of a table; None: it is left alone."""
        return next((p for pattern, p in self.policies if fnmatch.fnmatchcase(table, pattern)), None)


def _policy(pattern: str, value: Any) -> MaintenancePolicy:
    if isinstance(value, MaintenancePolicy):
        return value
    if isinstance(value, Mapping):
        return MaintenancePolicy.of(value)
    raise InvalidRequest(f"the policy of {pattern!r} must be a MaintenancePolicy or a mapping, not {value!r}")


HOUR_MS = 3_600_000


class ByteBudget:
    """At most `hour_bytes` in any hour (None: no limit). What is larger than that alone is let through when
    nothing else was spent within the hour, so that it is not put off for ever."""

    def __init__(self, hour_bytes: int | None, spent: Iterable[tuple[int, int]] = ()) -> None:
        self.hour_bytes = hour_bytes
        self._spent = deque(spent)  # (milliseconds after 1970, bytes), in order of time

    def spend(self, now_ms: int, size: int) -> None:
        """Note that so many bytes were spent."""
        self._spent.append((now_ms, size))

    def spent(self, now_ms: int) -> int:
        """Bytes of the hour before."""
        while self._spent and self._spent[0][0] <= now_ms - HOUR_MS:
            self._spent.popleft()
        return sum(size for _, size in self._spent)

    def allows(self, now_ms: int, size: int) -> bool:
        """Whether so many may be spent now."""
        if self.hour_bytes is None:
            return True
        spent = self.spent(now_ms)
        return spent == 0 or spent + size <= self.hour_bytes

    def wait_ms(self, now_ms: int, size: int) -> int:
        """How long until so many may be spent; 0 for now."""
        if self.allows(now_ms, size):
            return 0
        assert self.hour_bytes is not None
        left = self.spent(now_ms)
        for at, some in self._spent:
            left -= some
            if left == 0 or left + size <= self.hour_bytes:
                return at + HOUR_MS - now_ms
        return 0
