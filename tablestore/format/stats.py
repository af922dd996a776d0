"""Column statistics of data files: collected while a file is written, or from its footer; SimpleStats ⇄
minimum, maximum and null count a column (FORMAT.md 5.1, 5.2, 5.3).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablestore.core.errors import InvalidOption
from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.file_index import values
from tablestore.format.manifests.manifest import SimpleStats
from tablestore.format.parquet.checked_file import leaf_positions
from tablestore.format.parquet.schema import KEY_PREFIX, SYSTEM_COLUMNS
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, DataType

_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column in one file: raw minimum and maximum (None: unknown or all null), nulls (None:
    unknown), rows."""

    min: Raw
    max: Raw
    null_count: int | None
    rows: int

    @property
    def all_null(self) -> bool:
        """Whether every cell is known to be null."""
        return self.null_count is not None and self.null_count == self.rows


@dataclass(frozen=True, slots=True)
class StatsMode:
    """`metadata.stats-mode`: keep counts, keep minimum and maximum, and cut text at `length` characters."""

    counts: bool
    bounds: bool
    length: int | None = None

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """none, counts, full or truncate(n); raises InvalidOption for others."""
        match = _TRUNCATE.fullmatch(text.replace(" ", ""))
        if match and int(match[1]) > 0:
            return cls(True, True, int(match[1]))
        named = {"none": cls(False, False), "counts": cls(True, False), "full": cls(True, True)}
        if text not in named:
            raise InvalidOption(f"stats mode {text!r} must be none, counts, truncate(n) or full")
        return named[text]


def truncated(low: Raw, high: Raw, length: int) -> tuple[Raw, Raw]:
    """Bounds cut to `length` characters or bytes: the prefix of the minimum, the incremented prefix of the
    maximum; (None, None) if that does not exist."""
    cut_low = low[:length] if isinstance(low, str | bytes) else low
    if not isinstance(high, str | bytes) or len(high) <= length:
        return cut_low, high
    cut_high = _next_text(high[:length]) if isinstance(high, str) else _next_bytes(high[:length])
    return (None, None) if cut_high is None else (cut_low, cut_high)


def _next_text(prefix: str) -> str | None:
    for i in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[i]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000
        if point <= 0x10FFFF:
            return prefix[:i] + chr(point)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    for i in range(len(prefix) - 1, -1, -1):
        if prefix[i] < 0xFF:
            return prefix[:i] + bytes([prefix[i] + 1])
    return None


def encode(columns: Sequence[ColumnStats], types: Sequence[DataType], *, counts: bool = True) -> SimpleStats:
    """SimpleStats of one entry a column, in order."""
    return SimpleStats(
        binary_row.encode([c.min for c in columns], types),
        binary_row.encode([c.max for c in columns], types),
        tuple(c.null_count if counts else None for c in columns),
    )


def merged(parts: Sequence[SimpleStats], types: Sequence[DataType], rows: Sequence[int]) -> SimpleStats:
    """The statistics of several files together, which have so many rows; bounds that one of them lacks are
    unknown."""
    columns = zip(*(decode(p, types, n) for p, n in zip(parts, rows, strict=True)), strict=True)
    return encode([together(column, t) for column, t in zip(columns, types, strict=True)], types)


def together(parts: Sequence[ColumnStats], t: DataType) -> ColumnStats:
    """Statistics of one column in several files or row groups; bounds that one of them lacks are unknown."""
    rows = sum(p.rows for p in parts)
    counts = [p.null_count for p in parts if p.null_count is not None]
    nulls = sum(counts) if len(counts) == len(parts) else None
    lows: list[Any] = [p.min for p in parts if not p.all_null]
    highs: list[Any] = [p.max for p in parts if not p.all_null]
    if not lows or None in lows or None in highs:
        return ColumnStats(None, None, nulls, rows)
    order = _java_order if t.root in ("FLOAT", "DOUBLE") else None
    return ColumnStats(min(lows, key=order), max(highs, key=order), nulls, rows)


def _java_order(value: float) -> tuple[bool, float, float]:
    """−0.0 below 0.0, NaN above all."""
    nan = math.isnan(value)
    return nan, 0.0 if nan else value, math.copysign(1, value)


def decode(stats: SimpleStats, types: Sequence[DataType], rows: int) -> list[ColumnStats]:
    """One entry a column; raises Corrupt when the rows do not have these columns."""
    lows, highs = binary_row.decode(stats.min_values, types), binary_row.decode(stats.max_values, types)
    nulls = stats.null_counts if stats.null_counts is not None else (None,) * len(types)
    nulls = tuple(nulls) + (None,) * (len(types) - len(nulls))
    return [ColumnStats(lo, hi, n, rows) for lo, hi, n in zip(lows, highs, nulls, strict=False)]


_KEY_MODE = StatsMode(counts=True, bounds=True, length=128)
_NO_BOUNDS = ("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT")
_FLOATS = ("FLOAT", "DOUBLE")
_LONGEST_IN_ORC = 1024  # ORC has no bounds of longer text


@dataclass(frozen=True, slots=True)
class FileStats:
    """Key and value statistics in the form of a manifest; `columns` None: `value` covers every column."""

    key: SimpleStats
    value: SimpleStats
    columns: tuple[str, ...] | None


def modes(
    columns: Sequence[DataField], schema: TableSchema, *, limit: int, mode: str, form: str, keyed: bool
) -> dict[str, StatsMode]:
    """The stats mode of each physical column, by name.

    In keyed Avro files key and system columns are like others; elsewhere they have bounds of 128 characters,
    as do the value columns that replace them in files without `_KEY_` columns. Of the other columns only the
    first `limit` have statistics, if that is not negative.
    """
    alike = keyed and form == "avro"
    thin = keyed and not any(f.name.startswith(KEY_PREFIX) for f in columns)
    keys = frozenset(schema.trimmed_primary_keys) if thin else frozenset()
    counted = 0
    by_name: dict[str, StatsMode] = {}
    for f in columns:
        own = schema.options.get(f"fields.{f.name}.stats-mode")
        system = f.name.startswith(KEY_PREFIX) or f.name in SYSTEM_COLUMNS or f.name in keys
        if own is None and system and not alike:
            by_name[f.name] = _KEY_MODE
            continue
        beyond = own is None and 0 <= limit <= counted
        by_name[f.name] = StatsMode.parse("none" if beyond else (own or mode).lower())
        counted += 1
    return by_name


def for_manifest(
    columns: Sequence[DataField],
    schema: TableSchema,
    stats_of: Mapping[str, ColumnStats | None],
    wanted: Mapping[str, StatsMode],
    *,
    dense: bool,
    keyed: bool,
) -> FileStats:
    """Statistics for a manifest by the table's stats modes; a column's None in `stats_of` means unknown."""
    kept = {f.name: _kept(stats_of[f.name], wanted[f.name]) for f in columns}
    names = {f.name for f in columns}
    key_columns = [
        (f, KEY_PREFIX + f.name if KEY_PREFIX + f.name in names else f.name)
        for f in (schema.key_fields if keyed else ())
    ]
    values = columns[-len(schema.fields) :] if keyed else columns
    stored = [f for f in values if not (dense and _is_none(kept[f.name]))]
    return FileStats(
        encode([kept[name] for _, name in key_columns], [f.type for f, _ in key_columns]),
        encode([kept[f.name] for f in stored], [f.type for f in stored]),
        None if len(stored) == len(values) else tuple(f.name for f in stored),
    )


def _is_none(column: ColumnStats) -> bool:
    return column.min is None and column.max is None and column.null_count is None


def _kept(column: ColumnStats | None, mode: StatsMode) -> ColumnStats:
    if column is None or not mode.counts:
        return ColumnStats(None, None, None, 0)
    low, high = (column.min, column.max) if mode.bounds else (None, None)
    if mode.length is not None:
        low, high = truncated(low, high, mode.length)
    return ColumnStats(low, high, column.null_count, column.rows)


class StatsCollector:
    """Minimum, maximum and null count of columns over all batches; memory is one value a column.

    Floats are ordered as in Java: -0.0 below 0.0, NaN above all. ORC's own statistics lose NaN, so it has no
    bounds there.
    """

    def __init__(self, columns: Iterable[DataField], *, form: str) -> None:
        self._columns = tuple(columns)
        self._orc = form == "orc"
        self._rows = 0
        self._nulls = {f.name: 0 for f in self._columns}
        self._bounds: dict[str, tuple[Any, Any]] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self._rows += batch.num_rows
        for f in self._columns:
            column = batch.column(f.name)
            self._nulls[f.name] += column.null_count
            if f.type.root not in _NO_BOUNDS and not (self._orc and f.type.is_binary):
                self._note(f, column)

    def _note(self, f: DataField, column: pa.Array) -> None:
        if column.null_count == len(column):
            return
        low: Any
        high: Any
        if f.type.root in _FLOATS:
            cells = values.cells(column, f.type)
            assert cells.ordinals is not None
            ordinals = cells.ordinals[cells.valid]
            low, high = int(ordinals.min()), int(ordinals.max())
        else:
            ends = pc.min_max(column)
            pair = pa.array([ends["min"], ends["max"]], column.type)
            low, high = binary_row.raw_values(pair, f.type)
        bounds = self._bounds.get(f.name)
        self._bounds[f.name] = (low, high) if bounds is None else (min(bounds[0], low), max(bounds[1], high))

    def found(self) -> dict[str, ColumnStats | None]:
        """The statistics by column."""
        return {f.name: self._of(f) for f in self._columns}

    def _of(self, f: DataField) -> ColumnStats:
        low, high = self._bounds.get(f.name, (None, None))
        if f.type.root in _FLOATS and low is not None:
            low, high = (values.as_float(v, f.type) for v in (low, high))
            if self._orc and math.isnan(high):
                low = high = None
        if self._orc and f.type.is_string and low is not None:
            low, high = (None if len(v.encode()) > _LONGEST_IN_ORC else v for v in (low, high))
        return ColumnStats(low, high, self._nulls[f.name], self._rows)


class FooterStats:
    """The statistics of a Parquet file from its footer; bounds of floats, which a footer simplifies, from the
    batches."""

    def __init__(self, columns: Iterable[DataField]) -> None:
        self._columns = tuple(columns)
        self._floats = StatsCollector((f for f in self._columns if f.type.root in _FLOATS), form="parquet")

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the floats of a batch."""
        self._floats.update(batch)

    def found(self, footer: pq.FileMetaData) -> dict[str, ColumnStats | None]:
        """The statistics by column; None for nested columns."""
        positions, floats = leaf_positions(footer), self._floats.found()
        return {f.name: floats.get(f.name) or self._of(footer, positions, f) for f in self._columns}

    def _of(self, footer: pq.FileMetaData, positions: Mapping[str, int], f: DataField) -> ColumnStats | None:
        if f.type.root in _NO_BOUNDS:
            return None
        stats = of_column(footer, positions[f.name], f.type)
        if binary_row.is_timestamp(f.type) and f.type.precision > 6:
            return ColumnStats(None, None, stats.null_count, stats.rows)
        return stats


def of_column(footer: pq.FileMetaData, column: int, t: DataType, *, group: int | None = None) -> ColumnStats:
    """The footer's statistics of the column at a position, in one row group or in all; bounds ignore NaN."""
    groups = range(footer.num_row_groups) if group is None else (group,)
    parts = [_of_chunk(footer.row_group(g), column, t) for g in groups]
    return parts[0] if len(parts) == 1 else together(parts, t)


def _of_chunk(group: pq.RowGroupMetaData, column: int, t: DataType) -> ColumnStats:
    """Both bounds or none."""
    stats = group.column(column).statistics
    if stats is None:
        return ColumnStats(None, None, None, group.num_rows)
    nulls = stats.null_count if stats.has_null_count else None
    low, high = (_raw(stats.min_raw, t), _raw(stats.max_raw, t)) if stats.has_min_max else (None, None)
    if low is None or high is None:
        return ColumnStats(None, None, nulls, group.num_rows)
    return ColumnStats(low, high, nulls, group.num_rows)


def raw_value(value: bytes, t: DataType, *, physical: str) -> Any:
    """A page's bound as a raw value, None where it is invalid; `physical`: the column's physical type."""
    if physical in ("INT32", "INT64"):
        return int.from_bytes(value, "little", signed=True)
    return _raw(value, t) if physical == "BYTE_ARRAY" and t.is_string else None


def _raw(value: Any, t: DataType) -> Any:
    """A footer's physical value as a raw value; None where it is invalid (text cut inside a character)."""
    if not isinstance(value, bytes) or t.is_binary:
        return value
    if t.root == "DECIMAL":
        return int.from_bytes(value, "big", signed=True)
    try:
        return value.decode() if t.is_string else None
    except UnicodeDecodeError:
        return None
