"""Patterns of SQL's LIKE: % matches any text, also empty or with line breaks, _ one character.

An escape character makes the next one literal; patterns are stored with a backslash, as in Spark. Pure. Used
by predicates, and for filters from and to Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

ESCAPE = "\\"
_MEANING = {"%": ".*", "_": "."}


def canonical(pattern: str, escape: str = ESCAPE) -> str:
    """The pattern with the escape \\; raises ValueError for an escape that is not a single character, or that
    comes before anything but %, _ and itself."""
    if len(escape) != 1 or escape in _MEANING:
        raise ValueError(f"the escape of LIKE is one character other than % and _, not {escape!r}")
    parts, rest = [], iter(pattern)
    for character in rest:
        if character == escape:
            after = next(rest, "")
            if after not in (*_MEANING, escape):
                raise ValueError(f"in LIKE {pattern!r} {escape} comes before {after!r}: write {escape * 2}")
            parts.append(literal(after))
        else:
            parts.append(character if character in _MEANING else literal(character))
    return "".join(parts)


def without_escape(pattern: str) -> str:
    """The canonical form of a pattern that names no escape, as in SQL: a backslash before % and _ is one, any
    other is a character."""
    return pattern.replace("\\", "\\\\").replace("\\\\%", "\\%").replace("\\\\_", "\\_")


def in_sql(pattern: str) -> str:
    """What stands behind LIKE for a canonical pattern; with ESCAPE where a backslash is a character."""
    quoted = "'" + pattern.replace("'", "''") + "'"
    return f"{quoted} ESCAPE '{ESCAPE}'" if ESCAPE * 2 in pattern else quoted


def literal(text: str) -> str:
    """A pattern that only this text matches."""
    return "".join(ESCAPE + c if c in ("%", "_", ESCAPE) else c for c in text)


def split(pattern: str) -> tuple[str, str]:
    """(text that every match begins with, the rest of a canonical pattern from its first wildcard on)."""
    text, at = [], 0
    while at < len(pattern) and pattern[at] not in _MEANING:
        at += pattern[at] == ESCAPE
        text.append(pattern[at])
        at += 1
    return "".join(text), pattern[at:]


def matches(values: Any, pattern: str) -> Any:
    """Which texts of an array or expression match a canonical pattern; null for null."""
    if pattern.startswith("%"):  # cases that Arrow matches faster than regular expressions
        text, rest = split(pattern[1:])
        if rest in ("", "%"):
            return (pc.match_substring if rest else pc.ends_with)(values, pattern=text)
    return pc.match_substring_regex(values, pattern=_expression(pattern))


def _expression(pattern: str) -> str:
    """The regular expression of a canonical pattern."""
    parts, rest = [], iter(pattern)
    for character in rest:
        parts.append(_MEANING.get(character) or _quoted(next(rest) if character == ESCAPE else character))
    return f"(?s)\\A{''.join(parts)}\\z"


def _quoted(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"
