"""Column statistics of a data file under the names of the schema that is read with (FORMAT.md 22.2).

A file knows its columns by the schema it was written under; they are matched by field id. Only widened
integers keep their bounds across a change of type; a column the file does not have is NULL in all its rows.
Pure. Used by `pruning`, `check` and `inspect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.format import stats
from tablestore.format.evolution import bounds_carry_over, nulls_carry_over
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.parquet.schema import SYSTEM_COLUMNS
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataType
from tablestore.io.paths import file_format


def own_stats(file: DataFileMeta, schema: TableSchema) -> dict[str, ColumnStats]:
    """Statistics under the names of the file's own schema; empty if it has none."""
    names = file.value_stats_cols
    if names is None:
        names = file.write_cols if file.write_cols is not None else schema.names
    types = _nullable_types(schema, tuple(names))
    if types is None:
        return {}
    try:
        decoded = stats.decode(file.value_stats, types, file.row_count)
    except (Corrupt, Unsupported):  # absent, or of types that have none
        return {}
    return dict(zip(names, unpadded(file, types, decoded), strict=True))


@lru_cache(maxsize=64)
def _nullable_types(schema: TableSchema, names: tuple[str, ...]) -> tuple[DataType, ...] | None:
    """The types of these columns without NOT NULL; None where the schema does not have all of them."""
    fields = SYSTEM_COLUMNS | dict(schema.by_name)
    are_known = all(n in fields for n in names)
    return tuple(fields[n].type.as_nullable() for n in names) if are_known else None


def unpadded(
    file: DataFileMeta, types: Sequence[DataType], columns: Sequence[ColumnStats]
) -> list[ColumnStats]:
    """Bounds without the blanks with which Java's ORC files pad CHAR values; rows are read without them,
    too."""
    if file_format(file.file_name) != "orc":
        return list(columns)
    pairs = zip(types, columns, strict=True)
    return [_stripped(bounds) if t.root == "CHAR" else bounds for t, bounds in pairs]


def _stripped(stats: ColumnStats) -> ColumnStats:
    low, high = (v.rstrip(" ") if isinstance(v, str) else v for v in (stats.min, stats.max))
    return replace(stats, min=low, max=high)


def stats_by_name(
    file: DataFileMeta, file_schema: TableSchema, schema: TableSchema
) -> dict[str, ColumnStats]:
    """Statistics under the names of `schema`; a column without an entry may hold anything."""
    own = own_stats(file, file_schema)
    by_name = {}
    for f in schema.fields:
        before = file_schema.by_id.get(f.id)
        if before is None:
            by_name[f.name] = ColumnStats(None, None, file.row_count, file.row_count)
        elif before.name in own:
            stored = own[before.name]
            same = bounds_carry_over(before.type, f.type)
            nulls = stored.null_count if nulls_carry_over(before.type, f.type) else None
            by_name[f.name] = stored if same else ColumnStats(None, None, nulls, stored.rows)
    return by_name
