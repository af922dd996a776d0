"""Bytes, counts and durations in words: three digits, IEC units, one unit for what is compared; values on a
line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_SHOWN = 160
"""Characters of a value that are shown."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
ABSENT = "–"
"""What stands for a value that is not there."""
_MAX_DIGITS = 7
_MAX_SHOWN, _MIN_SHOWN = 10_000, 0.95  # bounds of numbers shown in one common unit
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """`707 B`, `9.46 MiB`, `560 MiB`, `1.10 GiB`."""
    shown, unit = _rounded(count)
    return f"{shown} {_UNITS[unit]}"


def _rounded(count: int) -> tuple[str, int]:
    unit = _unit(count)
    value = count / (1 << 10 * unit)
    digits = 0 if unit == 0 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}", unit


def many(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _unit(count: int) -> int:
    return min(max((abs(count).bit_length() - 1) // 10, 0), len(_UNITS) - 1)


def _common_unit(left: int, right: int) -> int | None:
    """The unit of the larger, finer if the smaller is below 1 of it; None where no unit shows both."""
    largest, smallest = max(left, right), min(left, right) or max(left, right)
    for unit in range(_unit(largest), -1, -1):
        if largest / (1 << 10 * unit) >= _MAX_SHOWN:
            return None
        if smallest / (1 << 10 * unit) >= _MIN_SHOWN:
            return unit
    return 0


def compared(left: int, right: int, holds: Callable[[int, int], bool]) -> tuple[str, str]:
    """Both as text, with as many digits as are needed for the shown numbers to compare as `holds` says, to
    the last digit: it is asked with both times a power of ten. The unit of both stands after the right one,
    unless they differ so much that each needs its own."""
    unit = _common_unit(left, right)
    if unit is None:
        rounded = [_rounded(count) for count in (left, right)]
        if holds(*(round(100 * float(shown)) << 10 * own for shown, own in rounded)):
            return size(left), size(right)
    elif unit:
        for digits in range(1, _MAX_DIGITS):
            shown = [f"{c / (1 << 10 * unit):.{digits}f}" for c in (left, right)]
            if holds(*(int(number.replace(".", "")) for number in shown)):
                return shown[0], f"{shown[1]} {_UNITS[unit]}"
    return str(left), f"{right} {_UNITS[0]}"


def beside(value: float, holds: Callable[[float], bool], digits: int = 0) -> str:
    """A number that was compared with a limit, with as many digits as are needed to be on its side of it."""
    wanted = holds(value)
    for more in range(digits, _MAX_DIGITS):
        if holds(round(value, more)) == wanted:
            return f"{value:,.{more}f}"
    return repr(value)


def duration(millis: int) -> str:
    """`0.4 s`, `1:52`, `3:05:00`."""
    seconds = millis // 1000
    if seconds < 60:
        return f"{millis / 1000:.1f} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def elapsed(seconds: float | None) -> str:
    """`0.4 s`, `0:12`, `2:03:09`; `–` for None."""
    if seconds is None:
        return ABSENT
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def seconds_text(seconds: float | None) -> str:
    """`40 ms`, `1.4 s`, `2:03`; `–` for None."""
    if seconds is not None and 0 < seconds < 0.0995:
        return f"{max(round(seconds * 1000), 1)} ms"
    return elapsed(seconds)


def short_count(value: float) -> str:
    """`653`, `9.5 k`, `653 k`, `40.8 M`, `1.20 G`: at most three digits; `value` is not negative."""
    if value < 999.5:
        return f"{value:.0f}"
    if value < 999_500:
        return f"{value / 1e3:.1f} k" if value < 9_950 else f"{value / 1e3:.0f} k"
    unit, scale = ("M", 1e6) if value < 999.5e6 else ("G", 1e9) if value < 999.5e9 else ("T", 1e12)
    shown = value / scale
    digits = 2 if round(shown, 2) < 10 else 1 if round(shown, 1) < 100 else 0
    return f"{shown:.{digits}f} {unit}"


def one_line(text: str) -> str:
    """The text on one line, cut to `MAX_SHOWN` characters. Tabs and line ends are spaces, other unsafe
    characters are U+FFFD."""
    shown = _UNSAFE.sub(lambda match: " " if match.group(0) in "\t\n\r" else "\ufffd", text)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 1]}…"
