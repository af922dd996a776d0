"""Times as text by a pattern, as Java's DateTimeFormatter writes them: names in English, weeks from Sunday,
whole columns at a time. Written once, for SQL's DATE_FORMAT and for computed columns. Pure.

    y u year · Y year of the week · Q q quarter · M L month (MMM Jan, MMMM January) · w week of the year
    W week of the month · d day · D day of the year · E e c weekday · F its place in the month
    g modified Julian day · H h k K hour · a AM or PM · B part of the day · m minute · s second
    S fraction · n nanosecond · A N milliseconds and nanoseconds of the day
    G era · p fills the next with blanks · 'text'

Times are read by such patterns, too, as `yyyyMMdd` and `yyyy-MM-dd'T'HH:mm`. `pattern_parts` is the grammar,
for all who write or read times; `read_by` and `time_of` read a text, and `local_millis` the texts of
partitions (Paimon's `partition.timestamp-formatter`). A day beyond the end of its month is the last day.
Pure.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported

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


_MOST = {
    **dict.fromkeys("wdHhKkms", 2),
    **dict.fromkeys("aWF", 1),
    "D": 3,
    "S": 9,
    **dict.fromkeys("MLEGQqec", 5),
}
_ZONE = "zVvXxOZ"
_OF_DAY, _OF_SECOND = frozenset("BahHkKms"), frozenset("SAnN")
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class _Moments:
    """Times as whole seconds since 1970 and the nanoseconds of each."""

    seconds: np.ndarray
    nanos: np.ndarray

    @property
    def days(self) -> np.ndarray:
        """Days since 1970."""
        return self.seconds // 86_400

    @property
    def clock(self) -> np.ndarray:
        """Seconds since midnight."""
        return self.seconds % 86_400

    @property
    def hour(self) -> np.ndarray:
        return self.clock // 3600

    @property
    def year(self) -> np.ndarray:
        return self.days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970

    @property
    def month(self) -> np.ndarray:
        return self.days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1

    @property
    def day(self) -> np.ndarray:
        return self._since("M8[M]") + 1

    @property
    def day_of_year(self) -> np.ndarray:
        return self._since("M8[Y]") + 1

    def _since(self, unit: str) -> np.ndarray:
        days = self.days.astype("M8[D]")
        return (days - days.astype(unit).astype("M8[D]")).astype(np.int64)

    @property
    def weekday(self) -> np.ndarray:
        """0 is Sunday."""
        return (self.days + 4) % 7

    @property
    def nanos_of_day(self) -> np.ndarray:
        return self.clock * 1_000_000_000 + self.nanos

    @property
    def week_ends(self) -> _Moments:
        """The Saturdays behind them, whose year is that of the week."""
        return _Moments((self.days + 6 - self.weekday) * 86_400, self.nanos)


_Piece = Callable[[_Moments], pa.Array]


def written(moments: pa.Array, pattern: str, nanos: pa.Array | None = None) -> pa.Array:
    """Each of these times (timestamps without zone, or dates) as text, NULL for NULL. `nanos` are those of
    their seconds where the times are not that exact. Raises InvalidRequest for what is no pattern."""
    pieces, letters = pieces_of(pattern)
    if pa.types.is_date(moments.type):
        moments = moments.cast(pa.timestamp("s"))
    units = _PER_SECOND[moments.type.unit]
    values = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    seconds = values // units
    if letters & _OF_SECOND:
        own = values % units * (1_000_000_000 // units)
        fraction = own if nanos is None else pc.fill_null(nanos, 0).to_numpy(zero_copy_only=False)
        texts = _joined(pieces, _Moments(seconds, fraction))
        return pc.if_else(moments.is_valid(), texts, pa.scalar(None, pa.string()))
    if not letters & _OF_DAY:  # each day is written once
        seconds = seconds // 86_400 * 86_400
    distinct = pc.if_else(moments.is_valid(), pa.array(seconds), None).dictionary_encode()
    whole = distinct.dictionary.to_numpy(zero_copy_only=False)
    return _joined(pieces, _Moments(whole, np.zeros_like(whole))).take(distinct.indices)


def _joined(pieces: Sequence[_Piece], moments: _Moments) -> pa.Array:
    texts = [piece(moments) for piece in pieces] or [_constant("")(moments)]
    return pc.binary_join_element_wise(*texts, "") if len(texts) > 1 else texts[0]


@lru_cache(maxsize=256)
def pieces_of(pattern: str) -> tuple[tuple[_Piece, ...], frozenset[str]]:
    """What gives the parts of the text, one behind the other, and the letters of the pattern. Raises
    InvalidRequest for what is no pattern of a time without zone."""
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
    return tuple(pieces), frozenset(part.letter for part in parts)


def _constant(text: str) -> _Piece:
    return lambda m: pa.repeat(text, len(m.seconds))


def _spaced(piece: _Piece, width: int) -> _Piece:
    return (lambda m: pc.utf8_lpad(piece(m), width)) if width else piece


def _letter(c: str, count: int, pattern: str) -> _Piece:
    if c in _ZONE:
        raise InvalidRequest(f"a time without a zone has no {c!r} of the time pattern {pattern!r}")
    if c not in _LETTERS:
        raise InvalidRequest(f"{c!r} is no letter of time patterns; here is {pattern!r}")
    if count > _MOST.get(c, 19) or (c == "c" and count == 2) or (c == "B" and count not in (1, 4, 5)):
        raise InvalidRequest(f"there are too many {c!r} in the time pattern {pattern!r}")
    return _LETTERS[c](count)


def _padded(numbers: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, padding="0")


def _number(value: Callable[[_Moments], np.ndarray]) -> Callable[[int], _Piece]:
    return lambda count: lambda m: _padded(value(m), count)


def _year(value: Callable[[_Moments], np.ndarray]) -> Callable[[int], _Piece]:
    def piece(count: int) -> _Piece:
        if count == 2:
            return lambda m: _padded(value(m) % 100, 2)
        if count < 4:
            return lambda m: _padded(value(m), count)
        return lambda m: pc.binary_join_element_wise(
            pc.if_else(pa.array(value(m) >= 10**count), "+", ""), _padded(value(m), count), ""
        )

    return piece


def _name(value: Callable[[_Moments], np.ndarray], names: Sequence[str]) -> Callable[[int], _Piece]:
    """A number from 1 on up to two letters, then the name: short, whole and one letter."""

    def piece(count: int) -> _Piece:
        if count <= 2:
            return lambda m: _padded(value(m), count)
        length = {3: 3, 4: None, 5: 1}[count]
        return lambda m: _chosen(value(m) - 1, [name[:length] for name in names])

    return piece


def _chosen(places: np.ndarray, texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(places))


def _quarter(count: int) -> _Piece:
    def places(m: _Moments) -> np.ndarray:
        return (m.month + 2) // 3

    if count not in (3, 4):
        return lambda m: _padded(places(m), 1 if count == 5 else count)
    long = ("1st", "2nd", "3rd", "4th")
    texts = [f"Q{n}" if count == 3 else f"{place} quarter" for n, place in enumerate(long, 1)]
    return lambda m: _chosen(places(m) - 1, texts)


def _part_of_day(count: int) -> _Piece:
    exact = ["mi", "n"] if count == 5 else ["midnight", "noon"]
    ranges = ["at night", "in the morning", "in the afternoon", "in the evening", "at night"]

    def text(m: _Moments) -> pa.Array:
        ranged = np.searchsorted([6, 12, 18, 21], m.hour, side="right") + 2
        return _chosen(np.where(m.clock % 43_200 < 60, m.clock // 43_200, ranged), exact + ranges)

    return text


_LETTERS: dict[str, Callable[[int], _Piece]] = {
    "u": _year(lambda m: m.year),
    "y": _year(lambda m: m.year),
    "Y": _year(lambda m: m.week_ends.year),
    "M": _name(lambda m: m.month, MONTHS),
    "L": _name(lambda m: m.month, MONTHS),
    "d": _number(lambda m: m.day),
    "D": _number(lambda m: m.day_of_year),
    "E": lambda count: _LETTERS["e"](max(count, 3)),
    "e": _name(lambda m: m.weekday + 1, DAYS),
    "c": _name(lambda m: m.weekday + 1, DAYS),
    "F": _number(lambda m: (m.day - 1) % 7 + 1),
    "Q": _quarter,
    "q": _quarter,
    "w": _number(lambda m: (m.week_ends.day_of_year - 1) // 7 + 1),
    "W": _number(lambda m: (m.day - 1 + (m.weekday - m.day + 1) % 7) // 7 + 1),
    "a": lambda count: lambda m: _chosen(m.hour // 12, ["AM", "PM"]),
    "B": _part_of_day,
    "G": lambda count: _constant({4: "Anno Domini", 5: "A"}.get(count, "AD")),
    "h": _number(lambda m: (m.hour - 1) % 12 + 1),
    "H": _number(lambda m: m.hour),
    "k": _number(lambda m: (m.hour - 1) % 24 + 1),
    "K": _number(lambda m: m.hour % 12),
    "m": _number(lambda m: m.clock // 60 % 60),
    "s": _number(lambda m: m.clock % 60),
    "S": lambda count: lambda m: pc.utf8_slice_codeunits(_padded(m.nanos, 9), 0, count),
    "A": _number(lambda m: m.nanos_of_day // 1_000_000),
    "n": _number(lambda m: m.nanos),
    "N": _number(lambda m: m.nanos_of_day),
    "g": _number(lambda m: m.days + 40_587),
}
