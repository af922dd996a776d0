"""Statistics of a data file: Parquet footer → raw values → the manifest's SimpleStats (format facts 5). Pure.

Serves the writer, which has just made the footer, and the reader, which skips row groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from tablestore.format import stats
from tablestore.format.manifest import SimpleStats
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats, StatsMode
from tablestore.format.types import DataField, DataType
from tablestore.options import TableOptions

_KEY_MODE = StatsMode(counts=True, bounds=True, length=128)


@dataclass(frozen=True, slots=True)
class FileStats:
    """Key and value statistics as a manifest holds them; `columns` None: `value` covers every column."""

    key: SimpleStats
    value: SimpleStats
    columns: tuple[str, ...] | None


def of_column(footer: pq.FileMetaData, column: int, t: DataType, *, group: int | None = None) -> ColumnStats:
    """What the footer says of the column at a position, in one row group or in all; bounds leave out NaN."""
    groups = range(footer.num_row_groups) if group is None else (group,)
    parts = [_of_chunk(footer.row_group(g), column, t) for g in groups]
    rows = sum(p.rows for p in parts)
    counts = [p.null_count for p in parts]
    nulls = None if None in counts else sum(counts)  # type: ignore[arg-type]
    lows = [p.min for p in parts if not p.all_null]
    highs = [p.max for p in parts if not p.all_null]
    if not lows or None in lows or None in highs:
        return ColumnStats(None, None, nulls, rows)
    return ColumnStats(min(lows), max(highs), nulls, rows)


def _of_chunk(group: pq.RowGroupMetaData, column: int, t: DataType) -> ColumnStats:
    found = group.column(column).statistics
    if found is None:
        return ColumnStats(None, None, None, group.num_rows)
    nulls = found.null_count if found.has_null_count else None
    if not found.has_min_max:
        return ColumnStats(None, None, nulls, group.num_rows)
    return ColumnStats(_raw(found.min_raw, t), _raw(found.max_raw, t), nulls, group.num_rows)


def _raw(value: Any, t: DataType) -> Any:
    """A footer's physical value as a raw value; None where it is none (text cut inside a character)."""
    if not isinstance(value, bytes) or t.is_binary:
        return value
    if t.root == "DECIMAL":
        return int.from_bytes(value, "big", signed=True)
    try:
        return value.decode() if t.is_string else None
    except UnicodeDecodeError:
        return None


def for_manifest(schema: TableSchema, options: TableOptions, found: Mapping[str, ColumnStats]) -> FileStats:
    """Statistics of the value columns, by name, as the table's stats modes want them."""
    modes = {f.name: _mode(schema, options, f) for f in schema.fields}
    kept = [f for f in schema.fields if modes[f.name].counts or not options.stats_dense]
    return FileStats(
        _encoded(dict.fromkeys(schema.key_fields, _KEY_MODE), found),
        _encoded({f: modes[f.name] for f in kept}, found),
        None if len(kept) == len(schema.fields) else tuple(f.name for f in kept),
    )


def _mode(schema: TableSchema, options: TableOptions, f: DataField) -> StatsMode:
    return StatsMode.parse(schema.options.get(f"fields.{f.name}.stats-mode", options.stats_mode).lower())


def _encoded(modes: Mapping[DataField, StatsMode], found: Mapping[str, ColumnStats]) -> SimpleStats:
    cells = [_kept(found[f.name], mode) for f, mode in modes.items()]
    return stats.encode(cells, [f.type for f in modes])


def _kept(known: ColumnStats, mode: StatsMode) -> ColumnStats:
    low, high = (known.min, known.max) if mode.bounds else (None, None)
    if mode.length is not None:
        low, high = stats.truncated(low, high, mode.length)
    return ColumnStats(low, high, known.null_count if mode.counts else None, known.rows)
