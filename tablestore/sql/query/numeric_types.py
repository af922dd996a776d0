"""Types of arithmetic as Flink SQL has them: what a sum, product, quotient, average is of which operands.

Whole numbers stay whole and wrap. Decimals follow the SQL standard: where a result would need more than 38
digits, digits behind the point go first, down to six. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from tablestore.format.types.data_type import MAX_LENGTH, DataType

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
