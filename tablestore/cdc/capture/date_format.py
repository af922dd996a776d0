"""date_format: times as text by a pattern, as Java's DateTimeFormatter writes them in English.

y year · M month (MMM Jan, MMMM January) · d day · D day of the year · E weekday (EEEE in full)
H hour · h hour of 12 · a AM or PM · m minute · s second · S digits of the fraction · 'text'
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.time_pattern import pattern_parts

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_NUMBERS = {"M": pc.month, "d": pc.day, "D": pc.day_of_year, "H": pc.hour, "m": pc.minute, "s": pc.second}
_UNITS = {"y": "year", "M": "month", "d": "day", "D": "day", "E": "day"}
_UNITS |= {"H": "hour", "h": "hour", "a": "hour", "m": "minute", "s": "second"}
_ORDER = ("year", "month", "day", "hour", "minute", "second", "nanosecond")


@cache
def tokens(pattern: str) -> tuple[str, ...]:
    """The parts of a pattern: letters that repeat, and texts, which begin with a quote. Raises InvalidRequest
    and Unsupported for what is no pattern."""
    parts = list[str]()
    for part in pattern_parts(pattern):
        if not part.letter:
            if part.text == "'" and not part.quoted:
                raise InvalidRequest(f"the quote in pattern {pattern!r} has no end")
            parts.append("'" + part.text)
        elif part.letter in _UNITS or part.letter == "S":
            parts.append(part.text)
        else:
            raise Unsupported(
                f"letter {part.letter!r} of pattern {pattern!r}",
                "there are " + " ".join((*_UNITS, "S")) + "; text goes in quotes",
            )
    if not parts:
        raise InvalidRequest("date_format needs a pattern, as yyyy-MM-dd")
    return tuple(parts)


def date_format(moments: pa.Array, pattern: str) -> pa.Array:
    """Each of these times (timestamps without zone, or dates) as text, NULL for NULL. Of a pattern without
    hours each day is written once."""
    parts = tokens(pattern)
    letters = [part[0] for part in parts if part[0] != "'"]
    finest = max((_ORDER.index(_UNITS.get(one, "nanosecond")) for one in letters), default=0)
    if pa.types.is_date(moments.type):
        moments = moments.cast(pa.timestamp("s"))
    if finest < len(_ORDER) - 1:
        moments = pc.floor_temporal(moments, unit=_ORDER[finest])
    distinct = moments.dictionary_encode()
    texts = [_part(distinct.dictionary, part) for part in parts]
    written = pc.binary_join_element_wise(*texts, "") if len(texts) > 1 else texts[0]
    return written.take(distinct.indices)


def _part(moments: pa.Array, part: str) -> pa.Array:
    letter, width = part[0], len(part)
    if letter == "'":
        return pa.repeat(part[1:], len(moments))
    if letter == "y":
        year = pc.year(moments)
        if width == 2:
            year = pc.subtract(year, pc.multiply(pc.floor(pc.divide(year, 100)), 100))
        return _padded(year, width)
    if letter == "M" and width >= 3:
        return _named(pc.subtract(pc.month(moments), 1), _MONTHS, width)
    if letter == "E":
        return _named(pc.day_of_week(moments), _DAYS, width)
    if letter == "a":
        return pc.if_else(pc.less(pc.hour(moments), 12), "AM", "PM")
    if letter == "h":
        hour = pc.add(pc.hour(moments), 11).cast(pa.int64())
        return _padded(pc.add(pc.subtract(hour, pc.multiply(pc.divide(hour, 12), 12)), 1), width)
    if letter == "S":
        nanos = pc.cast(pc.multiply(pc.subsecond(moments), 1e9), pa.float64())
        digits = _padded(pc.round(nanos).cast(pa.int64()), 9)
        return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, width, padding="0"), 0, width)
    return _padded(_NUMBERS[letter](moments), width)


def _padded(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.int64()).cast(pa.string()), width, padding="0")


def _named(places: pa.Array, names: list[str], width: int) -> pa.Array:
    return pa.array([name if width == 4 else name[:3] for name in names]).take(places)
