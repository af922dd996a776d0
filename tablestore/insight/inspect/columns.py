"""Tables of inspection that real tables and simulations share: columns of snapshots, commits and compactions,
and levels, one row a file with its run and its place.

A picture takes either; the columns of amplification are those of `amplification.sums`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.format import binary_row
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.key_axis import key_axis
from tablestore.lsm.compaction import recording
from tablestore.lsm.levels.sorted_run import Levels

SNAPSHOTS = result_schema(
    "snapshot_id int64!, schema_id int64!, commit_user string!, commit_identifier int64!, "
    "commit_kind string!, commit_time ms!, base_manifest_list string!, delta_manifest_list string!, "
    "changelog_manifest_list string, total_record_count int64, delta_record_count int64, "
    "changelog_record_count int64, watermark int64, next_row_id int64, operation string"
)
COMMITS = result_schema(
    "snapshot_id int64, commit_kind string, commit_time ms, rows_added int64, rows_removed int64, "
    "files_added int32, files_removed int32, bytes_added int64, bytes_removed int64, "
    "changelog_rows int64, watermark int64, commit_user string, commit_identifier int64, "
    "properties string"
)
COMPACTIONS = result_schema(
    "snapshot_id int64!, time ms_utc!, partition string!, bucket int32!, strategy string, rule string, "
    "reason string, explanation string!, inputs string!, output_level int32!, files_read int64!, "
    "bytes_read int64!, rows_in int64!, files_written int64!, bytes_written int64!, rows_out int64!, "
    "files_moved int64!, bytes_moved int64!, changelog_bytes int64!, millis int64, stalled bool!, "
    "full bool!, asked bool!"
)
_SAME = (
    "partition bucket strategy rule output_level files_read bytes_read rows_in files_written bytes_written "
    "rows_out files_moved bytes_moved changelog_bytes millis stalled full asked"
).split()
_MADE: dict[str, Callable[[CompactionRecord], Any]] = {
    "reason": lambda r: r.text if r.rule is not None else None,
    "explanation": recording.explanation,
    "inputs": recording.unit_text,
} | {name: lambda r, name=name: getattr(r, name) for name in _SAME}


def compactions_table(compactions: Iterable[tuple[int, int, CompactionRecord]]) -> pa.Table:
    """Compactions as (snapshot, instant in ms, record), a row each with its explanation."""
    rows = list(compactions)
    columns: dict[str, list[Any]] = {
        "snapshot_id": [i for i, _, _ in rows],
        "time": [ms for _, ms, _ in rows],
    }
    columns |= {name: [make(r) for _, _, r in rows] for name, make in _MADE.items()}
    return pa.table([pa.array(columns[f.name], f.type) for f in COMPACTIONS], schema=COMPACTIONS)


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
            by_name = ((origins or {}).get(f.file_name), (masked or {}).get(f.file_name))
            yield partition, bucket, f.level, run, f.file_name, *counts, *texts, *places, *tail, *by_name


def key_text(key: bytes, types: Sequence[DataType]) -> str:
    """`[1, b]` of a serialized key."""
    values = binary_row.decode(key, types)
    return "[" + ", ".join(cast_text(v, t) for v, t in zip(values, types, strict=True)) + "]"
