"""Which calls mean in Spark what they mean here: by name, and by arguments where only some of them do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from tablestore.sql.query.function import LONGEST
from tablestore.sql.query.spark_functions import SPARK_FUNCTIONS
from tablestore.sql.query.time_patterns import strftime_pattern
from tablestore.sql.query.type_inference import type_of

_ALWAYS = frozenset(
    "UPPER UCASE LOWER LCASE CHAR_LENGTH CHARACTER_LENGTH OCTET_LENGTH BTRIM REVERSE "
    "STARTSWITH ENDSWITH CONTAINS YEAR QUARTER MONTH DAY DAYOFMONTH DAYOFYEAR DAYOFWEEK "
    "HOUR MINUTE LAST_DAY DATE_ADD DATE_SUB ABS SIGN SQRT POWER EXP MOD PI "
    "COALESCE IFNULL NVL NULLIF IF ARRAY_DISTINCT MAP_KEYS MAP_VALUES COUNT SUM AVG MIN "
    "MAX STDDEV STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP CORR COVAR_POP COVAR_SAMP ROW_NUMBER "
    "RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE BOOL_AND BOOL_OR "
    "EVERY MAX_BY MIN_BY NVL2 SIN COS TAN ATAN ATAN2 SINH COSH TANH DEGREES RADIANS POW".split()
)


def is_same(name: str, arguments: Sequence[Any]) -> bool:
    """Whether the call means the same."""
    test = _SOMETIMES.get(name)
    return name in _ALWAYS or name in SPARK_FUNCTIONS if test is None else test(arguments)


def _count(node: Any) -> bool:
    """A whole number from 0 on that is written out."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()


def _text(node: Any) -> bool:
    """A text that is written out, and not empty."""
    return isinstance(node, exp.Literal) and node.is_string and bool(node.name)


def _part(arguments: Sequence[Any]) -> bool:
    """A place from the end, and a length below 0, mean something else there."""
    return all(_count(a) for a in arguments[1:])


def _padded(arguments: Sequence[Any]) -> bool:
    short = len(arguments) == 3 and _count(arguments[1]) and int(arguments[1].name) <= LONGEST
    return short and _text(arguments[2])


def _formatted(arguments: Sequence[Any]) -> bool:
    """Of a time by a pattern that is written out; a text that is no time means something else there."""
    if len(arguments) != 2 or not _text(arguments[1]) or strftime_pattern(arguments[1].name) is None:
        return False
    t = type_of(arguments[0])
    return t is not None and t.root in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


_SOMETIMES: Mapping[str, Callable[[Sequence[Any]], bool]] = MappingProxyType(
    {
        "SUBSTRING": _part,
        "SUBSTR": _part,
        "LPAD": _padded,
        "RPAD": _padded,
        "LTRIM": lambda a: len(a) == 1,
        "RTRIM": lambda a: len(a) == 1,
        "REPLACE": lambda a: len(a) == 3 and _text(a[1]),
        "INSTR": lambda a: len(a) == 2,
        "ROUND": lambda a: len(a) == 1 or _count(a[1].this if isinstance(a[1], exp.Neg) else a[1]),
        "TYPEOF": lambda a: len(a) == 1 and type_of(a[0]) is not None,
        "DATE_FORMAT": _formatted,
    }
)
