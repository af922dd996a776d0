"""Texts as times by Java's patterns, where DuckDB's strptime lacks the letters or does not read the text."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from functools import lru_cache

from tablestore.core.errors import Unsupported

_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|.", re.DOTALL)
_PLAIN = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NUMBERS = {
    "u": "y",
    "y": "y",
    "M": "M",
    "L": "M",
    "d": "d",
    "D": "D",
    "H": "H",
    "k": "k",
    "h": "h",
    "K": "K",
}
_NUMBERS |= {"m": "m", "s": "s", "n": "n"}


def parsed(text: str, pattern: str, prefix: bool) -> dt.datetime | None:
    """The time of a text, None if it is none; an empty pattern is `yyyy-MM-dd[ HH:mm:ss[.S]]`.

    What a text leaves out is the beginning of 1970. `prefix`: what stands behind does not count; else a text
    that does not follow its pattern may be of the usual form. Raises Unsupported for a letter of a pattern
    that says nothing of a time.
    """
    if pattern:
        expression, letters = compiled(pattern)
        match = expression.match(text) if prefix else expression.fullmatch(text)
        if match is not None:
            found = _time({k: v for k, v in zip(letters, match.groups(), strict=True) if v is not None})
            if found is not None or prefix:
                return found
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
def compiled(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The pattern as a regular expression, and the letter of each of its groups."""
    expression, letters = "", []
    for token in _TOKEN.finditer(pattern):
        count, letter = len(token[0]), token[1]
        if letter is None:
            literal = token[0] if token[2] is None else token[2].replace("''", "'") or "'"
            expression += (
                {"[": "(?:", "]": ")?"}.get(literal, re.escape(literal))
                if token[2] is None
                else re.escape(literal)
            )
            continue
        if letter in "ML" and count > 2:
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
            raise Unsupported(f"{token[0]!r} in the time pattern {pattern!r} of a text")
    try:
        return re.compile(expression), tuple(letters)
    except re.error:
        raise Unsupported(f"the time pattern {pattern!r} of a text") from None


def _time(parts: dict[str, str]) -> dt.datetime | None:
    year = 2000 + int(parts["yy"]) if "yy" in parts else int(parts.get("y", "1970"))
    month = int(parts.get("M", "1"))
    if "name" in parts:
        name = parts["name"].lower()
        month = _MONTHS.index(name) + 1 if name in _MONTHS else 0
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
