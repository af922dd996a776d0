"""Views: CREATE, ALTER, DROP, SHOW CREATE. Temporary ones live in the session, others in catalogs that have a
place for them (`metastore` = jdbc or hive).

The stored query names tables with their databases, and their catalog only where that is another one than the
view's: a catalog has no name of its own. Stars are written out, so later columns of a table change no view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from tablestore.catalog.catalog import CatalogView
from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from tablestore.format.types.arrow_types import DataField, from_arrow
from tablestore.sql.dialect.form_reader import Written, joined
from tablestore.sql.dialect.parser import Parser, read_query
from tablestore.sql.form import Form, of_family, reading
from tablestore.sql.query.embedded import run_query
from tablestore.sql.result import Result
from tablestore.sql.scope import FullName, NamedQuery
from tablestore.sql.session import Session
from tablestore.sql.statements.alter_table import RenameTable
from tablestore.sql.text import Name, full_name_text, literal_text, name_of, name_text, of_name

_NOT_KEPT = (
    "a catalog of files keeps tables only, catalogs with 'metastore' = 'jdbc' or 'hive' keep views, too; "
    "CREATE TEMPORARY VIEW keeps it for the session"
)


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [TEMPORARY] VIEW, and ALTER VIEW … AS, which replaces one that is there (`alters`)."""

    name: Name
    query: Any
    text: str
    parts: tuple[Written, ...]
    columns: tuple[tuple[str, str | None], ...] = ()  # with their comments
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = True
    alters: bool = False

    def run(self, session: Session) -> Result:
        key = session.full_name(self.name)
        if self.temporary:
            return self._keep_in_session(session, key)
        with of_name(self.name):
            lake, full = session.resolved(self.name)
            if not lake.keeps_views:
                raise Unsupported("a permanent view", _NOT_KEPT)
            there = lake.view(full)
            if there is not None and not self.or_replace:
                if self.if_not_exists:
                    return Result(message=f"view {self.name} exists")
                raise AlreadyExists(f"view {self.name} exists")
            view = self._definition(session, key)
            if self.alters and there is not None:
                view = there.with_query(view)
            lake.create_view(full, view, replace=self.or_replace)
        return Result(message=f"view {self.name} is {'altered' if self.alters else 'made'}")

    def _keep_in_session(self, session: Session, key: FullName) -> Result:
        if key in session.temporary:
            raise AlreadyExists(f"{self.name} is a temporary table of this session")
        if key in session.views and not self.or_replace:
            if self.if_not_exists:
                return Result(message=f"view {self.name} exists")
            raise AlreadyExists(f"view {self.name} exists")
        names = tuple(name for name, _ in self.columns)
        self._require_names(self._schema(session).names)
        comments = tuple(comment for _, comment in self.columns)
        session.views[key] = NamedQuery(self._expanded(session), names, self.comment, comments)
        return Result(message=f"view {self.name} is {'altered' if self.alters else 'made'}")

    def _definition(self, session: Session, key: FullName) -> CatalogView:
        """The view as a catalog keeps it; raises InvalidRequest for a query of what only this session has."""
        for name in map(name_of, self._tables()):
            named = session.full_name(name)
            if named in session.temporary or named in session.views:
                raise InvalidRequest(
                    f"{name} is temporary, and the view would outlive it: CREATE TEMPORARY VIEW"
                )
            if named == key:
                raise InvalidRequest(f"the view {self.name} cannot be of itself")
        schema = self._schema(session)
        self._require_names(schema.names)
        given = self.columns or tuple((name, None) for name in schema.names)
        columns = tuple(
            DataField(i, name, from_arrow(f.type, nullable=f.nullable), comment)
            for i, ((name, comment), f) in enumerate(zip(given, schema, strict=True))
        )
        query = self._expanded(session, catalog=key[0])
        if any(s.is_star for s in self.query.selects):
            query = f"SELECT {', '.join(map(name_text, schema.names))} FROM ({query}) AS {name_text(key[2])}"
            try:
                run_query(session, read_query(query), query)
            except (InvalidRequest, NotFound) as e:
                text = "two columns behind * have one name: name the columns, SELECT a.id, b.id AS other …"
                raise InvalidRequest(text) from e
        return CatalogView(columns, query, self.comment)

    def _schema(self, session: Session) -> pa.Schema:
        return run_query(session, self.query, self.text).schema

    def _require_names(self, columns: Sequence[str]) -> None:
        """Raise InvalidRequest unless each column of the query has a name of its own."""
        names = tuple(name for name, _ in self.columns)
        if names and len(names) != len(columns):
            raise InvalidRequest(f"the query has {len(columns)} columns, and {len(names)} are named")
        shown = names or tuple(s.alias_or_name for s in self.query.selects if not s.is_star)
        twice = next((n for n in shown if n and shown.count(n) > 1), None)
        if twice is not None:
            raise InvalidRequest(f"the view has two columns {twice!r}: name them, view (a, b) AS …")

    def _tables(self) -> list[exp.Table]:
        """The places where the query names a table or view, not what its own WITH defines."""
        tables = []
        for scope in traverse_scope(self.query):
            for node in scope.tables:
                source: Any = scope.sources.get(node.alias_or_name)
                if isinstance(source, exp.Table) and isinstance(node.this, exp.Identifier):
                    tables.append(node)
        return tables

    def _expanded(self, session: Session, *, catalog: str | None = None) -> str:
        """The query with whole names of its tables, without that of this `catalog`: it means the same
        whatever database is current."""
        whole: dict[int, tuple[int, str]] = {}
        for node in self._tables():
            name, end = name_of(node), max(part.meta["end"] + 1 for part in node.parts)
            parts = [part for part in session.full_name(name) if part]
            whole[name.at] = (end, full_name_text(parts[1:] if parts[0] == catalog else parts))
        kept: list[Written] = []
        behind = 0
        for part in self.parts:
            if part.start in whole:
                behind, text = whole[part.start]
                kept.append(Written(part.start, behind, text))
            elif part.start >= behind:
                kept.append(part)
        return joined(kept)


def _parse(p: Parser) -> CreateView:
    if_not_exists = p.accept("IF NOT EXISTS")
    name = p.name("a view")
    columns = tuple(p.listed(lambda: _column(p))) if p.comes("(") else ()
    comment = p.string("the comment, in single quotes,") if p.accept("COMMENT") else None
    p.expect("AS")
    query, parts = p.query_parts()
    return CreateView(name, query, p.piece.text, parts, columns, comment, if_not_exists)


def _column(p: Parser) -> tuple[str, str | None]:
    name = p.part("a column")
    return name, p.string("the comment, in single quotes,") if p.accept("COMMENT") else None


@dataclass(frozen=True, slots=True)
class RenameView:
    """ALTER VIEW … RENAME TO …: a name without a database stays in that of the view."""

    name: Name
    to: Name
    if_exists: bool = False

    def run(self, session: Session) -> Result:
        if _found(session, self.name, missing_ok=self.if_exists) is None:
            return Result(message=f"there is no view {self.name}")
        return RenameTable(self.name, self.to).run(session)


@dataclass(frozen=True, slots=True)
class AlterView:
    """ALTER VIEW … AS query: where it lives, its comment and options stay."""

    made: CreateView

    def run(self, session: Session) -> Result:
        view = _found(session, self.made.name)
        assert view is not None
        comment = view.comment if view.temporary else None
        return replace(self.made, temporary=view.temporary, comment=comment).run(session)


def parse_alter(p: Parser) -> RenameView | AlterView:
    """What stands behind ALTER VIEW."""
    if_exists = p.accept("IF EXISTS")
    name = p.name("a view")
    if p.accept("RENAME TO"):
        return RenameView(name, p.name("a view"), if_exists)
    p.expect("AS")
    query, parts = p.query_parts()
    return AlterView(CreateView(name, query, p.piece.text, parts, or_replace=True, alters=True))


def _found(session: Session, name: Name, *, missing_ok: bool = False) -> NamedQuery | None:
    """The view of a name; raises NotFound naming the nearest, unless `missing_ok`."""
    with of_name(name):
        view = session.view(name)
        if view is None and not missing_ok:
            catalog, database, view_name = session.full_name(name)
            names = {key[2] for key in session.views if key[:2] == (catalog, database)}
            lake = session.catalogs.get(catalog)
            if lake is not None and database in lake.databases():
                names.update(lake.views(database))
            raise NotFound.among("view", view_name, names)
    return view


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP [TEMPORARY] VIEW."""

    name: Name
    if_exists: bool = False
    temporary: bool = False

    @staticmethod
    def parse(p: Parser) -> DropView:
        if_exists = p.accept("IF EXISTS")
        name = p.name("a view")
        return DropView(name, if_exists)

    def run(self, session: Session) -> Result:
        view = _found(session, self.name, missing_ok=self.if_exists)
        if view is not None and self.temporary and not view.temporary:
            view = None
            if not self.if_exists:
                raise NotFound(f"{self.name} is no temporary view: write DROP VIEW")
        if view is None:
            return Result(message=f"there is no view {self.name}")
        if view.temporary:
            del session.views[session.full_name(self.name)]
        else:
            lake, full = session.resolved(self.name)
            lake.drop_view(full)
        return Result(message=f"view {self.name} is dropped")


def _show_create_view(name: Name, session: Session) -> Result:
    """SHOW CREATE VIEW."""
    view = _found(session, name)
    assert view is not None
    kind = "TEMPORARY VIEW" if view.temporary else "VIEW"
    text = f"CREATE {kind} {full_name_text(part for part in session.full_name(name) if part)}"
    if view.columns:
        named = zip(view.columns, view.column_comments, strict=True)
        text += " (\n  " + ",\n  ".join(_column_text(*column) for column in named) + "\n)"
    if view.comment is not None:
        text += f"\nCOMMENT {literal_text(view.comment)}"
    return Result.of_texts({"result": [f"{text}\nAS {view.query}"]})


def _column_text(name: str, comment: str | None) -> str:
    return name_text(name) if comment is None else f"{name_text(name)} COMMENT {literal_text(comment)}"


_SYNTAX = "VIEW [[catalog.]database.]view [(column [COMMENT 'text'], …)] [COMMENT 'text'] AS query"
FORMS = of_family(
    "views",
    Form(
        f"CREATE TEMPORARY {_SYNTAX}",
        "Name a query, for this session.",
        _parse,
        words="CREATE TEMPORARY VIEW",
        example="CREATE TEMPORARY VIEW large (id, amount) AS\n"
        "SELECT order_id, amount FROM shop.orders WHERE amount > 10",
    ),
    Form(
        f"CREATE OR REPLACE TEMPORARY {_SYNTAX}",
        "The same, in place of a view of that name.",
        lambda p: replace(_parse(p), or_replace=True),
        words="CREATE OR REPLACE TEMPORARY VIEW",
        example="CREATE OR REPLACE TEMPORARY VIEW large AS SELECT * FROM shop.orders WHERE amount > 10",
    ),
    Form(
        f"CREATE {_SYNTAX.replace('VIEW', 'VIEW [IF NOT EXISTS]')}",
        "Keep a query in the catalog, where that has metastore = jdbc or hive.",
        lambda p: replace(_parse(p), temporary=False),
        words="CREATE VIEW",
    ),
    Form(
        f"CREATE OR REPLACE {_SYNTAX}",
        "The same, in place of a view of that name.",
        lambda p: replace(_parse(p), temporary=False, or_replace=True),
        words="CREATE OR REPLACE VIEW",
    ),
    Form(
        "ALTER VIEW [IF EXISTS] view {RENAME TO view | AS query}",
        "Give a view another name or another query.",
        parse_alter,
        example="CREATE TEMPORARY VIEW large AS SELECT * FROM shop.orders WHERE amount > 10;\n"
        "ALTER VIEW large AS SELECT * FROM shop.orders WHERE amount > 11",
    ),
    Form(
        "DROP VIEW [IF EXISTS] view",
        "Remove a view, a temporary one first.",
        DropView.parse,
        example="DROP VIEW IF EXISTS large",
    ),
    Form(
        "DROP TEMPORARY VIEW [IF EXISTS] view",
        "Forget a temporary view.",
        lambda p: replace(DropView.parse(p), temporary=True),
        example="DROP TEMPORARY VIEW IF EXISTS large",
    ),
    Form(
        "SHOW CREATE VIEW view",
        "The statement that makes a view.",
        lambda p: reading(_show_create_view, p.name("a view")),
        example="CREATE TEMPORARY VIEW large AS SELECT * FROM shop.orders WHERE amount > 10;\n"
        "SHOW CREATE VIEW large",
    ),
)
