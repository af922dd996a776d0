"""Intervals, parts and roundings of times as DuckDB has them; a week that is rounded begins on Sunday."""

from __future__ import annotations

import re

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.sql.query.time_functions import micros

EXTRACTED = frozenset(
    "YEAR ISOYEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND DOW DAYOFWEEK "
    "ISODOW DOY DAYOFYEAR EPOCH DECADE CENTURY MILLENNIUM".split()
)
_DAYS = ("DAY", "HOUR", "MINUTE", "SECOND")
_SECONDS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_LONG = (*"DAY WEEK MONTH QUARTER YEAR DECADE CENTURY MILLENNIUM".split(),)
_OF_TIME = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")


def interval(node: exp.Interval) -> str | None:
    """`INTERVAL '1 02:03:04.5' DAY TO SECOND` and the like; None for an interval of one unit, which DuckDB
    reads itself. Raises InvalidRequest for a text that does not fit its units."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.Anonymous):  # DAY(3): its digits
        return f"INTERVAL {_text(node)!r} {unit.name}"
    if not isinstance(unit, exp.IntervalSpan):
        return None
    first, last = unit.this.name.upper(), unit.expression.name.upper()
    text = _text(node)
    if (first, last) == ("YEAR", "MONTH"):
        found = re.fullmatch(r"\s*([+-]?)(\d+)-(\d+)\s*", text)
        if found is None:
            raise InvalidRequest(f"{text!r} is no interval YEAR TO MONTH: write '1-2'")
        return f"to_months({found[1]}{int(found[2]) * 12 + int(found[3])})"
    if first not in _DAYS or last not in _DAYS or first == last:
        raise Unsupported(f"an interval {first} TO {last}")
    units = _DAYS[_DAYS.index(first) : _DAYS.index(last) + 1]
    numbers = re.fullmatch(r"\s*([+-]?)([\d:. ]+?)\s*", text)
    parts = re.split("[ :]+", numbers[2]) if numbers else []
    if numbers is None or len(parts) != len(units):
        raise InvalidRequest(f"{text!r} is no interval {first} TO {last}: write '1 02:03:04.5', '02:03', …")
    seconds = sum(float(part) * _SECONDS[unit] for part, unit in zip(parts, units, strict=True))
    return f"to_microseconds({numbers[1]}{round(seconds * 1_000_000)})"


def _text(node: exp.Interval) -> str:
    if not isinstance(node.this, exp.Literal):
        raise Unsupported("an interval that is no literal", "write n * INTERVAL '1' DAY")
    return str(node.this.name)


def extract(unit: str, value: str) -> str:
    """EXTRACT as a BIGINT; of a fraction only what is behind the second."""
    nanos = f"epoch_ns(TRY_CAST({value} AS TIMESTAMP_NS)) % 1000000000"
    usual = f"CAST(floor({_part(unit, value)}) AS BIGINT)"
    if unit == "NANOSECOND":
        usual, exact = f"(extract(microsecond FROM {value}) % 1000000 * 1000)", nanos
    elif unit in ("MICROSECOND", "MILLISECOND"):
        exact = usual
    else:
        exact = f"CAST(floor({_part(unit, micros(value))}) AS BIGINT)"
    if exact == usual:
        return usual
    return f"(CASE typeof({value}) WHEN 'TIMESTAMP_NS' THEN {exact} ELSE {usual} END)"


def _part(unit: str, value: str) -> str:
    if unit in ("DOW", "DAYOFWEEK"):
        return f"(extract(dow FROM {value}) + 1)"
    fraction = {"MILLISECOND": 1000, "MICROSECOND": 1_000_000}.get(unit)
    return f"extract({unit} FROM {value})" + (f" % {fraction}" if fraction else "")


def rounded(function: str, unit: str, value: str, kind: str | None) -> str:
    """`floor` or `ceil` of a time to a unit; `kind` is the type of the value if it is known."""
    if kind == "TIME":
        if unit not in _OF_TIME:
            raise InvalidRequest(f"a TIME is rounded to {', '.join(_OF_TIME)}, not {unit}")
        return (
            f"CAST({rounded(function, unit, f'(DATE {chr(39)}1970-01-01{chr(39)} + {value})', None)} AS TIME)"
        )
    at = value if kind == "TIMESTAMP_LTZ" else micros(value)
    floor = f"date_trunc('{unit}', {at})"
    if unit == "WEEK":
        floor = f"(date_trunc('week', {at} + INTERVAL 1 DAY) - INTERVAL 1 DAY)"
    found = floor
    if function == "ceil":
        found = f"(CASE WHEN {floor} = {at} THEN {at} ELSE {floor} + INTERVAL 1 {unit} END)"
    return f"CAST({found} AS DATE)" if kind == "DATE" and unit in _LONG else found


def overlaps(left: tuple[str, str], right: tuple[str, str], *, spans: tuple[bool, bool]) -> str:
    """Whether two periods overlap, ends included; a span is the length of a period, not its end."""
    ends = []
    for (start, end), span in zip((left, right), spans, strict=True):
        end = f"({start} + {end})" if span else end
        ends.append((f"least({start}, {end})", f"greatest({start}, {end})"))
    (a, b), (c, d) = ends
    return f"({b} >= {c} AND {d} >= {a})"
