"""The types of functions' results, by the types of their arguments, as Flink SQL has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tablestore.format.types.data_type import MAX_LENGTH, DataField, DataType, nested
from tablestore.sql.query.numeric_types import NUMBERS, arithmetic, common, rounded_type

Types = Sequence[DataType]

_FIXED = {
    "VARCHAR": "CONCAT CONCAT_WS UPPER UCASE LOWER LCASE SUBSTRING SUBSTR LEFT RIGHT LPAD RPAD LTRIM RTRIM "
    "BTRIM TRIM REPLACE REVERSE REPEAT TRANSLATE CHR SPLIT_INDEX REGEXP_EXTRACT REGEXP_REPLACE MD5 SHA1 "
    "SHA224 SHA256 SHA384 SHA512 SHA2 HEX BIN TO_BASE64 FROM_BASE64 JSON_VALUE GET_JSON_OBJECT JSON_QUERY "
    "DATE_FORMAT FROM_UNIXTIME UUID TYPEOF INITCAP ELT LISTAGG STRING_AGG ARRAY_JOIN URL_ENCODE URL_DECODE "
    "OVERLAY",
    "INT": "CHAR_LENGTH CHARACTER_LENGTH LENGTH OCTET_LENGTH LOCATE INSTR ASCII CARDINALITY SIZE "
    "ARRAY_POSITION LEVENSHTEIN TIMESTAMPDIFF RAND_INTEGER REGEXP_COUNT REGEXP_INSTR POSITION",
    "BIGINT": "YEAR QUARTER MONTH WEEK WEEKOFYEAR DAY DAYOFMONTH DAYOFYEAR DAYOFWEEK HOUR MINUTE SECOND "
    "UNIX_TIMESTAMP GROUPING GROUPING_ID APPROX_COUNT_DISTINCT",
    "DOUBLE": "SQRT POWER POW EXP LN LOG LOG10 LOG2 PI E ATAN2 SIN COS TAN COT ASIN ACOS ATAN SINH COSH TANH "
    "DEGREES RADIANS RAND PERCENTILE",
    "BOOLEAN": "STARTSWITH ENDSWITH CONTAINS REGEXP REGEXP_LIKE JSON_EXISTS IS_JSON ARRAY_CONTAINS BOOL_AND "
    "BOOL_OR EVERY",
    "DATE": "TO_DATE LAST_DAY DATE_ADD DATE_SUB CURRENT_DATE",
}
_ROOT_OF = {name: root for root, names in _FIXED.items() for name in names.split()}
_NEVER_NULL = frozenset("PI E UUID RAND CURRENT_DATE CURRENT_TIMESTAMP LOCALTIMESTAMP LOCALTIME NOW".split())
_MAYBE_NULL = frozenset(
    "SPLIT_INDEX REGEXP_EXTRACT JSON_VALUE GET_JSON_OBJECT JSON_QUERY TO_DATE ELT LISTAGG PERCENTILE".split()
)


def function_type(name: str, types: Sequence[DataType | None], arguments: Sequence[Any]) -> DataType | None:
    """The type of a call; None where it, or an argument that it depends on, is not known."""
    nullable = any(t is None or t.nullable for t in types) or name in _MAYBE_NULL
    nullable = nullable and name not in _NEVER_NULL
    root = _ROOT_OF.get(name)
    if root is not None:
        return DataType(root, nullable, MAX_LENGTH if root == "VARCHAR" else 0)
    present = [t for t in types if t is not None]
    rule = _RULES.get(name)
    if rule is None or len(present) < len(types):
        return None
    return rule(present, arguments) if present or name in _NEVER_NULL else None


def _rounded(types: Types, arguments: Sequence[Any]) -> DataType | None:
    places: int | None = 0
    if len(arguments) > 1:
        written, sign = arguments[1], 1
        if isinstance(written, exp.Neg):
            written, sign = written.this, -1
        literal = isinstance(written, exp.Literal) and written.name.isdecimal()
        places = sign * int(written.name) if literal else None
    return rounded_type(types[0], places)


def _first_not_null(types: Types, _: Any) -> DataType | None:
    first = common(types)
    sure = any(not t.nullable for t in types)
    return first.not_null() if first is not None and sure else first


def _row(types: Types, _: Any) -> DataType | None:
    fields = tuple(DataField(i, f"EXPR${i}", t) for i, t in enumerate(types))
    return DataType("ROW", False, children=fields)


def _children(place: int) -> Callable[[Types, Any], DataType | None]:
    """An ARRAY of the keys (0) or the values (1) of a MAP."""

    def rule(types: Types, _: Any) -> DataType | None:
        t = types[0]
        return nested("ARRAY", t.children[place].type, nullable=t.nullable) if t.root == "MAP" else None

    return rule


_RULES: dict[str, Callable[[Types, Any], DataType | None]] = {
    **dict.fromkeys(("ABS", "SIGN"), lambda t, _: t[0] if t[0].root in NUMBERS else None),
    **dict.fromkeys(("ROUND", "TRUNCATE"), _rounded),
    "MOD": lambda t, _: arithmetic("%", *t) if len(t) == 2 else None,
    **dict.fromkeys(("GREATEST", "LEAST", "ARRAY_CONCAT"), lambda t, _: common(t)),
    **dict.fromkeys(("IFNULL", "NVL"), _first_not_null),
    **dict.fromkeys(("IF", "NVL2"), lambda t, _: common(t[1:])),
    **dict.fromkeys(("NULLIF", "MODE", "ANY_VALUE", "MAX_BY", "MIN_BY"), lambda t, _: t[0].as_nullable()),
    **dict.fromkeys(("COLLECT_LIST", "ARRAY_AGG"), lambda t, _: nested("ARRAY", t[0])),
    "COLLECT": lambda t, _: nested("MULTISET", t[0]),
    **dict.fromkeys(
        ("ELEMENT", "ARRAY_MAX", "ARRAY_MIN"),
        lambda t, _: t[0].children[0].type.as_nullable() if t[0].root == "ARRAY" else None,
    ),
    **dict.fromkeys(("ARRAY_DISTINCT", "ARRAY_SORT", "ARRAY_REVERSE", "ARRAY_SLICE"), lambda t, _: t[0]),
    "MAP_KEYS": _children(0),
    "MAP_VALUES": _children(1),
    "ROW": _row,
    **dict.fromkeys(("LOCALTIME", "CURRENT_TIME"), lambda *_: DataType("TIME", False)),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW"), lambda *_: DataType("TIMESTAMP_LTZ", False, 3)),
    "LOCALTIMESTAMP": lambda *_: DataType("TIMESTAMP", False, 3),
}
