"""Catalogs: CREATE, DROP, USE, SHOW and DESCRIBE CATALOG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from tablestore.sql.confinement import catalog_inside
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, of_family
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.like import NamePattern, listed
from tablestore.sql.text import name_text, options_text
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import connect

_TYPES = ("paimon", "table-store", "tablestore")


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """CREATE CATALOG; `options` may hold secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    if_not_exists: bool = False

    @staticmethod
    def parse(p: Parser) -> CreateCatalog:
        if_not_exists = p.accept("IF NOT EXISTS")
        name = p.part("a catalog")
        if p.accept("COMMENT"):
            p.string("the comment, in single quotes,")  # it is not kept: a catalog lives in the session
        options = p.options() if p.accept("WITH") else {}
        return CreateCatalog(name, options, if_not_exists)

    def run(self, session: Session) -> Result:
        if self.name in session.catalogs:
            if self.if_not_exists:
                return Result(message=f"catalog {self.name} exists")
            raise AlreadyExists(f"catalog {self.name} exists")
        options = dict(self.options)
        kind = options.pop("type", _TYPES[0])
        if kind.lower() not in _TYPES:
            raise Unsupported(f"a catalog of type {kind!r}", f"there is {' or '.join(_TYPES)}")
        lake = connect(options if session.roots is None else catalog_inside(session.roots, options))
        lake.create_database(DEFAULT_DATABASE, if_not_exists=True)
        session.catalogs[self.name] = lake
        return Result(message=f"catalog {self.name} is made; USE CATALOG {name_text(self.name)} goes there")


@dataclass(frozen=True, slots=True)
class DropCatalog:
    """DROP CATALOG: the session forgets it; nothing of it is removed."""

    name: str
    if_exists: bool = False

    def run(self, session: Session) -> Result:
        if self.name not in session.catalogs:
            if self.if_exists:
                return Result(message=f"there is no catalog {self.name}")
            raise NotFound.among("catalog", self.name, session.catalogs)
        if self.name == session.catalog:
            raise InvalidRequest(f"catalog {self.name} is the current one: USE CATALOG another one first")
        del session.catalogs[self.name]
        for key in [key for key in session.temporary if key[0] == self.name]:
            del session.temporary[key]
        for key in [key for key in session.views if key[0] == self.name]:
            del session.views[key]
        return Result(message=f"catalog {self.name} is forgotten; its tables stay")


@dataclass(frozen=True, slots=True)
class UseCatalog:
    """USE CATALOG: its database `default` becomes the current one."""

    name: str

    def run(self, session: Session) -> Result:
        session.lake(self.name)
        session.catalog, session.database = self.name, DEFAULT_DATABASE
        return Result(message=f"the current catalog is {self.name}")


@dataclass(frozen=True, slots=True)
class ShowCatalogs:
    """SHOW CATALOGS."""

    like: NamePattern = NamePattern()

    def run(self, session: Session) -> Result:
        return listed("catalog name", self.like.chosen(sorted(session.catalogs)))


@dataclass(frozen=True, slots=True)
class ShowCurrentCatalog:
    """SHOW CURRENT CATALOG."""

    def run(self, session: Session) -> Result:
        return listed("current catalog name", [] if session.catalog is None else [session.catalog])


@dataclass(frozen=True, slots=True)
class ShowCreateCatalog:
    """SHOW CREATE CATALOG: the statement that makes it, with secrets as ***."""

    name: str

    def run(self, session: Session) -> Result:
        options = {"type": _TYPES[0], **session.lake(self.name).options}
        text = f"CREATE CATALOG {name_text(self.name)}\nWITH {options_text(options)}\n"
        return listed("result", [text])


@dataclass(frozen=True, slots=True)
class DescribeCatalog:
    """DESCRIBE CATALOG: its name and type; EXTENDED: its options, too."""

    name: str
    extended: bool = False

    def run(self, session: Session) -> Result:
        options = session.lake(self.name).options
        rows: dict[str, str | None] = {"name": self.name, "type": _TYPES[0], "comment": None}
        if self.extended:
            rows |= {f"option:{key}": value for key, value in sorted(options.items())}
        return Result(pa.table({"info name": list(rows), "info value": pa.array(rows.values(), pa.string())}))


FORMS = of_family(
    "catalogs",
    Form(
        "CREATE CATALOG [IF NOT EXISTS] name [WITH ('type' = 'paimon', 'warehouse' = '…', "
        "['metastore' = 'filesystem' | 'jdbc' | 'hive',] 'key' = 'value', …)]",
        "Let the session know a catalog: a directory or store of tables, an SQL database, a Hive "
        "metastore. Its database default is made.",
        CreateCatalog.parse,
        example="CREATE CATALOG mine WITH ('type' = 'paimon', 'warehouse' = '/tmp/lake')",
    ),
    Form(
        "DROP CATALOG [IF EXISTS] name",
        "Let the session forget a catalog; its tables stay.",
        lambda p: DropCatalog(if_exists=p.accept("IF EXISTS"), name=p.part("a catalog")),
        example="DROP CATALOG IF EXISTS mine",
    ),
    Form(
        "USE CATALOG name",
        "Make a catalog, and its database default, the current one.",
        lambda p: UseCatalog(p.part("a catalog")),
        example="USE CATALOG lake",
    ),
    Form(
        "SHOW CATALOGS [[NOT] {LIKE | ILIKE} 'pattern']",
        "The catalogs of the session.",
        lambda p: ShowCatalogs(NamePattern.parse(p)),
        example="SHOW CATALOGS",
    ),
    Form(
        "SHOW CURRENT CATALOG",
        "The current catalog.",
        lambda _: ShowCurrentCatalog(),
        example="SHOW CURRENT CATALOG",
    ),
    Form(
        "SHOW CREATE CATALOG name",
        "The statement that makes a catalog, with secrets as ***.",
        lambda p: ShowCreateCatalog(p.part("a catalog")),
        example="SHOW CREATE CATALOG lake",
    ),
    *(
        Form(
            f"{word} CATALOG [EXTENDED] name",
            "The name and type of a catalog; EXTENDED: its options, too.",
            lambda p: DescribeCatalog(extended=p.accept("EXTENDED"), name=p.part("a catalog")),
            example=f"{word} CATALOG EXTENDED lake",
        )
        for word in ("DESCRIBE", "DESC")
    ),
)
