"""Bytes and durations in words: three significant digits, IEC units, one unit for all terms of a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_MOST_DIGITS = 7
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """`707 B`, `9.46 MiB`, `560 MiB`, `1.10 GiB`."""
    unit = _unit(count)
    value = count / (1 << 10 * unit)
    if unit == 0:
        return f"{count} B"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def many(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _unit(count: int) -> int:
    return min(max((abs(count).bit_length() - 1) // 10, 0), len(_UNITS) - 1)


def terms(counts: Iterable[int]) -> tuple[list[str], str]:
    """Each term in one unit, and the unit: that of the largest, finer if the smallest would read 0.0."""
    counts = list(counts)
    largest, smallest = max(counts, default=0), min((c for c in counts if c), default=0)
    unit = finest = _unit(largest)
    while finest and smallest / (1 << 10 * finest) < 0.05 and largest / (1 << 10 * (finest - 1)) < 1_000_000:
        finest -= 1
    if smallest / (1 << 10 * finest) >= 0.05:  # else no unit shows both
        unit = finest
    if unit == 0:
        return [str(c) for c in counts], _UNITS[0]
    return [f"{c / (1 << 10 * unit):.1f}" for c in counts], _UNITS[unit]


def compared(left: int, right: int, holds: Callable[[float, float], bool]) -> tuple[list[str], str]:
    """Both in one unit, with as many digits as it takes for what is shown to say what is so."""
    _, name = terms((left, right))
    unit = _UNITS.index(name)
    for digits in range(1, _MOST_DIGITS) if unit else ():
        shown = [f"{c / (1 << 10 * unit):.{digits}f}" for c in (left, right)]
        if holds(float(shown[0]), float(shown[1])):
            return shown, name
    return [str(left), str(right)], _UNITS[0]


def beside(value: float, holds: Callable[[float], bool], digits: int = 0) -> str:
    """A number that was held against a limit, with as many digits as it takes to be on its side of it."""
    wanted = holds(value)
    shown = (f"{value:.{more}f}" for more in range(digits, _MOST_DIGITS))
    return next((text for text in shown if holds(float(text)) == wanted), repr(value))


def duration(millis: int) -> str:
    """`0.4 s`, `1:52`, `3:05:00`."""
    seconds = millis // 1000
    if seconds < 60:
        return f"{millis / 1000:.1f} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
