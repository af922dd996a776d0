"""A database that a demo captures: where it is, where its log ends, and how its tables are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import tablestore as ts
from notebooks.demo.source_checksums import TableComparison, compare, compare_postgres
from notebooks.demo.tpch_postgres import SCHEMA
from tablestore.cdc.capture.report import BatchReport
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.postgres import server as postgres


class SourceDatabase(Protocol):
    """What a run needs of a source."""

    @property
    def address(self) -> Address: ...

    @property
    def url(self) -> str:
        """What `lake.ingest` is given; without a password."""

    def log_end(self) -> Any:
        """Where the log ends now."""

    def reaches(self, report: BatchReport, end: Any) -> bool:
        """Whether a batch ended there or later."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    def compare(self, name: str, target: ts.Table, show: Callable[[int], None]) -> TableComparison:
        """Compare a table with that of the lake."""


@dataclass(frozen=True, slots=True)
class MysqlSource:
    """A database of MariaDB or MySQL."""

    address: Address

    @property
    def url(self) -> str:
        return str(self.address)

    def log_end(self) -> LogPosition:
        with Connection.open(self.address) as connection:
            return dialect_of(connection).position(connection)

    def reaches(self, report: BatchReport, end: LogPosition) -> bool:
        match = re.match(r"(.+):(\d+)", report.position)
        if match is None:
            raise ts.InvalidRequest(f"{report.position!r} is no position in a binlog")
        return LogPosition(match[1], int(match[2])).reaches(end)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with Connection.open(self.address) as connection:
            return list(connection.rows(statement))

    def compare(self, name: str, target: ts.Table, show: Callable[[int], None]) -> TableComparison:
        return compare(self.address, name, target, show)


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """A database of PostgreSQL, of which the schema `public` is captured. `mark` commits a change to one of
    its tables: a capture goes no further where only others write."""

    address: Address
    mark: Callable[[], None]

    @property
    def url(self) -> str:
        return postgres.title_of(self.address)

    def log_end(self) -> int:
        with postgres.Connection.open(self.address) as connection:
            end = connection.log_end()
        self.mark()
        return end

    def reaches(self, report: BatchReport, end: int) -> bool:
        high, _, low = report.position.partition("/")
        return (int(high, 16) << 32) + int(low, 16) >= end

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with postgres.Connection.open(self.address) as connection:
            connection.run(f"SET search_path = {SCHEMA}")
            return connection.rows(postgres.in_statement(statement))

    def compare(self, name: str, target: ts.Table, show: Callable[[int], None]) -> TableComparison:
        return compare_postgres(self.address, SCHEMA, name, target, show)
