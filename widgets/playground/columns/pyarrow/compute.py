"""Functions of columns."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from pyarrow.table_ import Array, Scalar, Table, array, named
from pyarrow.types_ import DataType, infer

_BOOL = DataType("bool")
_INT = DataType("int64")


class ArrayOptions:
    """Options are given by keyword here."""


def _side(value: Any) -> Any:
    if isinstance(value, Array):
        return value.values
    return value.as_py() if isinstance(value, Scalar) else value


def _pairs(a: Any, b: Any) -> tuple[list[Any], list[Any]] | None:
    x, y = _side(a), _side(b)
    many = len(a) if isinstance(a, Array) else len(b) if isinstance(b, Array) else None
    if many is None:
        return None
    return (x if isinstance(a, Array) else [x] * many), (y if isinstance(b, Array) else [y] * many)


def _two(function: Callable[[Any, Any], Any], type: DataType | None) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, Expression):
            return Expression(lambda t: apply(a(t), b(t) if isinstance(b, Expression) else b))
        pairs = _pairs(a, b)
        if pairs is None:
            x, y = _side(a), _side(b)
            return Scalar(None if x is None or y is None else function(x, y), type or infer([x]))
        values = [None if x is None or y is None else function(x, y) for x, y in zip(*pairs, strict=True)]
        return Array(values, type or next((s.type for s in (a, b) if isinstance(s, Array)), infer(values)))

    return apply


equal, not_equal, less, less_equal, greater, greater_equal = (
    _two(getattr(operator, name), _BOOL) for name in ("eq", "ne", "lt", "le", "gt", "ge")
)
add, subtract, multiply = (_two(f, None) for f in (operator.add, operator.sub, operator.mul))
and_, or_ = _two(lambda x, y: x and y, _BOOL), _two(lambda x, y: x or y, _BOOL)
and_kleene, or_kleene = and_, or_


def _one(function: Callable[[Any], Any], type: DataType | None = None) -> Callable[..., Any]:
    def apply(a: Any) -> Any:
        if isinstance(a, Scalar):
            return Scalar(None if a.as_py() is None else function(a.as_py()), type or a.type)
        return Array([None if v is None else function(v) for v in a.values], type or a.type)

    return apply


invert, negate, abs = _one(operator.not_, _BOOL), _one(operator.neg), _one(abs)
list_value_length = _one(len, DataType("int32"))
utf8_lower, utf8_upper = _one(str.lower), _one(str.upper)


def is_null(a: Any) -> Any:
    """Which values are NULL."""
    return a.is_null()


def is_valid(a: Any) -> Any:
    """Which values are there."""
    return a.is_valid() if isinstance(a, Array) else Scalar(a.is_valid, _BOOL)


def fill_null(a: Any, value: Any) -> Any:
    """Another value for NULL."""
    return (
        a.fill_null(value)
        if isinstance(a, Array)
        else Scalar(_side(value) if _side(a) is None else _side(a), a.type)
    )


def coalesce(*parts: Any) -> Array:
    """The first value that is there."""
    first = parts[0]
    values = list(first.values)
    for other in parts[1:]:
        given = other.values if isinstance(other, Array) else [_side(other)] * len(values)
        values = [w if v is None else v for v, w in zip(values, given, strict=True)]
    return Array(values, first.type)


def cast(a: Any, type: Any = None, safe: bool = True) -> Any:
    """The values as another type."""
    return a.cast(type)


def if_else(condition: Any, yes: Any, no: Any) -> Array:
    """One value or the other."""
    many = len(condition)
    x = yes.values if isinstance(yes, Array) else [_side(yes)] * many
    y = no.values if isinstance(no, Array) else [_side(no)] * many
    values = [None if c is None else a if c else b for c, a, b in zip(condition.values, x, y, strict=True)]
    types = [s.type for s in (yes, no) if isinstance(s, Array | Scalar)]
    return Array(values, types[0] if types else infer(values))


def is_in(a: Any, value_set: Any = None, skip_nulls: bool = False) -> Any:
    """Which values are among others."""
    if isinstance(a, Expression):
        return Expression(lambda t: is_in(a(t), value_set))
    some = set(value_set.values)
    return Array([v in some for v in a.values], _BOOL)


def index_in(a: Any, value_set: Any = None) -> Array:
    """The place of each value among others."""
    places = {v: i for i, v in reversed(list(enumerate(value_set.values)))}
    return Array([places.get(v) for v in a.values], DataType("int32"))


def index(a: Any, value: Any) -> Scalar:
    """The first place of a value, −1 if there is none."""
    wanted = _side(value)
    return Scalar(a.values.index(wanted) if wanted in a.values else -1, _INT)


def take(a: Any, places: Any, boundscheck: bool = True) -> Any:
    """The values at places."""
    return a.take(places)


def unique(a: Array) -> Array:
    """Each value once."""
    return a.unique()


def value_counts(a: Array) -> Array:
    """How often each value comes."""
    return a.value_counts()


def _there(a: Any) -> list[Any]:
    return [v for v in a.values if v is not None]


def _whole(function: Callable[[list[Any]], Any], type: DataType | None = None) -> Callable[..., Scalar]:
    def apply(a: Any, **_: Any) -> Scalar:
        some = _there(a)
        return Scalar(function(some) if some else None, type or a.type)

    return apply


sum, max, min = _whole(sum), _whole(max), _whole(min)
mean = _whole(lambda v: __import__("builtins").sum(v) / len(v), DataType("double"))
any, all = _whole(any, _BOOL), _whole(all, _BOOL)


def min_max(a: Any) -> Scalar:
    """The ends."""
    return Scalar({"min": min(a).as_py(), "max": max(a).as_py()}, DataType("struct"))


def count_distinct(a: Any, mode: str = "only_valid") -> Scalar:
    """How many values there are."""
    return Scalar(len(set(_there(a))), _INT)


def struct_field(a: Array, key: Any) -> Array:
    """A field of records."""
    return a.field(key)


def list_flatten(a: Array) -> Array:
    """The values of all lists."""
    return Array([v for each in _there(a) for v in each], a.type.value_type)


def list_parent_indices(a: Array) -> Array:
    """The list that each value is of."""
    return Array([i for i, each in enumerate(a.values) for _ in each or ()], _INT)


def binary_join_element_wise(
    *parts: Any, null_handling: str = "emit_null", null_replacement: str = ""
) -> Array:
    """Texts joined by the last."""
    many = next(len(p) for p in parts if isinstance(p, Array))
    *texts, by = (p.values if isinstance(p, Array) else [_side(p)] * many for p in parts)
    joined: list[Any] = []
    for separator, *row in zip(by, *texts, strict=True):
        if null_handling == "skip":
            row = [v for v in row if v is not None]
        if null_handling == "replace":
            row = [null_replacement if v is None else v for v in row]
        joined.append(None if None in row else separator.join(row))
    return Array(joined, DataType("string"))


def extract_regex(a: Array, pattern: str) -> Array:
    """Named groups of a pattern as records, NULL where it does not match."""
    compiled = re.compile(pattern)
    names = list(compiled.groupindex)
    from pyarrow.types_ import Field

    kind = DataType("struct", *(Field(n, DataType("string")) for n in names))
    matches = (None if v is None else compiled.search(v) for v in a.values)
    return Array([None if m is None else m.groupdict() for m in matches], kind)


def match_substring(a: Array, pattern: str, ignore_case: bool = False) -> Array:
    """Which texts hold a part."""
    return _one(lambda v: pattern in v, _BOOL)(a)


def match_substring_regex(a: Array, pattern: str, ignore_case: bool = False) -> Array:
    """Which texts hold a pattern."""
    compiled = re.compile(pattern)
    return _one(lambda v: compiled.search(v) is not None, _BOOL)(a)


def starts_with(a: Array, pattern: str) -> Array:
    """Which texts begin so."""
    return _one(lambda v: v.startswith(pattern), _BOOL)(a)


def replace_substring_regex(a: Array, pattern: str, replacement: str) -> Array:
    """Texts with a pattern replaced."""
    compiled = re.compile(pattern)
    return _one(lambda v: compiled.sub(replacement, v))(a)


def sort_indices(a: Any, sort_keys: Any = (), null_placement: str = "at_end") -> Array:
    """The places in order, NULL last."""
    if isinstance(a, Array):
        a, sort_keys = (
            Table([a], __import__("pyarrow").schema([("v", a.type)])),
            [("v", sort_keys or "ascending")],
        )
    indices = list(range(a.num_rows))
    for name, way in reversed(list(sort_keys)):
        column = a.column(name).values
        down = way == "descending"
        indices.sort(key=lambda i, c=column: (0,) if c[i] is None else (1, c[i]), reverse=down)
        indices.sort(key=lambda i, c=column: c[i] is None)
    return Array(indices, DataType("uint64"))


class Expression:
    """A condition on the columns of a table, tried when a table is filtered."""

    def __init__(self, function: Callable[[Table], Any]) -> None:
        self._function = function

    def __call__(self, table: Table) -> Any:
        return self._function(table)

    def __eq__(self, other: object) -> Any:
        return equal(self, other)

    def __ne__(self, other: object) -> Any:
        return not_equal(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __ge__(self, other: Any) -> Any:
        return greater_equal(self, other)

    def __le__(self, other: Any) -> Any:
        return less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return greater(self, other)

    def __lt__(self, other: Any) -> Any:
        return less(self, other)

    def __and__(self, other: Any) -> Any:
        return and_(self, other)

    def __or__(self, other: Any) -> Any:
        return or_(self, other)

    def __invert__(self) -> Expression:
        return Expression(lambda t: invert(self(t)))

    def isin(self, values: Any) -> Expression:
        """Whether values are among others."""
        return Expression(lambda t: is_in(self(t), array(values)))

    def is_valid(self) -> Expression:
        """Whether values are there."""
        return Expression(lambda t: is_valid(self(t)))

    def is_null(self) -> Expression:
        """Whether values are NULL."""
        return Expression(lambda t: is_null(self(t)))


def field(name: str) -> Expression:
    """A column of the table that is filtered."""
    return Expression(lambda t: t.column(name))


def scalar(value: Any) -> Any:
    """A value in a condition."""
    return value


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"a page without a kernel has no function {name} of Arrow: open the table in JupyterLab"
    )
