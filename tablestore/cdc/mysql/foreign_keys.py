"""Foreign keys that change rows of captured tables without a trace in the binlog, and when they did.

    ForeignKeys(connection).parents(name)     the tables whose changes change rows of this one, near and far
    references(text, database)                the foreign keys that a statement declares

MariaDB, "Foreign Keys": cascaded changes are made within the engine and are not written to the binlog. A
parent may be a child itself: rows that vanish from it without a trace take rows of its own children along.
Keys are read from the table's own statement: who may only SELECT does not see their rules elsewhere.

`CascadeWatch` looks at the rows of parents in the log, captured or not: a delete, or an update of a column
that a key points to, makes the children stale. `Cascades` keeps, from offset to offset, what the parents
of each table are and which tables are stale: those are read again once their rows are not being read
already. What statements of the log declare counts from there on, and what they take away no longer does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.slices import PADDING, Slices
from tablestore.cdc.mysql import ddl, events
from tablestore.cdc.mysql.columns import quoted
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.events import TableMap
from tablestore.cdc.mysql.row_slices import cut_images
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.sql_tokens import WORD, SqlToken, TokenCursor, UnknownStatement, tokens
from tablestore.core.errors import InvalidRequest, NotFound

CASCADE, SET_NULL = "CASCADE", "SET NULL"
_HISTORY = re.compile(r"^\s+PERIOD FOR SYSTEM_TIME \(`(?:[^`]|``)+`, `((?:[^`]|``)+)`\)", re.MULTILINE)
_VERSIONED = re.compile(r"^\).* WITH SYSTEM VERSIONING", re.MULTILINE)
_ROW_END = "row_end"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`columns` of a table point to the `referenced` ones of its parent; `on_delete` and `on_update` are
    CASCADE or SET NULL, else empty. Without `columns` it is not known which they are."""

    name: str
    columns: tuple[str, ...]
    parent: SourceName
    referenced: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    @property
    def rules(self) -> str:
        """In words, what it changes by itself."""
        pairs = (("ON DELETE", self.on_delete), ("ON UPDATE", self.on_update))
        return ", ".join(f"{when} {rule}" for when, rule in pairs if rule)

    def touches(self, columns: frozenset[str]) -> bool:
        """Whether it sets one of these columns, which are in small letters."""
        return not self.columns or any(column.lower() in columns for column in self.columns)


@dataclass(frozen=True, slots=True)
class ParentKey:
    """Changes of a table that change rows of another one without a trace: its `deletes`, and updates of any
    of the `updates`, which are columns. `ended`: the column that ends a row of a parent WITH SYSTEM
    VERSIONING, whose deletes are updates of it."""

    parent: SourceName
    deletes: bool
    updates: tuple[str, ...] = ()
    ended: str = ""

    def with_earlier(self, earlier: ParentKey) -> ParentKey:
        """What was known of the same parent before counts, too."""
        updates = tuple(dict.fromkeys((*self.updates, *earlier.updates)))
        deletes = self.deletes or earlier.deletes
        return ParentKey(self.parent, deletes, updates, self.ended or earlier.ended)

    def to_json(self) -> list[Any]:
        return [self.parent.database, self.parent.table, self.deletes, list(self.updates), self.ended]

    @classmethod
    def from_json(cls, item: list[Any]) -> ParentKey:
        database, table, deletes, updates, ended = item
        return cls(SourceName(database, table), deletes, tuple(updates), ended)


@dataclass(frozen=True, slots=True)
class Ancestry:
    """Where changes of a table come from that its log does not have. `removes`: they may take rows away, or
    give them another key; else they only change values."""

    parents: tuple[ParentKey, ...] = ()
    removes: bool = False

    def with_earlier(self, earlier: Ancestry) -> Ancestry:
        """What was known before counts, too."""
        return Ancestry(united((*self.parents, *earlier.parents)), self.removes or earlier.removes)

    def to_json(self) -> dict[str, Any]:
        return {"removes": self.removes, "parents": [key.to_json() for key in self.parents]}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Ancestry:
        return cls(tuple(ParentKey.from_json(key) for key in item["parents"]), item["removes"])


def united(keys: Iterable[ParentKey]) -> tuple[ParentKey, ...]:
    """One for each parent."""
    by_parent: dict[SourceName, ParentKey] = {}
    for key in keys:
        by_parent[key.parent] = by_parent[key.parent].with_earlier(key) if key.parent in by_parent else key
    return tuple(by_parent[name] for name in sorted(by_parent))


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is known of one table. `hidden`: it may not be looked at."""

    keys: tuple[ForeignKey, ...] = ()
    ended: str = ""
    hidden: bool = False


@dataclass
class ForeignKeys:
    """Those of tables as they are now; each table is looked up once. `declared` are others, which statements
    of the log have made since: they may be gone again."""

    connection: Connection
    declared: dict[SourceName, tuple[ForeignKey, ...]] = field(default_factory=dict)
    _known: dict[SourceName, _Keys] = field(default_factory=dict)

    def ancestry(self, name: SourceName, primary_key: Iterable[str]) -> Ancestry:
        """Of which tables changes change rows of this one, which has this `primary_key` in the lake."""
        mine = frozenset(column.lower() for column in primary_key)
        keys = [key for key in self._all(name) if key.rules]
        removes = not mine or any(key.on_delete == CASCADE or key.touches(mine) for key in keys)
        return Ancestry(united(self._parents(name)), bool(keys) and removes)

    def unlogged(self, name: SourceName, ancestry: Ancestry) -> str:
        """In words, which changes of a table its binlog does not have, and what is done about them. Empty
        without such a key."""
        shown = list(dict.fromkeys(f"{key.name!r} ({key.rules})" for key in self._all(name) if key.rules))
        if not shown:
            return ""
        parents = [str(key.parent) for key in ancestry.parents]
        hidden = [str(key.parent) for key in ancestry.parents if self._of(key.parent).hidden]
        how = "emptied and read again" if ancestry.removes else "read again"
        words = (
            f"foreign {'key' if len(shown) == 1 else 'keys'} {', '.join(shown)}: the binlog does not have "
            f"such changes; the table is {how} after a delete or another key in {', '.join(parents)}"
        )
        unseen = ", ".join(hidden)
        return words + (f"; it is not seen what changes {unseen}: GRANT SELECT on it" if hidden else "")

    def _parents(self, name: SourceName) -> list[ParentKey]:
        """Those of a table, then theirs, as far as a change of them goes on to it."""
        reached: list[ParentKey] = []
        seen: set[tuple[SourceName, bool, frozenset[str]]] = set()
        todo = [(key, key.on_delete != "", key.on_update != "") for key in self._all(name)]
        while todo:
            key, deletes, updates = todo.pop()
            columns = frozenset(column.lower() for column in key.referenced) if updates else frozenset()
            step = (key.parent, deletes, columns)
            if step in seen or not (deletes or updates):
                continue
            seen.add(step)
            ended = self._of(key.parent).ended if deletes else ""
            reached.append(ParentKey(key.parent, deletes, key.referenced if updates else (), ended))
            for further in self._all(key.parent):
                changes = updates and further.touches(columns)
                vanishes = deletes and further.on_delete == CASCADE
                set_null = changes and further.on_delete == SET_NULL
                todo.append((further, vanishes or set_null, changes and further.on_update != ""))
        return reached

    def _all(self, name: SourceName) -> tuple[ForeignKey, ...]:
        return (*self._of(name).keys, *self.declared.get(name, ()))

    def _of(self, name: SourceName) -> _Keys:
        if name not in self._known:
            self._known[name] = self._looked_up(name)
        return self._known[name]

    def _looked_up(self, name: SourceName) -> _Keys:
        try:
            rows = self.connection.rows(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
        except NotFound:
            return _Keys()
        except InvalidRequest:
            return _Keys(hidden=True)
        text = str(rows[0][1])
        period = _HISTORY.search(text)
        ended = (period[1].replace("``", "`") if period else _ROW_END) if _VERSIONED.search(text) else ""
        keys = tuple(references(text, name.database)) if " FOREIGN KEY " in text else ()
        return _Keys(keys, ended)


def references(text: str, database: str) -> list[ForeignKey]:
    """The foreign keys that a statement declares about a table of `database`, by what it says; none where
    it cannot be read."""
    try:
        return _references(TokenCursor(tokens(text)), database)
    except UnknownStatement:
        return []


def drops_key(text: str) -> bool:
    """Whether a statement may take a foreign key away."""
    try:
        words = [token.text.upper() for token in tokens(text) if token.kind == WORD]
    except UnknownStatement:
        return False
    return any(pair in (("DROP", "FOREIGN"), ("DROP", "CONSTRAINT")) for pair in pairwise(words))


def _references(cursor: TokenCursor, database: str) -> list[ForeignKey]:
    keys: list[ForeignKey] = []
    name, columns = "", tuple[str, ...]()
    while cursor.at < len(cursor.tokens):
        if cursor.accept("CONSTRAINT"):
            name, columns = cursor.peek().text, ()
        elif cursor.accept("FOREIGN", "KEY"):
            cursor.accept("IF", "NOT", "EXISTS")
            if cursor.peek().text != "(":
                cursor.at += 1
            columns = _names(cursor.listed())
        elif cursor.accept("REFERENCES"):
            parent = SourceName(*cursor.qualified(database))
            referenced = _names(cursor.listed())
            keys.append(ForeignKey(name, columns, parent, referenced, *_rules(cursor)))
            name, columns = "", ()
        else:
            cursor.at += 1
    return keys


def _names(listed: Iterable[Iterable[SqlToken]]) -> tuple[str, ...]:
    return tuple(next(iter(part)).text for part in listed if part)


def _rules(cursor: TokenCursor) -> tuple[str, str]:
    """(ON DELETE, ON UPDATE), those that change rows."""
    rules = {"DELETE": "", "UPDATE": ""}
    if cursor.accept("MATCH"):
        cursor.at += 1
    while cursor.sees("ON"):
        event = cursor.peek(1).text.upper()
        cursor.at += 2
        rule = CASCADE if cursor.accept("CASCADE") else SET_NULL if cursor.accept("SET", "NULL") else ""
        rules[event] = rule
        if not rule:
            cursor.at += 2 if cursor.sees("NO") or cursor.sees("SET") else 1
    return rules["DELETE"], rules["UPDATE"]


_UNCHECKED = 2  # a flag of row events: SET foreign_key_checks = 0, so that nothing cascades
_ROWS_AT_ONCE = 65_536
_KINDS = (ddl.ALTER, ddl.CREATE, ddl.RENAME, ddl.UNKNOWN)


@dataclass(frozen=True)
class CascadeWatch:
    """The parents of captured tables, each with its children and what changes them."""

    parents: Mapping[SourceName, Sequence[tuple[SourceName, ParentKey]]]

    @classmethod
    def of(cls, ancestries: Mapping[SourceName, Ancestry], captured: Collection[SourceName]) -> CascadeWatch:
        """That of the ancestries of captured tables."""
        parents: dict[SourceName, list[tuple[SourceName, ParentKey]]] = {}
        for child, ancestry in ancestries.items():
            for key in ancestry.parents if child in captured else ():
                parents.setdefault(key.parent, []).append((child, key))
        return cls(parents)

    def children(self, tables: Iterable[SourceName]) -> set[SourceName]:
        """Those of some parents."""
        return {child for name in tables for child, _ in self.parents.get(name, ())}

    def changed(self, name: SourceName, code: int, body: bytes, wire: bytes) -> set[SourceName]:
        """The tables that a row event of a parent changes without a trace; `wire` is its table map."""
        children = self.parents.get(name, ())
        if not children or code in events.INSERTS or int.from_bytes(body[6:8], "little") & _UNCHECKED:
            return set()
        if code in events.DELETES:
            return {child for child, key in children if key.deletes}
        watched = [(child, key) for child, key in children if key.updates or key.ended]
        if not watched:
            return set()
        event = events.row_event(code, body)
        if event.partial:
            return {child for child, _ in watched}
        return _by_updates(watched, event.images, events.table_map(wire))


UNWATCHED = CascadeWatch({})


def _by_updates(
    watched: Sequence[tuple[SourceName, ParentKey]], images: bytes, wire: TableMap
) -> set[SourceName]:
    """The children of which an update sets a column that counts. Where a parent has none of the columns that
    were known, they have got other names, and any update counts."""
    data = bytearray(images) + bytes(PADDING)
    places = {column.name.lower(): c for c, column in enumerate(wire.columns)}
    widths = [column.width for column in wire.columns]
    set_columns: set[int] = set()
    wanted = {
        places[name.lower()]
        for _, key in watched
        for name in (*key.updates, key.ended)
        if name.lower() in places
    }
    for slices, _, _ in cut_images(data, [0], [len(images)], [(1, 2)], widths, _ROWS_AT_ONCE):
        set_columns |= {c for c in wanted - set_columns if _is_set(slices, c)}
    children: set[SourceName] = set()
    for child, key in watched:
        there = {places[name.lower()] for name in key.updates if name.lower() in places}
        ended = places.get(key.ended.lower(), -1) in set_columns
        if ended or there & set_columns or (key.updates and not there):
            children.add(child)
    return children


def _is_set(slices: Slices, c: int) -> bool:
    """Whether any update gives the column other bytes."""
    lengths = slices.lengths[c]
    before, after = lengths[::2], lengths[1::2]
    if not np.array_equal(before, after):
        return True
    values, images = slices.binary(c), np.arange(slices.rows)
    return not values.take(pa.array(images[::2])).equals(values.take(pa.array(images[1::2])))


@dataclass
class Cascades:
    """Ancestries of captured tables at a position of the log, and the tables that are `stale` there: whether
    rows of each may be gone, or have another key."""

    keys: ForeignKeys
    ancestries: dict[SourceName, Ancestry] = field(default_factory=dict)
    stale: dict[SourceName, bool] = field(default_factory=dict)

    def watch(self, captured: Collection[SourceName]) -> CascadeWatch:
        return CascadeWatch.of(self.ancestries, captured)

    def captured(self, name: SourceName, primary_key: Iterable[str]) -> str:
        """A table is captured from here on, and its rows are to be read: in words, what its log lacks."""
        ancestry = self._look(name, primary_key)
        self.stale.pop(name, None)
        return self.keys.unlogged(name, ancestry)

    def emptied(self, name: SourceName) -> None:
        """All rows of a table are gone, and read again if there are any."""
        self.stale.pop(name, None)

    def renamed(self, old: SourceName, new: SourceName) -> None:
        """A captured table goes on under another name."""
        if old in self.ancestries:
            self.ancestries[new] = self.ancestries.pop(old)
        if old in self.stale:
            self.stale[new] = self.stale.pop(old)

    def mark(self, children: Iterable[SourceName]) -> None:
        """Foreign keys have changed these tables without a trace."""
        for name in children:
            removes = self.ancestries.get(name, Ancestry()).removes
            self.stale[name] = self.stale.get(name, False) or removes

    def look_up(self, keys_of: Mapping[SourceName, Iterable[str]]) -> None:
        """Look up tables that were captured before anything was known of their parents."""
        for name, primary_key in keys_of.items():
            self._look(name, primary_key)

    def concern(self, effect: Effect) -> bool:
        """Whether an effect is about a parent of a captured table, which may get a parent by it."""
        return effect.kind in _KINDS and any(effect.table in self._parents(name) for name in self.ancestries)

    def carry_out(
        self, effects: Sequence[Effect], text: str, keys_of: Mapping[SourceName, Iterable[str]]
    ) -> None:
        """Follow a statement with these effects. `keys_of`: the tables that are captured behind it, with
        their keys."""
        mine = [effect for effect in effects if effect.kind in _KINDS]
        for effect in mine:
            name = effect.new_name or effect.table
            self.keys.declared[name] = tuple(references(text, effect.table.database))
        for child, primary_key in keys_of.items():
            names = {child, *self._parents(child)}
            if not any(effect.table in names or effect.new_name in names for effect in mine):
                continue
            earlier = self.ancestries.get(child, Ancestry())
            present = self._look(child, primary_key)
            if not drops_key(text):
                self._keep(child, present.with_earlier(_moved(earlier, mine)))

    def to_keep(
        self, captured: Collection[SourceName]
    ) -> tuple[dict[SourceName, Ancestry], dict[SourceName, bool]]:
        """(the ancestries, the stale tables) of those that are captured, as an offset has them."""
        ancestries = {name: of for name, of in sorted(self.ancestries.items()) if name in captured}
        return ancestries, {name: gone for name, gone in sorted(self.stale.items()) if name in captured}

    def _parents(self, name: SourceName) -> set[SourceName]:
        return {key.parent for key in self.ancestries.get(name, Ancestry()).parents}

    def _look(self, name: SourceName, primary_key: Iterable[str]) -> Ancestry:
        ancestry = self.keys.ancestry(name, primary_key)
        self._keep(name, ancestry)
        return ancestry

    def _keep(self, name: SourceName, ancestry: Ancestry) -> None:
        if ancestry.parents:
            self.ancestries[name] = ancestry
        else:
            self.ancestries.pop(name, None)


def _moved(ancestry: Ancestry, effects: Sequence[Effect]) -> Ancestry:
    """With parents under their new names, too: they may have others by now."""
    new_names = {effect.table: effect.new_name for effect in effects if effect.new_name is not None}
    moved = [
        replace(key, parent=new_names[key.parent]) for key in ancestry.parents if key.parent in new_names
    ]
    return replace(ancestry, parents=(*ancestry.parents, *moved))
