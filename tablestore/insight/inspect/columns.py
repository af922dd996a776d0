"""Tables of inspection that real tables and simulations share: columns of snapshots, commits and compactions.

A picture takes either. Pure. Used by `insight/inspect/inspect.py` and by the journal of a simulation; files
by level are those of `levels_table`, amplification those of `amplification.sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.result_tables import result_schema
from tablestore.lsm.compaction import recording

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
