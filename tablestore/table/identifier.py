"""`db.table`, "`odd name`.t", `t$snapshots`, `t$branch_b`: the parts of a table name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tablestore.core.errors import InvalidRequest
from tablestore.io.paths import checked_name

_PART = re.compile(r"`([^`]+)`|([^.`]+)")
SYSTEM_DATABASE = "sys"
SYSTEM_TABLES = ("all_table_options", "partitions", "tables")  # of a lake, in that database
DEFAULT_DATABASE = "default"
MAIN = "main"
"""The branch that a table itself is."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's database and name, with branch and system table if named."""

    database: str
    table: str
    branch: str = MAIN
    system: str | None = None

    @classmethod
    def parse(cls, text: str) -> Identifier:
        """Read `[db.]table[$branch_x][$system]`; raises InvalidRequest for anything that is no name."""
        if not isinstance(text, str):
            raise InvalidRequest(f"{text!r} is no table name; write 'db.table'")
        parts, at = [], 0
        while at < len(text):
            match = _PART.match(text, at)
            if match is None:
                raise InvalidRequest(
                    f"{text!r} is no table name; write db.table, with back-quotes around odd names"
                )
            parts.append(match[1] or match[2])
            at = match.end()
            if at < len(text):
                if text[at] != "." or at + 1 == len(text):
                    raise InvalidRequest(f"{text!r} is no table name; write db.table")
                at += 1
        if not 1 <= len(parts) <= 2:
            raise InvalidRequest(f"{text!r} is no table name; write db.table")
        database = parts[0] if len(parts) == 2 else DEFAULT_DATABASE
        name, *suffixes = parts[-1].split("$")
        branch, system = MAIN, None
        for suffix in suffixes:
            if suffix.startswith("branch_"):
                branch = checked_name(suffix.removeprefix("branch_"), "branch")
            elif system is None:
                system = suffix
            else:
                raise InvalidRequest(f"{text!r} names two system tables")
        return cls(checked_name(database, "database"), checked_name(name, "table"), branch, system)

    def __str__(self) -> str:
        branch = "" if self.branch == MAIN else f"$branch_{self.branch}"
        return f"{self.database}.{self.table}{branch}" + (f"${self.system}" if self.system else "")
