"""Statements of Flink and Spark that are out: each is refused by name, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, of_family

_FUNCTIONS = "the functions are those of the dialect"
_OUT = {
    "CREATE OR REPLACE TABLE": "a table that exists is altered, or dropped first",
    "CREATE EXTERNAL TABLE": "a catalog says where its tables lie",
    "CREATE MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "ALTER MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "DROP MATERIALIZED TABLE": "INSERT INTO … SELECT keeps a table",
    "CREATE FUNCTION": _FUNCTIONS,
    "CREATE TEMPORARY FUNCTION": _FUNCTIONS,
    "ALTER FUNCTION": _FUNCTIONS,
    "DROP FUNCTION": _FUNCTIONS,
    "DROP TEMPORARY FUNCTION": _FUNCTIONS,
    "ALTER CATALOG": "the session forgets it by DROP CATALOG; then CREATE CATALOG",
    "CREATE INDEX": "option file-index.bloom-filter.columns asks for indexes of files",
}


def _refusing(words: str, why: str) -> Callable[[Parser], NoReturn]:
    def parse(p: Parser) -> NoReturn:
        p.refuse(words, why, p.piece.start)

    return parse


FORMS = of_family(
    "refused",
    *tuple(
        Form(f"{words} …", f"Not supported: {why}.", _refusing(words, why)) for words, why in _OUT.items()
    ),
)
