"""SHOW TABLES, VIEWS, COLUMNS, PARTITIONS, TBLPROPERTIES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, FunctionStatement, reading
from tablestore.sql.result import Result
from tablestore.sql.scope import shape_of, stored_table
from tablestore.sql.session import Session
from tablestore.sql.statements.databases import NamePattern, known_database, lake_of
from tablestore.sql.statements.describe import described
from tablestore.sql.statements.partitions import partition_names
from tablestore.sql.text import Name
from tablestore.table.identifier import SYSTEM_DATABASE, SYSTEM_TABLES


def _database(p: Parser) -> Name | None:
    return p.name("a database") if p.accept("FROM") or p.accept("IN") else None


def _whose(session: Session, database: Name | None) -> tuple[str, str]:
    """Catalog and database of a SHOW; the current ones where none is named."""
    if database is None:
        return session.catalog or "", session.database
    if database.parts[-1] == SYSTEM_DATABASE:
        lake_of(session, database)
    else:
        known_database(session, database)
    catalog = database.parts[0] if len(database.parts) == 2 else session.catalog
    return catalog or "", database.parts[-1]


def _show_tables(of: Name | None, like: NamePattern, views: bool, session: Session) -> Result:
    """SHOW TABLES: tables and views, temporary ones too; with `views` SHOW VIEWS: these alone."""
    catalog, database = _whose(session, of)
    temporary = {} if views else session.temporary
    names = {key[2] for key in (*temporary, *session.views) if key[:2] == (catalog, database)}
    if catalog and database == SYSTEM_DATABASE and not views:
        names.update(SYSTEM_TABLES)
    elif catalog:
        lake = session.lake(catalog)
        lake.require_there()
        if database in lake.databases():
            names.update(() if views else lake.tables(database), lake.views(database))
    kind = "view" if views else "table"
    return Result.of_texts({f"{kind} name": like.chosen(sorted(names))})


def _show_columns(table: Name, like: NamePattern, session: Session) -> Result:
    """SHOW COLUMNS FROM table."""
    rows = described(session, table)
    chosen = set(like.chosen(map(str, rows["name"])))
    return Result(rows.filter(pa.array([str(name) in chosen for name in rows["name"]], pa.bool_())))


def _parse_show_columns(p: Parser) -> FunctionStatement:
    if not p.accept("IN"):
        p.expect("FROM")
    table, like = p.name(), NamePattern.parse(p)
    return reading(_show_columns, table, like)


def _show_partitions(name: Name, partition: Mapping[str, Any] | None, session: Session) -> Result:
    """SHOW PARTITIONS table: `day=2026-01-01/hour=3`, sorted."""
    table = stored_table(session, name)
    if not table.partition_by:
        raise InvalidRequest(f"table {name} is not partitioned")
    return Result.of_texts({"partition name": partition_names(table, partition)})


def _show_tbl_properties(table: Name, key: str | None, session: Session) -> Result:
    """SHOW TBLPROPERTIES table [('key')]: options as they are stored, with secrets as ***."""
    options = dict(shape_of(session, table).options)
    if key is not None:
        if key not in options:
            raise NotFound.among("option of its own", key, options)
        options = {key: options[key]}
    rows = sorted(options.items())
    return Result.of_texts({"key": [k for k, _ in rows], "value": [v for _, v in rows]})


def _parse_show_tbl_properties(p: Parser) -> FunctionStatement:
    table = p.name()
    keys = p.listed(p.option_key) if p.comes("(") else []
    if len(keys) > 1:
        p.fail("one option is expected")
    return reading(_show_tbl_properties, table, keys[0] if keys else None)


FORMS = (
    Form(
        "SHOW TABLES [{FROM | IN} [catalog.]database] [[NOT] {LIKE | ILIKE} 'pattern']",
        "The tables and views of a database.",
        lambda p: reading(_show_tables, _database(p), NamePattern.parse(p), False),
        family="tables",
        example="SHOW TABLES FROM shop LIKE 'o%'",
    ),
    Form(
        "SHOW VIEWS [{FROM | IN} [catalog.]database] [[NOT] {LIKE | ILIKE} 'pattern']",
        "The views of a database.",
        lambda p: reading(_show_tables, _database(p), NamePattern.parse(p), True),
        family="views",
        example="SHOW VIEWS",
    ),
    Form(
        "SHOW COLUMNS {FROM | IN} table [[NOT] {LIKE | ILIKE} 'pattern']",
        "The columns of a table, as DESCRIBE shows them.",
        _parse_show_columns,
        family="tables",
        example="SHOW COLUMNS FROM shop.orders LIKE '%id'",
    ),
    Form(
        "SHOW PARTITIONS table [PARTITION (column = value, …)]",
        "The partitions of a table that hold files.",
        lambda p: reading(_show_partitions, p.name(), p.partition() if p.accept("PARTITION") else None),
        family="tables",
        example="SHOW PARTITIONS shop.events PARTITION (day = DATE '2026-01-01')",
    ),
    Form(
        "SHOW TBLPROPERTIES table [('key')]",
        "The options that a table stores.",
        _parse_show_tbl_properties,
        family="tables",
        example="SHOW TBLPROPERTIES shop.orders ('bucket')",
    ),
)
