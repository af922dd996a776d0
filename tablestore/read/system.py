"""System tables of one table (`t$snapshots`, …): name → columns and rows, as Paimon 2.0.0 has them.

The small ones are made whole from metadata (`inspect`); `audit_log`, `binlog`, `ro` and `row_tracking` read
data and come as batches. Called by `table.system`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tablestore.errors import NotFound
from tablestore.format.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.read import audit, row_tracking, scan_mode, time_travel
from tablestore.read.inspect import Inspect
from tablestore.read.plan import plan
from tablestore.read.split_read import read_split

Batches = Callable[[Store, Predicate | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Source:
    """One system table: its columns, and its batches. `filters` tells whether it takes the table's own
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
DATA = ("audit_log", "binlog", "ro", "row_tracking")
NAMES = (*METADATA, *DATA)


def source(store: Store, name: str) -> Source:
    """The system table of that name; raises NotFound naming the nearest."""
    if name in METADATA:
        found = _metadata(store, name)
        return Source(found.schema, lambda _, __: iter(found.to_batches()))
    if name == "audit_log":
        under, start = audit.start_of(store)
        return Source(audit.audit_schema(under), lambda _, w: audit.audit_log(under, start, w), filters=True)
    if name == "binlog":
        under, start = audit.start_of(store)
        return Source(audit.binlog_schema(under), lambda _, w: audit.binlog(under, start, w))
    if name == "ro":
        return Source(store.schema.arrow, read_optimized, filters=True)
    if name == "row_tracking":
        return _tracked(store)
    raise NotFound.among("system table", name, NAMES)


def _metadata(store: Store, name: str) -> pa.Table:
    """A table of `inspect`, of the snapshot that the options name where it depends on one."""
    inspect = Inspect(store)
    start = scan_mode.batch(store) if name in OF_STATE else None
    if isinstance(start, scan_mode.State) and start.travelled and start.snapshot is not None:
        return getattr(inspect, name)(start.snapshot)
    return getattr(inspect, name)()


def _tracked(store: Store) -> Source:
    _, start = audit.start_of(store)
    snapshot = start.snapshot if isinstance(start, scan_mode.State) else store.snapshots.latest()
    return Source(row_tracking.tracked_schema(store), lambda s, _: row_tracking.tracked_rows(s, snapshot))


def read_optimized(store: Store, where: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Rows of the highest level only, which need no merge; all files of tables without a primary key."""
    start = scan_mode.batch(store)
    snapshot = start.snapshot if isinstance(start, scan_mode.State) else store.snapshots.latest()
    under = (
        time_travel.at(store, snapshot) if isinstance(start, scan_mode.State) and start.travelled else store
    )
    top = store.options.num_levels - 1 if store.schema.primary_keys else 0
    found = plan(under, snapshot, where, min_level=top)
    for split in found.splits:
        yield from read_split(under, split, under.schema.names, found.where)
