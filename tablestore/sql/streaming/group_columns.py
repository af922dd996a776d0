"""What is kept of each group: counts and sums that rows are added to and subtracted from, and extremes.

Every aggregate follows from these columns, so that a retraction is a subtraction. Whole numbers and decimals
add up exactly, in 38 digits. Doubles add up with what rounding lost beside them (`rest`); a batch's own sums
are rounded, so after retractions the last digits may differ from those of a sum of what is left; a sum is 0
again when its last value goes. NaN and infinities are counted, so they can be taken back. What MIN, MAX and
DISTINCT need under retractions, how often each value is there, is in tables of their own (`counted`).

By how much changes change their groups are partial aggregates, retractions subtracted. DuckDB computes the
row-wise step and the aggregates in one query over the changes of a piece, within its
memory limit, however many groups there are. The parts are small Arrow streams, each of one bucket of the
state and of one of its tables, so that they may go to where the state of that bucket is worked on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.flow.source import Changes
from tablestore.format import hashing
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, from_arrow
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.numeric_types import WHOLE
from tablestore.sql.query.own_functions import register
from tablestore.sql.query.typed_sql import SHORT_DIGITS, Arithmetic, Operand
from tablestore.sql.streaming.lookups import Snapshots
from tablestore.sql.streaming.row_step import KIND, RowStep, RowSteps, with_change
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


GROUPS_TABLE = "groups"
_TABLE = b"table"  # of a part's schema: the table that it changes
_PART_ROWS = 65_536
_ROWS, _STEPPED = "__rows_of_piece", "__stepped"
Part = tuple[int, bytes]


@dataclass(frozen=True)
class Partials:
    """How changes of the views of `step` change groups; `buckets` of the state. Picklable."""

    step: RowStep
    columns: GroupColumns
    buckets: int

    def of(
        self, view: str, changes: Changes, *, memory: str = "", at: Snapshots | None = None
    ) -> Iterator[Part]:
        """(bucket, part) of the changes of one view; without changes there are none. `at` are the snapshots
        of tables that are looked up."""
        with ExitStack() as opened:
            connection = opened.enter_context(DuckConnection(memory=memory))
            steps = RowSteps(self.step, memory=memory, at=at) if self.step.lookups else None
            if steps is not None:
                opened.enter_context(steps)
            yield from self.on(connection, view, changes, steps)

    def on(
        self, connection: DuckConnection, view: str, changes: Changes, steps: RowSteps | None
    ) -> Iterator[Part]:
        """The same on a connection, and with steps at work, that serve for several pieces; only a step that
        looks rows up needs `steps`."""
        if self.step.lookups:  # batch by batch: what is looked up depends on it
            assert steps is not None, "a step with lookups"
            step = RowStep(
                f"SELECT * FROM {quoted(_STEPPED)}", {_STEPPED: self.step.schema}, self.step.schema
            )
            stepped = (steps.rows(view, batch, kinds) for batch, kinds in changes)
            yield from replace(self, step=step)._on(connection, _STEPPED, stepped)
        else:
            yield from self._on(connection, view, changes)

    def _on(self, connection: DuckConnection, view: str, changes: Changes) -> Iterator[Part]:
        duck, columns = connection.duck, self.columns
        for name, schema in self.step.views.items():
            if name != view:
                duck.register(name, with_change(schema).empty_table())
        wanted = with_change(self.step.views[view])
        batches = connection.watched(_with_change(changes, wanted))
        duck.register(view, pa.RecordBatchReader.from_batches(wanted, batches))
        register(duck, self.step.sql)
        minus = f', "{KIND}" IN (1, 3) AS {MINUS}' if columns.retracts else ""
        rows = f"SELECT *{minus} FROM ({self.step.sql})"
        try:
            if not columns.counted:
                yield from self._parts(connection, GROUPS_TABLE, self._groups(f"({rows})"), columns.schema)
                return
            create = f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS {rows}"
            connection.run(lambda: duck.execute(create).fetchall())
            yield from self._parts(connection, GROUPS_TABLE, self._groups(_ROWS), columns.schema)
            for counted in columns.counted:
                schema = columns.counted_schema(counted)
                yield from self._parts(connection, counted.table, self._values(counted), schema)
            connection.run(lambda: duck.execute(f"DROP TABLE {_ROWS}").fetchall())
        finally:
            duck.unregister(view)

    def _groups(self, rows: str) -> str:
        """How rows change each group; rows that come and rows that are taken back apart, which costs one key
        more and is half the work of two conditional sums."""
        columns = self.columns
        changes = []
        for c in columns.columns:
            if not c.distinct:
                change = c.change(quoted(c.argument or ""), minus=None)
                change = f"CASE WHEN {MINUS} THEN -{change} ELSE {change} END" if columns.retracts else change
                changes.append(f"{change} AS {quoted(c.name)}")
        keys = [quoted(n) for n in columns.keys.names]
        by = [*keys, *([MINUS] if columns.retracts else [])]
        grouped = f"GROUP BY {', '.join(by)}" if by else "HAVING count(*) > 0"
        return f"SELECT {', '.join([*keys, *changes])} FROM {rows} {grouped}"

    def _values(self, counted: Counted) -> str:
        columns, argument = self.columns, quoted(counted.argument)
        keys = [*(quoted(n) for n in columns.keys.names), argument]
        sign = f"CASE WHEN {MINUS} THEN -1 ELSE 1 END" if columns.retracts else "1"
        shown = [*keys[:-1], f"{argument} AS {quoted(VALUE)}"]
        return (
            f"SELECT {', '.join(shown)}, CAST(sum({sign}) AS BIGINT) AS {quoted(TIMES)} FROM {_ROWS} "
            f"WHERE {argument} IS NOT NULL GROUP BY {', '.join(keys)} HAVING sum({sign}) <> 0"
        )

    def _parts(self, connection: DuckConnection, table: str, sql: str, schema: pa.Schema) -> Iterator[Part]:
        reader = connection.run(lambda: connection.duck.sql(sql).to_arrow_reader(_PART_ROWS))
        described = schema.with_metadata({_TABLE: table})
        while (batch := connection.run(lambda: next(reader, None))) is not None:
            if batch.num_rows:
                rows = self._keyed(batch, described)
                for bucket, own in self._by_bucket(rows):
                    out = pa.BufferOutputStream()
                    with pa.ipc.new_stream(out, own.schema) as writer:
                        writer.write_batch(own)
                    yield bucket, out.getvalue().to_pybytes()

    def _keyed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The rows with keys that are not NULL, and the column that says which are; without the columns that
        follow from counted values."""
        nulls = np.zeros(batch.num_rows, np.int64)
        arrays, names = [], []
        for place, f in enumerate(self.columns.keys):
            column = batch.column(f.name).cast(f.type)
            if column.null_count:
                nulls |= np.asarray(pc.is_null(column)).astype(np.int64) << place
                column = pc.fill_null(column, _filler(f.type))
            arrays.append(_one_zero(column))
            names.append(f.name)
        for f in schema:
            if f.name in batch.schema.names and f.name not in names:
                arrays.append(_one_zero(batch.column(f.name).cast(f.type)))
                names.append(f.name)
        own = pa.schema([pa.field(NULLS, pa.int64()), *(schema.field(n) for n in names)], schema.metadata)
        return pa.RecordBatch.from_arrays([pa.array(nulls), *arrays], schema=own)

    def _by_bucket(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self.buckets == 1:
            yield 0, rows
            return
        names = self.columns.key_names
        types = [from_arrow(rows.schema.field(n).type) for n in names]
        buckets = hashing.bucket_of([rows.column(n) for n in names], types, self.buckets)
        order = np.argsort(buckets, kind="stable")
        cuts = np.flatnonzero(np.diff(buckets[order])) + 1
        for places in np.split(order, cuts):
            yield int(buckets[places[0]]), rows.take(pa.array(places))


def decoded(part: bytes) -> tuple[str, pa.Table]:
    """The table of the state that a part changes, and the changes."""
    table = pa.ipc.open_stream(part).read_all()
    return table.schema.metadata[_TABLE].decode(), table.replace_schema_metadata()


def _with_change(changes: Changes, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch, kinds in changes:
        names = wanted.names[:-2]
        positions = pa.array(np.zeros(batch.num_rows, np.int64))
        columns = [*(batch.column(n) for n in names), kinds.cast(pa.int8()), positions]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _filler(t: pa.DataType) -> pa.Scalar:
    """A value that stands where a key is NULL."""
    if pa.types.is_string(t):
        return pa.scalar("", t)
    if pa.types.is_binary(t):
        return pa.scalar(b"", t)
    return pa.scalar(0, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)


def _one_zero(column: pa.Array) -> pa.Array:
    """The same values; 0.0 for −0.0, which is the same group but another key of a table."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(column, pa.scalar(0.0, column.type))
