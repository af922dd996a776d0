"""A table of a source, in the words of its server: what `source_checksums` asks of it.

The text of a value is the same in the server and in DuckDB, which renders the rows of the lake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as kinds

from tablestore.cdc.mysql import columns as mysql
from tablestore.cdc.mysql import server as mysql_server
from tablestore.cdc.postgres import server as postgres_server
from tablestore.cdc.postgres import tables as postgres
from tablestore.core.errors import NotFound

_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}
_AS_TEXT = {"decimal", "time", "uuid", "inet4", "inet6"}  # where the lake keeps text
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_WHOLE = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_WHOLE_OF_POSTGRES = {"int2", "int4", "int8"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A column's text as expressions; `sized`: the text may hold anything, so its length goes before it."""

    server: str
    lake: str
    sized: bool = False

    def in_lake(self) -> str:
        sized = f"strlen({self.lake})::VARCHAR || ':' || {self.lake}"
        plain = f"({self.lake})::VARCHAR || '|'"
        return f"COALESCE({sized if self.sized else plain}, 'N')"


class TableInServer(Protocol):
    """A table, and statements about it. `spelled` is its name in them."""

    @property
    def spelled(self) -> str: ...

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def primary_key(self) -> Sequence[str]: ...

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    def quoted(self, name: str) -> str:
        """The name of a column in a statement."""

    def is_whole(self, name: str) -> bool:
        """Whether a column is of whole numbers."""

    def cell(self, name: str, kind: pa.DataType) -> Cell | None:
        """How a column that has this type in the lake is compared; None: it cannot be."""

    def text(self, cells: Sequence[Cell]) -> str:
        """The expression of all texts of a row, one behind another."""

    def hash(self, text: str) -> str:
        """The expression of the first 60 bits of the MD5 of a text."""


class MysqlTableInServer:
    """A table of MariaDB or MySQL. Raises NotFound where it is not there."""

    def __init__(self, connection: mysql_server.Connection, database: str, name: str) -> None:
        self._table = mysql.SourceTable.read(connection, database, name)
        self._connection = connection
        self.spelled = self._table.spelled
        self.names = [column.name for column in self._table.columns]
        self.primary_key = self._table.primary_key

    def __str__(self) -> str:
        return str(self._table)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return list(self._connection.rows(statement))

    def quoted(self, name: str) -> str:
        return mysql.quoted(name)

    def is_whole(self, name: str) -> bool:
        return self._table.column(name).kind in _WHOLE

    def cell(self, name: str, kind: pa.DataType) -> Cell | None:
        return _cell_of_mysql(self._table.column(name), kind)

    def text(self, cells: Sequence[Cell]) -> str:
        return f"CONCAT({', '.join(map(self._of_cell, cells))})"

    def hash(self, text: str) -> str:
        return f"CAST(CONV(LEFT(MD5({text}), 15), 16, 10) AS UNSIGNED)"

    def _of_cell(self, cell: Cell) -> str:
        parts = f"LENGTH({cell.server}), ':', {cell.server}" if cell.sized else f"{cell.server}, '|'"
        return f"COALESCE(CONCAT({parts}), 'N')"


class PostgresTableInServer:
    """A table of PostgreSQL, with its name in the schema. Raises NotFound where it is not there."""

    def __init__(self, connection: postgres_server.Connection, schema: str, name: str) -> None:
        with connection.view():
            there = postgres.tables_now(
                connection, "", lambda n: (n.database, n.table) == (schema, name), refuse=False
            )
        table = next(iter(there.values()), None)
        if not isinstance(table, postgres.PostgresTable):
            raise NotFound(f"no table {schema}.{name} in {postgres_server.title_of(connection.address)}")
        self._connection, self._table = connection, table
        self._columns = {column.name: column for column in table.columns}
        self.spelled = table.spelled_rows
        self.names = list(self._columns)
        self.primary_key = table.primary_key

    def __str__(self) -> str:
        return str(self._table.source)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.rows(postgres_server.in_statement(statement))

    def quoted(self, name: str) -> str:
        return postgres.quoted(name)

    def is_whole(self, name: str) -> bool:
        return self._columns[name].kind in _WHOLE_OF_POSTGRES

    def cell(self, name: str, kind: pa.DataType) -> Cell | None:
        return _cell_of_postgres(self._columns[name], kind)

    def text(self, cells: Sequence[Cell]) -> str:
        return " || ".join(map(self._of_cell, cells))

    def hash(self, text: str) -> str:
        return f"('x' || left(md5({text}), 15))::bit(60)::bigint"

    def _of_cell(self, cell: Cell) -> str:
        sized = f"octet_length({cell.server}) || ':' || {cell.server}"
        return f"COALESCE({sized if cell.sized else f'{cell.server} || $$|$$'}, 'N')"


def _cell_of_mysql(column: mysql.SourceColumn, kind: pa.DataType) -> Cell | None:
    there, here = mysql.quoted(column.name), in_lake(column.name)
    if kinds.is_string(kind) and column.kind in _TEXTS:
        return Cell(f"CONVERT({there} USING utf8mb4)", here, sized=True)
    if kinds.is_string(kind) and column.kind in _AS_TEXT:
        return Cell(f"CAST({there} AS CHAR)", here, sized=True)
    if kinds.is_binary(kind) and column.kind in _BYTES:
        return Cell(f"HEX({there})", f"hex({here})")
    if kinds.is_binary(kind) and column.kind == "bit":
        return Cell(f"LPAD(HEX({there}), {(column.size + 7) // 8 * 2}, '0')", f"hex({here})")
    if kinds.is_boolean(kind) and column.kind in _WHOLE | {"bit"}:
        return Cell(f"({there} <> 0)", f"{here}::INT")
    if (kinds.is_integer(kind) or kinds.is_decimal(kind)) and column.kind in _WHOLE | {"decimal"}:
        padded = column.kind == "year" or "zerofill" in column.spelled
        return Cell(f"{there} + 0" if padded else there, here)
    if kinds.is_date32(kind) and column.kind == "date":
        return Cell(f"NULLIF(CAST({there} AS CHAR), '0000-00-00')", here)
    if kinds.is_timestamp(kind) and column.kind in mysql.DATES:
        text = f"IF({there} = 0, NULL, DATE_FORMAT({there}, '%Y-%m-%d %H:%i:%s.%f'))"
        return Cell(text, f"strftime({here}, '%Y-%m-%d %H:%M:%S.%f')")
    return None


def _cell_of_postgres(column: postgres.PostgresColumn, kind: pa.DataType) -> Cell | None:
    there, here = postgres.quoted(column.name), in_lake(column.name)
    if kinds.is_string(kind):
        text = f"CASE WHEN num_nulls({there}) = 0 THEN concat({there}) END"  # as the log spells it
        trimmed = f"{there}::text"  # without what CHAR fills up with, as in the lake
        return Cell(trimmed if column.kind == "bpchar" else text, here, sized=True)
    if kinds.is_binary(kind) and column.kind == "bytea":
        return Cell(f"upper(encode({there}, 'hex'))", f"hex({here})")
    if kinds.is_boolean(kind) and column.kind == "bool":
        return Cell(f"{there}::int::text", f"{here}::INT")
    if kinds.is_integer(kind) or (kinds.is_decimal(kind) and column.kind == "numeric"):
        return Cell(f"{there}::text", here)
    if kinds.is_date32(kind) and column.kind == "date":
        return Cell(f"{there}::text", here)
    if kinds.is_timestamp(kind) and column.kind in ("timestamp", "timestamptz"):
        return Cell(
            f"to_char({there}, 'YYYY-MM-DD HH24:MI:SS.US')",
            f"strftime({here}::TIMESTAMP, '%Y-%m-%d %H:%M:%S.%f')",
        )
    return None


def in_lake(column: str) -> str:
    """The name of a column in DuckDB."""
    return '"' + column.replace('"', '""') + '"'
