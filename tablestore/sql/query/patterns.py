"""Time patterns in Java's letters, `yyyy-MM-dd HH:mm:ss`, as DuckDB's strftime and strptime spell them."""

from __future__ import annotations

import re

from tablestore.core.errors import Unsupported

_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z']")
_SPELLED = {
    **{"yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "uu": "%y"},
    **{"MM": "%m", "M": "%-m", "LL": "%m", "L": "%-m", "MMM": "%b", "LLL": "%b", "MMMM": "%B", "LLLL": "%B"},
    **{"dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
    **{"SSS": "%g", "SSSSSS": "%f", "SSSSSSSSS": "%n"},
}


def strftime_pattern(java: str) -> str:
    """The pattern as DuckDB has it. Raises Unsupported naming the letters that have no like."""
    found, at = [], 0
    for token in _TOKEN.finditer(java):
        if token.start() != at:
            break
        at = token.end()
        if token[1] is not None:
            if token[0] not in _SPELLED:
                raise Unsupported(f"{token[0]!r} in the time pattern {java!r}")
            found.append(_SPELLED[token[0]])
        else:
            text = token[0] if token[2] is None else token[2].replace("''", "'") or "'"
            found.append(text.replace("%", "%%"))
    if at != len(java):
        raise Unsupported(f"{java[at:]!r} in the time pattern {java!r}", "a quote is not closed")
    return "".join(found)
