"""The tables of `inspect` that add files up: partitions and buckets, as `$partitions` and `$buckets`.

Both are made from all entries of a state, deletions included: the newest creation time is that of any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.format.text import cast_text
from tablestore.insight.inspect.files import by_bucket
from tablestore.meta.partition_names import braced_partition
from tablestore.meta.store import Store

PARTITIONS = result_schema(
    "partition string, record_count int64!, file_size_in_bytes int64!, file_count int64!, "
    "last_update_time ms, created_at ms, created_by string, updated_by string, options string, "
    "total_buckets int32!, done bool!, deleted_record_count int64"
)
BUCKETS = result_schema(
    "partition string, bucket int32!, record_count int64!, file_size_in_bytes int64!, "
    "file_count int64!, last_update_time ms"
)


def partitions(
    store: Store,
    entries: Iterable[ManifestEntry],
    indexes: Iterable[IndexEntry] = (),
    *,
    as_directories: bool = False,
) -> pa.Table:
    """One row a partition, as `$partitions`, by the text of its name, from all entries of a state, deletions
    included. `indexes` have the rows deleted by vectors; `as_directories` names values as directories do."""
    groups: dict[bytes, list[ManifestEntry]] = {}
    for (partition, _), some in by_bucket(store, entries):
        groups.setdefault(partition, []).extend(some)
    deleted = _deleted(indexes)
    rows = []
    for partition, some in groups.items():
        counts = _added_up(some)
        if counts[2]:
            tail = (None, None, None, None, some[-1].total_buckets, False, deleted.get(partition, 0))
            name = _partition_name(store, partition)
            if as_directories:
                name = "/".join(f"{key}={value}" for key, value in store.partition_pairs(partition))
            rows.append((name, *counts, *tail))
    return table_of(PARTITIONS, sorted(rows, key=lambda row: row[0]))


def of_state(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """The partitions of one snapshot, none of a table without any."""
    manifests = store.manifests
    return partitions(store, manifests.stored_entries(snapshot), manifests.index_entries(snapshot))


def united(first: pa.Table, second: pa.Table) -> pa.Table:
    """The partitions of two branches; the first one's where both have one."""
    new = pc.invert(pc.is_in(second.column("partition"), first.column("partition")))
    return pa.concat_tables([first, second.filter(new)]).sort_by("partition")


def _partition_name(store: Store, partition: bytes) -> str:
    """`day=2024-01-02/region=eu`; blank values have the name of the default partition."""
    default, parts = store.options.partition_default_name, []
    for f, value in zip(store.schema.partition_fields, store.partition_values(partition), strict=True):
        blank = value is None or (isinstance(value, str) and not value.strip())
        parts.append(f"{f.name}={default if blank else cast_text(value, f.type)}")
    return "/".join(parts)


def _deleted(indexes: Iterable[IndexEntry]) -> dict[bytes, int | None]:
    """Rows that deletion vectors take away, by partition; None where a container does not say how many."""
    deleted: dict[bytes, int | None] = {}
    for e in indexes:
        for r in e.file.dv_ranges or ():
            rows = deleted.get(e.partition, 0)
            deleted[e.partition] = None if rows is None or r.cardinality is None else rows + r.cardinality
    return deleted


def buckets(store: Store, entries: Iterable[ManifestEntry]) -> pa.Table:
    """One row a bucket, as `$buckets`, from all entries of a state, deletions included."""
    rows = ((braced_partition(store, p), b, *_added_up(some)) for (p, b), some in by_bucket(store, entries))
    return table_of(BUCKETS, [row for row in rows if row[4]])


def _added_up(entries: Sequence[ManifestEntry]) -> tuple[Any, ...]:
    """Rows, bytes and files that are left, and the newest creation time of any file, a deleted one too."""
    times = [e.file.creation_time_ms for e in entries if e.file.creation_time_ms is not None]
    signs = [(1 if e.kind == ADD else -1, e.file) for e in entries]
    rows, size = sum(n * f.row_count for n, f in signs), sum(n * f.file_size for n, f in signs)
    return rows, size, sum(n for n, _ in signs), max(times, default=None)
