"""Java's time patterns, `yyyy-MM-dd HH:mm:ss`, in SQL: said in DuckDB's letters where it has them, and texts
read that its strptime does not read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.time_text import pattern_parts, read_by, time_of, written

_WRITTEN = {
    **{"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "uu": "%y", "MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m"},
    **{"MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B", "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
    **{"SSS": "%g", "SSSSSS": "%f"},
}
_READ = {**_WRITTEN, "y": "%Y", "u": "%Y", "SSSSSSSSS": "%n"}
_PLAIN = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")


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


def formatted(at: pa.Array, patterns: pa.Array, fractions: pa.Array) -> pa.Array:
    """Times by patterns; `fractions` are nine digits of their seconds. Raises InvalidRequest for what is no
    pattern."""
    nanos, texts = fractions.cast(pa.int64()), pa.nulls(len(at), pa.string())
    for pattern in pc.unique(patterns.drop_null()):
        texts = pc.if_else(pc.equal(patterns, pattern), written(at, pattern.as_py(), nanos), texts)
    return texts


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
            at = time_of({k: v for k, v in zip(letters, match.groups(), strict=True) if v is not None})
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
