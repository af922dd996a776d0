"""Dates and times of both halves: from year, month, day … in columns to Arrow; impossible ones become
NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
_LENGTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0])
_DAY_MICROS = 86_400_000_000


def days(year: Ints, month: Ints, day: Ints) -> tuple[Ints, Flags]:
    """Days since 1970-01-01, and which are dates of the (proleptic Gregorian) calendar."""
    year, month, day = (part.astype(np.int64) for part in (year, month, day))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = _LENGTHS[month & 15] + (leap & (month == 2))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= longest)
    shifted = year - (month <= 2)  # years that begin in March
    era, of_era = np.divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, valid


def dates(number: Ints, valid: Flags) -> pa.Array:
    """DATE from days since 1970-01-01."""
    return pa.array(number.astype(np.int32), pa.int32(), mask=~valid).cast(pa.date32())


def timestamps(micros: Ints, valid: Flags, type_: pa.DataType) -> pa.Array:
    """A timestamp of any unit and zone from microseconds since 1970-01-01 00:00:00 (UTC)."""
    times = pa.array(micros, pa.int64(), mask=~valid).cast(pa.timestamp("us", tz=type_.tz))
    return times.cast(type_, safe=False)


def micros(day: Ints, hour: Ints, minute: Ints, second: Ints, fraction: Ints) -> Ints:
    """Microseconds since 1970-01-01 00:00:00."""
    seconds = (hour.astype(np.int64) * 60 + minute) * 60 + second
    return day * _DAY_MICROS + seconds * 1_000_000 + fraction


def durations(
    negative: Flags, hour: Ints, minute: Ints, second: Ints, fraction: Ints, digits: int
) -> list[str]:
    """Text of TIME values as the server writes them: -838:59:59.000000."""
    columns = negative, hour, minute, second, fraction
    parts = zip(*(column.tolist() for column in columns), strict=True)
    cut = 10 ** (6 - digits)
    texts = []
    for minus, h, m, s, f in parts:
        text = f"{'-' if minus else ''}{h:02d}:{m:02d}:{s:02d}"
        texts.append(f"{text}.{f // cut:0{digits}d}" if digits else text)
    return texts
