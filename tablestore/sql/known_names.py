"""The names that a session knows, for completion: kept until `forget`, so that typing asks nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tablestore.core.errors import TablestoreError
from tablestore.sql.names import Name
from tablestore.sql.session import Session
from tablestore.sql.statements.describe import described


class KnownNames:
    """`Names` of a session. What cannot be found out is nothing: completion never raises."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[Any, Sequence[Any]] = {}

    def forget(self) -> None:
        """Ask again: a statement may have made or dropped something."""
        self._kept.clear()

    def catalogs(self) -> Sequence[str]:
        """Names of catalogs."""
        return sorted(self._session.catalogs)

    def databases(self, catalog: str | None = None) -> Sequence[str]:
        """Databases of a catalog, of the current one if None."""
        return self._once(("databases", catalog), lambda: self._session.lake(catalog).databases())

    def tables(self, database: str | None = None, catalog: str | None = None) -> Sequence[str]:
        """Tables and views of a database, of the current one if None."""
        session = self._session
        place = (catalog or session.catalog or "", database or session.database)
        lake = session.catalogs.get(place[0])
        stored = self._once(
            ("tables", *place), lambda: [*lake.tables(place[1]), *lake.views(place[1])] if lake else ()
        )
        temporary = [key[2] for key in (*session.temporary, *session.views) if key[:2] == place]
        return sorted({*stored, *temporary})

    def columns(self, table: tuple[str, ...]) -> Sequence[tuple[str, str]]:
        """Columns of a table and their types."""
        return self._once(("columns", table), lambda: self._described(table))

    def _described(self, table: tuple[str, ...]) -> list[tuple[str, str]]:
        rows = described(self._session, Name(table))
        return [(str(n), str(t)) for n, t in zip(rows["name"], rows["type"], strict=True)]

    def _once(self, key: Any, find: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        if key not in self._kept:
            try:
                self._kept[key] = find()
            except (TablestoreError, OSError):
                self._kept[key] = ()
        return self._kept[key]
