"""CAST as SQL of DuckDB with the results of Flink SQL: whole numbers wrap, decimals that do not fit are NULL,
texts are Java's; what cannot be cast is refused before anything runs."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import MAX_LENGTH, DataType
from tablestore.sql.query.arithmetic import Arithmetic
from tablestore.sql.query.column_casts import ColumnCast
from tablestore.sql.query.function import require_length
from tablestore.sql.query.numeric_types import BITS, FLOATS, NUMBERS, WHOLE
from tablestore.sql.query.user_functions import Calls, duck_type

_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_TARGETS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*NUMBERS, "BOOLEAN"), (*NUMBERS, *_TEXTS, "BOOLEAN")),
    "DATE": ("DATE", *_TIMES, *_TEXTS),
    "TIME": ("TIME", *_TIMES, *_TEXTS),
    **dict.fromkeys(_TIMES, ("DATE", "TIME", *_TIMES, *_TEXTS)),
    **dict.fromkeys(_BYTES, (*_BYTES, *_TEXTS)),
    **{root: (root, *_TEXTS) for root in ("ARRAY", "MAP", "ROW")},
    **dict.fromkeys(_TEXTS, (*NUMBERS, *_TEXTS, *_BYTES, *_TIMES, "BOOLEAN", "DATE", "TIME")),
}
"""What a type can be cast to, as in Flink SQL."""


def require_castable(source: DataType, target: DataType) -> None:
    """Raise InvalidRequest for a CAST that there is not."""
    if source.root in _TARGETS and target.root not in _TARGETS[source.root]:
        hint = ""
        if source.root in NUMBERS and target.root in _TIMES:
            hint = "; TO_TIMESTAMP_LTZ(n, 3) and TO_TIMESTAMP(FROM_UNIXTIME(n)) make times of numbers"
        raise InvalidRequest(f"{source.as_nullable()} cannot be cast to {target.as_nullable()}{hint}")


def cast_sql(
    node: exp.Cast, value: str, source: DataType, target: DataType, numbers: Arithmetic, calls: Calls
) -> str | None:
    """The CAST of a value of a known type; None where DuckDB's own is right."""
    require_castable(source, target)
    safe = isinstance(node, exp.TryCast)
    if target.root in ("CHAR", "BINARY"):
        require_length(target.precision, f"CAST to {target.root}")
    if _plain(node.this, target):
        return f"CAST({value} AS {duck_type(target)})"
    if source.root == "TIMESTAMP_LTZ" != target.root:  # its time in the zone of the session
        value, source = f"CAST({value} AS TIMESTAMP)", replace(source, root="TIMESTAMP")
        if target.root == "TIMESTAMP" and target.precision >= source.precision:
            return value
    if source.root == target.root == "TIMESTAMP_LTZ" and target.precision < source.precision:
        return calls(ColumnCast(source.as_nullable(), target.as_nullable(), safe), value)
    if target.root == "TIMESTAMP_LTZ":
        local = replace(target, root="TIMESTAMP")
        found = (
            None if source.root == "TIMESTAMP_LTZ" else cast_sql(node, value, source, local, numbers, calls)
        )
        return _instant(found or value)
    a, b = source.root, target.root
    if a in WHOLE and b in WHOLE:
        if BITS[b] >= BITS[a]:
            return f"CAST({value} AS {duck_type(target)})"
        return numbers.wrapped(f"CAST({value} AS {'HUGEINT' if a == 'BIGINT' else 'BIGINT'})", target)
    if b == "DECIMAL" and a in (*WHOLE, "DECIMAL"):
        kept = source.nullable or safe  # NULL where it does not fit, if it may be
        return f"{'TRY_' if kept else ''}CAST({value} AS {duck_type(target)})"
    if a == "DECIMAL" and b in WHOLE:
        return numbers.wrapped(f"CAST(trunc({value}) AS HUGEINT)", target)
    if a in NUMBERS and b == "BOOLEAN":
        return f"({value} <> 0)"
    if (a == "BOOLEAN" and b in NUMBERS) or (a in (*WHOLE, "DECIMAL") and b in FLOATS) or (a, b) == FLOATS:
        return f"CAST({value} AS {duck_type(target)})"
    if b in _TEXTS and (text := _text(value, source)) is not None:
        return fitted(text, target)
    if a in _TEXTS and b == "VARBINARY" and target.precision == MAX_LENGTH:
        return f"encode({value})"
    if a == "DATE" or (a, b) == ("TIMESTAMP", "DATE"):
        return f"CAST({value} AS {duck_type(target)})"
    if a == "TIMESTAMP" and b == "TIME":
        return f"CAST(date_trunc('second', {value}) AS TIME)"
    if a == b == "TIMESTAMP" and target.precision >= source.precision:
        return f"CAST({value} AS {duck_type(target)})"
    if source.as_nullable() == target.as_nullable():
        return value
    return calls(ColumnCast(source.as_nullable(), target.as_nullable(), safe), value)


def _instant(local: str) -> str:
    """A TIMESTAMP in the zone of the session. Where a clock is set back it is the earlier of two, as in Java;
    DuckDB takes the later one."""
    later = f"CAST({local} AS TIMESTAMP WITH TIME ZONE)"
    earlier = f"({later} - INTERVAL 1 HOUR)"
    same = f"CAST({earlier} AS TIMESTAMP) = CAST({local} AS TIMESTAMP)"
    return f"(CASE WHEN {same} THEN {earlier} ELSE {later} END)"


def fitted(text: str, target: DataType) -> str:
    """A text as CHAR(n) or VARCHAR(n): cut, and CHAR filled with blanks."""
    if target.root == "CHAR":
        return f"rpad({text}, {target.precision}, ' ')"
    return text if target.precision == MAX_LENGTH else f"left({text}, {target.precision})"


def _text(value: str, source: DataType) -> str | None:
    if source.root == "BOOLEAN":
        return f"upper(CAST({value} AS VARCHAR))"
    if source.root in (*WHOLE, "DECIMAL", "DATE"):
        return f"CAST({value} AS VARCHAR)"
    if source.root == "TIME":
        return f"left(CAST({value} AS VARCHAR), 8)"
    return value if source.is_string else None


def _plain(value: Any, target: DataType) -> bool:
    """Whether a literal is written in full, so that every engine reads it alike."""
    if not isinstance(value, exp.Literal) or not value.is_string:
        return False
    text = value.name
    try:
        if target.root == "DATE" and len(text) == 10:
            return bool(dt.date.fromisoformat(text))
        if target.root == "TIMESTAMP" and len(text) in (19, 23, 26) and text[10] == " ":
            whole = {19: 0, 23: 3, 26: 6}[len(text)] <= target.precision
            return whole and dt.datetime.fromisoformat(text).tzinfo is None
        return target.root == "TIME" and len(text) == 8 and dt.time.fromisoformat(text).tzinfo is None
    except ValueError:
        return False
