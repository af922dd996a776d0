"""A SQL session, and temporary tables in it over those of a source."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned
from tests.cdc.databases.sources import Source

COLUMNS = "k INT, v BIGINT, s STRING, PRIMARY KEY (k) NOT ENFORCED"


def table(session: Session, source: Source, columns: str = COLUMNS, name: str = "t", **options: str) -> None:
    """A temporary table over table t of the source; an option without a text is left out."""
    address = source.address
    given = {
        "hostname": address.host,
        "port": str(address.port),
        "username": address.user,
        "database-name": source.name,
        "table-name": "t",
        **source.sql_options,
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TEMPORARY TABLE {name} {f'({columns})' if columns else ''} WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()]


def changes(session: Session, sql: str) -> Iterator[tuple[Any, ...]]:
    """Kind and row of what a query gives as long as somebody asks."""
    for batch, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        yield from zip(rowkind.texts(kinds).to_pylist(), *batch.to_pydict().values(), strict=True)


def now(session: Session, query: str) -> list[tuple[Any, ...]]:
    """Rows in batch mode, amid streaming."""
    session.settings.set("execution.runtime-mode", "batch")
    actual = rows(session, query)
    session.settings.set("execution.runtime-mode", "streaming")
    return actual


def await_rows(session: Session, query: str, wanted: list[tuple[Any, ...]]) -> None:
    until = time.monotonic() + 240
    while (actual := now(session, query)) != wanted:
        assert not session.jobs.failures()
        assert time.monotonic() < until, (actual[:10], wanted[:10])
        time.sleep(0.3)
