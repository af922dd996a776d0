"""Column statistics of a data file under the names of the schema that is read with (format facts 5, 22).

A file knows its columns by the schema it was written under; they are matched by field id. Only widened
integers keep their bounds across a change of type; a column the file does not have is NULL in all its rows.
Pure. Used by `pruning`, `check` and `inspect`.
"""

from __future__ import annotations

from tablestore.errors import Corrupt, Unsupported
from tablestore.format import stats
from tablestore.format.manifest import DataFileMeta
from tablestore.format.parquet_schema import SYSTEM_COLUMNS
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types import DataType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def own_stats(file: DataFileMeta, schema: TableSchema) -> dict[str, ColumnStats]:
    """Statistics under the names of the file's own schema; empty if it has none."""
    names = file.value_stats_cols
    if names is None:
        names = file.write_cols if file.write_cols is not None else schema.names
    known = SYSTEM_COLUMNS | dict(schema.by_name)
    if any(n not in known for n in names):
        return {}
    types = [known[n].type.as_nullable() for n in names]
    try:
        found = stats.decode(file.value_stats, types, file.row_count)
    except (Corrupt, Unsupported):  # absent, or of types that have none
        return {}
    return dict(zip(names, found, strict=True))


def stats_by_name(
    file: DataFileMeta, file_schema: TableSchema, schema: TableSchema
) -> dict[str, ColumnStats]:
    """Statistics under the names of `schema`; a column without an entry may hold anything."""
    own = own_stats(file, file_schema)
    found = {}
    for f in schema.fields:
        before = file_schema.by_id.get(f.id)
        if before is None:
            found[f.name] = ColumnStats(None, None, file.row_count, file.row_count)
        elif before.name in own:
            known = own[before.name]
            same = _comparable(before.type, f.type)
            found[f.name] = known if same else ColumnStats(None, None, known.null_count, known.rows)
    return found


def _comparable(before: DataType, after: DataType) -> bool:
    """Whether raw bounds mean the same in both types."""
    if before.root in _INTEGERS and after.root in _INTEGERS:
        return _INTEGERS.index(before.root) <= _INTEGERS.index(after.root)
    return before.as_nullable() == after.as_nullable()
