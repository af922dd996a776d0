"""What tables there are in ranges of topics and what their rows look like: found before a range is read.

The scan goes through all messages of a range, but looks at each description of columns once for a table, and
decodes no row. Shapes only grow (`capture.shapes.grown`), since messages of several partitions have no order:
a column that the source dropped stays and is NULL, a renamed one is another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.shapes import grown
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    EMPTIED,
    SKIPPED,
    ShapeColumn,
    TableEvent,
    TableShape,
)
from tablestore.cdc.formats.events import NO_ROWS, SNAPSHOT, TRUNCATE, EventFormat, Routes
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.messages.messages import BadMessage, Messages, readable
from tablestore.format.types.data_type import DataType
from tablestore.log.kafka.partition_range import PartitionRange

_MOST_KEYS_LOOKED_AT = 1000
_DATABASE = "default"
_ANY = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class CaptureTables:
    """Which tables are captured, as the rules say it, and types of columns that messages do not say, by
    patterns of tables: the first that matches counts."""

    rules: CaptureRules
    types: Mapping[str, Mapping[str, DataType]] = field(default_factory=dict)

    @property
    def named(self) -> bool:
        """Whether all are asked for by full names, so that one that cannot be captured is an error."""
        return not any(_ANY.search(pattern) for pattern in self.rules.patterns.include)

    def captures(self, name: SourceName) -> bool:
        """Whether a table is captured."""
        return self.rules.captures(name)

    def types_of(self, name: SourceName) -> Mapping[str, DataType]:
        """The types of columns that are declared for a table."""
        matching = (types for pattern, types in self.types.items() if fnmatchcase(str(name), pattern))
        return next(matching, {})


def table_names(routes: Routes, topic: str) -> pa.Array:
    """The database and table of each message, as a dictionary of texts; NULL for one without rows that names
    none."""
    rows = pc.not_equal(routes.ops, NO_ROWS)
    parts = topic.split(".")
    database, table = (parts[-2], parts[-1]) if len(parts) > 1 else (_DATABASE, topic)
    unnamed = routes.table.is_null()
    databases = pc.if_else(unnamed, database, routes.database).fill_null(_DATABASE)
    both = pc.binary_join_element_wise(databases, routes.table.fill_null(table), "\0")
    return pc.if_else(rows, both, pa.scalar(None, pa.string())).dictionary_encode()


def source_name(text: str) -> SourceName:
    """The table of such a text."""
    return SourceName(*text.split("\0", 1))


def place(topic: str, partition: int, offset: int) -> str:
    """A message's place in words."""
    return f"{topic}[{partition}]@{offset}"


class ShapeScan:
    """Scans ranges; `shapes` and the events `found` say what came of it. `earlier`: the shapes before, None
    for a table that is not captured. Not thread-safe."""

    def __init__(
        self, format: EventFormat, tables: CaptureTables, earlier: Mapping[SourceName, TableShape | None]
    ) -> None:
        self._format, self._tables, self._known = format, tables, earlier
        self.shapes: dict[SourceName, TableShape | None] = dict(earlier)
        self.topics: dict[SourceName, set[str]] = {}
        self.found: dict[tuple[SourceName, str], TableEvent] = {}
        self.seconds: Counter[int] = Counter()
        self.bytes = 0
        self._targets: dict[str, SourceName] = {}

    def end_of(self, part: PartitionRange, *, ordered: bool) -> int:
        """Where a batch that reads this range ends: at its end, or in front of a message that changes the
        columns of a known table, or empties it, behind rows of that table. `ordered`: the topic has one
        partition, so that what came before a TRUNCATE is known."""
        there: set[SourceName] = set()  # tables with rows before
        self._checked: set[tuple[str, str]] = set()
        for messages in part.read():
            for some, routes in readable(messages, self._format.routes, _passed):
                cut = self._cut(some, routes, there, ordered)
                if cut is not None:
                    self._count(some.slice(0, cut), routes)
                    return int(some.offsets[cut])
                self._count(some, routes)
        return part.end

    def _count(self, messages: Messages, routes: Routes) -> None:
        self.bytes += messages.values.nbytes
        changes = pc.and_(pc.not_equal(routes.ops, NO_ROWS), pc.not_equal(routes.ops, SNAPSHOT))
        times = routes.seconds.slice(0, len(messages)).filter(changes.slice(0, len(messages))).drop_null()
        for entry in pc.value_counts(times).to_pylist():
            self.seconds[entry["values"]] += entry["counts"]

    def _cut(self, messages: Messages, routes: Routes, there: set[SourceName], ordered: bool) -> int | None:
        """The place of the message that the batch ends in front of."""
        names = table_names(routes, messages.topic)
        texts = names.dictionary.to_pylist()
        codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        truncates = pc.equal(routes.ops, TRUNCATE).to_numpy(zero_copy_only=False)
        first_rows = _firsts(codes, (codes >= 0) & ~truncates)
        for row in self._to_look_at(codes, texts, routes, truncates):
            name = source_name(texts[codes[row]])
            if not self._tables.captures(name):
                continue
            behind = name in there or first_rows.get(codes[row], row) < row
            position = place(messages.topic, messages.partition, int(messages.offsets[row]))
            at = routes.seconds[row].as_py() or 0
            self.topics.setdefault(name, set()).add(messages.topic)
            same = codes == codes[row]
            if not self._grow(name, routes.descriptions[row].as_py(), messages, same, behind, position, at):
                return row
            if truncates[row] and ordered and self.shapes.get(name) is not None:
                if behind:
                    return row
                event = TableEvent(EMPTIED, name, position, seconds=at, reason="TRUNCATE")
                self.found.setdefault((name, EMPTIED), event)
        there.update(source_name(texts[code]) for code in first_rows)
        return None

    def _to_look_at(
        self, codes: np.ndarray, texts: list[str], routes: Routes, truncates: np.ndarray
    ) -> list[int]:
        """The first message of each table with each description, and all that empty a table, in order."""
        described = routes.descriptions.dictionary_encode()
        kinds = described.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        pairs = codes.astype(np.int64) * (len(described.dictionary) + 1) + kinds
        firsts = _firsts(pairs, (codes >= 0) & (kinds >= 0))
        new = []
        for row in firsts.values():
            pair = texts[codes[row]], described.dictionary[int(kinds[row])].as_py()
            if pair not in self._checked:
                self._checked.add(pair)
                new.append(row)
        return sorted({*new, *np.flatnonzero(truncates & (codes >= 0)).tolist()})

    def _grow(
        self,
        name: SourceName,
        description: str | None,
        messages: Messages,
        same: np.ndarray,
        behind: bool,
        position: str,
        at: int,
    ) -> bool:
        """Take the columns of a message into the shape of its table; whether it is done: it is not where a
        known table would change `behind` rows of it."""
        if description is None or (name in self.shapes and self.shapes[name] is None):
            return True
        try:
            columns = self._declared(name, self._format.columns(description))
        except InvalidRequest:  # a bad message, which its reader names
            return True
        before = self.shapes.get(name)
        try:
            shape = (
                self._first_shape(name, columns, messages, np.flatnonzero(same))
                if before is None
                else grown(before, columns, inferred=self._format.inferred(description))
            )
        except Unsupported as e:
            if self._tables.named:
                raise
            self.shapes[name] = None
            self.found[name, SKIPPED] = TableEvent(SKIPPED, name, position, seconds=at, reason=str(e))
            return True
        if shape == before:
            return True
        if self._known.get(name) is not None:
            if behind:
                return False
            self.found.setdefault((name, ALTERED), TableEvent(ALTERED, name, position, seconds=at))
        else:
            self.found.setdefault((name, CAPTURED), TableEvent(CAPTURED, name, position, seconds=at))
        self.shapes[name] = shape
        return True

    def _declared(self, name: SourceName, columns: tuple[ShapeColumn, ...]) -> tuple[ShapeColumn, ...]:
        types = self._tables.types_of(name)
        there = {c.name for c in columns}
        more = (ShapeColumn(column, kind) for column, kind in types.items() if column not in there)
        return (*(replace(c, type=types.get(c.name, c.type)) for c in columns), *more)

    def _first_shape(
        self, name: SourceName, columns: tuple[ShapeColumn, ...], messages: Messages, rows: np.ndarray
    ) -> TableShape:
        """Raises Unsupported for a table that cannot be captured, and what `CaptureRules.plan` raises."""
        folded = Counter(c.name.casefold() for c in columns)
        double = next((c.name for c in columns if folded[c.name.casefold()] > 1), None)
        if double is not None:
            raise Unsupported(f"table {name}: columns that differ from {double!r} in case only")
        key: tuple[str, ...] = ()
        for row in rows[:_MOST_KEYS_LOOKED_AT]:
            key = key or self._format.key(messages.take(np.array([row])))
        names = {c.name for c in columns}
        shape = TableShape(columns, key if names.issuperset(key) else (), partial=True)
        key = self._tables.rules.source_key(name, shape)
        if not key:
            raise Unsupported(
                f"table {name} without a primary key",
                f"its messages tell none; say it: primary_keys={{{str(name)!r}: [...]}}",
            )
        kept = tuple(replace(c, type=c.type.not_null()) if c.name in key else c for c in columns)
        shape = replace(shape, columns=kept, primary_key=key)
        self._require_target(name, shape)
        return shape

    def _require_target(self, name: SourceName, shape: TableShape) -> None:
        """Raise what the rules raise for a table that cannot have one of the lake, or not for itself."""
        rules = self._tables.rules
        rules.plan({name: shape})
        if not self._targets:
            self._targets = {rules.target(source): source for source, there in self.shapes.items() if there}
        other = self._targets.setdefault(rules.target(name), name)
        there = self.shapes.get(other)
        if other != name and there is not None:
            rules.plan({other: there, name: shape})


def _firsts(codes: np.ndarray, wanted: np.ndarray) -> dict[int, int]:
    """The first place of each code among those wanted."""
    places = np.flatnonzero(wanted)
    distinct, first = np.unique(codes[places], return_index=True)
    return dict(zip(distinct.tolist(), places[first].tolist(), strict=True))


def _passed(error: BadMessage, message: Messages) -> None:
    """A message that cannot be read: its reader says so."""
