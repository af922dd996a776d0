"""The tables of a query: each place in its tree that names one, with its hints, its time travel, its view."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError, Unsupported
from tablestore.sql.dialect.hints import options_of
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.names import Name, name_of
from tablestore.sql.problems import placed
from tablestore.sql.query.conditions import value_of

if TYPE_CHECKING:
    from tablestore.sql.session import Session

_DEEPEST = 20  # views of views


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place of the tree where a table stands; a self-join has two. `table` is one that has `scan`."""

    node: exp.Table
    name: Name
    table: Any


def occurrences(session: Session, tree: exp.Expression, text: str) -> list[Occurrence]:
    """Every place where a query names a table of a catalog. Views among them become subqueries of the tree.
    Raises NotFound, and what time travel and hints refuse, with their places in the text."""
    return _occurrences(session, tree, text, 0)


def _occurrences(session: Session, tree: exp.Expression, text: str, depth: int) -> list[Occurrence]:
    found: list[Occurrence] = []
    for node in [n for n in tree.find_all(exp.Table) if not (n.meta.get("bound") or _is_cte(n))]:
        name = name_of(node)
        try:
            view = session.view(name)
            if view is None:
                found.append(Occurrence(node, name, _table(session, node, name)))
                continue
            if depth == _DEEPEST:
                raise InvalidRequest(f"the view {name} is of more than {_DEEPEST} views of views")
            inner = _of_view(session, view.query, name)
            alias = exp.TableAlias(
                this=exp.to_identifier(node.alias_or_name, quoted=True),
                columns=[exp.to_identifier(c, quoted=True) for c in view.columns],
            )
            found += _occurrences(session, inner, view.query, depth + 1)
            node.replace(exp.Subquery(this=inner, alias=alias))
        except TablestoreError as e:
            placed(e, text, name.at)
            raise
    return found


def _is_cte(node: exp.Table) -> bool:
    """Whether the name is that of a WITH around it."""
    if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        return False
    child: Any = node
    parent: Any = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child:
                    if parent.args.get("recursive") and cte.alias == node.name:
                        return True
                    break
                if cte.alias == node.name:
                    return True
        else:
            ctes = parent.args.get("with_")
            if ctes is not None and ctes is not child and node.name in [c.alias for c in ctes.expressions]:
                return True
        child, parent = parent, parent.parent
    return False


def _of_view(session: Session, query: str, name: Name) -> Any:
    """The tree of a view's query; its names without a database are of the view's."""
    tree: Any = reader(()).read(pieces(query)[0])
    catalog, database, _ = session.full_name(name)
    for table in [t for t in tree.find_all(exp.Table) if not _is_cte(t)]:
        if not table.db:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True)))
            table.set("db", exp.to_identifier(database, quoted=True))
        if not table.catalog and catalog:
            table.set("catalog", exp.to_identifier(catalog, quoted=True))
    return tree


def _table(session: Session, node: exp.Table, name: Name) -> Any:
    if node.args.get("sample") or node.args.get("pivots"):
        raise Unsupported("TABLESAMPLE and PIVOT")
    if session.temporary_table(name) is not None:
        raise Unsupported(f"SELECT of {name}", "a table of a connector is read by streaming statements")
    options = hint_options(node)
    found: Any = session.table(name)
    if options:
        if not hasattr(found, "with_options"):
            raise InvalidRequest(f"{name} is a system table: it takes no options")
        found = found.with_options(options)
    version = node.args.get("version")
    return found if version is None else _at(found, version, name)


def hint_options(node: exp.Table) -> dict[str, str]:
    """The options that `/*+ OPTIONS('key' = 'value') */` behind a table's name gives. Raises SqlProblem for
    another hint."""
    return options_of([str(text) for hint in node.args.get("hints") or () for text in hint.expressions])


def _at(table: Any, version: exp.Version, name: Name) -> Any:
    """The table as VERSION AS OF or TIMESTAMP AS OF say; of a time that a column gives, as it is now."""
    when = version.expression
    if version.args.get("kind") != "AS OF":
        raise Unsupported(f"{version.args.get('kind')} of a table", "AS OF is")
    if not hasattr(table, "at"):
        raise InvalidRequest(f"{name} is a system table: it has no versions")
    if isinstance(when, exp.Column):
        return table
    value = value_of(when)
    if version.name.upper() == "TIMESTAMP":
        if not isinstance(value, str | int | dt.date):
            raise InvalidRequest(f"{value!r} is no time")
        return table.at(timestamp=value)
    if isinstance(value, int):
        return table.at(snapshot=value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{value!r} is no snapshot and no tag")
    return table.at(tag=value)
