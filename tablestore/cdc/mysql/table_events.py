"""What a statement does to the tables that are captured: events, and where each of them stands afterwards.

A table is known by where it came from: names may change hands within a statement. One that takes the name of
another has other rows, so that the target is emptied and read again; one that goes on under a name that is
chosen is renamed. Whatever may have changed values without images in the log has the table read again, and so
has every statement about a table that is just being read: its chunks were planned for what it was. A table
without a key is emptied before it is read again.

What a table is behind a statement its next rows say, where they stand in the log. Where there are none it is
what the server has now, under the name that statements gave it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    DROPPED,
    EMPTIED,
    PAUSED,
    RENAMED,
    SKIPPED,
    TableEvent,
)
from tablestore.cdc.databases.address import Address
from tablestore.cdc.databases.chunks import FOLLOWED, GONE, HELD, READING, UNUSABLE
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.binlog import LogStatement
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.database_offset import (
    DatabaseProgress,
    Definitions,
    TableProgress,
    in_log,
    shape_of,
)
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.foreign_keys import Cascades
from tablestore.cdc.mysql.log_scan import first_rows
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.core.env import SYSTEM

_MOST_TEXT = 4_000
_CASCADED = "foreign keys have changed its rows, which the binlog does not have"
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LaterTable:
    """What a table is where its next rows stand in the log. `table`: its definition, None where it is gone
    (`dropped`: by a statement that comes later). `alters` are in it already, up to `through`."""

    table: SourceTable | None
    alters: tuple[Effect, ...] = ()
    through: tuple[int, int] | None = None
    dropped: bool = False


@dataclass
class _Identity:
    """A table, whatever its name is: `origin` is that before the statement, None for one not known."""

    origin: SourceName | None
    alter: Effect | None = None
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The statement behind events; what follows begins at `position`."""

    position: LogPosition
    seconds: int
    text: str = ""

    @classmethod
    def now(cls, position: LogPosition) -> EventOrigin:
        """The origin of what no statement causes."""
        return cls(position, int(SYSTEM.now_ms() / 1000))


@dataclass
class TableEvents:
    """Events of statements that follow one another, and the tables after them.

    `chosen`: which names are captured · `usable`: a definition as it is captured, or why it cannot be ·
    `look`: what a table is from a position on, by its name and what is known of it · `count`: about how many
    rows it has · `cascades`: which of them foreign keys change without a trace
    """

    tables: dict[SourceName, TableProgress]
    definitions: Definitions
    chosen: Callable[[SourceName], bool]
    usable: Callable[[SourceTable], SourceTable | str]
    look: Callable[[SourceName, LogPosition, SourceTable | None], LaterTable]
    count: Callable[[SourceName], int | None]
    cascades: Cascades
    events: list[Event] = field(default_factory=list)

    def concerns(self, effects: Sequence[Effect]) -> bool:
        """Whether one of the effects is about a table that is captured, or could be, or about a parent."""
        return any(self._concerns(effect) or self.cascades.concern(effect) for effect in effects)

    def _concerns(self, effect: Effect) -> bool:
        name = effect.table
        if effect.kind == ddl.DROP_DATABASE:
            return any(captured.database == name.database for captured in self._known())
        if name in self.tables and self.tables[name].state != GONE:
            return True
        if effect.kind == ddl.RENAME:
            return effect.new_name is not None and self.chosen(effect.new_name)
        return effect.kind not in (ddl.DROP, ddl.TRUNCATE) and self.chosen(name)

    def carry_out(self, cause: EventOrigin, effects: Sequence[Effect]) -> None:
        """Add the events of a statement."""
        places = self._places(effects)
        before = {name for name, progress in self.tables.items() if progress.captured}
        gone = {name for name in self._known() if places.get(name, _Identity(None)).origin != name}
        renamed = list(self._renamed(places, before, gone))
        freed = {old for old, _ in renamed}
        for name in sorted(gone - freed):
            if name in before and name not in places:
                self._note(DROPPED, name, cause)
                self.tables[name] = TableProgress(GONE)
            elif name not in before:
                was_captured = bool(self.tables.pop(name).digest)
                if was_captured:
                    self.tables[name] = TableProgress(GONE)
        for old, new in renamed:
            self._rename(old, new, cause)
        for name, identity in places.items():
            if identity.origin == name or (identity.origin, name) in renamed:
                if identity.emptied or identity.alter is not None:
                    self._changed(name, identity, cause)
            elif name in before and name not in freed:
                self._replaced(name, cause)
            elif self.chosen(name):
                self.capture(name, cause)
        self.cascades.carry_out(effects, cause.text, self.keys())

    def applied(self, there: DatabaseProgress, **how: Any) -> DatabaseProgress:
        """An offset behind all that was carried out."""
        ancestries, stale = self.cascades.to_keep(
            {n for n, progress in self.tables.items() if progress.captured}
        )
        how = {"ancestries": ancestries, "stale": stale, **how}
        return there.with_tables(self.tables, events=tuple(self.events), **how)

    def keys(self) -> dict[SourceName, tuple[str, ...]]:
        """The tables that are captured, with their primary keys."""
        tables = {n: self._definition(progress) for n, progress in self.tables.items() if progress.captured}
        return {name: table.primary_key if table else () for name, table in tables.items()}

    def capture(self, name: SourceName, cause: EventOrigin, source: SourceTable | None = None) -> None:
        """A table that is captured from here on, if it is there: its rows are to be read."""
        later = LaterTable(source) if source else self.look(name, cause.position, None)
        if later.table is None:
            return
        table = self.usable(later.table)
        if isinstance(table, str):
            self._skip(name, table, cause)
            return
        before = self.tables.get(name)
        digest = self.definitions.put(table)
        self.tables[name] = TableProgress(READING, digest, through=later.through)
        warning = self.cascades.captured(name, table.primary_key)
        self._note(CAPTURED, name, cause, shape=digest, rows=self.count(name), reason=warning)
        if before is not None and (before.state == GONE or before.digest):
            self._note(EMPTIED, name, cause, reason="a table of this name was captured before")

    def read_again(self, name: SourceName, cause: EventOrigin, reason: str, *, emptied: bool) -> None:
        """A table that is looked up and read again; `emptied` before, as one without a key always is."""
        later = self.look(name, cause.position, None)
        table = self.usable(later.table) if later.table is not None else "it is gone"
        if isinstance(table, str):
            self._skip(name, table, cause)
            return
        if not self.tables[name].captured:
            self.capture(name, cause, table)
            self.tables[name] = replace(self.tables[name], through=later.through)
            return
        digest = self.definitions.put(table)
        self.tables[name] = TableProgress(READING, digest, through=later.through)
        self._note(ALTERED, name, cause, shape=digest, read_again=True, rows=self.count(name), reason=reason)
        if emptied or not table.primary_key:
            self._note(EMPTIED, name, cause, reason=reason)

    def cascaded(self, name: SourceName, cause: EventOrigin) -> None:
        """A table that foreign keys have changed without a trace: it is read again."""
        self.read_again(name, cause, _CASCADED, emptied=self.cascades.stale.pop(name))

    def left_out(self, name: SourceName, cause: EventOrigin, reason: str) -> None:
        """A table that is captured no longer; its rows stay as they are."""
        self.tables[name] = TableProgress(GONE)
        self._note(SKIPPED, name, cause, reason=reason)

    def pause(self, name: SourceName, cause: EventOrigin, reason: str) -> None:
        """A table that cannot be followed here, and is not until `read_again` or an ALTER TABLE takes it in
        again, with all its rows; those in the lake stay as they are."""
        self.tables[name] = TableProgress(HELD, self.tables[name].digest)
        self._note(PAUSED, name, cause, reason=reason)

    def _known(self) -> list[SourceName]:
        return [name for name, progress in self.tables.items() if progress.state != GONE]

    def _places(self, effects: Sequence[Effect]) -> dict[SourceName, _Identity]:
        """Which table each name stands for after the effects."""
        places = {name: _Identity(name) for name in self._known()}
        for effect in effects:
            name = effect.table
            if effect.kind == ddl.DROP_DATABASE:
                places = {n: identity for n, identity in places.items() if n.database != name.database}
            elif effect.kind == ddl.DROP:
                places.pop(name, None)
            elif effect.kind == ddl.RENAME:
                assert effect.new_name is not None, "a rename has a new name"
                places[effect.new_name] = places.pop(name, _Identity(None))
            elif effect.kind == ddl.CREATE:
                if not (effect.conditional and name in places):
                    places.pop(name, None)
                    places[name] = _Identity(None)
            elif effect.kind == ddl.TRUNCATE:
                if name in places:
                    places[name].emptied = True
            else:
                identity = places.setdefault(name, _Identity(None))
                identity.alter = effect if identity.alter is None else identity.alter.then(effect)
        return places

    def _renamed(
        self, places: Mapping[SourceName, _Identity], before: set[SourceName], gone: set[SourceName]
    ) -> Iterator[tuple[SourceName, SourceName]]:
        """Tables that go on under another name, each after the one whose name it takes."""
        moves = {
            identity.origin: name
            for name, identity in places.items()
            if identity.origin in before
            and identity.origin != name
            and self.chosen(name)
            and self._fits(identity.origin, name)
        }
        free = {name for name in moves.values() if name not in before}
        while ready := next(((old, new) for old, new in moves.items() if new in free), None):
            old, new = ready
            assert old is not None
            del moves[old]
            free = free - {new} | {old}
            yield old, new

    def _fits(self, old: SourceName, new: SourceName) -> bool:
        """Whether a table is captured under a new name, too."""
        table = self._definition(self.tables[old])
        return table is None or not isinstance(
            self.usable(replace(table, database=new.database, name=new.table)), str
        )

    def _rename(self, old: SourceName, new: SourceName, cause: EventOrigin) -> None:
        progress = self.tables.pop(old)
        table = self._definition(progress)
        digest = progress.digest
        if table is not None:
            digest = self.definitions.put(replace(table, database=new.database, name=new.table))
        self.tables[new] = replace(progress, digest=digest)
        if progress.is_read:
            self.tables[new] = TableProgress(READING, digest, through=progress.through)
        self.cascades.renamed(old, new)
        self._note(RENAMED, old, cause, new_name=[new.database, new.table], shape=digest)
        if progress.is_read and table is not None and not table.primary_key:
            self._note(EMPTIED, new, cause, reason="its rows are read again")

    def _changed(self, name: SourceName, identity: _Identity, cause: EventOrigin) -> None:
        if not self.tables[name].captured:
            if identity.alter is not None:
                self.capture(name, cause)
            return
        if identity.emptied:
            self._note(EMPTIED, name, cause)
            self.tables[name] = replace(self.tables[name], state=FOLLOWED, key=None, bounds=())
        progress = self.tables[name]
        through = progress.through
        if identity.alter is not None and not (through and cause.position.order <= through):
            self._altered(name, identity.alter, cause)

    def _altered(self, name: SourceName, effect: Effect, cause: EventOrigin) -> None:
        progress = self.tables[name]
        old = self._definition(progress)
        later = self.look(name, cause.position, old)
        if later.table is None:
            if not later.dropped:
                self._note(DROPPED, name, cause, reason="it is not there any more")
                self.tables[name] = TableProgress(GONE)
            return
        new = self.usable(later.table)
        if isinstance(new, str):
            self._skip(name, new, cause)
            return
        for alter in later.alters:
            effect = effect.then(alter)
        if old is None:
            reason, renamed = "what it was before is lost", dict[str, str]()
        else:
            reason, renamed = ddl.needs_read_again(effect, old, new), ddl.renamed_columns(effect, old, new)
        emptied = bool(reason) and (effect.removes_rows or old is None or _rekeyed(old, new, renamed))
        if progress.is_read:
            reason = reason or "its rows are being read"
        emptied |= bool(reason) and not new.primary_key  # rows that are read again would be there twice
        digest = self.definitions.put(new)
        self.tables[name] = replace(progress, digest=digest, through=later.through or progress.through)
        if reason:
            self.tables[name] = TableProgress(READING, digest, through=later.through)
        if digest != progress.digest or reason:
            rows = self.count(name) if reason else None
            self._note(
                *(ALTERED, name, cause),
                shape=digest,
                renamed=renamed,
                rows=rows,
                read_again=bool(reason),
                reason=reason,
            )
        if emptied:  # after what may be refused
            self._note(EMPTIED, name, cause, reason=reason)

    def _replaced(self, name: SourceName, cause: EventOrigin) -> None:
        """Another table took the name."""
        progress = self.tables[name]
        later = self.look(name, cause.position, self._definition(progress))
        reason = "another table took its name"
        if later.table is None:
            self._note(EMPTIED, name, cause, reason=reason)
            if not later.dropped:
                self._note(DROPPED, name, cause, reason="it is not there any more")
                self.tables[name] = TableProgress(GONE)
            return
        table = self.usable(later.table)
        if isinstance(table, str):
            self._note(EMPTIED, name, cause, reason=reason)
            self._skip(name, table, cause)
            return
        digest = self.definitions.put(table)
        self.tables[name] = TableProgress(READING, digest, through=later.through)
        rows = self.count(name)
        self._note(ALTERED, name, cause, shape=digest, read_again=True, rows=rows, reason=reason)
        self._note(EMPTIED, name, cause, reason=reason)

    def _skip(self, name: SourceName, reason: str, cause: EventOrigin) -> None:
        progress = self.tables.get(name)
        self.tables[name] = TableProgress(UNUSABLE, progress.digest if progress else "")
        if progress is None or progress.state != UNUSABLE:
            self._note(SKIPPED, name, cause, reason=reason)

    def _definition(self, progress: TableProgress) -> SourceTable | None:
        return self.definitions.get(progress.digest)

    def _note(self, kind: str, name: SourceName, cause: EventOrigin, **more: Any) -> None:
        item: dict[str, Any] = {"kind": kind, "table": [name.database, name.table]}
        item |= {"position": str(cause.position), "seconds": cause.seconds}
        item["statement"] = cause.text[:_MOST_TEXT]
        if kind == EMPTIED:
            self.cascades.emptied(name)
        self.events.append({**item, **{key: value for key, value in more.items() if value}})


def event_of(item: Event, definition: Callable[[SourceName, str], SourceTable]) -> TableEvent:
    """An event as others see it. `definition` gives that of a table by its digest."""
    name = SourceName(*item["table"])
    new_name = SourceName(*item["new_name"]) if "new_name" in item else None
    digest = item.get("shape", "")
    return TableEvent(
        item["kind"],
        name,
        item["position"],
        shape_of(definition(new_name or name, digest)) if digest else None,
        item["statement"],
        item["seconds"],
        item.get("renamed", {}),
        new_name,
        item.get("rows"),
        item.get("read_again", False),
        item.get("reason", ""),
    )


def _rekeyed(old: SourceTable, new: SourceTable, renamed: Mapping[str, str]) -> bool:
    """Whether a column of the key is of another type: rows may have other keys than before."""
    if tuple(renamed.get(name, name) for name in old.primary_key) != new.primary_key:
        return True
    pairs = zip(old.primary_key, new.primary_key, strict=True)
    return any(old.column(a).type != new.column(b).type for a, b in pairs)


def later_table(
    connection: Connection,
    address: Address,
    name: SourceName,
    *,
    position: LogPosition,
    before: SourceTable | None,
    effects: Callable[[LogStatement], list[Effect]],
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
            wanted=lambda each: each == trace.name,
            visit=trace.visit,
        )
        if trace.gone:
            return LaterTable(None, dropped=True)
        if wire is not None:
            charsets = dialect.charsets(connection) | {0: "", 63: "binary"}
            now = present(trace.name)
            earlier = before and replace(before, database=trace.name.database, name=trace.name.table)
            return _found(name, in_log(wire, charsets, now=now, before=earlier), trace)
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
    effects: Callable[[LogStatement], list[Effect]]
    alters: list[Effect] = field(default_factory=list)
    through: tuple[int, int] | None = None
    gone: bool = False
    renamed: bool = False
    statements: int = 0

    def visit(self, statement: LogStatement) -> bool:
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

    def _take(self, effect: Effect, statement: LogStatement) -> None:
        self.statements += 1
        if effect.kind == ddl.RENAME:
            assert effect.new_name is not None
            self.name, self.renamed = effect.new_name, True
        elif effect.kind in (ddl.ALTER, ddl.UNKNOWN):
            self.alters.append(effect)
            self.through = statement.position.order
        elif effect.kind == ddl.DROP or (effect.kind == ddl.CREATE and not effect.conditional):
            self.gone = True
