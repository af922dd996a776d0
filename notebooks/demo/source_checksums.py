"""Is a table of the lake what its table in the source is? Checksums of both sides, range of keys by range.

The server renders each row as text in which no two rows look alike (texts with their length, NULL as such),
and adds up 60 bits of the MD5 of each; DuckDB does the same with the rows of the lake. So nothing that
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

import tablestore as ts
from notebooks.demo.source_tables import (
    Cell,
    MysqlTableInServer,
    PostgresTableInServer,
    TableInServer,
    in_lake,
)
from tablestore import col
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import server as mysql_server
from tablestore.cdc.postgres import server as postgres_server
from tablestore.core.extras import required
from tablestore.format.predicates.predicate import Predicate

Show = Callable[[int], None]
"""Called with the rows of both sides that were compared so far, from several threads."""
Sums = dict[int, tuple[int, int]]
"""Rows and the sum of their hashes, by range."""
_RANGES, _NAMED = 16, 3


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
    """Compare all rows of `source`, a table of the address's database of MariaDB or MySQL, with those of
    `target`; both should be at rest. Raises NotFound without a table of that name, and InvalidRequest for one
    without a key."""
    with mysql_server.Connection.open(address) as connection:
        return compare_sides(MysqlTableInServer(connection, address.database, source), target, show)


def compare_postgres(
    address: Address, schema: str, source: str, target: ts.Table, show: Show = lambda rows: None
) -> TableComparison:
    """The same for `source`, a table of a schema of the address's database of PostgreSQL."""
    with postgres_server.Connection.open(address) as connection:
        return compare_sides(PostgresTableInServer(connection, schema, source), target, show)


def compare_sides(table: TableInServer, target: ts.Table, show: Show) -> TableComparison:
    """The same for a table of any server."""
    if not table.primary_key:
        raise ts.InvalidRequest(f"{table} has no primary key to tell its rows by")
    text = _RowText.of(table, target.schema)
    both = _Sides(table, target, text, _Ranges.of(table), show)
    with ThreadPoolExecutor(1) as pool:
        lake = pool.submit(both.in_lake)
        there, here = both.in_server(), lake.result()
    wrong = [n for n in range(both.ranges.count) if there.get(n) != here.get(n)]
    differences = tuple(line for number in wrong for line in both.differences(number))
    rows = sum(count for count, _ in there.values())
    compared = len(table.names) - len(text.left_out)
    return TableComparison(
        str(table), target.name, rows, compared, both.ranges.count, text.left_out, differences
    )


@dataclass(frozen=True, slots=True)
class _RowText:
    """The text of a row, and of its key, on both sides."""

    cells: dict[str, Cell]
    key: tuple[str, ...]
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, table: TableInServer, lake: pa.Schema) -> _RowText:
        cells = {}
        for name in table.names:
            place = lake.get_field_index(name)
            cell = None if place < 0 else table.cell(name, lake.field(place).type)
            if cell is not None:
                cells[name] = cell
        left_out = tuple(name for name in table.names if name not in cells)
        if hidden := [name for name in table.primary_key if name in left_out]:
            raise ts.InvalidRequest(f"{table}: key column {hidden[0]!r} cannot be compared with the lake")
        return cls(cells, tuple(table.primary_key), left_out)

    def in_server(self, table: TableInServer) -> tuple[str, str]:
        """Expressions of the key's text and of the row's hash."""
        key = table.text([self.cells[name] for name in self.key])
        return key, table.hash(table.text([*self.cells.values()]))

    def in_lake(self) -> tuple[str, str]:
        key = f"concat({', '.join(self.cells[name].in_lake() for name in self.key)})"
        row = f"concat({', '.join(cell.in_lake() for cell in self.cells.values())})"
        return key, f"('0x' || left(md5({row}), 15))::UBIGINT"


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Ranges of the first key column, if that is a whole number; the first and the last are open. Else one
    range: all (`key` is None)."""

    key: str | None
    least: int = 0
    width: int = 1
    count: int = 1

    @classmethod
    def of(cls, table: TableInServer) -> _Ranges:
        key = table.primary_key[0]
        if not table.is_whole(key):
            return cls(None)
        name = table.quoted(key)
        least, most = table.rows(f"SELECT MIN({name}), MAX({name}) FROM {table.spelled}")[0]
        if least is None:
            return cls(None)
        width = (int(most) - int(least)) // _RANGES + 1
        return cls(key, int(least), width, (int(most) - int(least)) // width + 1)

    def bounds(self, number: int) -> tuple[int | None, int | None]:
        """From, and up to but without; None: open."""
        first = None if number == 0 else self.least + number * self.width
        return first, None if number == self.count - 1 else self.least + (number + 1) * self.width

    def in_server(self, number: int, table: TableInServer) -> str:
        first, end = self.bounds(number)
        key = table.quoted(self.key or "")
        terms = [] if first is None else [f"{key} >= {first}"]
        terms += [] if end is None else [f"{key} < {end}"]
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
        above = f"({in_lake(self.key)}::HUGEINT - ({self.least})) // {self.width}"
        return f"greatest(0, least({self.count - 1}, {above}))"


class _Sides:
    """A table on both sides."""

    def __init__(
        self,
        table: TableInServer,
        target: ts.Table,
        text: _RowText,
        ranges: _Ranges,
        show: Show,
    ) -> None:
        self._table, self._target = table, target
        self._text, self.ranges, self._show = text, ranges, show
        self._rows, self._lock = 0, threading.Lock()

    def _count(self, rows: int) -> None:
        with self._lock:
            self._rows += rows
            self._show(self._rows)

    def in_server(self) -> Sums:
        sums: Sums = {}
        _, row_hash = self._text.in_server(self._table)
        for number in range(self.ranges.count):
            statement = f"SELECT COUNT(*), SUM({row_hash}) FROM {self._table.spelled}"
            where = self.ranges.in_server(number, self._table)
            rows, total = self._table.rows(statement + where)[0]
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
        key, row_hash = self._text.in_server(self._table)
        statement = f"SELECT {key}, {row_hash} FROM {self._table.spelled}"
        statement += self.ranges.in_server(number, self._table)
        there = {str(k): int(h) for k, h in self._table.rows(statement)}
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
