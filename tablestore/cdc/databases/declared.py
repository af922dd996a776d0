"""Columns as somebody declares them, made of those of a table in the source.

    integers → integers, DECIMAL, FLOAT, DOUBLE · TINYINT → BOOLEAN · DECIMAL → DECIMAL, integers, floats
    · FLOAT, DOUBLE → FLOAT, DOUBLE · text → CHAR, VARCHAR, STRING · bytes → BINARY, VARBINARY, BYTES
    · TIME → TIME, STRING · DATETIME → TIMESTAMP · TIMESTAMP → TIMESTAMP_LTZ, or TIMESTAMP in a zone
    · whatever has a text → STRING

A type may be narrower than the source's: a value that does not fit is refused, with its column. Text keeps
its length whatever CHAR or VARCHAR says. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.computed import METADATA_TYPES, metadata_values
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.address import Address
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch, TablestoreError
from tablestore.format.types import cast_text, casts
from tablestore.format.types.arrow_types import to_arrow
from tablestore.format.types.casts import checked
from tablestore.format.types.data_type import DataField, DataType

_BYTES = ("BINARY", "VARBINARY")
_WITH_TEXT = (*casts.NUMBERS, *casts.TEXTS, "BOOLEAN", "DATE", *casts.TIMES)


class ColumnInSource(Protocol):
    """A column of a source: its type here, and how the source spells it."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> DataType: ...

    @property
    def spelled(self) -> str: ...


class TableInSource(Protocol):
    """A table of a source."""

    @property
    def source(self) -> SourceName: ...

    @property
    def columns(self) -> Sequence[ColumnInSource]: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def primary_key(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class DeclaredColumns:
    """Columns with their types. A TIMESTAMP of the source that is declared without a zone is the local time
    of `zone`. `metadata` are pairs of a column and which of `METADATA` it has."""

    fields: tuple[DataField, ...]
    zone: str = "UTC"
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def of_table(self) -> list[str]:
        """The names of those that are columns of the table."""
        others = dict(self.metadata)
        return [f.name for f in self.fields if f.name not in others]

    def require(self, table: TableInSource) -> None:
        """Raise NotFound or SchemaMismatch with all that the table does not have, or not with such a type."""
        there = {column.name: column for column in table.columns}
        absent = [name for name in self.of_table if name not in there]
        if absent:
            raise NotFound.among(f"column of {table.source}", absent[0], [*there])
        types = {name: (there[name].type, there[name].spelled) for name in self.of_table}
        types |= {name: (METADATA_TYPES[what], str(METADATA_TYPES[what])) for name, what in self.metadata}
        wrong = [f for f in self.fields if not fits(types[f.name][0], f.type)]
        if wrong:
            differences = (f"{f.name!r} is {types[f.name][1]}, not {f.type}" for f in wrong)
            raise SchemaMismatch(f"columns of {table.source}: {'; '.join(differences)}")

    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([f.arrow for f in self.fields])

    def of(
        self,
        rows: pa.RecordBatch,
        table: TableInSource,
        names: Sequence[str],
        seconds: pa.Array | None = None,
    ) -> pa.RecordBatch:
        """These columns of rows of the table, committed `seconds` after 1970 (None: of a snapshot); raises
        SchemaMismatch for a value that does not fit."""
        fields, metadata = {f.name: f for f in self.fields}, dict(self.metadata)
        of_source, arrays = {column.name: column for column in table.columns}, []
        for name in names:
            declared = fields[name]
            if name in metadata:
                what = metadata[name]
                array = metadata_values(what, table.source, rows.num_rows, seconds)
                arrays.append(converted(array, METADATA_TYPES[what], declared.type, self.zone))
                continue
            there = of_source[name]
            try:
                array = converted(rows.column(name), there.type, declared.type, self.zone)
            except (pa.ArrowException, TablestoreError) as e:
                why = f"{there.spelled}, has a value that is not {declared.type}"
                raise SchemaMismatch(f"column {name!r} of {table.source}, {why}: {e}") from e
            if array.null_count and not declared.type.nullable:
                raise InvalidRequest(f"column {name!r} of {table.source} has a NULL and is declared NOT NULL")
            arrays.append(array)
        if not arrays:
            return rows.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([fields[n].arrow for n in names]))


class DeclaredStream:
    """A stream of a table of a source, with the columns that somebody declares; None: all of its own."""

    address: Address
    table: TableInSource
    columns: DeclaredColumns | None

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema if self.columns is None else self.columns.schema()

    @property
    def variables(self) -> list[str]:
        """The environment variables that hold its secrets."""
        return self.address.variables

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the source's key; empty where not all of them are columns here."""
        key = self.table.primary_key
        return key if {*key} <= {*self.schema.names} else ()

    def shown(
        self, batch: pa.RecordBatch, names: Sequence[str], seconds: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Columns of rows of the source as they are declared; `seconds` after 1970 they were committed (None:
        of a snapshot)."""
        if self.columns is None:
            return batch.select(list(names))
        return self.columns.of(batch, self.table, names, seconds)


def fits(source: DataType, declared: DataType) -> bool:
    """Whether a column of the source can be declared so."""
    there, wanted = source.root, declared.root
    if wanted in casts.TEXTS:
        return there in _WITH_TEXT
    if there in casts.INTEGERS:
        return wanted in casts.NUMBERS or (there == "TINYINT" and wanted == "BOOLEAN")
    if there == "DECIMAL":
        return wanted in casts.NUMBERS and (wanted not in casts.INTEGERS or source.scale == 0)
    if there in casts.FLOATS:
        return wanted in casts.FLOATS
    if there in _BYTES:
        return wanted in _BYTES
    if there == "TIMESTAMP_LTZ":
        return wanted in casts.TIMES
    return wanted == there or (there in casts.TEXTS and wanted == "TIME")


def converted(array: pa.Array, source: DataType, declared: DataType, zone: str) -> pa.Array:
    """A column as it is declared; raises ArrowInvalid or SchemaMismatch for a value that does not fit."""
    there, wanted = source.root, declared.root
    if there == "TIMESTAMP_LTZ" and wanted != there:
        local = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, tz=zone)))
        return converted(local, DataType("TIMESTAMP", precision=source.precision), declared, zone)
    if wanted in casts.TEXTS:
        return array if there in casts.TEXTS else cast_text.of(array, source)
    if there in _BYTES:
        return array.cast(to_arrow(declared))
    if there not in casts.NUMBERS:
        return casts.cast(array, source, declared)
    values, wrong = checked(array, source, declared)
    if wrong is not None:
        raise SchemaMismatch(f"{array[int(wrong.argmax())]} does not fit")
    return values
