"""Catalogs and databases: USE, CREATE, ALTER, DROP, DESCRIBE and SHOW, and which names SHOW … LIKE shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, FunctionStatement, doing, of_family, reading
from tablestore.sql.result import Result
from tablestore.sql.scope import catalog_inside
from tablestore.sql.session import Session
from tablestore.sql.text import Name, name_text, of_name, options_text
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake, connect

_TYPES = ("paimon", "table-store", "tablestore")
_NO_PROPERTIES = (
    "a catalog of files keeps the name of a database only; with 'metastore' = 'jdbc' or 'hive' it keeps both"
)


@dataclass(frozen=True, slots=True)
class NamePattern:
    """`[NOT] {LIKE | ILIKE} 'pattern'`: % is any text, _ any character, \\ takes their meaning away; without
    a pattern all names match."""

    pattern: str | None = None
    negated: bool = False
    caseless: bool = False

    @staticmethod
    def parse(p: Parser) -> NamePattern:
        negated = p.accept("NOT")
        caseless = p.accept("ILIKE")
        if not caseless and not p.accept("LIKE"):
            if negated:
                p.fail("LIKE is expected")
            return NamePattern()
        return NamePattern(p.string("a pattern in single quotes"), negated, caseless)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """The names that match, in their order."""
        texts = pa.array(list(names), pa.string())
        if self.pattern is None:
            return list(map(str, texts))
        matched = pc.match_like(texts, self.pattern, ignore_case=self.caseless)
        return list(map(str, texts.filter(pc.invert(matched) if self.negated else matched)))


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


def _drop_catalog(if_exists: bool, name: str, session: Session) -> Result:
    """DROP CATALOG: the session forgets it; nothing of it is removed."""
    if name not in session.catalogs:
        if if_exists:
            return Result(message=f"there is no catalog {name}")
        raise NotFound.among("catalog", name, session.catalogs)
    if name == session.catalog:
        raise InvalidRequest(f"catalog {name} is the current one: USE CATALOG another one first")
    del session.catalogs[name]
    for key in [key for key in session.temporary if key[0] == name]:
        del session.temporary[key]
    for key in [key for key in session.views if key[0] == name]:
        del session.views[key]
    return Result(message=f"catalog {name} is forgotten; its tables stay")


def _use_catalog(name: str, session: Session) -> Result:
    """USE CATALOG: its database `default` becomes the current one."""
    session.lake(name)
    session.catalog, session.database = name, DEFAULT_DATABASE
    return Result(message=f"the current catalog is {name}")


def _show_catalogs(like: NamePattern, session: Session) -> Result:
    """SHOW CATALOGS."""
    return Result.of_texts({"catalog name": like.chosen(sorted(session.catalogs))})


def _show_current_catalog(session: Session) -> Result:
    """SHOW CURRENT CATALOG."""
    return Result.of_texts({"current catalog name": [] if session.catalog is None else [session.catalog]})


def _show_create_catalog(name: str, session: Session) -> Result:
    """SHOW CREATE CATALOG: the statement that makes it, with secrets as ***."""
    options = {"type": _TYPES[0], **session.lake(name).options}
    text = f"CREATE CATALOG {name_text(name)}\nWITH {options_text(options)}\n"
    return Result.of_texts({"result": [text]})


def _describe_catalog(extended: bool, name: str, session: Session) -> Result:
    """DESCRIBE CATALOG: its name and type; EXTENDED: its options, too."""
    options = session.lake(name).options
    rows: dict[str, str | None] = {"name": name, "type": _TYPES[0], "comment": None}
    if extended:
        rows |= {f"option:{key}": value for key, value in sorted(options.items())}
    return Result.of_texts({"info name": rows, "info value": rows.values()})


def lake_of(session: Session, database: Name) -> tuple[Lake, str]:
    """The lake and name of a `database` or `catalog.database`, which need not exist."""
    if len(database.parts) > 2:
        raise InvalidRequest(f"{database} has too many parts: catalog.database")
    *catalog, name = database.parts
    return session.lake(*catalog), name


def known_database(session: Session, database: Name) -> tuple[Lake, str]:
    """The same; raises NotFound for one that does not exist."""
    with of_name(database):
        lake, name = lake_of(session, database)
        databases = lake.databases()
        if name not in databases:
            lake.require_there()
            raise NotFound.among("database", name, databases)
    return lake, name


def _use_database(name: Name, session: Session) -> Result:
    """USE [catalog.]database."""
    _, database = known_database(session, name)
    session.database = database
    if len(name.parts) == 2:
        session.catalog = name.parts[0]
    return Result(message=f"the current database is {session.catalog}.{database}")


def _create_database(
    database: Name, if_not_exists: bool, comment: str | None, properties: Mapping[str, str], session: Session
) -> Result:
    """CREATE DATABASE; as in the original, a catalog of files makes it without its comment and properties."""
    lake, name = lake_of(session, database)
    if lake.keeps_views:
        given: dict[str, Any] = {"comment": comment, "properties": properties}
        lake.create_database(name, if_not_exists=if_not_exists, **given)
        return Result(message=f"database {database} is made")
    lake.create_database(name, if_not_exists=if_not_exists)
    lost = bool(properties) or comment is not None
    text = f", without its comment and properties: {_NO_PROPERTIES}" if lost else ""
    return Result(message=f"database {database} is made{text}")


def _parse_create_database(p: Parser) -> FunctionStatement:
    if_not_exists = p.accept("IF NOT EXISTS")
    name = p.name("a database")
    comment = p.string("the comment, in single quotes,") if p.accept("COMMENT") else None
    options = p.options() if p.accept("WITH DBPROPERTIES") or p.accept("WITH") else {}
    return doing(_create_database, name, if_not_exists, comment, options)


def _alter_database(database: Name, properties: Mapping[str, str | None], session: Session) -> Result:
    """ALTER DATABASE … SET or RESET: refused by name where the catalog has no place for properties."""
    lake, name = known_database(session, database)
    if not lake.keeps_views:
        raise Unsupported("ALTER DATABASE", _NO_PROPERTIES)
    lake.alter_database(name, properties)
    return Result(message=f"database {database} is altered")


def _parse_alter_database(p: Parser) -> FunctionStatement:
    name = p.name("a database")
    if p.accept("RESET"):
        options: dict[str, str | None] = dict.fromkeys(p.listed(p.option_key))
    else:
        p.expect("SET")
        p.accept("DBPROPERTIES")
        options = dict(p.options())
    return doing(_alter_database, name, options)


def _describe_database(extended: bool, database: Name, session: Session) -> Result:
    """DESCRIBE DATABASE: its name, comment and location; EXTENDED: its other properties, too."""
    lake, name = known_database(session, database)
    properties = lake.database_properties(name)
    rows = {"name": name, "comment": properties.pop("comment", None)}
    rows["location"] = properties.pop("location", None)
    if extended:
        rows |= {f"property:{key}": value for key, value in sorted(properties.items())}
    return Result.of_texts({"info name": rows, "info value": rows.values()})


def _drop_database(database: Name, if_exists: bool, cascade: bool, session: Session) -> Result:
    """DROP DATABASE; without CASCADE one that holds tables stays."""
    lake, name = lake_of(session, database)
    if not cascade and name in lake.databases() and (lake.tables(name) or lake.views(name)):
        tables = len(lake.tables(name)) + len(lake.views(name))
        raise InvalidRequest(f"database {name} holds {tables} tables: drop them, or write CASCADE")
    lake.drop_database(name, cascade=cascade, if_exists=if_exists)
    return Result(message=f"database {database} is dropped")


def _parse_drop_database(p: Parser) -> FunctionStatement:
    if_exists = p.accept("IF EXISTS")
    name = p.name("a database")
    cascade = p.accept("CASCADE")
    if not cascade:
        p.accept("RESTRICT")
    return doing(_drop_database, name, if_exists, cascade)


def _show_databases(catalog: str | None, like: NamePattern, session: Session) -> Result:
    """SHOW DATABASES."""
    lake = session.lake(catalog)
    lake.require_there()
    return Result.of_texts({"database name": like.chosen(lake.databases())})


def _parse_show_databases(p: Parser) -> FunctionStatement:
    catalog = p.part("a catalog") if p.accept("FROM") or p.accept("IN") else None
    like = NamePattern.parse(p)
    return reading(_show_databases, catalog, like)


def _show_current_database(session: Session) -> Result:
    """SHOW CURRENT DATABASE."""
    return Result.of_texts({"current database name": [session.database]})


FORMS = (
    *of_family(
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
            lambda p: doing(_drop_catalog, p.accept("IF EXISTS"), p.part("a catalog")),
            example="DROP CATALOG IF EXISTS mine",
        ),
        Form(
            "USE CATALOG name",
            "Make a catalog, and its database default, the current one.",
            lambda p: doing(_use_catalog, p.part("a catalog")),
            example="USE CATALOG lake",
        ),
        Form(
            "SHOW CATALOGS [[NOT] {LIKE | ILIKE} 'pattern']",
            "The catalogs of the session.",
            lambda p: reading(_show_catalogs, NamePattern.parse(p)),
            example="SHOW CATALOGS",
        ),
        Form(
            "SHOW CURRENT CATALOG",
            "The current catalog.",
            lambda _: reading(_show_current_catalog),
            example="SHOW CURRENT CATALOG",
        ),
        Form(
            "SHOW CREATE CATALOG name",
            "The statement that makes a catalog, with secrets as ***.",
            lambda p: doing(_show_create_catalog, p.part("a catalog")),
            example="SHOW CREATE CATALOG lake",
        ),
        *(
            Form(
                f"{word} CATALOG [EXTENDED] name",
                "The name and type of a catalog; EXTENDED: its options, too.",
                lambda p: reading(_describe_catalog, p.accept("EXTENDED"), p.part("a catalog")),
                example=f"{word} CATALOG EXTENDED lake",
            )
            for word in ("DESCRIBE", "DESC")
        ),
    ),
    *of_family(
        "databases",
        Form(
            "USE [catalog.]database",
            "Make a database the current one.",
            lambda p: doing(_use_database, p.name("a database")),
            example="USE shop",
        ),
        Form(
            "CREATE DATABASE [IF NOT EXISTS] [catalog.]database [COMMENT 'text'] [WITH ('key' = 'value', …)]",
            "Make a database; a catalog of files keeps its name only.",
            _parse_create_database,
            example="CREATE DATABASE IF NOT EXISTS stock",
        ),
        Form(
            "ALTER DATABASE [catalog.]database {SET ('key' = 'value', …) | RESET ('key', …)}",
            "Change properties of a database, where the catalog has metastore = jdbc or hive; "
            "'comment' is one.",
            _parse_alter_database,
        ),
        *(
            Form(
                f"{word} DATABASE [EXTENDED] [catalog.]database",
                "What the catalog keeps of a database.",
                lambda p: reading(_describe_database, p.accept("EXTENDED"), p.name("a database")),
                example=f"{word} DATABASE EXTENDED shop",
            )
            for word in ("DESCRIBE", "DESC")
        ),
        Form(
            "DROP DATABASE [IF EXISTS] [catalog.]database [RESTRICT | CASCADE]",
            "Remove a database; with CASCADE the tables in it, too.",
            _parse_drop_database,
            example="DROP DATABASE IF EXISTS stock",
        ),
        Form(
            "SHOW DATABASES [{FROM | IN} catalog] [[NOT] {LIKE | ILIKE} 'pattern']",
            "The databases of a catalog.",
            _parse_show_databases,
            example="SHOW DATABASES LIKE 's%'",
        ),
        Form(
            "SHOW CURRENT DATABASE",
            "The current database.",
            lambda _: reading(_show_current_database),
            example="SHOW CURRENT DATABASE",
        ),
    ),
)
