"""What changed between two snapshots, as rows with their kinds (format facts section 21).

Without a changelog producer the rows that APPEND commits added are the changes, as they were written; with
one, the changelog files of every snapshot. Nothing is merged. COMPACT changes no row; what an OVERWRITE
replaced is not told, as in Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablestore.errors import InvalidRequest, NotFound
from tablestore.format import predicate, rowkind
from tablestore.format.manifest import ADD, ManifestEntry
from tablestore.format.parquet_schema import KIND
from tablestore.format.predicate import Predicate
from tablestore.format.snapshot import APPEND, OVERWRITE, Snapshot
from tablestore.meta.store import Store
from tablestore.options import ChangelogProducer
from tablestore.read.file_read import read_file
from tablestore.read.pruning import TRUE, Filters, Pruner
from tablestore.read.split_read import ROWKIND
from tablestore.read.support import require_readable, require_readable_file
from tablestore.read.time_travel import expiring


def changes(
    store: Store,
    *,
    since: int,
    until: int | None = None,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
) -> pa.Table:
    """Everything that changed after snapshot `since` up to `until` (None: the newest), `rowkind` first.

    Raises NotFound when a snapshot in between has expired, InvalidRequest for a range that runs backwards.
    """
    names = tuple(columns if columns is not None else store.schema.names)
    batches = [
        batch
        for snapshot in snapshots_between(store, since, until)
        for batch in snapshot_changes(store, snapshot, names, where)
    ]
    return pa.Table.from_batches(batches, change_schema(store, names))


def change_schema(store: Store, columns: Sequence[str]) -> pa.Schema:
    """Arrow schema of changes: `rowkind`, then the columns."""
    fields = [f.arrow for f in store.schema.columns(tuple(columns))]
    return pa.schema([pa.field(ROWKIND, pa.string(), nullable=False), *fields])


def snapshots_between(store: Store, since: int, until: int | None = None) -> Iterator[Snapshot]:
    """Snapshots since + 1 … until, in order; raises NotFound at one that is not there."""
    latest = store.snapshots.latest_id() or 0
    end = latest if until is None else until
    if end > latest:
        raise NotFound(f"no snapshot {end} yet; the newest is {latest}")
    if since > end:
        raise InvalidRequest(f"changes go forward: snapshot {since} comes after {end}")
    earliest = store.snapshots.earliest_id() or 1
    if since + 1 < earliest and since < end:
        raise NotFound(
            f"the changes of snapshot {since + 1} have expired; the oldest is {earliest}: read it whole first"
        )
    for snapshot_id in range(since + 1, end + 1):
        yield store.snapshots.get(snapshot_id)


def changed_entries(store: Store, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files that hold the changes of one snapshot, in the order of their manifests."""
    keyed = bool(store.schema.primary_keys)
    if keyed and store.options.changelog_producer is not ChangelogProducer.NONE:
        if snapshot.commit_kind == OVERWRITE:
            return []
        entries = store.manifests.changelog_entries(snapshot)
    else:
        entries = store.manifests.delta_entries(snapshot) if snapshot.commit_kind == APPEND else []
    return [e for e in entries if e.kind == ADD]


def snapshot_changes(
    store: Store, snapshot: Snapshot, columns: Sequence[str] | None = None, where: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Changes of one snapshot; `where` is asked of each changed row, before and after images alike."""
    names = tuple(columns if columns is not None else store.schema.names)
    bound = None if where is None else predicate.bind(where, store.schema)
    filters = Filters.of(bound, store.schema)
    require_readable(store.schema, store.options, (*names, *filters.rows.columns))
    with expiring(store, snapshot.id):
        yield from _changes(store, snapshot, names, filters)


def _changes(
    store: Store, snapshot: Snapshot, names: Sequence[str], filters: Filters
) -> Iterator[pa.RecordBatch]:
    entries = changed_entries(store, snapshot)
    for e in entries:
        require_readable_file(e.file, store.schema_of(e.file.schema_id))
    needed = tuple(dict.fromkeys((*names, *(n for n in store.schema.names if n in filters.rows.columns))))
    schema = change_schema(store, names)
    keyed = bool(store.schema.primary_keys)
    for e in sorted(_kept(store, entries, filters), key=lambda e: e.file.min_sequence if keyed else 0):
        only = None if filters.rows == TRUE else filters.rows
        for batch in read_file(store, e.partition, e.bucket, e.file, needed, where=only, system=keyed):
            rows = batch if only is None else batch.filter(predicate.mask(only, batch))
            if rows.num_rows:
                yield _with_kinds(rows, names, schema)


def _kept(store: Store, entries: list[ManifestEntry], filters: Filters) -> list[ManifestEntry]:
    """Entries that may hold rows of the filter: a change stands for itself, so each file is judged alone."""
    pruner = Pruner(store.schema, store.options, filters, store.partition_values, store.schema_of, alone=True)
    return [v.entry for v in pruner.prune(entries) if v.kept]


def _with_kinds(rows: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    if KIND in rows.schema.names:
        kinds = rowkind.texts(rows.column(KIND))
    else:
        kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), rows.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *(rows.column(n) for n in names)], schema=schema)
