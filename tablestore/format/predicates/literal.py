"""Literals of predicates: a user's value → the raw value of a column's type → Arrow, and as text.

A literal between two values of the type (10.5 for an INT, noon for a DATE) becomes the next smaller value
with `exact` False; one beyond the type's range has no value. So comparisons stay exact. For a FLOAT it
becomes the nearest float, and the greatest one for a number beyond the range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType, time_unit, to_arrow

_BITS = {
    "TINYINT": 8,
    "SMALLINT": 16,
    "INT": 32,
    "BIGINT": 64,
    "DATE": 32,
    "TIME": 32,
    "TIMESTAMP": 64,
    "TIMESTAMP_LTZ": 64,
}
_PLAIN = (bool, int, float, Decimal, str, bytes, date, time, np.datetime64)
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FRACTION = re.compile(r"(.*:\d\d)\.(\d{7,9})(.*)")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class NearestValue:
    """`value`: the raw value, or the next smaller one if not `exact`, or None if it is out of range, on the
    side that `above` says."""

    value: Any
    exact: bool = True
    above: bool = False


def unwrapped(value: Any) -> Any:
    """The Python value of an Arrow or numpy scalar; other values unchanged."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    return value


def plain(value: Any) -> Any:
    """A literal without its Arrow or numpy wrapping; raises InvalidRequest for other types."""
    value = unwrapped(value)
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if not isinstance(value, _PLAIN):
        hint = "; for more than one value use is_in([…])" if hasattr(value, "__len__") else ""
        raise InvalidRequest(f"{type(value).__name__} is not a literal to compare a column with{hint}")
    return value


def text(value: Any, t: DataType | None) -> str:
    """The literal in SQL; `t` is None for one that is not bound."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if t is not None and not isinstance(value, str):
        quoted = t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
        shown = cast_text(value, t)
        return f"{t.root.removesuffix('_LTZ')} '{shown}'" if quoted else shown
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def raw(value: Any, t: DataType) -> NearestValue:
    """The raw value of a literal in a column of type `t`; raises ValueError with the reason if there is
    none."""
    root = t.root
    if root == "BOOLEAN":
        return NearestValue(_expect(value, bool, "true or false"))
    if t.is_string:
        return NearestValue(_expect(value, str, "a string"))
    if t.is_binary:
        return NearestValue(_expect(value, bytes, "bytes"))
    if root in ("FLOAT", "DOUBLE"):
        return _float(value, single=root == "FLOAT")
    if root == "DECIMAL":
        number = _number(value, texts=True) * 10**t.scale
        return _on_grid(number, 10**t.precision - 1, -(10**t.precision) + 1)
    if root == "DATE":
        exact: Fraction | float = Fraction(_nanos(value), 86_400 * 10**9)
    elif root == "TIME":
        exact = Fraction(_clock_nanos(value), 10**6)
    elif root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        exact = Fraction(
            _nanos(value, zoned=root == "TIMESTAMP_LTZ") * _PER_SECOND[time_unit(t.precision)], 10**9
        )
    elif root in _BITS:
        exact = value if type(value) is int else _number(value)
    else:
        raise ValueError(f"columns of type {root} cannot be compared")
    limit = 1 << (_BITS[root] - 1)
    return _on_grid(exact, limit - 1, -limit)


def _on_grid(number: Fraction | float, high: int, low: int) -> NearestValue:
    if isinstance(number, float):  # infinite
        return NearestValue(None, exact=False, above=number > 0)
    below = math.floor(number)
    if not low <= below <= high:
        return NearestValue(None, exact=False, above=below > high)
    return NearestValue(below, exact=below == number)


def _expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"it cannot be compared with {text(value, None)}; give {what}")
    return value


def _number(value: Any, *, texts: bool = False) -> Fraction | float:
    """An exact number; a float means the decimal it prints as. Infinities stay floats."""
    if isinstance(value, str) and texts:
        try:
            value = Decimal(value)
        except InvalidOperation:
            raise ValueError(f"{value!r} is not a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"it cannot be compared with {text(value, None)}; give a number")
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("NaN is not a value of it")
        return float(value)
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _float(value: Any, *, single: bool) -> NearestValue:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"it cannot be compared with {text(value, None)}; give a number")
    kind = np.float32 if single else np.float64
    try:
        with np.errstate(over="ignore"):
            number = float(kind(value))
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isinf(number) and value not in (math.inf, -math.inf):  # beyond the type's range
        return NearestValue(float(np.finfo(kind).max) if number > 0 else number, exact=False)
    return NearestValue(math.nan if math.isnan(number) else number)


def _nanos(value: Any, *, zoned: bool = False) -> int:
    """Nanoseconds since the epoch of a date, datetime, datetime64 or ISO text; without a zone in UTC."""
    extra = getattr(value, "nanosecond", 0)  # pandas' Timestamp
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError("NaT is not a value; use is_null()")
        unit = np.datetime_data(value)[0]
        if unit in ("ns", "us", "ms", "s"):
            return int(value.astype(np.int64)) * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value, extra = _parsed(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError(
            f"it cannot be compared with {text(value, None)}; give a date, a datetime or ISO text"
        )
    if value.tzinfo is not None:
        if not zoned:
            raise ValueError("it has no time zone, the literal has one")
        value = value.astimezone(UTC).replace(tzinfo=None)
    since = value - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000 + extra


def _parsed(value: str) -> tuple[datetime, int]:
    """ISO text with up to nine fraction digits → (datetime, nanoseconds beyond its microseconds)."""
    match, extra = _FRACTION.fullmatch(value), 0
    try:
        if match:
            digits = match[2].ljust(9, "0")
            return datetime.fromisoformat(f"{match[1]}.{digits[:6]}{match[3]}"), int(digits[6:])
        return datetime.fromisoformat(value), extra
    except ValueError:
        raise ValueError(
            f"{value!r} is not a date or timestamp; write 2026-01-31 or 2026-01-31 12:00:00"
        ) from None


def _clock_nanos(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = time.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a time of day; write 12:30:00") from None
    if not isinstance(value, time):
        raise ValueError(f"it cannot be compared with {text(value, None)}; give a time of day")
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1000


def array(values: Sequence[Any], t: DataType) -> pa.Array:
    """Raw values (few of them) as an Arrow array of the column's type.

    A DECIMAL may have more digits than its type: sums of the merge engine aggregation are not checked.
    """
    if t.root == "DECIMAL":
        words = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in values)
        valid = pa.array([v is not None for v in values], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(to_arrow(t), len(values), [valid, pa.py_buffer(words)])
    if t.root in ("DATE", "TIME"):
        return pa.array(values, pa.int32()).cast(to_arrow(t))
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.array(values, pa.int64()).cast(to_arrow(t))
    return pa.array(values, to_arrow(t))


def scalar(value: Any, t: DataType) -> pa.Scalar:
    """A raw value as an Arrow scalar of the column's type."""
    return array([value], t)[0]
