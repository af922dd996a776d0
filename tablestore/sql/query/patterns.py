"""Time patterns in Java's letters, `yyyy-MM-dd HH:mm:ss`, as DuckDB's strftime and strptime spell them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'{}#\[\]]")
_WRITTEN = {
    **{"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "uu": "%y", "MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m"},
    **{"MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B", "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
    **{"SSS": "%g", "SSSSSS": "%f"},
}
_READ = {**_WRITTEN, "y": "%Y", "u": "%Y", "SSSSSSSSS": "%n"}


def strftime_pattern(java: str) -> str | None:
    """The pattern for a time as text; None if DuckDB cannot say it."""
    return _spelled(java, _WRITTEN)


def strptime_pattern(java: str) -> str | None:
    """The pattern for a text as time; None if DuckDB cannot say it."""
    return _spelled(java, _READ)


def _spelled(java: str, letters: Mapping[str, str]) -> str | None:
    found, at = [], 0
    for token in _TOKEN.finditer(java):
        if token.start() != at:
            break
        at = token.end()
        if token[1] is not None:
            if token[0] not in letters:
                return None
            found.append(letters[token[0]])
        else:
            text = token[0] if token[2] is None else token[2].replace("''", "'") or "'"
            found.append(text.replace("%", "%%"))
    if at != len(java):
        return None
    return "".join(found)
