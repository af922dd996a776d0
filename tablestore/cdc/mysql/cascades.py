"""Cascades: which captured tables foreign keys change without a trace in the binlog, and when they did.

`CascadeWatch` looks at the rows of parents in the log, captured or not: a delete, or an update of a column
that a key points to, makes the children stale. `Cascades` keeps, from offset to offset, what the parents
of each table are and which tables are stale: those are read again once their rows are not being read
already. What statements of the log declare counts from there on, and what they take away no longer does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.slices import PADDING, Slices
from tablestore.cdc.mysql import ddl, events
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.events import TableMap
from tablestore.cdc.mysql.foreign_keys import Ancestry, ForeignKeys, ParentKey, drops_key, references
from tablestore.cdc.mysql.row_slices import cut_images

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
