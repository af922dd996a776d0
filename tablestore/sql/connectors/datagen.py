"""`datagen`: rows that are made up, each column at random or as a sequence, as Flink's options say.

With `tablestore.seed` the same rows come each time, but for dates and times, which lie before now. Whole
columns by numpy; a column is made from the seed, its position and the batch alone, so columns that nobody
asks for cost nothing.

As a stream rows come at `rows-per-second`, the same rows between two offsets whenever they are read. An
offset holds the seed, the time at which the first row came, and how many rows there were: a stream that is
resumed in another process goes on with its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.core.options.values import boolean, duration_ms, one_of
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.types.data_type import DataField, DataType, time_unit, to_arrow
from tablestore.sql.connectors.connector import (
    Connector,
    ConnectorOptions,
    Option,
    count,
    inserts,
    matching,
    whole,
)

_BATCH_ROWS, _BATCH_BYTES = 65_536, 16 << 20
_DAY_MS = 86_400_000
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FLOATS = {"FLOAT": np.float32, "DOUBLE": np.float64}
_MOST = {"FLOAT": float(np.finfo(np.float32).max), "DOUBLE": float(np.finfo(np.float64).max)}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_TEXT_LENGTH, _COLLECTION_LENGTH = 100, 3  # Flink's own, where the type says nothing
_STEPS = 10**18  # of a range too wide for 64 bits
_NS_PER = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError("a number from 0 to 1")
    return share


_OPTIONS = (
    Option("rows-per-second", "how fast rows come in streaming mode", count, default=10_000),
    Option("number-of-rows", "how many rows there are; without it, rows without end", whole),
    Option("tablestore.seed", "a number: the same rows come each time", whole),
    Option("scan.parallelism", refused="one thread makes the rows"),
    Option("fields.#.kind", "random or sequence", one_of("random", "sequence")),
    Option("fields.#.start", "first value of a sequence", whole),
    Option("fields.#.end", "last value of a sequence, after which there are no rows", whole),
    Option("fields.#.min", "least random value"),
    Option("fields.#.max", "greatest random value"),
    Option("fields.#.length", "length of texts and binaries, of arrays and maps", count),
    Option("fields.#.var-len", "lengths from 1 to that", boolean),
    Option("fields.#.max-past", "how long before now times may lie, at most", duration_ms),
    Option("fields.#.null-rate", "share of NULLs", _share),
)
_SEQUENCE = {"kind", "start", "end"}


@dataclass(frozen=True, slots=True)
class _Columns:
    """What a batch is made of."""

    fields: tuple[DataField, ...]
    chosen: Mapping[str, Mapping[str, Any]]
    seed: int
    now_ms: int  # when row 0 is made
    per_second: int | None = None  # None: all at once

    def column(self, f: DataField, first: int, rows: int) -> pa.Array:
        """The values of rows `first` to `first + rows`."""
        position = self.fields.index(f)
        rng = np.random.default_rng([self.seed, first, position])
        return self.values(f.name, f.type, first, rows, rng)

    def values(self, name: str, t: DataType, first: int, rows: int, rng: np.random.Generator) -> pa.Array:
        """Values of a column, or of a part of one, whose name has dots."""
        options = self.chosen.get(name, {})
        if options.get("kind") == "sequence":
            return _sequence(options["start"] + first, rows, t)
        array = self._random(name, t, first, rows, rng, options)
        rate = options.get("null-rate", 0.0)
        return (
            array
            if not rate
            else pc.if_else(pa.array(rng.random(rows) >= rate), array, pa.scalar(None, array.type))
        )

    def _random(
        self,
        name: str,
        t: DataType,
        first: int,
        rows: int,
        rng: np.random.Generator,
        options: Mapping[str, Any],
    ) -> pa.Array:
        if t.root == "BOOLEAN":
            return pa.array(rng.integers(0, 2, rows).astype(bool))
        if t.root in _INTEGERS:
            return pa.array(rng.integers(*_limits(t, options), rows, endpoint=True)).cast(to_arrow(t))
        if t.root in _FLOATS:
            low, high = _limits(t, options)
            part = rng.random(rows)
            return pa.array((low * (1 - part) + high * part).astype(_FLOATS[t.root]))
        if t.root == "DECIMAL":
            return _decimals(*_limits(t, options), rows, t, rng)
        if t.is_string or t.is_binary:
            lengths = _lengths(_text_length(t, options), options, rows, rng)
            return _bytes(lengths, rng, t)
        if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
            past = rng.integers(0, options.get("max-past", 0), rows, endpoint=True)
            return _times(self._now_ms(first, rows) - past, t)
        if t.root == "ROW":
            parts = [self.values(f"{name}.{c.name}", c.type, first, rows, rng) for c in t.children]
            return pa.StructArray.from_arrays(parts, fields=list(to_arrow(t)))
        lengths = _lengths(options.get("length", _COLLECTION_LENGTH), options, rows, rng)
        offsets = pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32))
        inner = [self.values(f"{name}.{c.name}", c.type, first, int(lengths.sum()), rng) for c in t.children]
        if t.root == "ARRAY":
            return pa.ListArray.from_arrays(offsets, inner[0], type=to_arrow(t))
        raise Unsupported(f"{t.root} columns of connector 'datagen'", "ARRAY and ROW are made up")

    def _now_ms(self, first: int, rows: int) -> Any:
        """When these rows are made: each at its time, in whole milliseconds."""
        if self.per_second is None:
            return self.now_ms
        return self.now_ms + np.arange(first, first + rows, dtype=np.int64) * 1000 // self.per_second

    def batch(self, names: Sequence[str], first: int, rows: int) -> pa.RecordBatch:
        """Rows `first` to `first + rows` of these columns."""
        fields = {f.name: f for f in self.fields}
        schema = pa.schema([fields[name].arrow for name in names])
        arrays = [self.column(fields[name], first, rows) for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Generated:
    """Rows of a bounded table."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._batch_rows = _batch_rows(options)
        self._rows = _row_count(options)
        self._columns = _Columns(options.columns, options.of_columns, _seed(options), SYSTEM.now_ms())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows."""
        for first in range(0, self._rows, self._batch_rows):
            yield self._columns.batch(columns, first, min(self._batch_rows, self._rows - first))


def _stream(options: ConnectorOptions) -> NumberedRows:
    """Rows that come as fast as the options say."""
    per_second, chunk_rows = options.values["rows-per-second"], _batch_rows(options)
    end = _end(options)
    seed, began = _seed(options), SYSTEM.now_ms()
    columns = _Columns(options.columns, options.of_columns, seed, began, per_second)
    chunk = partial(_chunk, columns, chunk_rows, end)
    return NumberedRows(
        options.schema,
        chunk,
        chunk_rows,
        end,
        RowSchedule(per_second),
        seed,
        began,
    )


def _chunk(
    columns: _Columns, rows: int, end: int | None, offset: Offset, first: int, names: Sequence[str]
) -> pa.RecordBatch:
    columns = replace(columns, seed=offset["seed"], now_ms=offset["beganMs"])
    return columns.batch(names, first, rows if end is None else min(rows, end - first))


def _seed(options: ConnectorOptions) -> int:
    seed = options.values["tablestore.seed"]
    return SYSTEM.rng.getrandbits(63) if seed is None else abs(seed)


def _batch_rows(options: ConnectorOptions) -> int:
    """How many rows are made at once. Raises InvalidOption for options that a column does not have."""
    for f in options.columns:
        _require_fitting(f.name, f.type, options.of_columns.get(f.name, {}), options.of_columns)
    widest = sum(_width(f.type, options.of_columns.get(f.name, {})) for f in options.columns)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, widest)))


def _row_count(options: ConnectorOptions) -> int:
    """How many rows there are. Raises InvalidRequest where they have no end."""
    end = _end(options)
    if end is None:
        raise InvalidRequest(
            "a datagen table without 'number-of-rows' never ends: give it that option, or a column of kind "
            "sequence"
        )
    return end


def _end(options: ConnectorOptions) -> int | None:
    """As many rows as are wanted, or until the first sequence ends; None where they have no end."""
    ends = [o["end"] - o["start"] + 1 for o in options.of_columns.values() if o.get("kind") == "sequence"]
    wanted = options.values["number-of-rows"]
    ends_at = [max(0, n) for n in (*ends, *([] if wanted is None else [wanted]))]
    return min(ends_at, default=None)


def _require_fitting(
    name: str, t: DataType, options: Mapping[str, Any], every: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise InvalidOption for options that a column's type does not have."""
    takes = {"kind", "null-rate"}
    if options.get("kind") == "sequence":
        takes = _SEQUENCE
        if not (t.root in _INTEGERS or t.root in _FLOATS or t.is_string or t.root == "DECIMAL"):
            raise InvalidOption(f"'fields.{name}.kind': a column of type {t} is no sequence")
        for part in ("start", "end"):
            if part not in options:
                raise InvalidOption(f"a sequence needs option 'fields.{name}.{part}'")
        _require_value(f"fields.{name}.end", options["end"], t)
        _require_value(f"fields.{name}.start", options["start"], t)
    elif t.root in _INTEGERS or t.root in _FLOATS or t.root == "DECIMAL":
        takes |= {"min", "max"}
        low, high = _limits(t, options, name)
        if low > high:
            raise InvalidOption(f"'fields.{name}.min' is above 'fields.{name}.max'")
    elif t.root == "TIMESTAMP" or t.root == "TIMESTAMP_LTZ":
        takes |= {"max-past"}
    elif t.is_string or t.is_binary:
        takes |= {"length", "var-len"}
        if options.get("length", 0) > t.precision:
            raise InvalidOption(f"'fields.{name}.length': a column of type {t} is shorter")
        if t.root in ("CHAR", "BINARY") and options.get("length", t.precision) != t.precision:
            raise InvalidOption(f"'fields.{name}.length': all values of a column of type {t} are that long")
    elif t.root == "ARRAY":
        takes |= {"length", "var-len"}
    elif t.root in ("MAP", "MULTISET", "VARIANT", "BLOB", "VECTOR"):
        raise Unsupported(f"{t.root} columns of connector 'datagen'", "ARRAY and ROW are made up")
    for part in options:
        if part not in takes:
            what = "a sequence" if takes is _SEQUENCE else f"a random {t.root}"
            raise InvalidOption(f"'fields.{name}.{part}': {what} takes {', '.join(sorted(takes))}")
    if options.get("null-rate", 0) and not t.nullable:
        raise InvalidOption(f"'fields.{name}.null-rate': the column is NOT NULL")
    for c in t.children:
        inner = f"{name}.{c.name}"
        if every.get(inner, {}).get("kind") == "sequence":
            raise Unsupported(f"'fields.{inner}.kind' = 'sequence'", "parts of a column are random")
        _require_fitting(inner, c.type, every.get(inner, {}), every)


def _require_value(key: str, value: int, t: DataType) -> None:
    """Raise InvalidOption for a number that a column's type does not have."""
    high = (1 << _INTEGERS.get(t.root, 64) - 1) - 1
    if t.root == "DECIMAL":
        high = min(high, 10 ** (t.precision - t.scale) - 1)
    if not -high - 1 <= value <= high:
        raise InvalidOption(f"{key!r}: {value} is no {t}")


def _limits(t: DataType, options: Mapping[str, Any], name: str = "") -> tuple[Any, Any]:
    """Least and greatest value; those of a DECIMAL without its point."""
    low: Any
    high: Any
    if t.root in _INTEGERS:
        bits = _INTEGERS[t.root] - 1
        low, high = -(1 << bits), (1 << bits) - 1
    elif t.root in _FLOATS:
        high = _MOST[t.root]
        low = -high
    else:
        high = 10**t.precision - 1
        low = -high
    return _limit(t, options, name, "min", low), _limit(t, options, name, "max", high)


def _limit(t: DataType, options: Mapping[str, Any], name: str, part: str, default: Any) -> Any:
    key, written = f"fields.{name}.{part}", options.get(part)
    if written is None:
        return default
    if t.root in _INTEGERS:
        limit = _number(whole, key, written)
        _require_value(key, limit, t)
        return limit
    if t.root in _FLOATS:
        return _number(float, key, written)
    exact = _number(lambda w: pa.scalar(w).cast(pa.decimal128(38, t.scale)).as_py(), key, written)
    if abs(limit := int(exact.scaleb(t.scale))) >= 10**t.precision:
        raise InvalidOption(f"{key!r}: {written} is no {t}")
    return limit


def _number(parse: Any, key: str, written: str) -> Any:
    try:
        return parse(written)
    except (ValueError, pa.ArrowInvalid):
        raise InvalidOption(f"{key!r} is a number, not {written!r}") from None


def _text_length(t: DataType, options: Mapping[str, Any]) -> int:
    if t.root in ("CHAR", "BINARY"):
        return t.precision
    return int(options.get("length", min(t.precision, _TEXT_LENGTH)))


def _width(t: DataType, options: Mapping[str, Any]) -> int:
    """About how many bytes a value has."""
    if t.is_string or t.is_binary:
        return _text_length(t, options)
    if t.is_nested:
        times = 1 if t.root == "ROW" else options.get("length", _COLLECTION_LENGTH)
        return int(times) * sum(_width(c.type, {}) for c in t.children)
    return 8


def _lengths(
    length: int, options: Mapping[str, Any], rows: int, rng: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.int64]]:
    if options.get("var-len"):
        return rng.integers(1, length, rows, endpoint=True)
    return np.full(rows, length, np.int64)


def _bytes(lengths: np.ndarray[Any, np.dtype[np.int64]], rng: np.random.Generator, t: DataType) -> pa.Array:
    """Texts of hexadecimal digits, or bytes."""
    total = int(lengths.sum())
    octets = rng.integers(0, 256, total, np.uint8)
    if t.is_string:
        octets = _HEX[octets & 15]
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    kind = pa.string() if t.is_string else pa.binary()
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(octets.tobytes())]
    return pa.Array.from_buffers(kind, len(lengths), buffers).cast(to_arrow(t))


def _decimals(low: int, high: int, rows: int, t: DataType, rng: np.random.Generator) -> pa.Array:
    """Numbers from low to high, both without their point."""
    target = pa.decimal128(t.precision, t.scale)
    if low >= -(1 << 63) and high < 1 << 63:
        part = rng.integers(low, high, rows, endpoint=True)
        return pa.Array.from_buffers(target, rows, [None, pa.py_buffer(_wide(part).tobytes())])
    step = (high - low + 1) // _STEPS
    firsts = pa.array(rng.integers(0, _STEPS, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal256(19, 0))
    lasts = pa.array(rng.integers(0, min(step, 1 << 62), rows)).cast(pa.decimal128(19, 0))
    decimals = pc.multiply(firsts, pa.scalar(Decimal(step), pa.decimal256(21, 0)))
    decimals = pc.add(
        decimals, pc.add(lasts, pa.scalar(Decimal(low), pa.decimal128(38, 0)).cast(pa.decimal256(38, 0)))
    )
    return pa.Array.from_buffers(target, rows, decimals.cast(pa.decimal128(38, 0)).buffers())


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """64-bit numbers as 128-bit ones, low half first."""
    return np.column_stack([values, values >> 63]).astype("<i8")


def _times(millis: np.ndarray[Any, Any], t: DataType) -> pa.Array:
    if t.root == "DATE":
        return pa.array((millis // _DAY_MS).astype(np.int32)).cast(pa.date32())
    if t.root == "TIME":
        return pa.array((millis % _DAY_MS).astype(np.int32)).cast(to_arrow(t))
    per_ms = 1_000_000 // _NS_PER[time_unit(t.precision)]
    if t.precision < 3:
        millis = millis // 10 ** (3 - t.precision) * 10 ** (3 - t.precision)
    return pa.array(millis * per_ms).cast(to_arrow(t))


def _sequence(first: int, rows: int, t: DataType) -> pa.Array:
    numbers = pa.array(np.arange(first, first + rows, dtype=np.int64))
    if t.root == "DECIMAL":
        return numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, t.scale)).cast(to_arrow(t))
    return numbers.cast(to_arrow(t), safe=False)


CONNECTOR = Connector("datagen", "rows that are made up", _OPTIONS, source=_Generated, stream=_stream)


Chunk = Callable[[Offset, int, Sequence[str]], pa.RecordBatch]
_PIECE_CHUNKS = 4


@dataclass
class RowSchedule:
    """How many rows may have come by now, at so many a second; the first second's at once. It begins anew
    in each process."""

    per_second: int
    began: tuple[float, int] | None = None  # seconds, rows

    def due(self, rows: int) -> int:
        """The rows that may have come; there are `rows` already."""
        now = SYSTEM.monotonic()
        if self.began is None:
            self.began = now, rows
        since, before = self.began
        return before + int(self.per_second * (1 + now - since))


@dataclass(frozen=True)
class NumberedRows:
    """Rows by number, `rows` of them or without end (None). `chunk` makes all columns of one chunk of
    `chunk_rows`, of a stream with the seed and time of an offset. Picklable."""

    schema: pa.Schema
    chunk: Chunk
    chunk_rows: int
    rows: int | None
    pace: RowSchedule
    seed: int
    began_ms: int

    @property
    def appends(self) -> bool:
        return True

    def initial(self) -> Offset:
        return {"v": 1, "seed": self.seed, "beganMs": self.began_ms, "rows": 0}

    def latest(self) -> Offset | None:
        return None if self.rows is None else {**self.initial(), "rows": self.rows}

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        here = int(start["rows"])
        ends = [self.pace.due(here), *([] if self.rows is None else [self.rows])]
        ends += [] if target is None else [int(target["rows"])]
        return {**start, "rows": max(here, min(ends))}

    def ended(self, offset: Offset) -> bool:
        return self.rows is not None and int(offset["rows"]) >= self.rows

    def pieces(self, start: Offset, end: Offset) -> list[RowPiece]:
        step = self.chunk_rows * _PIECE_CHUNKS
        first, last = int(start["rows"]), int(end["rows"])
        cuts = [first, *range((first // step + 1) * step, last, step), last]
        return [RowPiece(self, end, a, b) for a, b in pairwise(cuts) if a < b]

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class RowPiece:
    """Rows `first` to `last`."""

    stream: NumberedRows
    offset: Offset = field(repr=False)
    first: int
    last: int

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        return inserts(matching(self, self.stream.schema, columns, where))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these columns; a chunk is made whole, so that its rows do not depend on the piece."""
        size = self.stream.chunk_rows
        for number in range(self.first // size, (self.last - 1) // size + 1):
            start = number * size
            whole = self.stream.chunk(self.offset, start, columns)
            begin, end = max(self.first, start) - start, min(self.last, start + size) - start
            yield whole.slice(begin, end - begin)
