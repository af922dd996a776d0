"""What a statement in the binlog is: the end of a transaction, a change of rows as text, or DDL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol


class _Statement(Protocol):
    """A statement, and the database it ran in."""

    @property
    def database(self) -> str: ...

    @property
    def text(self) -> str: ...


_COMMENT = re.compile(r"\A(?:\s+|/\*(?!!).*?\*/|--[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_ROLES = {
    "BEGIN": "begin",
    "COMMIT": "commit",
    "XA": "savepoint",  # START and END
    "ROLLBACK": "rollback",
    "SAVEPOINT": "savepoint",
    "RELEASE": "savepoint",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "DO"), "rows"),
}


def role(text: str) -> str:
    """begin, commit, rollback, savepoint, rows (a statement that changes rows) or other (DDL and the
    like)."""
    words = _COMMENT.sub("", text, count=1).split(maxsplit=2)
    first = words[0].upper().rstrip(";(") if words else ""
    if first == "ROLLBACK" and len(words) > 1 and words[1].upper() == "TO":
        return "savepoint"
    if first == "XA" and words[1].upper() in ("COMMIT", "ROLLBACK"):
        return "commit"  # of nothing here: its rows came with XA PREPARE
    return _ROLES.get(first, "other")


def names(query: _Statement, tables: Iterable[tuple[str, str]]) -> bool:
    """Whether the statement may concern one of the tables: their name is in it, or it calls a procedure."""
    words = {word.lower() for word in re.findall(r"\w+", query.text)}
    return any(name.lower() in words or not re.fullmatch(r"\w+", name) for _, name in tables)


_NAME = r"(?:(`[^`]+`|\w+)\s*\.\s*)?(`[^`]+`|\w+)"
_DATABASE = re.compile(r"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?(`[^`]+`|\w+)", re.IGNORECASE)
_HEADS = (
    (r"TRUNCATE\s+(?:TABLE\s+)?", False),
    (r"ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?", False),
    (r"CREATE\s+OR\s+REPLACE\s+(?:TEMPORARY\s+)?TABLE\s+", False),
    (r"DROP\s+TABLES?\s+(?:IF\s+EXISTS\s+)?", True),
    (r"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?", True),
)
"""Statements that change a table other than row by row; whether they name several."""


def alters(statement: _Statement, database: str, name: str) -> bool:
    """Whether the statement alters, empties, renames or drops the table. Indexes that CREATE INDEX or DROP
    INDEX makes or takes away do not count."""
    text = _COMMENT.sub("", statement.text, count=1)
    whole = _DATABASE.match(text)
    if whole:
        return _plain(whole[1]) == database
    for head, many in _HEADS:
        begin = re.match(head, text, re.IGNORECASE)
        if begin:
            rest = text[begin.end() :]
            first = re.match(_NAME, rest)
            found = re.findall(_NAME, rest) if many else [first.groups("")] if first else []
            return any(
                _plain(table) == name and (_plain(owner) or statement.database) == database
                for owner, table in found
            )
    return False


def _plain(name: str) -> str:
    return name.strip("`")
