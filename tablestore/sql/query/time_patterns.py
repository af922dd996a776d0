"""Times by the patterns of Java's DateTimeFormatter, `yyyy-MM-dd HH:mm:ss`, in three ways.

`strftime_pattern` and `strptime_pattern` say a pattern in DuckDB's letters, where it has them. `formatted`
writes a time by any pattern, names in English, weeks from Sunday; `parsed` reads what strptime does not.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.time_pattern import pattern_parts

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
_WRITTEN = {
    **{"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "uu": "%y", "MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m"},
    **{"MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B", "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
    **{"SSS": "%g", "SSSSSS": "%f"},
}
_READ = {**_WRITTEN, "y": "%Y", "u": "%Y", "SSSSSSSSS": "%n"}
_PLAIN = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
_NUMBERS = {**{letter: letter for letter in "yMdDHkhKmsn"}, "u": "y", "L": "M"}  # letters of numbers
_SHORT = [name[:3].lower() for name in _MONTHS]


def strftime_pattern(java: str) -> str | None:
    """The pattern for a time as text; None if DuckDB cannot say it."""
    return _spelled(java, _WRITTEN)


def strptime_pattern(java: str) -> str | None:
    """The pattern for a text as time; None if DuckDB cannot say it."""
    return _spelled(java, _READ)


def _spelled(java: str, letters: Mapping[str, str]) -> str | None:
    spelled = ""
    for part in pattern_parts(java):
        if part.sign or (part.letter and part.text not in letters):
            return None
        spelled += letters[part.text] if part.letter else part.text.replace("%", "%%")
    return spelled


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
    return "".join(piece(moment) for piece in written_by(pattern))


@lru_cache(maxsize=256)
def written_by(pattern: str) -> tuple[_Piece, ...]:
    """What gives the parts of the text, one behind the other."""
    pieces: list[_Piece] = []
    parts, width, depth = [*pattern_parts(pattern)], 0, 0
    for place, part in enumerate(parts):
        if part.letter == "p":
            width = len(part.text)
            if place + 1 == len(parts) or not parts[place + 1].letter:
                raise InvalidRequest(f"'p' stands before no letter in the time pattern {pattern!r}")
        elif part.letter:
            pieces.append(_spaced(_letter(part.letter, len(part.text), pattern), width))
            width = 0
        elif not part.sign:
            pieces.append(_constant(part.text))
        elif part.text == "'":
            raise InvalidRequest(f"a quote is not closed in the time pattern {pattern!r}")
        elif part.text in "{}#":
            raise InvalidRequest(f"{part.text!r} is reserved in the time pattern {pattern!r}")
        else:
            depth += 1 if part.text == "[" else -1
            if depth < 0:
                raise InvalidRequest(f"']' closes nothing in the time pattern {pattern!r}")
    return tuple(pieces)


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


def parsed(text: str, pattern: str, prefix: bool) -> dt.datetime | None:
    """The time of a text, None if it is none; an empty pattern is `yyyy-MM-dd[ HH:mm:ss[.S]]`.

    What a text leaves out is the beginning of 1970. `prefix`: what stands behind does not count; else a text
    that does not follow its pattern may be of the usual form. Raises Unsupported for a letter of a pattern
    that says nothing of a time.
    """
    if pattern:
        expression, letters = read_by(pattern)
        match = expression.match(text) if prefix else expression.fullmatch(text)
        if match is not None:
            at = _time({k: v for k, v in zip(letters, match.groups(), strict=True) if v is not None})
            if at is not None or prefix:
                return at
    return None if prefix else _usual(text)


def _usual(text: str) -> dt.datetime | None:
    match = _PLAIN.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction = int((match[7] or "").ljust(6, "0")[:6])
    try:
        at = dt.datetime(year, month, day) + dt.timedelta(hours=hour, minutes=minute, seconds=second)
        return at + dt.timedelta(microseconds=fraction) if hour < 25 else None
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def read_by(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The pattern as a regular expression, and the letter of each of its groups."""
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
            digits = f"{{{count}}}" if count > 1 else "{1,4}" if letter in "uy" else "+"
            expression += rf"(\d{digits})"
            letters.append(_NUMBERS[letter] if count != 2 or letter not in "uy" else "yy")
        else:
            raise Unsupported(f"{part.text!r} in the time pattern {pattern!r} of a text")
    try:
        return re.compile(expression), tuple(letters)
    except re.error:
        raise Unsupported(f"the time pattern {pattern!r} of a text") from None


def _time(parts: dict[str, str]) -> dt.datetime | None:
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
