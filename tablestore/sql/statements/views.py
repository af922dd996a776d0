"""Views: CREATE, DROP, SHOW CREATE. They live in the session: the catalogs here keep tables only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from tablestore.sql.dialect.written import Written, joined
from tablestore.sql.form import Form
from tablestore.sql.names import Name, name_of
from tablestore.sql.query.embedded import run_query
from tablestore.sql.result import Result
from tablestore.sql.statements.like import listed
from tablestore.sql.temporary import View
from tablestore.sql.text import full_name_text, literal_text, name_text

if TYPE_CHECKING:
    from tablestore.sql.dialect.parser import Parser
    from tablestore.sql.session import Session

_NOT_KEPT = "the catalogs here keep tables only; CREATE TEMPORARY VIEW keeps it for the session"


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE TEMPORARY VIEW; a permanent one is refused by name."""

    name: Name
    query: Any
    text: str
    parts: tuple[Written, ...]
    columns: tuple[tuple[str, str | None], ...] = ()  # with their comments
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = True

    @staticmethod
    def parse(p: Parser) -> CreateView:
        return _parse(p)

    @staticmethod
    def parse_or_replace(p: Parser) -> CreateView:
        return replace(_parse(p), or_replace=True)

    @staticmethod
    def parse_permanent(p: Parser) -> CreateView:
        return replace(_parse(p), temporary=False)

    def run(self, session: Session) -> Result:
        if not self.temporary:
            raise Unsupported("a permanent view", _NOT_KEPT)
        key = session.full_name(self.name)
        if key in session.temporary:
            raise AlreadyExists(f"{self.name} is a temporary table of this session")
        if key in session.views and not self.or_replace:
            if self.if_not_exists:
                return Result(message=f"view {self.name} exists")
            raise AlreadyExists(f"view {self.name} exists")
        found = run_query(session, self.query, self.text).schema.names
        names = tuple(name for name, _ in self.columns)
        if names and len(names) != len(found):
            raise InvalidRequest(f"the query has {len(found)} columns, and {len(names)} are named")
        shown = names or tuple(s.alias_or_name for s in self.query.selects if not s.is_star)
        twice = next((n for n in shown if n and shown.count(n) > 1), None)
        if twice is not None:
            raise InvalidRequest(f"the view has two columns {twice!r}: name them, view (a, b) AS …")
        comments = tuple(comment for _, comment in self.columns)
        session.views[key] = View(self._expanded(session), names, self.comment, comments)
        return Result(message=f"view {self.name} is made")

    def _expanded(self, session: Session) -> str:
        """The query with whole names of its tables: it means the same whatever database is current."""
        whole: dict[int, tuple[int, str]] = {}
        for scope in traverse_scope(self.query):
            for node in scope.tables:
                source: Any = scope.sources.get(node.alias_or_name)
                if isinstance(source, exp.Table) and isinstance(node.this, exp.Identifier):
                    name = name_of(node)
                    end = max(part.meta["end"] + 1 for part in node.parts)
                    parts = [part for part in session.full_name(name) if part]
                    whole[name.at] = (end, full_name_text(parts))
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
    p.finish()
    return CreateView(name, query, p.piece.text, parts, columns, comment, if_not_exists)


def _column(p: Parser) -> tuple[str, str | None]:
    name = p.part("a column")
    return name, p.string("the comment, in single quotes,") if p.accept("COMMENT") else None


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP [TEMPORARY] VIEW."""

    name: Name
    if_exists: bool = False

    @staticmethod
    def parse(p: Parser) -> DropView:
        if_exists = p.accept("IF EXISTS")
        name = p.name("a view")
        p.finish()
        return DropView(name, if_exists)

    def run(self, session: Session) -> Result:
        key = session.full_name(self.name)
        if key not in session.views:
            if self.if_exists:
                return Result(message=f"there is no view {self.name}")
            raise NotFound.among("view", key[2], {name for *_, name in session.views})
        del session.views[key]
        return Result(message=f"view {self.name} is dropped")


@dataclass(frozen=True, slots=True)
class ShowCreateView:
    """SHOW CREATE VIEW."""

    name: Name

    @staticmethod
    def parse(p: Parser) -> ShowCreateView:
        name = p.name("a view")
        p.finish()
        return ShowCreateView(name)

    def run(self, session: Session) -> Result:
        key = session.full_name(self.name)
        view = session.views.get(key)
        if view is None:
            raise NotFound.among("view", key[2], {name for *_, name in session.views})
        text = f"CREATE TEMPORARY VIEW {full_name_text(part for part in key if part)}"
        if view.columns:
            named = zip(view.columns, view.column_comments, strict=True)
            text += " (\n  " + ",\n  ".join(_column_text(*one) for one in named) + "\n)"
        if view.comment is not None:
            text += f"\nCOMMENT {literal_text(view.comment)}"
        return listed("result", [f"{text}\nAS {view.query}"])


def _column_text(name: str, comment: str | None) -> str:
    return name_text(name) if comment is None else f"{name_text(name)} COMMENT {literal_text(comment)}"


_SYNTAX = "VIEW [[catalog.]database.]view [(column [COMMENT 'text'], …)] [COMMENT 'text'] AS query"
FORMS = (
    Form(
        "CREATE TEMPORARY VIEW",
        f"CREATE TEMPORARY {_SYNTAX}",
        "Name a query, for this session.",
        "views",
        CreateView.parse,
        example="CREATE TEMPORARY VIEW large (id, amount) AS\n"
        "SELECT order_id, amount FROM shop.orders WHERE amount > 10",
    ),
    Form(
        "CREATE OR REPLACE TEMPORARY VIEW",
        f"CREATE OR REPLACE TEMPORARY {_SYNTAX}",
        "The same, in place of a view of that name.",
        "views",
        CreateView.parse_or_replace,
        example="CREATE OR REPLACE TEMPORARY VIEW large AS SELECT * FROM shop.orders WHERE amount > 10",
    ),
    *(
        Form(
            words,
            f"{words} …",
            "Not supported: the catalogs keep tables only.",
            "views",
            CreateView.parse_permanent,
        )
        for words in ("CREATE VIEW", "CREATE OR REPLACE VIEW")
    ),
    *(
        Form(
            words,
            f"{words} [IF EXISTS] view",
            "Forget a view.",
            "views",
            DropView.parse,
            example=f"{words} IF EXISTS large",
        )
        for words in ("DROP VIEW", "DROP TEMPORARY VIEW")
    ),
    Form(
        "SHOW CREATE VIEW",
        "SHOW CREATE VIEW view",
        "The statement that makes a view.",
        "views",
        ShowCreateView.parse,
        example="CREATE TEMPORARY VIEW large AS SELECT * FROM shop.orders WHERE amount > 10;\n"
        "SHOW CREATE VIEW large",
    ),
)
