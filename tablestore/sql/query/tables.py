"""The tables of a query: each place in its tree that names one, with its hints and its time travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from tablestore.core.errors import TablestoreError
from tablestore.sql.names import Name, name_of
from tablestore.sql.problems import placed

if TYPE_CHECKING:
    from tablestore.sql.session import Session
    from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place of the tree where a table stands; a self-join has two."""

    node: exp.Table
    name: Name
    table: Table


def occurrences(session: Session, tree: exp.Expression, text: str) -> list[Occurrence]:
    """Every place where a query names a table of a catalog. Raises NotFound with its place in the text."""
    found: list[Occurrence] = []
    for scope in traverse_scope(tree):
        for node in scope.tables:
            source: Any = scope.sources.get(node.alias_or_name)
            if not isinstance(source, exp.Table) or not isinstance(node.this, exp.Identifier):
                continue
            name = name_of(node)
            try:
                found.append(Occurrence(node, name, session.table(name)))
            except TablestoreError as e:
                placed(e, text, name.at)
                raise
    return found
