"""Types of results as Flink SQL has them: of sums, products, quotients and averages of which operands, and of
functions by their arguments.

Whole numbers stay whole and wrap. Decimals follow the SQL standard: where a result would need more than 38
digits, digits behind the point go first, down to six. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from tablestore.format.types.data_type import MAX_LENGTH, DataField, DataType, nested

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*WHOLE, "DECIMAL", *FLOATS)
NULL = DataType("NULL")  # of a NULL that nobody gave a type
MOST_DIGITS = 38
_LEAST_SCALE = 6  # of what is cut to fit 38 digits
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
STRING = DataType("VARCHAR", precision=MAX_LENGTH)


def decimal(precision: int, scale: int, *, nullable: bool = True) -> DataType:
    """DECIMAL(precision, scale), cut to 38 digits as Flink does."""
    if precision <= MOST_DIGITS:
        return DataType("DECIMAL", nullable, precision, scale)
    whole = precision - scale
    return DataType("DECIMAL", nullable, MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE)))


def digits(t: DataType) -> tuple[int, int]:
    """Precision and scale of an exact number, as that of a DECIMAL."""
    return (t.precision, t.scale) if t.root == "DECIMAL" else (_DIGITS[t.root], 0)


def arithmetic(operator: str, a: DataType, b: DataType) -> DataType | None:
    """The type of `a operator b` (+ - * / %) of two numbers; None where one is none."""
    if a.root not in NUMBERS or b.root not in NUMBERS:
        return None
    nullable = a.nullable or b.nullable
    if operator == "%" and digits_behind(a) == digits_behind(b) == 0:
        return DataType(b.root, nullable, b.precision, b.scale)
    return _of_one_kind(a, b, nullable) or _decimal(operator, digits(a), digits(b), nullable)


def _of_one_kind(a: DataType, b: DataType, nullable: bool) -> DataType | None:
    """The type of two whole numbers, or of two of which one is not exact; None for others."""
    if a.root in WHOLE and b.root in WHOLE:
        return DataType(max(a.root, b.root, key=WHOLE.index), nullable)
    if a.root in FLOATS or b.root in FLOATS:
        single = {a.root, b.root} <= {"FLOAT", *WHOLE}
        return DataType("FLOAT" if single else "DOUBLE", nullable)
    return None


def digits_behind(t: DataType) -> int:
    """The scale of an exact number; -1 of one that is not exact."""
    return -1 if t.root in FLOATS else digits(t)[1]


def _decimal(operator: str, a: tuple[int, int], b: tuple[int, int], nullable: bool) -> DataType:
    (p1, s1), (p2, s2) = a, b
    scale = max(s1, s2)
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2, nullable=nullable)
    if operator == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale, nullable=nullable)
    if operator == "%":
        return decimal(min(p1 - s1, p2 - s2) + scale, scale, nullable=nullable)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale, nullable=nullable)


def sum_type(t: DataType) -> DataType | None:
    """The type of SUM: that of its argument, but for decimals as wide as can be."""
    if t.root == "DECIMAL":
        return DataType("DECIMAL", True, MOST_DIGITS, t.scale)
    return t.as_nullable() if t.root in NUMBERS else None


def average_type(t: DataType) -> DataType | None:
    """The type of AVG, and of a variance: that of its argument; of a decimal six digits or more are behind
    the point."""
    if t.root == "DECIMAL":
        return DataType("DECIMAL", True, MOST_DIGITS, max(_LEAST_SCALE, t.scale))
    return t.as_nullable() if t.root in NUMBERS else None


def rounded_type(t: DataType, places: int | None) -> DataType | None:
    """The type of ROUND and TRUNCATE to so many places; None places are not known."""
    if t.root != "DECIMAL":
        return t if t.root in NUMBERS else None
    if places is None or places >= t.scale:
        return t
    kept = max(places, 0)
    return DataType("DECIMAL", t.nullable, 1 + t.precision - t.scale + kept, kept)


def common(types: Iterable[DataType]) -> DataType | None:
    """The type that holds values of all of these, as of CASE, COALESCE, ARRAY and UNION have; None where
    there is none."""
    widest: DataType | None = None
    for t in types:
        widest = t if widest is None else _wider(widest, t)
        if widest is None:
            return None
    return widest


def _wider(a: DataType, b: DataType) -> DataType | None:
    nullable = a.nullable or b.nullable
    if a.root == "NULL" or b.root == "NULL":
        return (b if a.root == "NULL" else a).as_nullable()
    if a.as_nullable() == b.as_nullable():
        return a if a.nullable else b
    if a.root in NUMBERS and b.root in NUMBERS:
        simple = _of_one_kind(a, b, nullable)
        if simple is not None:
            return simple
        (p1, s1), (p2, s2) = digits(a), digits(b)
        scale = max(s1, s2)
        return decimal(max(p1 - s1, p2 - s2) + scale, scale, nullable=nullable)
    if a.is_string and b.is_string:
        return DataType("VARCHAR", nullable, max(a.precision, b.precision))
    if a.is_binary and b.is_binary:
        return DataType("VARBINARY", nullable, max(a.precision, b.precision))
    times = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
    if a.root in times and b.root in times:
        root = max(a.root, b.root, key=times.index)
        return DataType(root, nullable, max(a.precision, b.precision))
    if a.root == b.root and len(a.children) == len(b.children) and a.children:
        inner = [_wider(x.type, y.type) for x, y in zip(a.children, b.children, strict=True)]
        if any(t is None for t in inner):
            return None
        wider = a.with_children(*[t for t in inner if t is not None])
        return wider.as_nullable() if nullable else wider
    return None


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
