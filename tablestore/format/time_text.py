"""Times as text by a pattern, as Java's DateTimeFormatter writes them: names in English, weeks from Sunday,
whole columns at a time. Written once, for SQL's DATE_FORMAT and for computed columns. Pure.

    y u year · Y year of the week · Q q quarter · M L month (MMM Jan, MMMM January) · w week of the year
    W week of the month · d day · D day of the year · E e c weekday · F its place in the month
    g modified Julian day · H h k K hour · a AM or PM · B part of the day · m minute · s second
    S fraction · n nanosecond · A N milliseconds and nanoseconds of the day
    G era · p fills the next with blanks · 'text'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest
from tablestore.format.time_pattern import DAYS, MONTHS, pattern_parts

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
