"""What is kept of each group: counts and sums that rows are added to and subtracted from, and extremes.

Every aggregate follows from these columns, so that a retraction is a subtraction. Whole numbers and decimals
add up exactly, in 38 digits. Doubles add up with what rounding lost beside them (`rest`); a batch's own sums
are rounded, so after retractions the last digits may differ from those of a sum of what is left; a sum is 0
again when its last value goes. NaN and infinities are counted, so they can be taken back. What MIN, MAX and
DISTINCT need under retractions, how often each value is there, is in tables of their own (`counted`).
Pure: SQL texts for DuckDB, and schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, from_arrow
from tablestore.sql.query.aggregates import SHORT_DIGITS
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import WHOLE
from tablestore.sql.streaming.row_step import RowStep
from tablestore.sql.text import quoted

KEY, ARGUMENT, RESULT = "__key_{}", "__argument_{}", "__value_{}"

NULLS, ROWS = "__nulls", "__rows"  # which keys are NULL, one bit each; how many rows the group has
VALUE, TIMES = "__value", "__times"  # of a counted value
MINUS = "__minus"  # of a row: whether it is taken back
_MOST_KEYS = 63  # bits of NULLS
_WIDE = pa.decimal128(38, 0)
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: `function` is COUNT, SUM, AVG, MIN or MAX of the input's column `argument` (None: of
    rows); `type` is that of its value."""

    name: str
    function: str
    argument: str | None
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Grouping:
    """`keys` and the arguments of `aggregates` are columns of the rows that come; `after` makes of changes of
    groups (keys and values, the view `GROUPS`) changes of the result. Without keys there is one group."""

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    after: RowStep


GROUPS = "__groups"


def listed(names: Sequence[str], prefix: str = "") -> str:
    """Names as SQL lists them."""
    return ", ".join(prefix + quoted(n) for n in names)


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column of the groups. `measure` says of the argument's values: count, sum, nan, inf, -inf, min, max;
    of sums also rest. `distinct`: of the values that are there, each once; changes come from `counted`."""

    name: str
    type: pa.DataType
    measure: str
    argument: str | None = None
    distinct: bool = False

    @property
    def extreme(self) -> bool:
        """Whether it is a minimum or maximum."""
        return self.measure in ("min", "max")

    def change(self, value: str, *, minus: str | None) -> str:
        """By how much rows change it: an aggregate over `value`; `minus` is true of rows that are taken back.
        Extremes are those of rows that come."""
        if self.extreme:
            aggregate = f"{self.measure}({value})"
            return aggregate if minus is None else f"{aggregate} FILTER (WHERE NOT {minus})"
        if self.measure == "rest":
            return "0::DOUBLE"
        counted = {
            "rows": "count(*)",
            "count": f"count({value})",
            "sum": f"sum({value})",
            "total": f"fsum(CASE WHEN isfinite({value}) THEN CAST({value} AS DOUBLE) END)",
            "nan": f"count(CASE WHEN isnan({value}) THEN 1 END)",
            "inf": f"count(CASE WHEN isinf({value}) AND {value} > 0 THEN 1 END)",
            "-inf": f"count(CASE WHEN isinf({value}) AND {value} < 0 THEN 1 END)",
        }[self.measure]
        kind = sql_type(self.type)
        if minus is None:
            return f"CAST(coalesce({counted}, 0) AS {kind})"
        plus, less = (f"coalesce({counted} FILTER (WHERE {when}), 0)" for when in (f"NOT {minus}", minus))
        return f"CAST({plus} AS {kind}) - CAST({less} AS {kind})"

    def merged(self) -> str:
        """The change that several changes make: an aggregate over this column."""
        name = quoted(self.name)
        if self.extreme:
            return f"{self.measure}({name})"
        added = f"fsum({name})" if self.measure == "total" else f"sum({name})"
        return f"CAST({added} AS {sql_type(self.type)})"


@dataclass(frozen=True, slots=True)
class Counted:
    """An argument whose values are counted, in the table `table`."""

    table: str
    argument: str
    type: pa.DataType


@dataclass(frozen=True)
class GroupColumns:
    """`keys` and `arguments` are columns of the rows that come; `retracts`: rows may be taken back."""

    keys: pa.Schema
    arguments: pa.Schema
    aggregates: tuple[Aggregate, ...]
    retracts: bool

    @classmethod
    def of(cls, rows: pa.Schema, grouping: Grouping, *, retracts: bool) -> GroupColumns:
        """What is kept of the groups of rows with this schema. Raises Unsupported for keys and values that
        cannot be kept."""
        if len(grouping.keys) > _MOST_KEYS:
            raise Unsupported(f"GROUP BY of more than {_MOST_KEYS} columns in a stream")
        keys = pa.schema([pa.field(n, _kept(rows.field(n).type, "GROUP BY")) for n in grouping.keys])
        names = dict.fromkeys(a.argument for a in grouping.aggregates if a.argument is not None)
        columns = cls(keys, pa.schema([rows.field(n) for n in names]), grouping.aggregates, retracts)
        for required in (columns.schema, columns.counted):  # both refuse what cannot be kept
            assert required is not None
        return columns

    @cached_property
    def columns(self) -> tuple[GroupColumn, ...]:
        """The columns beside the keys; the number of rows is the first."""
        columns = {ROWS: GroupColumn(ROWS, pa.int64(), "rows")}
        for aggregate in self.aggregates:
            columns |= {c.name: c for c in self._of(aggregate)}
        return tuple(columns.values())

    @cached_property
    def counted(self) -> tuple[Counted, ...]:
        """The arguments whose values are counted."""
        wanted = {c.argument: None for c in self.columns if c.distinct and c.argument is not None}
        types = {n: _kept(self.arguments.field(n).type, "MIN, MAX and DISTINCT") for n in wanted}
        return tuple(Counted(f"values_{i}", n, t) for i, (n, t) in enumerate(types.items()))

    @cached_property
    def key_names(self) -> list[str]:
        """The primary key of the groups."""
        return [NULLS, *self.keys.names]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the groups."""
        own = [pa.field(c.name, c.type) for c in self.columns]
        return pa.schema([pa.field(NULLS, pa.int64()), *self.keys, *own])

    def counted_schema(self, counted: Counted) -> pa.Schema:
        """The columns of the counted values of an argument."""
        own = [pa.field(VALUE, counted.type), pa.field(TIMES, pa.int64())]
        return pa.schema([pa.field(NULLS, pa.int64()), *self.keys, *own])

    def of_counted(self, counted: Counted) -> list[GroupColumn]:
        """The columns that follow from the counted values of an argument."""
        return [c for c in self.columns if c.distinct and c.argument == counted.argument]

    def _of(self, aggregate: Aggregate) -> Iterator[GroupColumn]:
        argument, function = aggregate.argument, aggregate.function
        if argument is None:
            return
        type_ = self.arguments.field(argument).type
        if function in ("MIN", "MAX"):
            measure = function.lower()
            counted = self.retracts
            kept = _kept(type_, function) if counted else type_
            yield GroupColumn(f"{measure}{argument}", kept, measure, argument, counted)
            return
        distinct = aggregate.distinct
        prefix = "distinct_" if distinct else ""

        def column(name: str, measure: str, t: pa.DataType) -> GroupColumn:
            return GroupColumn(f"{prefix}{name}{argument}", t, measure, argument, distinct)

        yield column("count", "count", pa.int64())
        if function == "COUNT":
            return
        if pa.types.is_floating(type_):
            yield column("sum", "total", pa.float64())
            yield column("rest", "rest", pa.float64())
            for name in ("nan", "inf", "-inf"):
                yield column(name, name, pa.int64())
        elif pa.types.is_decimal(type_):
            yield column("sum", "sum", pa.decimal128(38, type_.scale))
        elif pa.types.is_integer(type_) or pa.types.is_boolean(type_):
            yield column("sum", "sum", _WIDE)
        else:
            raise Unsupported(f"{function} of {sql_type(type_)} in a stream")

    def value(self, aggregate: Aggregate, numbers: Arithmetic) -> str:
        """The value of an aggregate, from these columns: as the engine computes it of rows."""
        argument, function = aggregate.argument, aggregate.function
        if argument is None:
            return quoted(ROWS)
        if function in ("MIN", "MAX"):
            return quoted(f"{function.lower()}{argument}")
        prefix = "distinct_" if aggregate.distinct else ""

        def name(part: str) -> str:
            return quoted(f"{prefix}{part}{argument}")

        if function == "COUNT":
            return name("count")
        argument_type, result = self.arguments.field(argument).type, from_arrow(aggregate.type)
        total = name("sum")
        if pa.types.is_floating(argument_type):
            nan = f"{name('nan')} > 0 OR ({name('inf')} > 0 AND {name('-inf')} > 0)"
            total = (
                f"(CASE WHEN {nan} THEN 'NaN'::DOUBLE WHEN {name('inf')} > 0 THEN 'Infinity'::DOUBLE "
                f"WHEN {name('-inf')} > 0 THEN '-Infinity'::DOUBLE ELSE {total} + {name('rest')} END)"
            )
            mean = f"({total} / {name('count')})" if function == "AVG" else total
            mean = f"CAST({mean} AS {numbers.type_name(result)})"
        else:
            whole = not pa.types.is_decimal(argument_type)
            total = f"CAST({total} AS HUGEINT)" if whole else total
            if function == "AVG":
                of = DECIMAL(38, 0 if whole else argument_type.scale)
                short = not whole and argument_type.precision <= SHORT_DIGITS
                count = Operand(name("count"), BIGINT)
                mean = numbers.mean(Operand(total, of), count, result, short=short)
            else:
                mean = numbers.wrapped(total, result) if result.root in WHOLE else total
        return f"CASE WHEN {name('count')} > 0 THEN {mean} END"


def sql_type(t: pa.DataType) -> str:
    """A type as DuckDB writes it, of those that groups have and of others as Arrow shows them."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    return {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}.get(t, str(t).upper())


def _kept(t: pa.DataType, what: str) -> pa.DataType:
    """The type of a key of tables that holds values of the type. Raises Unsupported for one that is none."""
    if pa.types.is_nested(t) or pa.types.is_null(t) or pa.types.is_interval(t) or pa.types.is_duration(t):
        name = "ROW" if pa.types.is_struct(t) else "ARRAY" if pa.types.is_list(t) else str(t).split("<")[0]
        raise Unsupported(f"{what} of {name.upper()} in a stream", "such values are no keys of the table")
    return _SIGNED.get(t, t)
