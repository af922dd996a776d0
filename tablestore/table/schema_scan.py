"""SchemaScan: a lazy scan of what has an Arrow schema but no table's files: a system table, a connector."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, from_arrow
from tablestore.table.lazy_read import LazyScan


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
