"""What a statement in the binlog is: the end of a transaction, a change of rows as text, or DDL."""

from __future__ import annotations

import re

_START = re.compile(r"\A(?:[\s(]+|\*/|/\*M?!\d*|/\*(?!M?!).*?\*/|--[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
"""Blanks, brackets, comments, and the beginnings of those that are executed."""
_ROLES = {
    "BEGIN": "begin",
    "COMMIT": "commit",
    "XA": "savepoint",  # START and END
    "ROLLBACK": "rollback",
    "SAVEPOINT": "savepoint",
    "RELEASE": "savepoint",
    **dict.fromkeys(
        ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "DO", "SELECT", "VALUES"), "rows"
    ),
}


def role(text: str) -> str:
    """begin, commit, rollback, savepoint, rows (a statement that changes rows) or other (DDL and the
    like)."""
    words = _START.sub("", text, count=1).split(maxsplit=2)
    first = re.split(r"[;(/`*]", words[0].upper())[0] if words else ""
    if first == "SET" and len(words) > 1 and words[1].upper() == "STATEMENT":
        behind = re.search(r"\bFOR\b(.*)", words[2] if len(words) > 2 else "", re.IGNORECASE | re.DOTALL)
        return role(behind[1]) if behind else "other"
    if first == "ANALYZE":
        behind_it = text[text.upper().index("ANALYZE") + len("ANALYZE") :]
        return "rows" if role(re.sub(r"\A\s*FORMAT\s*=\s*\w+", "", behind_it)) == "rows" else "other"
    if first == "ROLLBACK" and len(words) > 1 and words[1].upper() == "TO":
        return "savepoint"
    if first == "XA" and words[1].upper() in ("COMMIT", "ROLLBACK"):
        return "commit"  # of nothing here: its rows came with XA PREPARE
    return _ROLES.get(first, "other")
