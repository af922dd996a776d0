"""A directory of changes (chunks of a full snapshot, then a log of transactions) as positions, pieces of
work and rows.

The layout is the one `datasets/cdc/README.md` describes. A `Position` says how far a reader has come: whole
chunks first, then an offset in the log that is always at the end of a transaction, so the changes between two
positions are the same whenever they are read. `next` gives the next position (admission), `work` cuts the
changes between two positions into pieces, `read` gives the rows of one piece. Safe to share: nothing is kept
but paths. Used by `cdc.directory_stream`.

A line of the log is a change event of Debezium: `{"topic", "key", "value": {"before", "after", "source",
"op", "ts_ms", "transaction"}}`. `c` and `r` give +I of `after`, `d` gives −D of `before`, `u` gives −U of
`before` and +U of `after`, in the order of the lines. Tombstones (`value` null), transaction markers and
lines of other tables are left out; `t` (truncate) is refused. Modes read: `decimal.handling.mode=string`,
`time.precision.mode` adaptive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound, SchemaMismatch, Unsupported
from tablestore.format.messages.messages import Changes, merged
from tablestore.format.rowkind import INSERT
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join

VERSION = 1
_END = b'"status":"END"'
_WINDOW = 4 << 20
_PARSE_BYTES = 48 << 20
_LONGEST_LINE = 64 << 20
_BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: `chunks` whole chunks, then everything before `offset` in `file`. The
    empty one is the start.
    """

    chunks: int = 0
    file: str = ""
    offset: int = 0

    @property
    def order(self) -> tuple[int, str, int]:
        """What positions are compared by: the later one is the greater."""
        return self.chunks, self.file, self.offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}" if self.file else f"chunk {self.chunks}"

    def to_dict(self) -> dict[str, Any]:
        """The form kept in Spark offsets and snapshot properties."""
        return {"v": VERSION, "chunks": self.chunks, "file": self.file, "offset": self.offset}

    @classmethod
    def of(cls, value: str | dict[str, Any]) -> Position:
        """The position of `to_dict`, or of its JSON; raises InvalidRequest for another version."""
        item = json.loads(value) if isinstance(value, str) else value
        if item.get("v") != VERSION:
            raise InvalidRequest(f"source position of version {item.get('v')!r}; version {VERSION} is known")
        return cls(item["chunks"], item["file"], item["offset"])


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of the full snapshot: keys of no other chunk, every row once."""

    number: int
    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class LogBytes:
    """Whole lines of one log file from byte `start` up to `end`."""

    path: str
    start: int
    end: int


Work = Chunk | LogBytes


@dataclass(frozen=True, slots=True)
class ChunkMark:
    """A chunk's keys, and the log positions between which the source read it.

    The chunk holds its rows as of `high`; changes after it are in the log only.
    """

    number: int
    rows: int
    lo: Any
    hi: Any
    low: Position
    high: Position


@dataclass(frozen=True)
class ChangeDirectory:
    """One table's changes in a directory that another program writes, perhaps still growing."""

    io: FileIO
    path: str
    table: str

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """The contents of `source.json`; raises NotFound where there is no such directory or table."""
        item = self._json("source.json")
        if item.get("version") != VERSION:
            raise Corrupt(
                join(self.path, "source.json"), f"version {item.get('version')!r}, expected {VERSION}"
            )
        if self.table not in item["tables"]:
            raise NotFound.among("table", self.table, item["tables"])
        return MappingProxyType(item)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Key columns of the table in the source."""
        return tuple(self.description["keys"][self.table])

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Chunks of this table in key order."""
        mine = [c for c in self._json("chunks.json") if c["table"] == self.table and self.description]
        return tuple(Chunk(i, join(self.path, c["file"]), c["rows"]) for i, c in enumerate(mine))

    @cached_property
    def chunk_marks(self) -> tuple[ChunkMark, ...]:
        """Keys and watermarks of this table's chunks, in key order; `position` is low and high in one."""
        mine = [c for c in self._json("chunks.json") if c["table"] == self.table and self.description]
        marks = []
        for i, c in enumerate(mine):
            start = c.get("position", ("", 0))
            low, high = (Position(0, *c.get(name, start)) for name in ("low", "high"))
            marks.append(ChunkMark(i, c["rows"], c.get("lo"), c.get("hi"), low, high))
        return tuple(marks)

    def log_bytes(self, position: Position) -> int:
        """How many bytes of the log come before a position."""
        before = sum(self._size(name) for name in self._log() if name < position.file)
        return before + position.offset

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of the table in the source, as the first chunk has them, text as plain strings."""
        if not self.chunks:
            raise NotFound(f"{self.path} has no chunk of {self.table!r} to take the columns from")
        with self.io.open_input(self.chunks[0].path) as raw:
            return pa.schema([_plain(f) for f in pq.read_schema(raw)])

    @property
    def snapshot_rows(self) -> int:
        """Rows of the full snapshot."""
        return sum(c.rows for c in self.chunks)

    def finished(self) -> bool:
        """Whether the log is complete."""
        return self.io.exists(join(self.path, "log", "END"))

    def end(self) -> Position:
        """The newest position: all chunks, and the end of the last whole transaction."""
        files = self._log()
        for name in reversed(files):
            offset = self._last_transaction(name, 0, self._size(name))
            if offset:
                return Position(len(self.chunks), name, offset)
        return Position(len(self.chunks))

    def next(self, start: Position, *, chunks: int, log_bytes: int) -> Position:
        """The position at which a batch from `start` may end: at most so many chunks, or about so much log,
        never both. `start` itself when nothing is new.
        """
        if start.chunks < len(self.chunks):
            return Position(min(start.chunks + max(1, chunks), len(self.chunks)), start.file, start.offset)
        for name, begin in self._log_from(start):
            size = self._size(name)
            limit = min(size, begin + max(1, log_bytes))
            offset = self._last_transaction(name, begin, limit) or self._first_transaction(name, limit, size)
            if offset > begin:
                return Position(start.chunks, name, offset)
        return start

    def work(self, start: Position, end: Position) -> list[Work]:
        """The pieces of work between two positions, in order: chunks, then ranges of the log."""
        return [*self.chunks[start.chunks : end.chunks], *self._ranges(start, end)]

    def read(self, work: Work, schema: pa.Schema) -> Iterator[Changes]:
        """Rows of one piece as the types of `schema` (the source's columns), in bounded
        batches.
        """
        if isinstance(work, Chunk):
            yield from _read_chunk(self.io, work, schema)
        else:
            for piece in self._cut(work, _PARSE_BYTES):
                yield decode(self._bytes(piece.path, piece.start, piece.end), table=self.table, schema=schema)

    def _json(self, name: str) -> Any:
        path = join(self.path, name)
        try:
            return json.loads(self.io.read(path))
        except FileNotFoundError:
            raise NotFound(f"no complete change directory at {self.path}: {name} is missing") from None
        except ValueError as e:
            raise Corrupt(path, e) from e

    def _log(self) -> list[str]:
        return [s.name for s in self.io.list(join(self.path, "log")) if s.name.endswith(".jsonl")]

    def _log_from(self, start: Position) -> list[tuple[str, int]]:
        return [(n, start.offset if n == start.file else 0) for n in self._log() if n >= start.file]

    def _file(self, name: str) -> str:
        return join(self.path, "log", name)

    def _size(self, name: str) -> int:
        return self.io.size(self._file(name))

    def _ranges(self, start: Position, end: Position) -> list[LogBytes]:
        ranges = []
        for name, begin in self._log_from(start):
            stop = end.offset if name == end.file else self._size(name)
            if name <= end.file and stop > begin:
                ranges.append(LogBytes(self._file(name), begin, stop))
        return ranges

    def _cut(self, whole: LogBytes, share: int) -> Iterator[LogBytes]:
        begin = whole.start
        while begin < whole.end:
            stop = (
                whole.end
                if whole.end - begin <= share * 5 // 4
                else self._line_end(whole.path, begin + share, whole.end)
            )
            yield LogBytes(whole.path, begin, stop)
            begin = stop

    def _line_end(self, path: str, offset: int, limit: int) -> int:
        while offset < limit:
            block = self._bytes(path, offset, min(limit, offset + (64 << 10)))
            at = block.find(b"\n")
            if at >= 0:
                return offset + at + 1
            offset += len(block)
        return limit

    def _last_transaction(self, name: str, begin: int, limit: int) -> int:
        """The end of the last whole transaction in `begin`..`limit`, 0 if there is none."""
        high = limit
        while high > begin:
            low = max(begin, high - _WINDOW)
            block = self._bytes(self._file(name), low, min(limit, high + len(_END) + (4 << 10)))
            at = len(block)
            while (at := block.rfind(_END, 0, at)) >= 0:
                line_end = block.find(b"\n", at)
                if line_end >= 0:
                    return low + line_end + 1
            high = low
        return 0

    def _first_transaction(self, name: str, begin: int, size: int) -> int:
        """The end of the first transaction that ends after `begin`, 0 if none does yet."""
        low = begin
        while low < size:
            block = self._bytes(self._file(name), low, min(size, low + _WINDOW))
            at = block.find(_END)
            if at >= 0 and (line_end := block.find(b"\n", at)) >= 0:
                return low + line_end + 1
            if low + len(block) >= size:
                return 0
            low += len(block) - (4 << 10)
        return 0

    def _bytes(self, path: str, start: int, end: int) -> bytes:
        with self.io.open_input(path) as f:
            f.seek(start)
            return f.read(end - start)


def _read_chunk(io: FileIO, chunk: Chunk, schema: pa.Schema) -> Iterator[Changes]:
    try:
        with (
            io.open_input(chunk.path) as raw,
            pq.ParquetFile(raw, memory_map=False, pre_buffer=False) as file,
        ):
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=schema.names, use_threads=False)
                for batch in _cast(table, schema).to_batches():
                    yield Changes(batch, pa.repeat(pa.scalar(INSERT, pa.int8()), batch.num_rows))
    except FileNotFoundError:
        raise Corrupt(chunk.path, f"chunk {chunk.number} is missing") from None
    except pa.ArrowInvalid as e:
        raise Corrupt(chunk.path, e) from e


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns by name, in the types of `schema`; views of strings become plain strings."""
    columns = [table.column(f.name) for f in schema]
    done = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(done, names=schema.names)


def _plain(field: pa.Field) -> pa.Field:
    text = pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
    return pa.field(field.name, pa.string() if text else field.type, field.nullable)


def decode(lines: bytes | pa.Buffer, *, table: str, schema: pa.Schema) -> Changes:
    """The changes of `table` ("db.table", or the last part alone) in whole lines of JSON, typed as
    `schema`.

    Raises SchemaMismatch for lines that are not envelopes or images that do not fit, Unsupported for events
    that have no row form.
    """
    events = _parse(lines, schema)
    if events.num_rows:
        events = events.filter(_of_table(events["topic"], table))
    value = (
        events["value"].combine_chunks()
        if events.num_rows
        else pa.array([], events.schema.field("value").type)
    )
    value = value.filter(value.is_valid())  # a tombstone follows its delete and says nothing new
    ops = value.field("op")
    before, after = (_typed(value.field(side), schema) for side in ("before", "after"))
    return merged(ops, before, after)


def _parse(lines: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table:
    image = pa.struct([pa.field(f.name, _wire_type(f)) for f in schema])
    value = pa.struct([("before", image), ("after", image), ("op", pa.string())])
    wanted = pa.schema([("topic", pa.string()), ("value", value)])
    size = pa.py_buffer(lines).size
    if size == 0:
        return wanted.empty_table()
    read = pj.ReadOptions(use_threads=False, block_size=min(max(_BLOCK, 1), _LONGEST_LINE))
    parse = pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    try:
        return pj.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"change events do not fit the table: {e}") from e


def _wire_type(field: pa.Field) -> pa.DataType:
    """The Arrow type of a column as JSON has it."""
    t = field.type
    if pa.types.is_decimal(t) or pa.types.is_string(t):
        return pa.string()
    if pa.types.is_date32(t):
        return pa.int32()
    if pa.types.is_timestamp(t):
        return pa.string() if t.tz else pa.int64()
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t):
        return t
    raise Unsupported(f"change events with a column of type {t}", why=f"column {field.name!r}")


def _of_table(topics: pa.ChunkedArray, table: str) -> pa.ChunkedArray:
    return pc.or_(pc.equal(topics, table), pc.ends_with(topics, "." + table))


def _typed(images: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """Images as the table's types. A missing image gives a row of NULLs, which `merged` never chooses."""
    columns = [_column(pc.struct_field(images, [i]), f) for i, f in enumerate(schema)]
    fields = [f.with_nullable(True) for f in schema]
    return pa.record_batch(columns, schema=pa.schema(fields))


def _column(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"column {field.name!r} of a change event does not fit {field.type}: {e}") from e
