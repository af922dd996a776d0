"""Levels as an Arrow table, the form in which pictures take them: one row a file with its run and its place.

The same columns for the buckets of tables (`inspect.levels`) and for simulated ones. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.format import binary_row
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_axis
from tablestore.lsm.levels.sorted_run import Levels

LEVELS = result_schema(
    "partition string, bucket int32, level int32, run int32, file_name string, rows int64, "
    "deletes int64, bytes int64, min_key string, max_key string, min_key_pos double, "
    "max_key_pos double, min_sequence int64, max_sequence int64, schema_id int64, creation_time ms, "
    "file_source string, snapshot_id int64, masked_rows int64"
)
SOURCES = {0: "APPEND", 1: "COMPACT"}


def levels_table(levels: Levels, types: Sequence[DataType], **about: Any) -> pa.Table:
    """The rows of `level_rows` as a table."""
    return table_of(LEVELS, level_rows(levels, types, **about))


def level_rows(
    levels: Levels,
    types: Sequence[DataType],
    *,
    partition: str = "",
    bucket: int = 0,
    among: Iterable[bytes] = (),
    origins: Mapping[str, int] | None = None,
    masked: Mapping[str, int | None] | None = None,
) -> Iterator[tuple[Any, ...]]:
    """The files of one bucket whose keys are of these types, none of a table without a key. The axis spans
    the keys `among`, too, so that pictures of different states share it; `origins` are the snapshots that
    added the files, where known; `masked` the rows that deletion vectors take away: both by file name."""
    place = key_axis([*(k for f in levels.files for k in (f.min_key, f.max_key)), *among], types)
    for run, sorted_run in enumerate(levels.runs):
        for f in sorted_run.files:
            texts = (key_text(k, types) if types else None for k in (f.min_key, f.max_key))
            places = sorted(
                (place(f.min_key), place(f.max_key)), key=lambda p: p or 0.0
            )  # postponed: any order
            counts = (f.row_count, f.delete_count, f.file_size)
            source = None if f.file_source is None else SOURCES.get(f.file_source)
            tail = (f.min_sequence, f.max_sequence, f.schema_id, f.creation_time_ms, source)
            known = ((origins or {}).get(f.file_name), (masked or {}).get(f.file_name))
            yield partition, bucket, f.level, run, f.file_name, *counts, *texts, *places, *tail, *known


def key_text(key: bytes, types: Sequence[DataType]) -> str:
    """`[1, b]` of a serialized key."""
    values = binary_row.decode(key, types)
    return "[" + ", ".join(cast_text(v, t) for v, t in zip(values, types, strict=True)) + "]"
