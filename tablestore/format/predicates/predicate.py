"""Predicates: conditions on rows, built by `col("x") > 1` and bound to a schema.

A predicate selects the rows for which it is true in SQL's logic: a comparison with NULL is never true,
negated or not. Negation is pushed into the leaves when it is built, so no node is a NOT and "null means not
selected" holds at every depth. DOUBLE and FLOAT are ordered as in Paimon and Spark: NaN equals itself and is
greater than every number. `bind` gives the literals their columns' types; `evaluate` needs bound predicates.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.predicates import like, literal
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Predicate:
    """A condition on rows. Combine with `&`, `|`, `~`; immutable and picklable."""

    __slots__ = ()

    @property
    def columns(self) -> frozenset[str]:
        """Names of its columns."""
        raise NotImplementedError

    def negated(self) -> Predicate:
        """The predicate that is true where this one is false (and not where this one is unknown)."""
        raise NotImplementedError

    def __and__(self, other: Predicate) -> Predicate:
        return all_of(self, _predicate(other))

    def __or__(self, other: Predicate) -> Predicate:
        return any_of(self, _predicate(other))

    def __invert__(self) -> Predicate:
        return self.negated()

    def __bool__(self) -> bool:
        raise InvalidRequest(
            f"the truth of ({self!r}) is only known row by row: combine conditions with & | ~ and "
            "parentheses instead of 'and', 'or', 'not' and chained comparisons"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Always(Predicate):
    """True of every row, or of none."""

    value: bool

    @property
    def columns(self) -> frozenset[str]:
        return frozenset()

    def negated(self) -> Predicate:
        return Always(not self.value)

    def __repr__(self) -> str:
        return "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True, repr=False)
class Leaf(Predicate):
    """A condition on one column."""

    column: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.column,))

    def _name(self) -> str:
        return self.column if self.column.isidentifier() else "`" + self.column.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Leaf):
    """A condition on a column and literals. `type` is None until `bind`, after which literals are raw
    values."""

    type: DataType | None = field(default=None, kw_only=True)

    @property
    def bound_type(self) -> DataType:
        """The column type of a bound comparison."""
        assert self.type is not None, "bind the predicate first"
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Compare(Comparison):
    """`column op value`; op is one of = != < <= > >=."""

    op: str
    value: Any

    def negated(self) -> Predicate:
        return replace(self, op=_NEGATED[self.op])

    def __repr__(self) -> str:
        return f"{self._name()} {'<>' if self.op == '!=' else self.op} {literal.text(self.value, self.type)}"


@dataclass(frozen=True, slots=True, repr=False)
class In(Comparison):
    """The value is one of `values` (or, with `inverse`, none of them). `bind` sorts them."""

    values: tuple[Any, ...]
    inverse: bool = False

    def negated(self) -> Predicate:
        return replace(self, inverse=not self.inverse)

    def __repr__(self) -> str:
        shown = ", ".join(literal.text(v, self.type) for v in self.values[:20])
        more = f", … {len(self.values) - 20:,} more" if len(self.values) > 20 else ""
        return f"{self._name()} {'NOT IN' if self.inverse else 'IN'} ({shown}{more})"


@dataclass(frozen=True, slots=True, repr=False)
class IsNull(Leaf):
    """The column is NULL (or, with `inverse`, is not)."""

    inverse: bool = False

    def negated(self) -> Predicate:
        return replace(self, inverse=not self.inverse)

    def __repr__(self) -> str:
        return f"{self._name()} IS {'NOT ' if self.inverse else ''}NULL"


@dataclass(frozen=True, slots=True, repr=False)
class StartsWith(Comparison):
    """The string (or bytes) begins with `prefix` (or, with `inverse`, does not)."""

    prefix: Any
    inverse: bool = False

    def negated(self) -> Predicate:
        return replace(self, inverse=not self.inverse)

    def __repr__(self) -> str:
        shown = literal.text(self.prefix, self.type)
        return f"{'NOT ' if self.inverse else ''}starts_with({self._name()}, {shown})"


@dataclass(frozen=True, slots=True, repr=False)
class Like(Comparison):
    """The string matches `pattern`, in the canonical form of `like` (or, with `inverse`, does not)."""

    pattern: str
    inverse: bool = False

    @property
    def begins(self) -> StartsWith:
        """The prefix of every match, for tests against bounds."""
        return StartsWith(self.column, like.split(self.pattern)[0], type=self.type)

    def negated(self) -> Predicate:
        return replace(self, inverse=not self.inverse)

    def __repr__(self) -> str:
        return f"{self._name()} {'NOT ' if self.inverse else ''}LIKE {like.in_sql(self.pattern)}"


@dataclass(frozen=True, slots=True, repr=False)
class Compound(Predicate):
    """Two or more terms joined by AND or OR; made by `all_of` and `any_of`."""

    terms: tuple[Predicate, ...]
    word: ClassVar[str] = ""

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(t.columns for t in self.terms))

    def __repr__(self) -> str:
        inner = (f"({t!r})" if isinstance(t, Compound) else repr(t) for t in self.terms)
        return f" {self.word} ".join(inner)


class And(Compound):
    """All terms are true."""

    __slots__ = ()
    word = "AND"

    def negated(self) -> Predicate:
        return any_of(*(t.negated() for t in self.terms))


class Or(Compound):
    """At least one term is true."""

    __slots__ = ()
    word = "OR"

    def negated(self) -> Predicate:
        return all_of(*(t.negated() for t in self.terms))


class Column:
    """A column to compare with literals: `col("x") >= 3`, `col("s").startswith("a")`.

    As == builds a predicate, a Column cannot be a dictionary key.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, value: Any) -> Predicate:  # type: ignore[override]  # gives a condition, not a bool
        return Compare(self.name, "=", _literal(value))

    def __ne__(self, value: Any) -> Predicate:  # type: ignore[override]  # likewise
        return Compare(self.name, "!=", _literal(value))

    def __lt__(self, value: Any) -> Predicate:
        return Compare(self.name, "<", _literal(value))

    def __le__(self, value: Any) -> Predicate:
        return Compare(self.name, "<=", _literal(value))

    def __gt__(self, value: Any) -> Predicate:
        return Compare(self.name, ">", _literal(value))

    def __ge__(self, value: Any) -> Predicate:
        return Compare(self.name, ">=", _literal(value))

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Equal to one of the values. NULL is not a value: add `| col(…).is_null()` for it."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise InvalidRequest(f"is_in() takes a list of values, not {values!r}")
        return In(self.name, tuple(_literal(v) for v in values))

    def is_null(self) -> Predicate:
        """NULL."""
        return IsNull(self.name)

    def is_not_null(self) -> Predicate:
        """Any value but NULL."""
        return IsNull(self.name, inverse=True)

    def startswith(self, prefix: str | bytes) -> Predicate:
        """A string that begins with `prefix`."""
        return StartsWith(self.name, _literal(prefix))

    def like(self, pattern: str, *, escape: str = like.ESCAPE) -> Predicate:
        """A string that matches: % is any text, also empty, _ one character, `escape` makes these and itself
        literal."""
        if not isinstance(pattern, str) or not isinstance(escape, str):
            raise InvalidRequest(f"like() takes a text such as 'a%', not {pattern!r}")
        try:
            canonical = like.canonical(pattern, escape)
        except ValueError as e:
            raise InvalidRequest(str(e)) from None
        begin, rest = like.split(canonical)
        if not rest:
            return self == begin
        if set(rest) == {"%"}:
            return self.startswith(begin)
        return Like(self.name, canonical)

    def between(self, low: Any, high: Any) -> Predicate:
        """`low <= column <= high`."""
        return (self >= low) & (self <= high)

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def __and__(self, other: Any) -> Predicate:
        raise InvalidRequest(
            f"{self!r} and {other!r} are no conditions: write each one in parentheses, "
            "(col('a') > 1) & (col('b') < 2)"
        )

    __rand__ = __or__ = __ror__ = __and__

    def __bool__(self) -> bool:
        raise InvalidRequest(
            f"col({self.name!r}) alone is no condition; compare it: col({self.name!r}) == True"
        )


def col(name: str) -> Column:
    """The column of that `name`, to build a predicate from.

    >>> orders.scan(where=(col("amount") > 6) & col("status").is_in(["paid", "sent"])).count()
    1
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"col() takes a column name, not {name!r}")
    return Column(name)


def _literal(value: Any) -> Any:
    if value is None:
        raise InvalidRequest("a comparison with None is never true; use .is_null() or .is_not_null()")
    if isinstance(value, (Column, Predicate)):
        raise InvalidRequest(f"{value!r} is no literal: a condition compares one column with values")
    return literal.plain(value)


def _predicate(value: Any) -> Predicate:
    if not isinstance(value, Predicate):
        raise InvalidRequest(
            f"{value!r} is no condition; write each one in parentheses: (col('a') > 1) & (col('b') < 2)"
        )
    return value


def all_of(*terms: Predicate) -> Predicate:
    """The flat conjunction of all terms; TRUE without terms."""
    flat = dict.fromkeys(t for term in terms for t in conjuncts(term) if t != Always(True))
    if Always(False) in flat:
        return Always(False)
    return And(tuple(flat)) if len(flat) > 1 else next(iter(flat), Always(True))


def columns_are(values: Mapping[str, Any]) -> Predicate:
    """Rows with these values in these columns; None stands for NULL."""
    return all_of(*(col(name).is_null() if v is None else col(name) == v for name, v in values.items()))


def any_of(*terms: Predicate) -> Predicate:
    """The flat disjunction of all terms; FALSE without terms."""
    parts = (t.terms if isinstance(t, Or) else (t,) for t in terms)
    flat = dict.fromkeys(t for part in parts for t in part if t != Always(False))
    if Always(True) in flat:
        return Always(True)
    return Or(tuple(flat)) if len(flat) > 1 else next(iter(flat), Always(False))


def conjuncts(p: Predicate) -> tuple[Predicate, ...]:
    """The terms of a predicate that is an AND, else the predicate itself."""
    return p.terms if isinstance(p, And) else (p,)


def transform(p: Predicate, leaf: Callable[[Leaf], Predicate]) -> Predicate:
    """The same tree with each leaf replaced; new constants are simplified."""
    if isinstance(p, Compound):
        join = all_of if isinstance(p, And) else any_of
        return join(*(transform(t, leaf) for t in p.terms))
    return leaf(p) if isinstance(p, Leaf) else p


def bind(p: Predicate, schema: TableSchema) -> Predicate:
    """The predicate with literals as raw values of their columns' types. Bound ones pass unchanged.

    Raises NotFound for a name that is not a column, SchemaMismatch for a literal that cannot be compared with
    its column. A number between two values of the type becomes the same comparison with the value below it.
    """
    return transform(_predicate(p), lambda leaf: _bound(leaf, schema))


def _bound(leaf: Leaf, schema: TableSchema) -> Predicate:
    field = schema.shown.by_name.get(leaf.column)
    if field is None:
        raise NotFound.among("column", leaf.column, schema.shown.names)
    if not isinstance(leaf, Comparison) or leaf.type is not None:
        return leaf
    kind = field.type.as_nullable()
    try:
        if isinstance(leaf, Compare):
            return _bound_compare(leaf, kind)
        if isinstance(leaf, In):
            raw_values = {r.value for r in (literal.raw(v, kind) for v in leaf.values) if r.exact}
            return replace(leaf, values=tuple(sorted(raw_values, key=_nan_last)), type=kind)
        if isinstance(leaf, Like):
            if not kind.is_string:
                raise ValueError("LIKE needs a string column")
            return replace(leaf, type=kind)
        assert isinstance(leaf, StartsWith)
        if not (kind.is_string or kind.is_binary):
            raise ValueError("startswith() needs a string column")
        return replace(leaf, prefix=literal.raw(leaf.prefix, kind).value, type=kind)
    except ValueError as e:
        raise SchemaMismatch(f"column {leaf.column!r} is {field.type}: {e}") from None


def _bound_compare(leaf: Compare, kind: DataType) -> Predicate:
    raw = literal.raw(leaf.value, kind)
    if raw.exact:
        return replace(leaf, value=raw.value, type=kind)
    if leaf.op == "=":
        return In(leaf.column, (), type=kind)
    if leaf.op == "!=":
        return IsNull(leaf.column, inverse=True)
    below = leaf.op in ("<", "<=")
    if raw.value is None:  # beyond the type's range, on the side that `above` says
        return IsNull(leaf.column, inverse=True) if raw.above == below else In(leaf.column, (), type=kind)
    return replace(leaf, op="<=" if below else ">", value=raw.value, type=kind)


def _nan_last(value: Any) -> Any:
    return (value != value, value)
