"""`inspect.compactions()`: every compaction that the table has had, with its reason and its bytes.

Rows come from `meta.compaction_history`: live snapshots and what was kept of expired ones. Rows of other
engines have no strategy, rule or duration; their explanation is what our rules say of the same files. The
schema's metadata names under `missing` the snapshots that left no trace. Memory: the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.insight.explain import foreign_compactions as foreign
from tablestore.insight.inspect.columns import compactions_table
from tablestore.meta import compaction_history
from tablestore.meta.store import Store


def compactions(store: Store, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
    """A row for each compaction, the oldest first, of all buckets or of one partition (text) or bucket."""
    found = compactions_table(_chosen(store, partition, bucket))
    gone = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in compaction_history.missing(store))
    return found.replace_schema_metadata({"missing": gone}) if gone else found


def _chosen(
    store: Store, partition: str | None, bucket: int | None
) -> Iterator[tuple[int, int, CompactionRecord]]:
    for snapshot_id, time_ms, record in compaction_history.records(store, foreign.explained):
        if partition in (None, record.partition) and bucket in (None, record.bucket):
            yield snapshot_id, time_ms, record
