"""What a table is where its next rows stand in the log: they say how they lie there, whatever came later.

Where there are no rows any more it is what the server has now, under the name that statements gave it
meanwhile. Used by `database` behind each statement that concerns a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import Statement
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.definitions import in_log
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.log_scan import first_rows
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.table_events import LaterTable


def later_table(
    connection: Connection,
    address: Address,
    name: SourceName,
    *,
    position: LogPosition,
    before: SourceTable | None,
    effects: Callable[[Statement], list[Effect]],
    present: Callable[[SourceName], SourceTable | None],
) -> LaterTable:
    """What a table is from `position` on. `before`: what is known of it; `effects`: those of a statement;
    `present`: what a table is on the server now, None without one."""
    trace = _Trace(name, effects)
    dialect = dialect_of(connection)
    now: SourceTable | None = None
    as_of = -1
    start = position
    while True:
        end = dialect.position(connection)
        wire = first_rows(
            address,
            start=start,
            until=end,
            wanted=lambda one: one == trace.name,
            visit=trace.visit,
        )
        if trace.gone:
            return LaterTable(None, dropped=True)
        if wire is not None:
            charsets = dialect.charsets(connection) | {0: "", 63: "binary"}
            now = present(trace.name)
            known = before and replace(before, database=trace.name.database, name=trace.name.table)
            return _found(name, in_log(wire, charsets, now=now, before=known), trace)
        if as_of == trace.statements:
            return _found(name, now, trace)
        now, as_of = present(trace.name), trace.statements
        start = end if end.reaches(start) else start


def _found(name: SourceName, table: SourceTable | None, trace: _Trace) -> LaterTable:
    if table is None:
        return LaterTable(None, dropped=trace.renamed)
    table = replace(table, database=name.database, name=name.table)
    return LaterTable(table, tuple(trace.alters), trace.through)


@dataclass
class _Trace:
    """A table followed through statements. `alters` are those of it, `through` is where the last one ends."""

    name: SourceName
    effects: Callable[[Statement], list[Effect]]
    alters: list[Effect] = field(default_factory=list)
    through: tuple[int, int] | None = None
    gone: bool = False
    renamed: bool = False
    statements: int = 0

    def visit(self, statement: Statement) -> bool:
        """Whether the table is still there."""
        for effect in self.effects(statement):
            if effect.kind == ddl.DROP_DATABASE:
                self.gone |= effect.table.database == self.name.database
            elif effect.table == self.name:
                self._take(effect, statement)
            elif effect.new_name == self.name:
                self.gone = True  # before, there is no table of this name
            if self.gone:
                return False
        return True

    def _take(self, effect: Effect, statement: Statement) -> None:
        self.statements += 1
        if effect.kind == ddl.RENAME:
            assert effect.new_name is not None
            self.name, self.renamed = effect.new_name, True
        elif effect.kind in (ddl.ALTER, ddl.UNKNOWN):
            self.alters.append(effect)
            self.through = statement.position.order
        elif effect.kind == ddl.DROP or (effect.kind == ddl.CREATE and not effect.conditional):
            self.gone = True
