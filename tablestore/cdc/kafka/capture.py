"""Topics of change events as a capture source: many tables, whose columns the messages tell.

    offset = {… of `topic_ranges` …, "tables": [[database, table, digest of its shape, [topic, …]], …],
              "events": [[kind, database, table, position, seconds, reason], …],
              "seconds": [[second, changes], …], "bytes": n, "left": n, "planned": seconds}

A batch is a range of each partition, scanned before it is planned (`shape_scan`): a table that is new is
captured in front of it, and where the columns of a known one change behind rows of it, the batch ends in
front of that message. Shapes are files beside the checkpoint; a table whose file is lost is found anew.
All messages of a key are in one partition, or which of them is the last is not known; a table that comes in
a topic of more than one partition cannot be emptied, for nothing says what came before.

The path of an address `kafka://host:9092/topic` is a topic, several with commas between them, or a regular
expression that matches whole names, as Paimon's `topic-pattern`: kafka://host:9092/srv\\.shop\\..* takes all
topics of a database, also those that come later. Names of topics hold letters, digits and `._-` only, so that
anything else is an expression.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.shapes import ShapeFiles
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    EMPTIED,
    SKIPPED,
    BadRow,
    BatchFacts,
    ChunkFacts,
    TableEvent,
    TableRows,
    TableShape,
)
from tablestore.cdc.formats.events import SNAPSHOT, TRUNCATE, EventFormat, Routes
from tablestore.cdc.formats.registry import EVENTS, events_of, require_from_environment
from tablestore.cdc.kafka.shape_scan import CaptureTables, ShapeScan, place, source_name, table_names
from tablestore.cdc.kafka.topic_ranges import (
    EARLIEST,
    GROUP,
    LATEST,
    TIMESTAMP,
    UNBOUNDED,
    ScanPoint,
    TopicRanges,
    positions,
)
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound
from tablestore.flow.source import LogRetention, Offset
from tablestore.format.messages.messages import BadMessage, Changes, Messages, readable
from tablestore.format.rowkind import INSERT
from tablestore.format.types.arrow_types import as_type
from tablestore.format.types.data_type import DataField, DataType
from tablestore.log.kafka.cluster import Properties
from tablestore.log.kafka.partition_range import PartitionRange

_ORDER = (SKIPPED, CAPTURED, ALTERED, EMPTIED)
_MOST_SECONDS = 200  # pairs in an offset


@dataclass(frozen=True)
class TopicsCapture:
    """The tables in the messages of topics, as a stream; a `CaptureSource`."""

    ranges: TopicRanges
    format: EventFormat
    chosen: CaptureTables
    shapes: ShapeFiles

    def initial(self) -> Offset:
        return self.ranges.initial()

    def next(self, start: Offset) -> Offset:
        """Raises NotFound where messages that come next are gone or a topic was made anew, and Unsupported
        for a table that is asked for by its name and cannot be captured."""
        planned = SYSTEM.now_ms() / 1000
        end = self.ranges.next(start)
        if all(end.get(part) == start.get(part) for part in ("topics", "bound")):
            return start
        shapes = self._known(start)
        scan = ShapeScan(self.format, self.chosen, shapes)
        counts = {topic: len(read["next"]) for topic, read in end["topics"].items()}
        for part in self.ranges.ranges(start, end):
            until = scan.end_of(part, ordered=counts[part.topic] == 1)
            end["topics"][part.topic]["next"][str(part.partition)] = until
        shape_events = sorted(scan.found.values(), key=lambda event: _ORDER.index(event.kind))
        return {
            **end,
            "tables": self._tables(start, shapes, scan),
            "events": [_event(shape_event) for shape_event in shape_events],
            "seconds": _few(sorted(scan.seconds.items())),
            "bytes": scan.bytes,
            "left": self._left(start, end, scan.bytes),
            "planned": planned,
        }

    def ended(self, offset: Offset) -> bool:
        return self.ranges.ended(offset)

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        shapes = self._shapes(end)
        events = []
        for kind, database, table, position, seconds, reason in end.get("events", ()):
            name = SourceName(database, table)
            shape = shapes[name][0] if kind in (CAPTURED, ALTERED) else None
            events.append(TableEvent(kind, name, position, shape, seconds=seconds, reason=reason))
        return events

    def pieces(self, start: Offset, end: Offset) -> list[TopicsPiece]:
        """A piece for each partition with messages; in any order, if a key's are in one partition."""
        shapes = self._shapes(end)
        skipped = frozenset(SourceName(*item[:2]) for item in end.get("tables", ()) if item[2] is None)
        pieces = []
        for part in self.ranges.ranges(start, end):
            mine = {name: shape for name, (shape, topics) in shapes.items() if part.topic in topics}
            tables = mine or {name: shape for name, (shape, _) in shapes.items()}  # bad messages go with one
            ordered = len(end["topics"][part.topic]["next"]) == 1
            pieces.append(TopicsPiece(part, self.format, tables, self.chosen, skipped, ordered))
        return pieces

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        """What planning has found; its transactions are changes, for messages do not tell them."""
        commits = tuple((int(second), int(n)) for second, n in end.get("seconds", ()))
        return BatchFacts(
            end.get("planned", 0.0), reached(end), commits, end.get("bytes", 0), end.get("left", 0)
        )

    def kept(self, end: Offset) -> list[LogRetention]:
        """How much of the time is over for which the topics keep messages."""
        return self.ranges.kept(end)

    def done(self, end: Offset) -> None:
        """Note the offsets with the consumer group, if there is one: for those who watch its lag."""
        self.ranges.done(end)

    def _known(self, offset: Offset) -> dict[SourceName, TableShape | None]:
        """The shapes of tables, None for one that is not captured; without those whose files are lost."""
        shapes: dict[SourceName, TableShape | None] = {}
        for database, table, digest, _ in offset.get("tables", ()):
            shape = None if digest is None else self.shapes.get(digest)
            if digest is None or shape is not None:
                shapes[SourceName(database, table)] = shape
        return shapes

    def _shapes(self, offset: Offset) -> dict[SourceName, tuple[TableShape, list[str]]]:
        """The shapes of tables and the topics that they come in. Raises NotFound where a file is lost."""
        shapes = {}
        for database, table, digest, topics in offset.get("tables", ()):
            if digest is not None:
                shape = self.shapes.get(digest)
                if shape is None:
                    raise NotFound(
                        f"the columns of {database}.{table} are lost, {self.shapes.path(digest)}: "
                        "begin anew with a fresh checkpoint"
                    )
                shapes[SourceName(database, table)] = shape, topics
        return shapes

    def _tables(
        self, start: Offset, earlier: Mapping[SourceName, TableShape | None], scan: ShapeScan
    ) -> list[list[Any]]:
        before = {SourceName(d, t): (digest, topics) for d, t, digest, topics in start.get("tables", ())}
        tables = []
        for name, shape in sorted(scan.shapes.items()):
            digest, topics = before.get(name, (None, []))
            if shape is not None and (name not in earlier or shape != earlier[name]):
                digest = self.shapes.put(shape)
            tables.append([name.database, name.table, digest, sorted({*topics, *scan.topics.get(name, ())})])
        return tables

    def _left(self, start: Offset, end: Offset, size: int) -> int:
        """About how many bytes of messages there are behind the end."""
        begins, here, there = positions(start), positions(end), positions(self.ranges.latest())
        read = sum(n - begins.get(part, n) for part, n in here.items())
        left = sum(max(0, n - here.get(part, n)) for part, n in there.items())
        return size * left // max(1, read)


@dataclass(frozen=True)
class TopicsPiece:
    """The changes of tables in a range of one partition; a `CapturePiece`."""

    range: PartitionRange
    format: EventFormat
    tables: Mapping[SourceName, TableShape]
    chosen: CaptureTables
    skipped: frozenset[SourceName]
    ordered: bool

    @property
    def chunk(self) -> ChunkFacts | None:
        return None

    def read(self) -> Iterator[TableRows | BadRow]:
        """Rows of each table in the order of the messages, and messages that cannot be rows: one whose table
        is not known goes with the first table of its topic. Raises BadMessage where there is none."""
        bad: list[BadRow] = []

        def keep(error: BadMessage, message: Messages) -> None:
            bad.append(self._bad(None, error.reason, message))

        for messages in self.range.read():
            for some, routes in readable(messages, self.format.routes, keep):
                yield from self._rows(some, routes)
            yield from bad
            bad.clear()

    def _rows(self, messages: Messages, routes: Routes) -> Iterator[TableRows | BadRow]:
        names = table_names(routes, messages.topic)
        codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        truncates = pc.equal(routes.ops, TRUNCATE).to_numpy(zero_copy_only=False)
        for code, text in enumerate(names.dictionary.to_pylist()):
            name = source_name(text)
            if name in self.skipped or not self.chosen.captures(name):
                continue
            mine = codes == code
            if name not in self.tables:
                rows = np.flatnonzero(mine & ~truncates)
                yield from self._each_bad(None, messages.take(rows), f"no message says the columns of {name}")
                continue
            if not self.ordered:
                rows = np.flatnonzero(mine & truncates)
                yield from self._each_bad(name, messages.take(rows), _UNORDERED)
            yield from self._of_table(name, messages, routes, np.flatnonzero(mine & ~truncates))

    def _of_table(
        self, name: SourceName, messages: Messages, routes: Routes, rows: np.ndarray
    ) -> Iterator[TableRows | BadRow]:
        """The changes of one table, rows of a snapshot and others by themselves."""
        shape = self.tables[name]
        decoder = self.format.decoder(
            tuple(DataField(i, c.name, c.type) for i, c in enumerate(shape.columns))
        )
        snapshot = pc.equal(routes.ops, SNAPSHOT).to_numpy(zero_copy_only=False)[rows]
        borders = np.flatnonzero(snapshot[1:] != snapshot[:-1]) + 1
        bad: list[BadRow] = []

        def keep(error: BadMessage, message: Messages) -> None:
            bad.append(self._bad(name, error.reason, message))

        for run in np.split(rows, borders) if len(rows) else ():
            mine = messages.take(run)
            for some, changes in readable(mine, decoder.decode, keep):
                first = int(np.searchsorted(mine.offsets, some.offsets[0]))
                of = run[first : first + len(some)]
                seconds = None if routes.ops[int(run[0])].as_py() == SNAPSHOT else _times(routes, of)
                if changes.num_rows:
                    position = place(messages.topic, messages.partition, int(some.offsets[-1]))
                    yield _table_rows(name, shape, changes, seconds, position)
            yield from bad
            bad.clear()

    def _each_bad(self, name: SourceName | None, messages: Messages, reason: str) -> Iterator[BadRow]:
        for i in range(len(messages)):
            yield self._bad(name, reason, messages.slice(i, 1))

    def _bad(self, name: SourceName | None, reason: str, message: Messages) -> BadRow:
        name = name or min(self.tables, default=None)
        if name is None:
            raise BadMessage(message.topic, message.partition, int(message.offsets[0]), reason)
        position = place(message.topic, message.partition, int(message.offsets[0]))
        return BadRow(name, position, INSERT, reason, _as_json(message.values[0].as_py()))


_UNORDERED = (
    "TRUNCATE in a topic of several partitions: which rows came before it cannot be told; "
    "a topic of one partition tells it, or empty the table by hand"
)


def _times(routes: Routes, rows: np.ndarray) -> pa.Array:
    """When the images of messages were committed, 0 where nothing says it."""
    seconds = routes.seconds.take(pa.array(rows)).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.repeat(seconds, routes.images[rows]))


def _table_rows(
    name: SourceName, shape: TableShape, changes: Changes, seconds: pa.Array | None, position: str
) -> TableRows:
    assert seconds is None or len(seconds) == changes.num_rows, "a time for each image"
    rows = pa.RecordBatch.from_arrays(changes.rows.columns, schema=shape.schema)
    return TableRows(name, rows, changes.kinds, seconds, position)


def _as_json(value: bytes | None) -> str:
    """A message as JSON: what it is, or its bytes in base64."""
    if value is None:
        return "null"
    try:
        text = value.decode()
        json.loads(text)
        return text
    except ValueError:
        return json.dumps({"base64": base64.b64encode(value).decode()})


def _event(event: TableEvent) -> list[Any]:
    return [event.kind, event.table.database, event.table.table, event.position, event.seconds, event.reason]


def _few(pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The pairs; where there are many, neighbours together at the older time."""
    step = -(-len(pairs) // _MOST_SECONDS)
    groups = (pairs[i : i + step] for i in range(0, len(pairs), max(1, step)))
    return [[group[0][0], sum(n for _, n in group)] for group in groups]


def reached(offset: Offset) -> str:
    """An offset in words: topic partition:offset, …"""
    topics = offset["topics"].items()
    return "; ".join(
        f"{name} " + ", ".join(f"{n}:{at}" for n, at in topic["next"].items()) for name, topic in topics
    )


SCHEME = "kafka://"
_FORM = "kafka://host:9092/topic"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class TopicSettings:
    """How topics are read, as a user writes it.

    `format` is one of those of `EVENTS`, and `format_options` are its options without its name before them:
    `{"decimal.handling.mode": "precise"}`, `{"url": "http://registry:8081"}`. `properties` are librdkafka's;
    a secret is `${env:NAME}`. `columns` gives types that messages do not say, `{"shop.orders": {"price":
    "DECIMAL(15, 2)"}}`, by patterns of tables. `start`: earliest-offset, latest-offset, group-offsets or
    milliseconds since 1970. `messages` of a partition at most make a batch.
    """

    format: str
    format_options: Mapping[str, str] | None = None
    properties: Mapping[str, str] | None = None
    columns: Mapping[str, Mapping[str, Any]] | None = None
    start: str | int = EARLIEST
    messages: int = 500_000


def open_topics(
    url: str, settings: TopicSettings, rules: CaptureRules, *, checkpoint: str, follow: bool = True
) -> TopicsCapture:
    """The capture of the topics of an address. `rules` choose tables by the names that the messages say.
    Without `follow` it ends at what there is when it begins. Raises InvalidRequest, InvalidOption, NotFound,
    Unsupported.
    """
    brokers, topics, pattern = parsed(url)
    events = events_of(settings.format, _texts("format_options", settings.format_options))
    given, messages = _texts("properties", settings.properties), settings.messages
    if isinstance(messages, bool) or not isinstance(messages, int) or messages < 1:
        raise InvalidRequest(f"messages is a whole number above 0, not {messages!r}")
    ranges = TopicRanges(
        _properties(brokers, given),
        topics,
        _start(settings.start, given.get("group.id", "")),
        ScanPoint(UNBOUNDED if follow else LATEST),
        limit=messages,
        pattern=pattern,
    )
    declared = {str(table): _types(types) for table, types in _mapping(_COLUMNS, settings.columns).items()}
    return TopicsCapture(ranges, events, CaptureTables(rules, declared), ShapeFiles(checkpoint))


def parsed(url: str) -> tuple[str, tuple[str, ...], str]:
    """(brokers, topics, regular expression) of an address. Raises InvalidRequest, without showing the text,
    for one that holds a password."""
    brokers, _, path = url.removeprefix(SCHEME).partition("/")
    if "@" in brokers:
        raise InvalidRequest(
            "the address of the topics holds a user; give properties={'sasl.username': …, "
            f"'sasl.password': '${{env:NAME}}'}} and write {_FORM}"
        )
    path = unquote(path)
    if not url.startswith(SCHEME) or not brokers or not path:
        raise InvalidRequest(f"the address of the topics names brokers and topics; write {_FORM}")
    topics = tuple(topic.strip() for topic in path.split(","))
    if all(_TOPIC.fullmatch(topic) for topic in topics):
        return brokers, topics, ""
    try:
        re.compile(path)
    except re.error as e:
        raise InvalidRequest(
            f"{path!r} is neither a topic nor a regular expression ({e}); all topics are kafka://{brokers}/.*"
        ) from None
    return brokers, (), path


_COLUMNS = "columns is {table: {column: type}}"


def _types(written: Any) -> dict[str, DataType]:
    types = _mapping(_COLUMNS, written)
    return {name: as_type(kind, f"the type of column {name!r}") for name, kind in types.items()}


def _texts(name: str, written: Any) -> dict[str, str]:
    texts = _mapping(f"{name} is a mapping of names to texts", written)
    return {str(key): str(value) for key, value in texts.items()}


def _mapping(form: str, written: Any) -> Mapping[Any, Any]:
    if written is not None and not isinstance(written, Mapping):
        raise InvalidRequest(f"{form}, not {type(written).__name__}")
    return written or {}


def _properties(brokers: str, given: Mapping[str, str]) -> Properties:
    for key, written in given.items():
        require_from_environment(f"properties.{key}", written)
    return tuple(sorted({**given, "bootstrap.servers": brokers}.items()))


def _start(start: str | int, group: str) -> ScanPoint:
    if isinstance(start, int) and not isinstance(start, bool):
        return ScanPoint(TIMESTAMP, millis=start)
    if start not in (EARLIEST, LATEST, GROUP):
        raise InvalidOption(
            f"start is {EARLIEST}, {LATEST}, {GROUP} or milliseconds since 1970, not {start!r}"
        )
    if start == GROUP and not group:
        raise InvalidOption(f"start is {GROUP!r} and properties name no 'group.id'")
    return ScanPoint(start, group=group)


FORMATS = tuple(EVENTS)
"""The names of formats that a capture reads."""
