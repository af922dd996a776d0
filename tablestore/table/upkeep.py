"""Upkeep of a table: compaction, ANALYZE, manifests, orphan files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablestore import doors
from tablestore.core.errors import CommitUnknown, InvalidRequest, NotFound, TablestoreError
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta import open_writers, statistics
from tablestore.meta.statistics import Statistics
from tablestore.read.open_log import embedded_log_of
from tablestore.read.scan import time_travel
from tablestore.table import compaction, history
from tablestore.table.compaction import Compaction
from tablestore.table.handle import Handle
from tablestore.table.lazy_read import column_names
from tablestore.table.refs import Duration, milliseconds
from tablestore.table.scan import snapshot_scan
from tablestore.table.writes import batch_request, expired_after, finished
from tablestore.write import analyze as columns_of
from tablestore.write.commit.committer import Committed, Committer
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention import orphans
from tablestore.write.retention.orphans import Orphans

_MERGE_ALL = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}


def compact(
    table: Handle,
    *,
    full: bool,
    dry_run: bool,
    until_quiet: bool,
    partition: Mapping[str, Any] | str | None,
    bucket: int | Iterable[int] | None,
    where: Predicate | str | None,
    progress: ProgressCallback | None,
) -> Compaction:
    """`Table.compact`: one round, rounds until no rule fires, or a dry run."""
    if not dry_run:
        _require_compactable(table)
    chosen: dict[str, Any] = {"partition": partition, "bucket": bucket, "where": where}
    if until_quiet and (full or dry_run):
        raise InvalidRequest("until_quiet goes on by the rules: it goes with neither full nor dry_run")
    if dry_run:
        store = table.store if table.at is None else time_travel.at(table.store, table.at)
        return doors.dry_run(store, full=full, at=table.at, **chosen)
    if not table.store.options.tiering_enabled:  # rounds of tiering bring what the log has
        finished(table)
    with open_writers.writing(table.store):
        if until_quiet:
            done = compaction.compact_until_quiet(table.store, **chosen, progress=progress)
        else:
            done = compaction.compact(table.store, full=full, **chosen, progress=progress)
    if isinstance(done.committed, Committed) and done.committed.snapshots:
        done = replace(done, committed=expired_after(table, done.committed))
    if table.store.options.write_only:  # its writers leave the old rows of a log to this job
        history.expire_log(table)
    return done


def _require_compactable(table: Handle) -> None:
    """Raise as `Handle.require_present` does; without a log the compaction looks itself whether the table is
    there."""
    if table.log is None:
        table.require_not_past()
    else:
        table.require_present()


def analyze(table: Handle, columns: Sequence[str] | None) -> Committed:
    """`Table.analyze`: read the newest snapshot, write its statistics, commit them."""
    table.require_present()
    store = table.store
    snapshot = store.snapshots.latest()
    if snapshot is None:
        raise NotFound("the table has no snapshot to analyze yet")
    chosen = column_names(columns)
    names = store.schema.shown.names if chosen is None else chosen
    scan = snapshot_scan(store, snapshot, names or store.schema.shown.names[:1])
    fields = store.schema.columns(scan.names if names else ())
    rows, by_column = columns_of.analyze(scan.to_batches(), fields)
    live = store.manifests.live_entries(snapshot)
    physical, size = sum(e.file.row_count for e in live), sum(e.file.file_size for e in live)
    share = size * rows // physical if physical else 0
    name = statistics.write(store, Statistics(snapshot.id, snapshot.schema_id, rows, share, by_column))
    try:
        return Committer(store).commit_statistics(name, batch_request(store))
    except CommitUnknown:
        raise
    except TablestoreError:
        store.io.delete(store.paths.statistics(name))
        raise


def compact_manifests(table: Handle) -> Committed:
    """`Table.compact_manifests`: merges all manifests, as Paimon's procedure does; nothing if they are
    merged."""
    table.require_present()
    store = table.store
    snapshot = store.snapshots.latest()
    manifests = [] if snapshot is None else store.manifests.manifests(snapshot)
    if len(manifests) < 2 and not any(m.num_deleted for m in manifests):
        return Committed()
    whole = store.schema.with_options(_MERGE_ALL)
    return Committer(store.with_schema(whole)).merge_manifests(batch_request(store))


def remove_orphans(table: Handle, *, older_than: Duration, dry_run: bool, force: bool) -> Orphans:
    """`Table.remove_orphans`."""
    age = milliseconds(older_than, "older_than")
    table_orphans = orphans.remove_orphans(table.store, older_than_ms=age, dry_run=dry_run, force=force)
    log = embedded_log_of(table.store)
    if log is None:
        return table_orphans
    age = open_writers.sparing(age, table_orphans.writers, table.store.env.now_ms())
    parts = log.remove_orphans(older_than_ms=age, dry_run=dry_run)
    return replace(table_orphans, files=tuple(sorted({*table_orphans.files, *parts})))
