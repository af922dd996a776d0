"""Is a table of the lake what its table in the source is? Checksums of both sides, range of keys by range.

The server renders each row as text in which no two rows look alike (texts with their length, NULL as such),
and adds up 64 bits of the MD5 of each; DuckDB does the same with the rows of the lake. So nothing that
captured the rows has a part in the comparison, and rows stay where they are. Where a range differs, the
hashes of its rows are fetched, and the keys that differ are named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

import tablestore as ts
from tablestore import col
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.columns import DATES, SourceColumn, SourceTable, quoted
from tablestore.cdc.mysql.server import Connection
from tablestore.core.extras import required
from tablestore.format.predicates.predicate import Predicate

Show = Callable[[int], None]
"""Called with the rows of both sides that were compared so far, from several threads."""
Sums = dict[int, tuple[int, int]]
"""Rows and the sum of their hashes, by range."""
_RANGES, _NAMED = 16, 3
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}
_AS_TEXT = {"decimal", "time", "uuid", "inet4", "inet6"}  # where the lake keeps text
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_WHOLE = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}


@dataclass(frozen=True, slots=True)
class TableComparison:
    """What was compared of a table; `differences` is empty if all agrees. `left_out` are columns that have no
    text which is the same on both sides, such as those of DOUBLE, or that the lake has not."""

    source: str
    target: str
    rows: int
    columns: int
    ranges: int
    left_out: tuple[str, ...]
    differences: tuple[str, ...]


def compare(
    address: Address, source: str, target: ts.Table, show: Show = lambda rows: None
) -> TableComparison:
    """Compare all rows of `source`, a table of the address's database, with those of `target`; both should be
    at rest. Raises NotFound without a table of that name, and InvalidRequest for one without a key."""
    with Connection.open(address) as connection:
        table = SourceTable.read(connection, address.database, source)
        if not table.primary_key:
            raise ts.InvalidRequest(f"{table} has no primary key to tell its rows by")
        text = _RowText.of(table, target.schema)
        both = _Sides(connection, table, target, text, _Ranges.of(connection, table), show)
        with ThreadPoolExecutor(1) as pool:
            lake = pool.submit(both.in_lake)
            there, here = both.in_server(), lake.result()
        wrong = [n for n in range(both.ranges.count) if there.get(n) != here.get(n)]
        differences = tuple(line for number in wrong for line in both.differences(number))
    rows = sum(count for count, _ in there.values())
    compared = len(table.columns) - len(text.left_out)
    return TableComparison(
        str(table), target.name, rows, compared, both.ranges.count, text.left_out, differences
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """A column's text as expressions; `sized`: the text may hold anything, so its length goes before it."""

    server: str
    lake: str
    sized: bool = False

    def in_server(self) -> str:
        parts = f"LENGTH({self.server}), ':', {self.server}" if self.sized else f"{self.server}, '|'"
        return f"COALESCE(CONCAT({parts}), 'N')"

    def in_lake(self) -> str:
        sized = f"strlen({self.lake})::VARCHAR || ':' || {self.lake}"
        plain = f"({self.lake})::VARCHAR || '|'"
        return f"COALESCE({sized if self.sized else plain}, 'N')"


@dataclass(frozen=True, slots=True)
class _RowText:
    """The text of a row, and of its key, on both sides."""

    cells: dict[str, _Cell]
    key: tuple[str, ...]
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, table: SourceTable, lake: pa.Schema) -> _RowText:
        cells = {}
        for column in table.columns:
            place = lake.get_field_index(column.name)
            found = None if place < 0 else _cell(column, lake.field(place).type)
            if found is not None:
                cells[column.name] = found
        left_out = tuple(c.name for c in table.columns if c.name not in cells)
        if hidden := [name for name in table.primary_key if name in left_out]:
            raise ts.InvalidRequest(f"{table}: key column {hidden[0]!r} cannot be compared with the lake")
        return cls(cells, table.primary_key, left_out)

    def in_server(self) -> tuple[str, str]:
        """Expressions of the key's text and of the row's hash."""
        key = f"CONCAT({', '.join(self.cells[name].in_server() for name in self.key)})"
        row = f"CONCAT({', '.join(cell.in_server() for cell in self.cells.values())})"
        return key, f"CAST(CONV(LEFT(MD5({row}), 16), 16, 10) AS UNSIGNED)"

    def in_lake(self) -> tuple[str, str]:
        key = f"concat({', '.join(self.cells[name].in_lake() for name in self.key)})"
        row = f"concat({', '.join(cell.in_lake() for cell in self.cells.values())})"
        return key, f"('0x' || left(md5({row}), 16))::UBIGINT"


def _cell(column: SourceColumn, kind: pa.DataType) -> _Cell | None:
    """How a column of the source that has this type in the lake is compared; None: it cannot be."""
    there, here = quoted(column.name), _name(column.name)
    if kinds.is_string(kind) and column.kind in _TEXTS:
        return _Cell(f"CONVERT({there} USING utf8mb4)", here, sized=True)
    if kinds.is_string(kind) and column.kind in _AS_TEXT:
        return _Cell(f"CAST({there} AS CHAR)", here, sized=True)
    if kinds.is_binary(kind) and column.kind in _BYTES:
        return _Cell(f"HEX({there})", f"hex({here})")
    if kinds.is_binary(kind) and column.kind == "bit":
        return _Cell(f"LPAD(HEX({there}), {(column.size + 7) // 8 * 2}, '0')", f"hex({here})")
    if kinds.is_boolean(kind) and column.kind in _WHOLE | {"bit"}:
        return _Cell(f"({there} <> 0)", f"{here}::INT")
    if (kinds.is_integer(kind) or kinds.is_decimal(kind)) and column.kind in _WHOLE | {"decimal"}:
        padded = column.kind == "year" or "zerofill" in column.spelled
        return _Cell(f"{there} + 0" if padded else there, here)
    if kinds.is_date32(kind) and column.kind == "date":
        return _Cell(f"NULLIF(CAST({there} AS CHAR), '0000-00-00')", here)
    if kinds.is_timestamp(kind) and column.kind in DATES:
        text = f"IF({there} = 0, NULL, DATE_FORMAT({there}, '%Y-%m-%d %H:%i:%s.%f'))"
        return _Cell(text, f"strftime({here}, '%Y-%m-%d %H:%M:%S.%f')")
    return None


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Ranges of the first key column, if that is a whole number; the first and the last are open. Else one
    range: all (`key` is None)."""

    key: str | None
    least: int = 0
    width: int = 1
    count: int = 1

    @classmethod
    def of(cls, connection: Connection, table: SourceTable) -> _Ranges:
        key = table.primary_key[0]
        if table.column(key).kind not in _WHOLE:
            return cls(None)
        name = quoted(key)
        least, most = connection.rows(f"SELECT MIN({name}), MAX({name}) FROM {table.spelled}")[0]
        if least is None:
            return cls(None)
        width = (int(most) - int(least)) // _RANGES + 1
        return cls(key, int(least), width, (int(most) - int(least)) // width + 1)

    def bounds(self, number: int) -> tuple[int | None, int | None]:
        """From, and up to but without; None: open."""
        first = None if number == 0 else self.least + number * self.width
        return first, None if number == self.count - 1 else self.least + (number + 1) * self.width

    def in_server(self, number: int) -> str:
        first, end = self.bounds(number)
        terms = [] if first is None else [f"{quoted(self.key or '')} >= {first}"]
        terms += [] if end is None else [f"{quoted(self.key or '')} < {end}"]
        return f" WHERE {' AND '.join(terms)}" if terms else ""

    def in_scan(self, number: int) -> Predicate | None:
        """The condition of a range in a scan of the lake."""
        first, end = self.bounds(number)
        key = col(self.key or "")
        terms = [] if first is None else [key >= first]
        terms += [] if end is None else [key < end]
        return reduce(and_, terms) if terms else None

    def in_lake(self) -> str:
        """The range of a row."""
        if self.key is None:
            return "0"
        above = f"({_name(self.key)}::HUGEINT - ({self.least})) // {self.width}"
        return f"greatest(0, least({self.count - 1}, {above}))"


class _Sides:
    """A table on both sides."""

    def __init__(
        self,
        connection: Connection,
        table: SourceTable,
        target: ts.Table,
        text: _RowText,
        ranges: _Ranges,
        show: Show,
    ) -> None:
        self._connection, self._table, self._target = connection, table, target
        self._text, self.ranges, self._show = text, ranges, show
        self._rows, self._lock = 0, threading.Lock()

    def _count(self, rows: int) -> None:
        with self._lock:
            self._rows += rows
            self._show(self._rows)

    def in_server(self) -> Sums:
        sums: Sums = {}
        _, row_hash = self._text.in_server()
        for number in range(self.ranges.count):
            statement = f"SELECT COUNT(*), SUM({row_hash}) FROM {self._table.spelled}"
            rows, total = self._connection.rows(statement + self.ranges.in_server(number))[0]
            if rows:
                sums[number] = (rows, int(total if total is not None else -1))
            self._count(rows)
        return sums

    def in_lake(self) -> Sums:
        _, row_hash = self._text.in_lake()
        statement = f"SELECT {self.ranges.in_lake()}, COUNT(*), SUM({row_hash}::HUGEINT) FROM rows GROUP BY 1"
        return {int(n): (rows, int(total)) for n, rows, total in self._query(statement, None)}

    def differences(self, number: int) -> Iterator[str]:
        """What differs in a range, in words that name a few keys."""
        key, row_hash = self._text.in_server()
        statement = f"SELECT {key}, {row_hash} FROM {self._table.spelled}{self.ranges.in_server(number)}"
        there = {str(k): int(h) for k, h in self._connection.rows(statement)}
        key, row_hash = self._text.in_lake()
        here = dict(self._query(f"SELECT {key}, {row_hash} FROM rows", number))
        names = f"{self._table} and {self._target.name}"
        for what, keys in (
            ("only the source has", there.keys() - here.keys()),
            ("only the lake has", here.keys() - there.keys()),
            ("differ in", {k for k in there.keys() & here.keys() if there[k] != here[k]}),
        ):
            if keys:
                some = ", ".join(f"({k.rstrip('|').replace('|', ', ')})" for k in sorted(keys)[:_NAMED])
                more = f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else ""
                yield f"{names}: {what} {some}{more}"

    def _query(self, statement: str, number: int | None) -> list[tuple[Any, ...]]:
        """What DuckDB gives for the rows of the lake, all or those of one range."""
        where = None if number is None else self.ranges.in_scan(number)
        scan = self._target.scan(columns=list(self._text.cells), where=where)
        with required("duckdb", by="a comparison with the source").connect() as duckdb:
            duckdb.execute("SET TimeZone = 'UTC'")
            reader = scan.to_reader()
            counted = pa.RecordBatchReader.from_batches(
                reader.schema, self._counted(reader, quiet=number is not None)
            )
            duckdb.register("rows", counted)
            rows: list[tuple[Any, ...]] = duckdb.execute(statement).fetchall()
            return rows

    def _counted(self, batches: Any, *, quiet: bool) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if not quiet:
                self._count(batch.num_rows)


def _name(column: str) -> str:
    """The name of a column in DuckDB."""
    return '"' + column.replace('"', '""') + '"'
