"""Zero and impossible dates that a source is known to have before a capture begins, for its plan.

Those of the rows that are there, of each table as far as `LOOKED_AT` rows go, and those that a column takes
where an INSERT leaves it out (DEFAULT '0000-00-00'). What comes of them a capture says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql.columns import DATES, FAIL, SourceColumn, SourceTable, quoted
from tablestore.cdc.mysql.server import Connection

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
