"""Java's time patterns such as `yyyyMMdd` and `yyyy-MM-dd'T'HH:mm`: their parts, and times read by them.

`pattern_parts` is the grammar, for all who write or read times; `read_by` and `time_of` read a text, and
`local_millis` the texts of partitions (Paimon's `partition.timestamp-formatter`). A day beyond the end of its
month is the last day. Pure.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tablestore.core.errors import InvalidOption, Unsupported

_DEFAULT = re.compile(r"(-?\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|.", re.DOTALL)
MONTHS = (*"January February March April May June July August September October November December".split(),)
DAYS = (*"Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(),)
_SHORT = [name[:3].lower() for name in MONTHS]
_NUMBERS = {**{letter: letter for letter in "yMdDHkhKmsn"}, "u": "y", "L": "M"}  # letters of numbers
_OF_PARTITIONS = frozenset("yuMdHmsS")


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


@lru_cache(maxsize=256)
def read_by(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The pattern as a regular expression, and the letter of each of its groups. Raises Unsupported for a
    letter that says nothing of a time."""
    expression, letters = "", []
    for part in pattern_parts(pattern):
        count, letter = len(part.text), part.letter
        if not letter:
            optional = {} if part.quoted else {"[": "(?:", "]": ")?"}
            expression += optional.get(part.text, re.escape(part.text))
        elif letter in "ML" and count > 2:
            expression += "([A-Za-z]{3})" + ("" if count == 3 else "[a-z]*")
            letters.append("name")
        elif letter == "E":
            expression += "[A-Za-z]+"
        elif letter in ("a", "S"):
            expression += "([AaPp][Mm])" if letter == "a" else rf"(\d{{{count}}})"
            letters.append(letter)
        elif letter in _NUMBERS:
            digits = f"{{{count}}}" if count > 1 else "{1,4}" if letter in "uy" else "{1,19}"
            expression += rf"(\d{digits})"
            letters.append(_NUMBERS[letter] if count != 2 or letter not in "uy" else "yy")
        else:
            raise Unsupported(f"{part.text!r} in the time pattern {pattern!r} of a text")
    try:
        return re.compile(expression), tuple(letters)
    except re.error:
        raise Unsupported(f"the time pattern {pattern!r} of a text") from None


def time_of(parts: Mapping[str, str]) -> dt.datetime | None:
    """The time of these parts of a text, by the letters of `read_by`; None if there is none. What is left out
    is the beginning of 1970."""
    year = 2000 + int(parts["yy"]) if "yy" in parts else int(parts.get("y", "1970"))
    month = int(parts.get("M", "1"))
    if "name" in parts:
        name = parts["name"].lower()
        month = _SHORT.index(name) + 1 if name in _SHORT else 0
    hour = int(parts.get("H", "0")) if "k" not in parts else int(parts["k"]) % 24
    for letter in ("h", "K"):
        if letter in parts:
            hour = int(parts[letter]) % 12 + 12 * (parts.get("a", "am").lower() == "pm")
    fraction = int(parts.get("S", parts.get("n", "0").rjust(9, "0")).ljust(6, "0")[:6])
    try:
        day = int(parts.get("d", "1"))
        if 28 < day < 32:  # a day behind the month's end is its last
            day = min(day, calendar.monthrange(year, month)[1])
        at = dt.datetime(year, month, day, hour, int(parts.get("m", "0")), int(parts.get("s", "0")), fraction)
        if "D" in parts:
            at = at.replace(month=1, day=1) + dt.timedelta(days=int(parts["D"]) - 1)
        return at
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None


def local_millis(text: str, pattern: str | None = None) -> int | None:
    """The time of `text` as milliseconds of the local wall clock since 1970; None if it does not match.

    Letters: y or u year, M month, d day, H hour, m minute, s second, S fraction, each once; other marks and
    text in quotes are literal. Without a pattern: `yyyy-MM-dd` with or without ` HH:mm:ss[.fraction]`, where
    too large numbers carry over, as in Java's lenient formatters. Raises InvalidOption for other letters.
    """
    if pattern is None:
        default = _DEFAULT.fullmatch(text)
        return None if default is None else _millis(*default.groups())
    expression, letters = _read_by_once(pattern)
    match = expression.fullmatch(text)
    dated = {"M", "d"} <= {*letters} and not {"y", "yy"}.isdisjoint(letters)
    clock = [letter in letters for letter in "HmsS"]
    # Java gives no time without a date, and of the clock no part without all larger ones.
    if match is None or not dated or clock != sorted(clock, reverse=True):
        return None
    at = time_of(dict(zip(letters, match.groups(), strict=True)))
    return None if at is None else (at - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


@lru_cache(maxsize=100)
def _read_by_once(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """`read_by` of a pattern that has only letters of partitions, each once."""
    fields = list[str]()
    for part in pattern_parts(pattern):
        letter, count = part.letter, len(part.text)
        if not letter and not part.sign:
            continue
        field = _NUMBERS.get(letter, letter)
        if letter not in _OF_PARTITIONS or field in fields or (count > 2 and letter not in "yuS"):
            raise InvalidOption(
                f"time pattern {pattern!r}: {part.text[:1]!r} is not known there; use y M d H m s S, each "
                "once, and put text in quotes"
            )
        fields.append(field)
    return read_by(pattern)


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
