"""Times as SQL of Spark: Flink's casts of them, to as many digits of a second as a type has.

Spark has microseconds in every TIME, TIMESTAMP_NTZ and TIMESTAMP. A TIMESTAMP is cut by its text: all else
that Spark has for that goes through an instant in the zone of the session, where an hour a year is missing.
"""

from __future__ import annotations

from tablestore.format.types.data_type import DataType

_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MILLIS, _MICROS = 3, 6  # digits of a second


def spark_time_cast(value: str, source: DataType, target: DataType) -> str | None:
    """The CAST to TIME, TIMESTAMP or TIMESTAMP_LTZ; None for a source that has no such cast."""
    a, b = source.root, target.root
    digits = source.precision if a in _TIMES else _MICROS if source.is_string else 0
    fewer = min(digits, _MICROS) > target.precision
    if b == "TIME":
        if a in _TIMES:  # whole seconds
            return f"CAST(right({_whole_seconds(value)}, 8) AS TIME(6))"
        return f"CAST({value} AS TIME(6))" if a == "TIME" or source.is_string else None
    if b == "TIMESTAMP":
        at = f"CAST({value} AS TIMESTAMP_NTZ)"
        return _cut(at, target.precision, of_text=source.is_string) if fewer else at
    if a == "TIMESTAMP_LTZ":
        return _cut_instant(value, target.precision) if fewer else value
    local = value if a == "DATE" else f"CAST({value} AS TIMESTAMP_NTZ)"
    local = _cut(local, target.precision, of_text=source.is_string) if fewer else local
    return f"CAST({local} AS TIMESTAMP)"


def seconds_text(value: str, digits: int) -> str:
    """A TIMESTAMP_NTZ or TIMESTAMP as text with so many digits of a second."""
    whole = _whole_seconds(value)
    return f"concat({whole}, '.', {_fraction(value, digits)})" if digits else whole


def _whole_seconds(value: str) -> str:
    return f"substring_index(CAST({value} AS STRING), '.', 1)"


def _fraction(value: str, digits: int) -> str:
    """That many digits behind the whole seconds; those that the text leaves out are zeros."""
    return f"rpad(regexp_extract(CAST({value} AS STRING), '[.]([0-9]+)', 1), {digits}, '0')"


def _cut(at: str, digits: int, *, of_text: bool) -> str:
    """A TIMESTAMP_NTZ with fewer digits. Flink cuts to milliseconds, and these towards 1970 unless they are
    those of a text."""
    found = f"CAST({seconds_text(at, digits)} AS TIMESTAMP_NTZ)"
    if digits >= _MILLIS or of_text:
        return found
    millis = f"CAST({seconds_text(at, _MILLIS)} AS TIMESTAMP_NTZ)"
    step = f"INTERVAL '{10.0**-digits:.{digits}f}' SECOND"
    return f"IF({found} < {_EPOCH} AND {found} <> {millis}, {found} + {step}, {found})"


def _cut_instant(at: str, digits: int) -> str:
    """The same of a TIMESTAMP."""
    if digits >= _MILLIS:
        micros = f"unix_micros({at})"
        return f"timestamp_micros({micros} - pmod({micros}, {10 ** (_MICROS - digits)}L))"
    step = f"{10 ** (_MILLIS - digits)}L"
    return f"timestamp_millis((unix_millis({at}) DIV {step}) * {step})"
