"""Which tables of a server a capture takes, as what, and what is known of them beside their rows.

A plan warns of zero and impossible dates before a capture begins: those of the rows that are there, of each
table as far as `LOOKED_AT` rows go, and those that a column takes where an INSERT leaves it out (DEFAULT
'0000-00-00'). What comes of them a capture says itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tablestore.cdc.capture.names import APPEND, REFUSE, ByTable, Patterns, SourceName, first_match
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.binlog import LogStatement
from tablestore.cdc.mysql.columns import DATES, FAIL, SourceColumn, SourceTable, quoted
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import Unsupported

_SYSTEM = {"information_schema", "mysql", "performance_schema", "sys"}
_CHANGED_BY_TEXT = "the log has a change of its rows as a statement (SET GLOBAL binlog_format = 'ROW')"
TABLES = "information_schema.tables"


@dataclass(frozen=True)
class TableChoice:
    """The tables that `patterns` choose, those too that come later.

    `primary_keys` and `left_out` have columns by patterns of names; tables without a key are captured if
    `keyless` is APPEND, each in one chunk; `refusal` says why one of a name is not, empty if it is.
    `lowercase`: the server has all names in lower case.
    """

    patterns: Patterns
    primary_keys: ByTable[tuple[str, ...]] = ()
    left_out: ByTable[tuple[str, ...]] = ()
    keyless: str = REFUSE
    refusal: Callable[[SourceName], str] | None = None
    lowercase: bool = False

    def choose(self, name: SourceName) -> bool:
        """Whether the table is captured if it is there. What tools for online schema changes make beside a
        table is not, unless it is asked for by its full name."""
        return name.database.lower() not in _SYSTEM and self.patterns.choose(name)

    def usable(self, table: SourceTable, *, known: bool = False) -> SourceTable | str:
        """A table as it is captured, or why it cannot be. `known`: raises NotFound for columns of
        `primary_keys` and `left_out` that it does not have."""
        name = table.source
        if self.refusal is not None and (reason := self.refusal(name)):
            return reason
        out = first_match(self.left_out, name) or ()
        key = first_match(self.primary_keys, name) or tuple(table.primary_key)
        there = {column.name for column in table.columns}
        for column in (*out, *key) if known else ():
            table.column(column)
        if not key and self.keyless != APPEND:
            return (
                "it has no primary key: ALTER TABLE … ADD PRIMARY KEY, name its key in primary_keys, or "
                "take keyless='append' if its rows are never changed"
            )
        if missing := [column for column in key if column not in there or column in out]:
            return f"its key has no column {missing[0]!r}"
        kept = tuple(
            replace(column, in_key=column.name in key) for column in table.columns if column.name not in out
        )
        captured = replace(table, columns=kept, primary_key=key, left_out=out)
        try:
            captured.require_captured()
        except Unsupported as e:
            return str(e)
        return captured

    def all(self, connection: Connection) -> dict[SourceName, SourceTable]:
        """The chosen tables as they are now."""
        rows = connection.rows(
            f"SELECT table_schema, table_name FROM {TABLES} "
            "WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
        )
        names = sorted(name for name in (SourceName(*row) for row in rows) if self.choose(name))
        chosen: dict[SourceName, SourceTable] = {}
        for database in dict.fromkeys(name.database for name in names):
            tables = SourceTable.read_all(connection, database)
            mine = (name for name in names if name.database == database and name.table in tables)
            chosen |= {name: tables[name.table] for name in mine}
        return chosen

    def effects(self, statement: LogStatement) -> list[Effect]:
        if statement.changes:
            names = (SourceName(*name) for name in statement.changes)
            return [Effect(ddl.UNKNOWN, name, reason=_CHANGED_BY_TEXT) for name in names]
        return ddl.effects(statement.text, statement.database, lowercase=self.lowercase)


def table_now(connection: Connection, name: SourceName) -> SourceTable | None:
    return SourceTable.read_all(connection, name.database, name.table).get(name.table)


def row_counts(connection: Connection, names: Sequence[SourceName]) -> dict[SourceName, int]:
    """About how many rows tables have."""
    counts: dict[SourceName, int] = {}
    for database in dict.fromkeys(name.database for name in names):
        query = f"SELECT table_name, table_rows FROM {TABLES} WHERE table_schema = %s"
        mine = [name.table for name in names if name.database == database]
        if len(mine) == 1:
            rows = connection.rows(f"{query} AND table_name = %s", database, mine[0])
        else:
            rows = connection.rows(query, database)
        counts |= {SourceName(database, table): int(n) for table, n in rows if n is not None}
    return counts


LOOKED_AT = 1_000_000
_IMPOSSIBLE = (
    "COALESCE(MAX(NOT ISNULL({0}) AND "
    "(ISNULL(LAST_DAY({0})) OR DAYOFMONTH({0}) > DAYOFMONTH(LAST_DAY({0})))), 0)"
)


def foreseen(
    connection: Connection, tables: Mapping[SourceName, SourceTable], policy: str
) -> dict[SourceName, str]:
    """In words, which of these tables have such dates, and what becomes of them by the `zero_dates`
    policy."""
    defaults = _with_default(connection, {name.database for name in tables})
    warnings: dict[SourceName, str] = {}
    for name, table in tables.items():
        dates = [column for column in table.columns if column.kind in DATES]
        there = _in_rows(connection, table, dates) if dates else set()
        words = [
            _words(column, policy, column.name in there)
            for column in dates
            if column.name in there or (name, column.name) in defaults
        ]
        if words:
            warnings[name] = "; ".join(words)
    return warnings


def _words(column: SourceColumn, policy: str, in_rows: bool) -> str:
    has = "has zero or impossible dates" if in_rows else "has such a date as its default"
    if column.in_key:
        return (
            f"column {column.name!r} of the key {has}: such rows are bad rows, which stop the table unless "
            "bad_rows='dead-letter' (--bad-rows dead-letter) takes them"
        )
    if policy == FAIL:
        return (
            f"column {column.name!r} {has}: they are refused, as zero_dates='fail' says; zero_dates='null' "
            "(--zero-dates null) makes them NULL"
        )
    return f"column {column.name!r} {has}: they become NULL, unless zero_dates='fail' (--zero-dates fail)"


def _in_rows(connection: Connection, table: SourceTable, dates: Iterable[SourceColumn]) -> set[str]:
    names = [column.name for column in dates]
    shown = ", ".join(_IMPOSSIBLE.format(quoted(name)) for name in names)
    columns = ", ".join(map(quoted, names))
    rows = connection.rows(f"SELECT {shown} FROM (SELECT {columns} FROM {table.spelled} LIMIT {LOOKED_AT}) t")
    return {name for name, impossible in zip(names, rows[0], strict=True) if int(impossible)}


def _with_default(connection: Connection, databases: Iterable[str]) -> set[tuple[SourceName, str]]:
    columns: set[tuple[SourceName, str]] = set()
    for database in databases:
        rows = connection.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s AND "
            "data_type IN ('date', 'datetime', 'timestamp') AND column_default LIKE %s",
            database,
            "%0000-00-00%",
        )
        columns |= {(SourceName(database, str(table)), str(column)) for table, column in rows}
    return columns
