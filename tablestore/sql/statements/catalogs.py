"""Catalogs and databases: USE, SHOW CATALOGS, SHOW DATABASES, SHOW TABLES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.form import Form
from tablestore.sql.names import Name
from tablestore.sql.result import Result

if TYPE_CHECKING:
    from tablestore.sql.dialect.parser import Parser
    from tablestore.sql.session import Session


@dataclass(frozen=True, slots=True)
class Use:
    """USE [catalog.]database."""

    name: Name

    @staticmethod
    def parse(p: Parser) -> Use:
        name = p.name("a database")
        p.finish()
        return Use(name)

    def run(self, session: Session) -> Result:
        *catalog, database = self.name.parts
        if len(catalog) > 1:
            raise InvalidRequest(f"{self.name} has too many parts: USE catalog.database")
        databases = session.lake(*catalog).databases()
        if database not in databases:
            raise NotFound.among("database", database, databases)
        session.database = database
        if catalog:
            session.catalog = catalog[0]
        return Result(message=f"the current database is {session.catalog}.{database}")


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """SHOW DATABASES."""

    @staticmethod
    def parse(p: Parser) -> ShowDatabases:
        p.finish()
        return ShowDatabases()

    def run(self, session: Session) -> Result:
        return Result(pa.table({"database name": pa.array(session.lake().databases(), pa.string())}))


FORMS = (
    Form(
        "USE",
        "USE [catalog.]database",
        "Make a database the current one.",
        "catalogs",
        Use.parse,
        example="USE shop",
    ),
    Form(
        "SHOW DATABASES",
        "SHOW DATABASES",
        "The databases of the current catalog.",
        "catalogs",
        ShowDatabases.parse,
        example="SHOW DATABASES",
    ),
)
