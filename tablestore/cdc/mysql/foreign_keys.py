"""Foreign keys that change rows of a table without a trace in the binlog."""

from __future__ import annotations

import re

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql.columns import quoted
from tablestore.cdc.mysql.server import Connection
from tablestore.core.errors import InvalidRequest, NotFound

_KEY = re.compile(r"^\s+CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*$", re.MULTILINE)
_SILENT = re.compile(r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL)")


def unlogged(connection: Connection, name: SourceName) -> str:
    """In words, which changes of a table its binlog does not have: those that InnoDB makes by a foreign key
    when the row it points to is deleted or gets another key. Empty without such a key, and where the table is
    gone.

    MariaDB, "Foreign Keys": cascaded changes are made within the engine and are not written to the binlog.
    The key is read from the table's own statement: who may only SELECT does not see it elsewhere.
    """
    try:
        rows = connection.rows(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
    except (InvalidRequest, NotFound):
        return ""
    found = [(key[1], _SILENT.findall(key[0])) for key in _KEY.finditer(str(rows[0][1]))]
    shown = [f"{key.replace('``', '`')!r} ({','.join(rules).strip()})" for key, rules in found if rules]
    keys = "foreign key" if len(shown) == 1 else "foreign keys"
    return (
        f"rows that {keys} {', '.join(shown)} changes go stale: the binlog does not have them"
        if shown
        else ""
    )
