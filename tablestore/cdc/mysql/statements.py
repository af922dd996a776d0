"""What a statement in the binlog is: the end of a transaction, a change of rows as text, or DDL.

A session with binlog_format = STATEMENT or MIXED writes changes of rows as text, whatever the setting of the
server is. Such a statement names one table and may change another: by a view, a trigger or a stored function.
What its words stand for is followed through the definitions that the server has now, without regard to
databases: rather one table too many is read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import Unsupported

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
Table = tuple[str, str]
_PLAIN = re.compile(r"\w+")
_NOT_OF_USERS = "NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
_DEFINITIONS = (
    f"SELECT table_name, view_definition FROM information_schema.views WHERE table_schema {_NOT_OF_USERS}",
    "SELECT event_object_table, action_statement FROM information_schema.triggers "
    f"WHERE trigger_schema {_NOT_OF_USERS}",
    "SELECT routine_name, routine_definition FROM information_schema.routines "
    f"WHERE routine_schema {_NOT_OF_USERS}",
)
_UNREADABLE = ""  # a word of what the user may not read


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


@dataclass
class TextChanges:
    """Judges statements of a stretch of the log that ends before the first of them is judged: the definitions
    are looked up once."""

    address: Address

    def tables(self, text: str, captured: Collection[Table], at: object) -> list[Table]:
        """Those of the `captured` tables, (database, name), whose rows the statement `at` a place of the log
        may change. Raises Unsupported where the user may not see the triggers of tables."""
        if not captured:
            return []
        if self._definitions is None:
            raise Unsupported(
                f"a change of rows as a statement in the binlog at {at}",
                f"{text[:80]!r}: SET GLOBAL binlog_format = 'ROW', for all sessions, and start with a new "
                f"snapshot; or GRANT TRIGGER, SHOW VIEW ON *.* TO '{self.address.user}'@'…', so that the "
                "tables are seen which such a statement changes: they are read again then",
            )
        words = self._reached(text)
        if _UNREADABLE in words:
            return list(captured)
        return [t for t in captured if t[1].lower() in words or not _PLAIN.fullmatch(t[1])]

    def may_cascade(self, text: str) -> bool:
        """Whether a statement may delete rows or set values, so that foreign keys change others."""
        return not self._reached(text).isdisjoint({_UNREADABLE, "delete", "update", "replace", "load"})

    def _reached(self, text: str) -> set[str]:
        """Its words, and those of the definitions that it calls."""
        words, behind, definitions = set[str](), _words(text), self._definitions or {}
        while behind:
            words |= behind
            behind = set[str]().union(*(definitions.get(word, ()) for word in behind)) - words
        return words

    @cached_property
    def _definitions(self) -> Mapping[str, frozenset[str]] | None:
        """The words of views, triggers and routines, by the name that calls them; None if the user may not
        see all triggers."""
        definitions: dict[str, frozenset[str]] = {}
        with Connection.open(self.address) as connection:
            grants = [str(row[0]).upper() for row in connection.rows("SHOW GRANTS")]
            of_all = [grant.partition(" ON *.*")[0] for grant in grants if " ON *.*" in grant]
            if not any("ALL PRIVILEGES" in grant or "TRIGGER" in grant for grant in of_all):
                return None
            for query in _DEFINITIONS:
                for name, text in connection.rows(query):
                    words = _words(str(text)) if text else {_UNREADABLE}
                    definitions[str(name).lower()] = definitions.get(str(name).lower(), frozenset()) | words
        return definitions


def _words(text: str) -> set[str]:
    return {word.lower() for word in _PLAIN.findall(text)}
