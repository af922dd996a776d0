"""PRINTF by Java's format: `%[n$][flags][width][.digits]conversion`."""

from __future__ import annotations

import re

from tablestore.sql.query.function import require_length

_PLACE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


def printf(text: str, values: list[str | None], types: list[str]) -> str | None:
    """The text with the values in their places; NULL for what Java refuses: a place without a value, a
    conversion of a value of another type, a letter that is none."""
    found, at, following = "", 0, 0
    while (percent := text.find("%", at)) >= 0:
        place = _PLACE.match(text, percent)
        if place is None:
            return None
        found, at = found + text[at:percent], place.end()
        index, flags, width, digits, letter = place.groups()
        if letter in "%n":
            found += "%" if letter == "%" else "\n"
            continue
        require_length(len(found) + max(_number(width), _number(digits)), "PRINTF")
        number = int(index) - 1 if index else following
        following += not index
        if not 0 <= number < len(values):
            return None
        shown = _shown(values[number], types[number], letter, flags, digits)
        if shown is None:
            return None
        found += _padded(shown, flags, int(width or 0), numeric=letter in "doxXfeEgG")
    return found + text[at:]


def _number(digits: str | None) -> int:
    """The number; one of many digits is any large one, which int() would refuse."""
    return int(digits[:20]) if digits else 0


def _shown(value: str | None, kind: str, letter: str, flags: str, digits: str | None) -> str | None:
    if letter.lower() in ("s", "b"):
        shown = str(value is not None and value != "false").lower() if letter in "bB" else value or ""
        shown = "null" if value is None and letter in "sS" else shown
        shown = shown[: int(digits)] if digits is not None else shown
        return shown.upper() if letter.isupper() else shown
    if value is None:
        return "null" if letter in "doxXfeEgGc" else None
    if letter in "dox" or letter == "X":
        return _whole(int(value), letter, flags) if kind in _WHOLE and digits is None else None
    if letter in "feEgG" and (kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL")):
        return _fraction(float(value), letter, flags, 6 if digits is None else int(digits))
    return None


def _whole(value: int, letter: str, flags: str) -> str:
    if letter == "d":
        return _signed(f"{abs(value):{',' if ',' in flags else ''}d}", value < 0, flags)
    return f"{value if value >= 0 else value + (1 << 32):{letter}}"


def _fraction(value: float, letter: str, flags: str, digits: int) -> str:
    kind = letter
    if letter in "gG":  # Java rounds to significant digits, and keeps zeros
        digits = max(digits, 1)
        plain = value == 0 or 1e-4 <= abs(value) < 10**digits
        kind = "f" if plain else "eE"[letter == "G"]
        whole = len(str(int(abs(value)))) if plain and abs(value) >= 1 else 1
        digits = digits - whole if plain else digits - 1
    comma = "," if "," in flags and kind == "f" else ""
    return _signed(f"{abs(value):{comma}.{digits}{kind}}", value < 0, flags)


def _signed(digits: str, negative: bool, flags: str) -> str:
    if negative:
        return f"({digits})" if "(" in flags else f"-{digits}"
    return f"+{digits}" if "+" in flags else f" {digits}" if " " in flags else digits


def _padded(shown: str, flags: str, width: int, *, numeric: bool) -> str:
    if "-" in flags:
        return shown.ljust(width)
    if "0" in flags and numeric:
        sign = shown[:1] if shown[:1] in ("-", "+", " ") else ""
        return sign + shown[len(sign) :].rjust(width - len(sign), "0")
    return shown.rjust(width)
