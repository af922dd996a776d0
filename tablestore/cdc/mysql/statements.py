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
