"""Filling: the columns of a query → the columns of the table that an INSERT fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import Compare, bind, col
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField
from tablestore.sql.stored_values import assigned


@dataclass(frozen=True, slots=True)
class Filling:
    """Each column of the query fills the column of the same place in `fields`; `constants` are the values of
    further columns. `zone` is that of times without one that become instants. Picklable."""

    fields: tuple[DataField, ...]
    constants: tuple[tuple[DataField, pa.Scalar], ...] = ()
    zone: str = "UTC"

    @staticmethod
    def of(
        names: Sequence[str],
        schema: TableSchema,
        *,
        partition: Mapping[str, Any],
        columns: Sequence[str] | None = None,
        by_name: bool = False,
        zone: str = "UTC",
    ) -> Filling:
        """That of a query with columns of these names. `partition` has a value for each column of
        PARTITION (…), None where the query gives it, behind its other columns; `columns` None means all.

        Raises NotFound for a column that there is not, InvalidRequest where one gets two values or the query
        has too many columns or too few.
        """
        given = [name for name, value in partition.items() if value is not None]
        dynamic = [name for name in partition if name not in given]
        rest = [name for name in schema.names if name not in partition]
        wanted = list(columns) if columns is not None else [*rest, *dynamic]
        for name in wanted:
            if name not in schema.by_name:
                raise NotFound.among("column", name, schema.names)
            if name in given or wanted.count(name) > 1:
                raise InvalidRequest(f"column {name!r} gets two values")
        if by_name:
            for name in names:
                if name not in wanted:
                    raise NotFound.among("column", name, wanted)
            wanted = list(names)
        elif len(names) != len(wanted):
            listed = ", ".join(wanted)
            raise InvalidRequest(
                f"the query gives {len(names)} columns, and {len(wanted)} are to be filled: {listed}"
            )
        constants = tuple((schema.by_name[n], fitted_value(n, partition[n], schema)) for n in given)
        return Filling(tuple(schema.by_name[name] for name in wanted), constants, zone)

    def filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the names and types of the columns. Raises SchemaMismatch for values that do not
        fit."""
        arrays = [assigned(a, f, self.zone) for a, f in zip(batch.columns, self.fields, strict=True)]
        arrays += [assigned(pa.repeat(v, batch.num_rows), f) for f, v in self.constants]
        names = [f.name for f in self.fields] + [f.name for f, _ in self.constants]
        return pa.RecordBatch.from_arrays(arrays, names=names)


def fitted_value(name: str, value: Any, schema: TableSchema) -> pa.Scalar:
    """A literal as a column has it; text of a date is one. Raises SchemaMismatch."""
    column = col(name)
    test = bind(column == value, schema)
    assert isinstance(test, Compare)
    return literal.array([test.value], schema.by_name[name].type)[0]
