"""Name: how a statement names a catalog, a database, a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from tablestore.core.errors import TablestoreError
from tablestore.sql.problems import start_of


@dataclass(frozen=True, slots=True)
class Name:
    """`t`, `db.t` or `catalog.db.t`, with the place in the script where it stands, -1 without one."""

    parts: tuple[str, ...]
    at: int = 0

    def __str__(self) -> str:
        return ".".join(self.parts)


def name_of(table: exp.Table) -> Name:
    """The name that a tree's table has."""
    parts = tuple(part.name for part in table.parts)
    return Name(parts, start_of(table))


@contextmanager
def of_name(name: Name) -> Iterator[None]:
    """What is raised within is because of this name: `at` of the error says where it stands."""
    try:
        yield
    except TablestoreError as e:
        if not hasattr(e, "at") and name.at >= 0:
            e.at = name.at  # type: ignore[attr-defined]  # for who knows the text
        raise
