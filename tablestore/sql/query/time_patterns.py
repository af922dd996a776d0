"""Times as texts by the patterns of Java's DateTimeFormatter; names are English, weeks begin on Sunday.

`patterns.py` has the patterns that DuckDB's strftime can say; this is for the others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tablestore.core.errors import InvalidRequest

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split()
_MOST = {
    **dict.fromkeys("wdHhKkms", 2),
    **dict.fromkeys("aWF", 1),
    "D": 3,
    "S": 9,
    **dict.fromkeys("MLEGQqec", 5),
}
_ZONE = "zVvXxOZ"
_ORDINALS = ("1st", "2nd", "3rd", "4th")


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time; `nanos` are those of its second."""

    at: dt.datetime
    nanos: int

    @property
    def weekday(self) -> int:
        """0 is Sunday."""
        return self.at.isoweekday() % 7

    @property
    def day_of_year(self) -> int:
        return self.at.timetuple().tm_yday

    @property
    def nano_of_day(self) -> int:
        return (self.at.hour * 3600 + self.at.minute * 60 + self.at.second) * 1_000_000_000 + self.nanos

    @property
    def week(self) -> tuple[int, int]:
        """Year and number of the week, which is of the year that its Saturday is in."""
        days = self.day_of_year + 6 - self.weekday
        length = dt.date(self.at.year, 12, 31).timetuple().tm_yday
        return (self.at.year + 1, 1) if days > length else (self.at.year, (days - 1) // 7 + 1)


_Piece = Callable[[_Moment], str]


def formatted(at: dt.datetime, pattern: str, fraction: str) -> str:
    """The time by a pattern; `fraction` are nine digits of its second. Raises InvalidRequest for what
    is no pattern."""
    moment = _Moment(at, int(fraction))
    return "".join(piece(moment) for piece in compiled(pattern))


@lru_cache(maxsize=256)
def compiled(pattern: str) -> tuple[_Piece, ...]:
    """What gives the parts of the text, one behind the other."""
    found: list[_Piece] = []
    at, width, depth = 0, 0, 0
    while at < len(pattern):
        c, start = pattern[at], at
        while at < len(pattern) and pattern[at] == c:
            at += 1
        count = at - start
        if c == "p":
            width = count
            if at == len(pattern) or not (pattern[at].isascii() and pattern[at].isalpha()):
                raise InvalidRequest(f"'p' stands before no letter in the time pattern {pattern!r}")
            continue
        if c.isascii() and c.isalpha():
            found.append(_spaced(_letter(c, count, pattern), width))
            width = 0
        elif c == "'":
            text, at = _quoted(pattern, start)
            found.append(_constant(text))
        elif c in "{}#":
            raise InvalidRequest(f"{c!r} is reserved in the time pattern {pattern!r}")
        elif c in "[]":
            depth += count if c == "[" else -count
            if depth < 0:
                raise InvalidRequest(f"']' closes nothing in the time pattern {pattern!r}")
        else:
            found.append(_constant(c * count))
    return tuple(found)


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The text in quotes that begins there, and where it ends; two quotes are one."""
    text, at = "", start + 1
    while (end := pattern.find("'", at)) >= 0:
        text += pattern[at:end]
        if pattern[end + 1 : end + 2] != "'":
            return text or "'", end + 1
        text, at = text + "'", end + 2
    raise InvalidRequest(f"a quote is not closed in the time pattern {pattern!r}")


def _constant(text: str) -> _Piece:
    return lambda _: text


def _spaced(piece: _Piece, width: int) -> _Piece:
    return (lambda m: piece(m).rjust(width)) if width else piece


def _letter(c: str, count: int, pattern: str) -> _Piece:
    if c in _ZONE:
        raise InvalidRequest(f"a time without a zone has no {c!r} of the time pattern {pattern!r}")
    if c not in _LETTERS:
        raise InvalidRequest(f"{c!r} is no letter of time patterns; here is {pattern!r}")
    if count > _MOST.get(c, 19) or (c == "c" and count == 2) or (c == "B" and count not in (1, 4, 5)):
        raise InvalidRequest(f"there are too many {c!r} in the time pattern {pattern!r}")
    return _LETTERS[c](count)


def _number(value: Callable[[_Moment], int]) -> Callable[[int], _Piece]:
    return lambda count: lambda m: f"{value(m):0{count}d}"


def _year(value: Callable[[_Moment], int]) -> Callable[[int], _Piece]:
    def piece(count: int) -> _Piece:
        if count == 2:
            return lambda m: f"{value(m) % 100:02d}"
        sign = "+" if count >= 4 else ""
        return lambda m: (sign if value(m) >= 10**count else "") + f"{value(m):0{count}d}"

    return piece


def _name(value: Callable[[_Moment], int], names: list[str], first: int) -> Callable[[int], _Piece]:
    """A number up to two letters, then short, whole and one letter; `first` is the first name's number."""

    def piece(count: int) -> _Piece:
        if count <= 2:
            return lambda m: f"{value(m):0{count}d}"
        length = {3: 3, 4: None, 5: 1}[count]
        return lambda m: names[value(m) - first][:length]

    return piece


def _weekday(count: int) -> _Piece:
    return _name(lambda m: m.weekday + 1, _DAYS, 1)(max(count, 3))


def _quarter(count: int) -> _Piece:
    def text(m: _Moment) -> str:
        quarter = (m.at.month + 2) // 3
        long = f"{_ORDINALS[quarter - 1]} quarter"
        return {3: f"Q{quarter}", 4: long, 5: str(quarter)}.get(count, f"{quarter:0{count}d}")

    return text


def _era(count: int) -> _Piece:
    return _constant({4: "Anno Domini", 5: "A"}.get(count, "AD"))


def _half(count: int) -> _Piece:
    return lambda m: "AM" if m.at.hour < 12 else "PM"


def _part_of_day(count: int) -> _Piece:
    def text(m: _Moment) -> str:
        hour = m.at.hour
        if m.at.minute == 0 and hour in (0, 12):
            return ("midnight", "noon")[hour // 12] if count != 5 else ("mi", "n")[hour // 12]
        parts = ((6, "at night"), (12, "in the morning"), (18, "in the afternoon"), (21, "in the evening"))
        return next((part for end, part in parts if hour < end), "at night")

    return text


def _fraction(count: int) -> _Piece:
    return lambda m: f"{m.nanos:09d}"[:count]


_LETTERS: dict[str, Callable[[int], _Piece]] = {
    "u": _year(lambda m: m.at.year),
    "y": _year(lambda m: m.at.year),
    "Y": _year(lambda m: m.week[0]),
    "M": _name(lambda m: m.at.month, _MONTHS, 1),
    "L": _name(lambda m: m.at.month, _MONTHS, 1),
    "d": _number(lambda m: m.at.day),
    "D": _number(lambda m: m.day_of_year),
    "E": _weekday,
    "e": _name(lambda m: m.weekday + 1, _DAYS, 1),
    "c": _name(lambda m: m.weekday + 1, _DAYS, 1),
    "F": _number(lambda m: (m.at.day - 1) % 7 + 1),
    "Q": _quarter,
    "q": _quarter,
    "w": _number(lambda m: m.week[1]),
    "W": _number(lambda m: (m.at.day - 1 + (m.weekday - m.at.day + 1) % 7) // 7 + 1),
    "a": _half,
    "B": _part_of_day,
    "G": _era,
    "h": _number(lambda m: (m.at.hour - 1) % 12 + 1),
    "H": _number(lambda m: m.at.hour),
    "k": _number(lambda m: m.at.hour or 24),
    "K": _number(lambda m: m.at.hour % 12),
    "m": _number(lambda m: m.at.minute),
    "s": _number(lambda m: m.at.second),
    "S": _fraction,
    "A": _number(lambda m: m.nano_of_day // 1_000_000),
    "n": _number(lambda m: m.nanos),
    "N": _number(lambda m: m.nano_of_day),
    "g": _number(lambda m: m.at.toordinal() - 678_576),
}
