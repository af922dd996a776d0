"""System tables of one table (`t$snapshots`, …): name → columns and rows, as Paimon 2.0.0 has them
(FORMAT.md 23). `lake` is Fluss's: the table without the rows that are in its log only.

The small ones are made whole from metadata (`inspect`); `audit_log`, `binlog`, `lake`, `ro` and
`row_tracking` read data and come as batches. Called by `verbs.system`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tablestore.core.errors import NotFound, Unsupported
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect import audit
from tablestore.insight.inspect.inspect import Inspect
from tablestore.meta.store import Store
from tablestore.read.scan import scan_mode
from tablestore.read.scan.plan import plan
from tablestore.read.scan.scan_mode import SnapshotState

Batches = Callable[[Store, Predicate | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Source:
    """One system table: its columns, and its batches. `filters`: whether it takes the table's own
    predicates, so that less is read."""

    schema: pa.Schema
    batches: Batches
    filters: bool = False


METADATA = (
    "snapshots",
    "schemas",
    "options",
    "manifests",
    "files",
    "file_key_ranges",
    "partitions",
    "buckets",
    "tags",
    "branches",
    "consumers",
    "statistics",
    "aggregation_fields",
    "table_indexes",
)
OF_STATE = ("manifests", "files", "file_key_ranges", "partitions", "buckets", "statistics", "table_indexes")
DATA = ("audit_log", "binlog", "lake", "ro", "row_tracking")
NAMES = (*METADATA, *DATA)


def source(store: Store, name: str, at: Snapshot | None = None) -> Source:
    """The system table of that name, of a snapshot if one was chosen; raises NotFound naming the nearest."""
    if name in METADATA:
        view = _metadata(store, name, at)
        return Source(view.schema, lambda _, __: iter(view.to_batches()))
    if name not in DATA:
        raise NotFound.among("system table", name, NAMES)
    if store.options.scan_log and name in ("audit_log", "binlog"):
        raise Unsupported(
            f"${name} with tablestore.scan.log", "it shows rows of files: set the option to false"
        )
    target = scan_mode.batch(store, at)
    under = target.under(store)
    if name == "audit_log":
        return Source(audit.audit_schema(under), lambda _, w: audit.audit_log(under, target, w), filters=True)
    if name == "binlog":
        return Source(audit.binlog_schema(under), lambda _, w: audit.binlog(under, target, w))
    snapshot = target.snapshot if isinstance(target, SnapshotState) else store.snapshots.latest()
    if name == "row_tracking":
        schema = audit.tracked_schema(under)
        return Source(schema, lambda _, __: audit.tracked_rows(under, snapshot))
    read = in_files if name == "lake" else read_optimized
    return Source(under.schema.shown.arrow, lambda _, w: read(under, snapshot, w), filters=True)


def _metadata(store: Store, name: str, at: Snapshot | None) -> pa.Table:
    """A table of `inspect`, of the snapshot that is chosen where it depends on one."""
    inspect = Inspect(store)
    if name in OF_STATE:
        target = scan_mode.batch(store, at)
        if isinstance(target, SnapshotState) and target.travelled and target.snapshot is not None:
            return getattr(inspect, name)(target.snapshot)
    return getattr(inspect, name)()


def in_files(store: Store, snapshot: Snapshot | None, where: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Rows of a snapshot, without those of a log."""
    splits = plan(store, snapshot, where)
    for split in splits.splits:
        yield from split.read(store, store.schema.shown.names, splits.where)


def read_optimized(
    store: Store, snapshot: Snapshot | None, where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Rows of the oldest level only, which need no merge; all files of tables without a primary key."""
    oldest = store.options.num_levels - 1 if store.schema.primary_keys else 0
    splits = plan(store, snapshot, where, min_level=oldest)
    for split in splits.splits:
        yield from split.read(store, store.schema.shown.names, splits.where)
