"""Raw values as text: SQL casts for display and system tables, Java's toString for partition directories
(FORMAT.md 1.2, 23)."""

from __future__ import annotations

import math
import struct
from datetime import date, timedelta
from typing import Any

from tablestore.format.types.arrow_types import DataType, time_unit

_EPOCH = date(1970, 1, 1)
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def cast_text(value: Any, t: DataType) -> str:
    """The value cast to STRING as in SQL; null as `null`."""
    if value is None:
        return "null"
    if t.root == "DATE":
        return _date(value)
    if t.root == "TIME":
        digits = f"{value % 1000:03d}".rstrip("0") or "0"
        return _clock(value // 1000, digits[: t.precision])
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        days, seconds, fraction = _instant(value, t)
        digits = f"{fraction:09d}".rstrip("0").ljust(t.precision, "0")
        return f"{_date(days)} {_clock(seconds, digits)}"
    return _plain(value, t)


def legacy_text(value: Any, t: DataType) -> str:
    """The value in Java's `toString`, as in partition directories under `partition.legacy-name`."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        days, seconds, fraction = _instant(value, t)
        digits = f"{fraction:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        clock = _clock(seconds, digits)
        return f"{_date(days)}T{clock[:5] if not digits and seconds % 60 == 0 else clock}"
    return _plain(value, t)


def _instant(value: int, t: DataType) -> tuple[int, int, int]:
    """(epoch day, second of day, nano of second) of a timestamp."""
    per = _PER_SECOND[time_unit(t.precision)]
    seconds, rest = divmod(value, per)
    days, second = divmod(seconds, 86_400)
    return days, second, rest * (1_000_000_000 // per)


def _date(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days}"


def _clock(seconds: int, fraction: str) -> str:
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction}" if fraction else text


def _plain(value: Any, t: DataType) -> str:
    if t.root == "BOOLEAN":
        return "true" if value else "false"
    if t.root == "DECIMAL":
        digits = str(abs(value)).rjust(t.scale + 1, "0")
        text = f"{digits[: -t.scale]}.{digits[-t.scale :]}" if t.scale else digits
        return f"-{text}" if value < 0 else text
    if t.root in ("FLOAT", "DOUBLE"):
        return java_double(value, single=t.root == "FLOAT")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def java_double(value: float, *, single: bool = False) -> str:
    """A float as Java prints it: 1.0, 1.0E10, NaN, Infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    precision = next((p for p in range(1, 10) if single and _single(f"{value:.{p}g}") == value), 17)
    text = f"{value:.{precision}g}" if single else repr(value)
    power = int(f"{float(text):.17e}".split("e")[1]) if float(text) else 0
    digits = "".join(c for c in text.lower().split("e")[0] if c.isdigit()).strip("0") or "0"
    sign = "-" if value < 0 else ""
    if -3 <= power < 7:
        point = max(power + 1, 1)
        padded = "0" * max(-power, 0) + digits
        padded = padded.ljust(point, "0")
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _single(text: str) -> float:
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]
