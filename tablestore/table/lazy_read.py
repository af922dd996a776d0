"""Lazy reads: the steps by which one is chosen, and the forms in which it gives its result. What scans of
tables share with those of what has an Arrow schema alone: system tables, connectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from tablestore import doors
from tablestore.core.arguments import checked_but
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.extras import required
from tablestore.format.predicates import predicate
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import chosen
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, from_arrow

if TYPE_CHECKING:
    from tablestore.doors import Figure


def column_names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Column names as a tuple; raises InvalidRequest for one text in place of a list, and for values that are
    no names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidRequest(f"columns are a list of names, not {columns!r}")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidRequest(f"columns are a list of names, and {name!r} is none")
    return names


def selected(columns: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The column names that `select` was given: one by one, or as one list."""
    listed = len(columns) == 1 and not isinstance(columns[0], str)
    return column_names(columns[0] if listed else columns)


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows of batches, at most so many (None: all), without empty batches; no batch is asked for
    beyond the limit."""
    left = limit
    for batch in batches if left != 0 else ():
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch
        if left == 0:
            return


@checked_but("columns")
class LazyRead(ABC):
    """A read that begins with a `to_…`. Subclasses give the columns and the batches."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The result, batch by batch."""

    def to_reader(self) -> pa.RecordBatchReader:
        """The result as an Arrow stream, read batch by batch: duckdb, polars and others take it.

        >>> orders.scan().to_reader().read_all().num_rows
        3
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The whole result in memory, as an Arrow table.

        >>> orders.scan(["order_id"]).to_arrow()["order_id"].to_pylist()
        [1, 2, 3]
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """The whole result as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`. Raises
        Unsupported where pandas is not installed.

        >>> float(orders.scan().to_pandas()["amount"].sum())
        40.0
        """
        required("pandas", by=f"{type(self).__name__}.to_pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """The whole result as a polars DataFrame. Raises Unsupported where polars is not installed.

        >>> orders.scan().to_polars().shape
        (3, 4)
        """
        polars = required("polars", by=f"{type(self).__name__}.to_polars")
        return polars.from_arrow(self.to_arrow())

    def plot(
        self,
        *,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        kind: str | None = None,
        how: str | None = None,
        backend: str | None = None,
    ) -> Figure:
        """A chart of the result: a Plotly figure, which zooms, names values on hover and saves itself.

        `x` and `y` name columns; `x` alone shows how its values are distributed. Without them `x` is the
        first column of times, text or numbers, `y` at most four of numbers. `kind` is "bars", "lines",
        "histogram" or "points": without it text gives bars, numbers and times lines. `how` says what becomes
        of rows with the same `x`: "sum" (bars), "mean" (lines), "min", "max", "count". `backend` is another
        plotting backend of pandas; None: that of `pandas.options.plotting.backend`, if it was chosen.

        Rows pass once, batch by batch, and memory does not grow with them; what is summed, joined or sampled
        stands below the title. Raises NotFound naming the nearest for an unknown column, InvalidRequest for
        columns that do not fit, MissingPackage where the package widgets cannot be loaded.

        >>> orders.scan().plot(x="status", y="amount").layout.title.text
        'sum of amount by status'
        """
        by = f"{type(self).__name__}.plot"
        return doors.plot(self, by=by, x=x, y=y, kind=kind, how=how, backend=backend)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


@checked_but("columns")
@dataclass(frozen=True)
class LazyScan(LazyRead):
    """A lazy read of some columns of some rows; each step gives a new one.

    `columns` None means all; `limit` rows at most (any rows: a table has no order).
    """

    columns: tuple[str, ...] | None = field(default=None, kw_only=True)
    where: Predicate | None = field(default=None, kw_only=True)
    limit: int | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def known_columns(self) -> TableSchema:
        """The columns that there are."""

    def select(self, *columns: str) -> Self:
        """The scan with only these `columns`, in this order, as arguments or one list. Raises NotFound when
        it is read.

        >>> orders.scan().select("amount", "order_id").schema.names
        ['amount', 'order_id']
        """
        return replace(self, columns=selected(columns))

    def filter(self, where: Predicate | str) -> Self:
        """The scan with one more condition: `where` is a predicate or its SQL text. Raises InvalidRequest for
        anything else.

        >>> orders.scan(where="customer = 'ann'").filter(col("amount") > 6).count()
        1
        """
        also = chosen(where, self.known_columns)
        return replace(self, where=also if self.where is None else self.where & also)

    def head(self, rows: int) -> Self:
        """The scan with at most so many `rows`, any of them: a table has no order. Raises InvalidRequest for
        anything but a count.

        >>> orders.scan().head(2).count()
        2
        """
        rows = unwrapped(rows)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise InvalidRequest(f"head({rows!r}): use a whole number of rows, at least 0")
        return replace(self, limit=min(rows, 1 << 62))


@dataclass(frozen=True)
class SchemaScan(LazyScan):
    """A lazy scan over a known Arrow schema. `small`: all its rows fit in memory."""

    small: ClassVar[bool] = False

    @property
    @abstractmethod
    def full_schema(self) -> pa.Schema:
        """The columns that there are."""

    @property
    def known_columns(self) -> TableSchema:
        """The same, as a table has them."""
        return table_schema(self.full_schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of the result; raises NotFound naming the nearest for an unknown column."""
        full = self.full_schema
        for name in self.columns or ():
            if name not in full.names:
                raise NotFound.among("column", name, full.names)
        return full if self.columns is None else pa.schema([full.field(n) for n in self.columns])


def bind(where: Predicate, schema: pa.Schema) -> Predicate:
    """The condition bound to the columns of an Arrow schema."""
    return predicate.bind(where, table_schema(schema))


def table_schema(schema: pa.Schema) -> TableSchema:
    """A table schema with the columns of an Arrow schema."""
    fields = tuple(DataField(i, f.name, from_arrow(f.type)) for i, f in enumerate(schema))
    return TableSchema(0, fields, len(fields))
