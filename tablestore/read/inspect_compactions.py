"""`inspect.compactions()`: every compaction that the table has had, with its reason and its bytes.

Rows come from `meta.compaction_history`: live snapshots and what was kept of expired ones. Rows of other
engines have no strategy, rule or duration. Memory: the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.lsm import recording
from tablestore.meta import compaction_history
from tablestore.meta.store import Store

_MILLIS = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
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


def compactions(store: Store, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
    """A row for each compaction of a bucket, the oldest first, of one partition (text) or bucket if given."""
    found = list(_chosen(store, partition, bucket))
    columns: dict[str, list[Any]] = {
        "snapshot_id": [i for i, _, _ in found],
        "time": [ms for _, ms, _ in found],
    }
    columns |= {name: [make(r) for _, _, r in found] for name, make in _MADE.items()}
    return pa.table([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


def _chosen(
    store: Store, partition: str | None, bucket: int | None
) -> Iterator[tuple[int, int, CompactionRecord]]:
    for snapshot_id, time_ms, record in compaction_history.records(store):
        if partition in (None, record.partition) and bucket in (None, record.bucket):
            yield snapshot_id, time_ms, record
