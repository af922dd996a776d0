"""Tables of inspection that real tables and simulations share: columns of snapshots, commits and compactions.

A picture takes either. Pure. Used by `insight/inspect/inspect.py` and by the journal of a simulation; files
by level are those of `levels_table`, amplification those of `amplification.sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.lsm.compaction import recording

_MS = pa.timestamp("ms")
_MILLIS = pa.timestamp("ms", tz="UTC")


def required(schema: pa.Schema, names: str) -> pa.Schema:
    """The schema with these columns NOT NULL."""
    wanted = names.split()
    return pa.schema([f.with_nullable(f.name not in wanted) for f in schema])


SNAPSHOTS = required(
    pa.schema(
        {
            "snapshot_id": pa.int64(),
            "schema_id": pa.int64(),
            "commit_user": pa.string(),
            "commit_identifier": pa.int64(),
            "commit_kind": pa.string(),
            "commit_time": _MS,
            "base_manifest_list": pa.string(),
            "delta_manifest_list": pa.string(),
            "changelog_manifest_list": pa.string(),
            "total_record_count": pa.int64(),
            "delta_record_count": pa.int64(),
            "changelog_record_count": pa.int64(),
            "watermark": pa.int64(),
            "next_row_id": pa.int64(),
            "operation": pa.string(),
        }
    ),
    "snapshot_id schema_id commit_user commit_identifier commit_kind commit_time base_manifest_list "
    "delta_manifest_list",
)
COMMITS = pa.schema(
    {
        "snapshot_id": pa.int64(),
        "commit_kind": pa.string(),
        "commit_time": _MS,
        "rows_added": pa.int64(),
        "rows_removed": pa.int64(),
        "files_added": pa.int32(),
        "files_removed": pa.int32(),
        "bytes_added": pa.int64(),
        "bytes_removed": pa.int64(),
        "changelog_rows": pa.int64(),
        "watermark": pa.int64(),
        "commit_user": pa.string(),
        "commit_identifier": pa.int64(),
        "properties": pa.string(),
    }
)
COMPACTIONS = pa.schema(
    [
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("time", _MILLIS, nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("strategy", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("explanation", pa.string(), nullable=False),
        pa.field("inputs", pa.string(), nullable=False),
        pa.field("output_level", pa.int32(), nullable=False),
        pa.field("files_read", pa.int64(), nullable=False),
        pa.field("bytes_read", pa.int64(), nullable=False),
        pa.field("rows_in", pa.int64(), nullable=False),
        pa.field("files_written", pa.int64(), nullable=False),
        pa.field("bytes_written", pa.int64(), nullable=False),
        pa.field("rows_out", pa.int64(), nullable=False),
        pa.field("files_moved", pa.int64(), nullable=False),
        pa.field("bytes_moved", pa.int64(), nullable=False),
        pa.field("changelog_bytes", pa.int64(), nullable=False),
        pa.field("millis", pa.int64()),
        pa.field("stalled", pa.bool_(), nullable=False),
        pa.field("full", pa.bool_(), nullable=False),
        pa.field("asked", pa.bool_(), nullable=False),
    ]
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


def made(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table of few rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
