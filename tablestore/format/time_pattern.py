"""Java's time patterns such as `yyyyMMdd` and `yyyy-MM-dd'T'HH:mm`: their parts, for all who write or read
times by them, and the times of partitions' texts (Paimon's `partition.timestamp-formatter`).

Letters of these: y or u year, M month, d day, H hour, m minute, s second, S fraction; text in quotes and
other marks are literal. A day beyond the end of its month is the last day. Without a pattern: `yyyy-MM-dd`
with or without ` HH:mm:ss[.fraction]`, where too large numbers carry over, as in Java's lenient formatters.
Pure.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tablestore.core.errors import InvalidOption

_DEFAULT = re.compile(r"(-?\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|.", re.DOTALL)
_FIELDS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_FIELDS["S"] = "fraction"
_MAX = {"month": 12, "day": 31, "hour": 23, "minute": 59, "second": 59}
_MIN = {"month": 1, "day": 1}
_DATE = ("year", "month", "day")


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A letter, as often as it repeats (`text`), or a text: one in quotes, or one sign. `at` is its place."""

    at: int
    letter: str
    text: str
    quoted: bool = False

    @property
    def sign(self) -> bool:
        """Whether it is one of the signs that mean something in a pattern, or a quote that is not closed."""
        return not self.letter and not self.quoted and self.text in "'[]{}#"


def pattern_parts(pattern: str) -> Iterator[PatternPart]:
    """The parts of a pattern in their order. Two quotes are one, within a text and alone."""
    for part in _PART.finditer(pattern):
        quoted = part[2] is not None
        text = part[2].replace("''", "'") or "'" if quoted else part[0]
        yield PatternPart(part.start(), part[1] or "", text, quoted)


def local_millis(text: str, pattern: str | None = None) -> int | None:
    """The time of `text` as milliseconds of the local wall clock since 1970; None if it does not match.

    Raises InvalidOption for a pattern with other letters.
    """
    if pattern is None:
        default = _DEFAULT.fullmatch(text)
        return None if default is None else _millis(*default.groups())
    shape, names = _compiled(pattern)
    match = shape.fullmatch(text)
    if match is None:
        return None
    values = dict(zip(names, match.groups(), strict=True))
    if not set(_DATE) <= set(values) or not _ordered(values):
        return None
    numbers = {n: int(v) for n, v in values.items() if n != "fraction"}
    if any(not _MIN.get(n, 0) <= v <= _MAX.get(n, v) for n, v in numbers.items()):
        return None
    year = numbers["year"] + (2000 if len(values["year"]) == 2 else 0)
    day = min(numbers["day"], monthrange(2000 + year % 400, numbers["month"])[1])
    clock = (values.get(n) for n in ("hour", "minute", "second", "fraction"))
    return _millis(str(year), values["month"], str(day), *clock)


def _ordered(values: dict[str, str]) -> bool:
    """Whether each part of the clock comes with all larger ones, without which Java gives no time."""
    present = [n in values for n in ("hour", "minute", "second", "fraction")]
    return present == sorted(present, reverse=True)


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """(regular expression of the pattern, the field of each of its groups)."""
    parts, names = [], list[str]()
    for part in pattern_parts(pattern):
        letter, count = part.letter, len(part.text)
        if not letter and not part.sign:
            parts.append(re.escape(part.text))
        elif letter not in _FIELDS or _FIELDS[letter] in names or (count > 2 and letter not in "yuS"):
            raise InvalidOption(
                f"time pattern {pattern!r}: {part.text[:1]!r} is not known there; use y M d H m s S, each "
                "once, and put text in quotes"
            )
        else:
            names.append(_FIELDS[letter])
            digits = f"{{{count}}}" if count > 1 or letter == "S" else "{1,4}" if letter in "yu" else "{1,2}"
            parts.append(rf"(\d{digits})")
    return re.compile("".join(parts)), tuple(names)


def _millis(
    year: str,
    month: str,
    day: str,
    hour: str | None = None,
    minute: str | None = None,
    second: str | None = None,
    fraction: str | None = None,
) -> int:
    months = np.datetime64(int(year) - 1970, "Y").astype("M8[M]") + (int(month) - 1)
    days = int(months.astype("M8[D]").astype(np.int64)) + int(day) - 1
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    return (days * 86_400 + seconds) * 1000 + int((fraction or "0").ljust(3, "0")[:3])
