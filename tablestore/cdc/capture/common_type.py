"""The type of a column that takes values of two: of shards in one table, of messages with other types, of a
column before and after it was altered. Pure.

    whole numbers → the longer one · with decimals → a DECIMAL with room for both · with floats → DOUBLE
    texts, bytes → the longer one, varying where one of them is · times → the finer one
"""

from __future__ import annotations

from dataclasses import replace

from tablestore.format.types import casts
from tablestore.format.types.data_type import DataType

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_MOST_DIGITS = 38


def common_type(one: DataType, other: DataType) -> DataType | None:
    """The narrowest type that holds the values of both (BIGINT as DOUBLE may lose digits), nullable where one
    of them is; None where only text does. The order does not count."""
    found = _common(one, other)
    if found is None:
        return None
    return found.as_nullable() if one.nullable or other.nullable else found.not_null()


def widened(here: DataType, there: DataType) -> DataType | None:
    """The type that a column of the type `here` must have for values of both: itself if it is wide enough.
    None where a table does not allow the change."""
    found = common_type(here.as_nullable(), there.as_nullable())
    if found is None or found == here.as_nullable():
        return found and here
    return replace(found, nullable=here.nullable) if casts.allowed(here, found, explicit=False) else None


def _common(one: DataType, other: DataType) -> DataType | None:
    roots = {one.root, other.root}
    if one.as_nullable() == other.as_nullable():
        return one
    if roots <= set(_DIGITS):
        return max(one, other, key=lambda t: _DIGITS[t.root])
    if roots <= {*_DIGITS, "DECIMAL"}:
        return _decimal(one, other)
    if roots <= set(casts.NUMBERS):
        return DataType("DOUBLE")
    if roots <= set(casts.TEXTS) or roots <= {"BINARY", "VARBINARY"}:
        longer = max(one.precision, other.precision)
        varying = "VARCHAR" if one.is_string else "VARBINARY"
        return DataType(one.root if len(roots) == 1 else varying, precision=longer)
    if len(roots) == 1 and one.root in (*casts.TIMES, "TIME"):
        return max(one, other, key=lambda t: t.precision)
    return None


def _decimal(one: DataType, other: DataType) -> DataType | None:
    whole = max(_DIGITS.get(t.root, t.precision - t.scale) for t in (one, other))
    scale = max(t.scale for t in (one, other))
    if whole + scale > _MOST_DIGITS:
        return None
    return DataType("DECIMAL", precision=whole + scale, scale=scale)
