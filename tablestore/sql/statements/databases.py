"""Databases: USE, CREATE, ALTER, DROP, SHOW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, of_family
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.like import NamePattern, listed
from tablestore.sql.text import Name, of_name
from tablestore.table.lake import Lake

_NO_PROPERTIES = (
    "a catalog of files keeps the name of a database only; with 'metastore' = 'jdbc' or 'hive' it keeps both"
)


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


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """USE [catalog.]database."""

    name: Name

    def run(self, session: Session) -> Result:
        _, database = known_database(session, self.name)
        session.database = database
        if len(self.name.parts) == 2:
            session.catalog = self.name.parts[0]
        return Result(message=f"the current database is {session.catalog}.{database}")


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE; as in the original, a catalog of files makes it without its comment and properties."""

    name: Name
    if_not_exists: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(p: Parser) -> CreateDatabase:
        if_not_exists = p.accept("IF NOT EXISTS")
        name = p.name("a database")
        comment = p.string("the comment, in single quotes,") if p.accept("COMMENT") else None
        options = p.options() if p.accept("WITH DBPROPERTIES") or p.accept("WITH") else {}
        return CreateDatabase(name, if_not_exists, comment, options)

    def run(self, session: Session) -> Result:
        lake, name = lake_of(session, self.name)
        if lake.keeps_views:
            given: dict[str, Any] = {"comment": self.comment, "properties": self.properties}
            lake.create_database(name, if_not_exists=self.if_not_exists, **given)
            return Result(message=f"database {self.name} is made")
        lake.create_database(name, if_not_exists=self.if_not_exists)
        lost = bool(self.properties) or self.comment is not None
        text = f", without its comment and properties: {_NO_PROPERTIES}" if lost else ""
        return Result(message=f"database {self.name} is made{text}")


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE … SET or RESET: refused by name where the catalog has no place for properties."""

    name: Name
    properties: Mapping[str, str | None]

    @staticmethod
    def parse(p: Parser) -> AlterDatabase:
        name = p.name("a database")
        if p.accept("RESET"):
            options: dict[str, str | None] = dict.fromkeys(p.listed(p.option_key))
        else:
            p.expect("SET")
            p.accept("DBPROPERTIES")
            options = dict(p.options())
        return AlterDatabase(name, options)

    def run(self, session: Session) -> Result:
        lake, name = known_database(session, self.name)
        if not lake.keeps_views:
            raise Unsupported("ALTER DATABASE", _NO_PROPERTIES)
        lake.alter_database(name, self.properties)
        return Result(message=f"database {self.name} is altered")


@dataclass(frozen=True, slots=True)
class DescribeDatabase:
    """DESCRIBE DATABASE: its name, comment and location; EXTENDED: its other properties, too."""

    name: Name
    extended: bool = False

    def run(self, session: Session) -> Result:
        lake, name = known_database(session, self.name)
        properties = lake.database_properties(name)
        rows = {"name": name, "comment": properties.pop("comment", None)}
        rows["location"] = properties.pop("location", None)
        if self.extended:
            rows |= {f"property:{key}": value for key, value in sorted(properties.items())}
        return Result(pa.table({"info name": list(rows), "info value": pa.array(rows.values(), pa.string())}))


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE; without CASCADE one that holds tables stays."""

    name: Name
    if_exists: bool = False
    cascade: bool = False

    @staticmethod
    def parse(p: Parser) -> DropDatabase:
        if_exists = p.accept("IF EXISTS")
        name = p.name("a database")
        cascade = p.accept("CASCADE")
        if not cascade:
            p.accept("RESTRICT")
        return DropDatabase(name, if_exists, cascade)

    def run(self, session: Session) -> Result:
        lake, name = lake_of(session, self.name)
        if not self.cascade and name in lake.databases() and (lake.tables(name) or lake.views(name)):
            tables = len(lake.tables(name)) + len(lake.views(name))
            raise InvalidRequest(f"database {name} holds {tables} tables: drop them, or write CASCADE")
        lake.drop_database(name, cascade=self.cascade, if_exists=self.if_exists)
        return Result(message=f"database {self.name} is dropped")


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """SHOW DATABASES."""

    catalog: str | None = None
    like: NamePattern = NamePattern()

    @staticmethod
    def parse(p: Parser) -> ShowDatabases:
        catalog = p.part("a catalog") if p.accept("FROM") or p.accept("IN") else None
        like = NamePattern.parse(p)
        return ShowDatabases(catalog, like)

    def run(self, session: Session) -> Result:
        lake = session.lake(self.catalog)
        lake.require_there()
        return listed("database name", self.like.chosen(lake.databases()))


@dataclass(frozen=True, slots=True)
class ShowCurrentDatabase:
    """SHOW CURRENT DATABASE."""

    def run(self, session: Session) -> Result:
        return listed("current database name", [session.database])


FORMS = of_family(
    "databases",
    Form(
        "USE [catalog.]database",
        "Make a database the current one.",
        lambda p: UseDatabase(p.name("a database")),
        example="USE shop",
    ),
    Form(
        "CREATE DATABASE [IF NOT EXISTS] [catalog.]database [COMMENT 'text'] [WITH ('key' = 'value', …)]",
        "Make a database; a catalog of files keeps its name only.",
        CreateDatabase.parse,
        example="CREATE DATABASE IF NOT EXISTS stock",
    ),
    Form(
        "ALTER DATABASE [catalog.]database {SET ('key' = 'value', …) | RESET ('key', …)}",
        "Change properties of a database, where the catalog has metastore = jdbc or hive; 'comment' is one.",
        AlterDatabase.parse,
    ),
    *(
        Form(
            f"{word} DATABASE [EXTENDED] [catalog.]database",
            "What the catalog keeps of a database.",
            lambda p: DescribeDatabase(extended=p.accept("EXTENDED"), name=p.name("a database")),
            example=f"{word} DATABASE EXTENDED shop",
        )
        for word in ("DESCRIBE", "DESC")
    ),
    Form(
        "DROP DATABASE [IF EXISTS] [catalog.]database [RESTRICT | CASCADE]",
        "Remove a database; with CASCADE the tables in it, too.",
        DropDatabase.parse,
        example="DROP DATABASE IF EXISTS stock",
    ),
    Form(
        "SHOW DATABASES [{FROM | IN} catalog] [[NOT] {LIKE | ILIKE} 'pattern']",
        "The databases of a catalog.",
        ShowDatabases.parse,
        example="SHOW DATABASES LIKE 's%'",
    ),
    Form(
        "SHOW CURRENT DATABASE",
        "The current database.",
        lambda _: ShowCurrentDatabase(),
        example="SHOW CURRENT DATABASE",
    ),
)
