"""The changes between two snapshots, as rows with their kinds (FORMAT.md 21.3).

Without a changelog producer the rows that APPEND commits added are the changes, as they were written; with
one, the changelog files of every snapshot. Nothing is merged. COMPACT changes no row; rows that an OVERWRITE
replaced are in no such file (`overwritten.py`). Of expired snapshots the long-lived changelogs are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import rowkind
from tablestore.format.data_format import FileRequest
from tablestore.format.manifests.manifest import ADD, DataFileMeta, ManifestEntry
from tablestore.format.parquet.schema import KIND
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import APPEND, OVERWRITE, Snapshot
from tablestore.lsm.merge import counted
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined
from tablestore.meta import changelogs
from tablestore.meta.entries import EMPTY, Entries
from tablestore.meta.store import Store
from tablestore.read.changes.overwritten import asked_for, overwritten_changes, streams_overwrite
from tablestore.read.changes.streamable import require_changes_tracked
from tablestore.read.scan.data_split import ROWKIND, DataSplit
from tablestore.read.scan.file_read import read_file, tolerated
from tablestore.read.scan.plan import Plan, pruner_of
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import readable_condition, require_readable_file

AUTO, DELTA, CHANGELOG, DIFF = "auto", "delta", "changelog", "diff"
MODES = (AUTO, DELTA, CHANGELOG, DIFF)


@dataclass(frozen=True, slots=True)
class ChangeSplit(DataSplit):
    """Files whose rows are changes, read one by one as they are; never `raw` for other engines."""

    def read(
        self,
        store: Store,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        with_kinds: bool = False,
        keep_retracts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are there (+I, +U); `with_kinds` all of them, with their kinds."""
        names = tuple(columns if columns is not None else store.schema.shown.names)
        bound = None if where is None else predicate.bind(where, store.schema)
        filters = Filters.of(bound, store.schema)
        for file in self.files:
            entry = ManifestEntry(ADD, self.partition, self.bucket, self.total_buckets, file)
            with expiring(store, self.snapshot_id, changes=_in_changelogs(store, file)):
                for batch in _file_changes(store, entry, names, filters):
                    yield batch if with_kinds else present(batch)


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The changes after snapshot `since` up to `until`; `mode` says of which files (`MODES`)."""

    since: int
    until: int | None
    mode: str = AUTO

    whole: ClassVar[bool] = False  # not all rows of one snapshot

    @property
    def snapshot(self) -> None:
        """None: no state is read."""
        return None

    def under(self, store: Store) -> Store:
        """The store whose columns are read: today's."""
        return store

    def plan(
        self,
        store: Store,
        where: Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        complete: bool = False,
    ) -> Plan:
        """One split a file, in the order of snapshots; every file is judged, so the plan is `complete`."""
        bound = readable_condition(store, where, columns)
        filters = Filters.of(bound, store.schema)
        pruner = pruner_of(store, filters, independent=True)
        splits: list[ChangeSplit] = []
        looked_at: list[ManifestEntry] = []
        last: Snapshot | None = None
        for last in snapshots_between(store, self.since, self.until):
            with expiring(store, last.id, changes=True):
                entries = changed_entries(store, last, mode=self.mode, within=filters.partition)
            looked_at += entries
            for e in _checked(store, _kept(store, entries, filters)):
                splits.append(ChangeSplit(e.partition, e.bucket, e.total_buckets, last.id, (e.file,), False))
        return Plan(store, last, bound, tuple(splits), looked_at=Entries.of(looked_at), pruner=pruner)


def changes(
    store: Store,
    *,
    since: int,
    until: int | None = None,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    mode: str = AUTO,
) -> pa.Table:
    """Everything that changed after snapshot `since` up to `until` (None: the newest), `rowkind` first.

    Raises NotFound when a snapshot in between has expired, InvalidRequest for a range that runs backwards.
    """
    names = tuple(columns if columns is not None else store.schema.shown.names)
    batches = (
        batch
        for snapshot in snapshots_between(store, since, until)
        for batch in snapshot_changes(store, snapshot, names, where, mode=mode)
    )
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
    earliest = changelogs.earliest_id(store) or 1
    if since + 1 < earliest and since < end:
        raise NotFound(
            f"the changes of snapshot {since + 1} have expired; the oldest is {earliest}: read it whole first"
        )
    for snapshot_id in range(since + 1, end + 1):
        yield changelogs.snapshot_or_changelog(store, snapshot_id)


def changed_entries(
    store: Store, snapshot: Snapshot, *, mode: str = AUTO, within: Predicate = TRUE
) -> Entries:
    """The files that hold the changes of one snapshot, in the order of their manifests.

    Raises Unsupported where its changelog lacks changes of a partition in `within`, a condition over
    partition columns.
    """
    keyed = bool(store.schema.primary_keys)
    if mode == AUTO:
        has = keyed and store.options.changelog_producer is not ChangelogProducer.NONE
        mode = CHANGELOG if has else DELTA
    if mode == CHANGELOG:
        require_changes_tracked(store, snapshot, within)
        entries = EMPTY if snapshot.commit_kind == OVERWRITE else store.manifests.changelog_entries(snapshot)
    else:
        if snapshot.changelog_manifest_list is not None and not store.snapshots.exists(snapshot.id):
            text = f"the rows that snapshot {snapshot.id} wrote have expired"
            raise NotFound(f"{text}; the changes that its changelog keeps can be read: mode='changelog'")
        entries = store.manifests.delta_entries(snapshot) if snapshot.commit_kind == APPEND else EMPTY
    return entries.filter(entries.numbers("kind") == ADD)


def snapshot_changes(
    store: Store,
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    *,
    mode: str = AUTO,
) -> Iterator[pa.RecordBatch]:
    """The changes of one snapshot; `where` filters each changed row, before and after images alike."""
    names = tuple(columns if columns is not None else store.schema.shown.names)
    bound = readable_condition(store, where, names)
    filters = Filters.of(bound, store.schema)
    as_written = mode == DELTA and snapshot.changelog_manifest_list is not None
    with expiring(store, snapshot.id, changes=not as_written):
        if streams_overwrite(store, snapshot) and (mode != DELTA or asked_for(store)):
            yield from overwritten_changes(store, snapshot, names, bound, change_schema(store, names))
            return
        changed = changed_entries(store, snapshot, mode=mode, within=filters.partition)
        entries = _checked(store, _kept(store, changed, filters))
        # a compaction's changelog has sequence numbers of old rows, which give no order; there may be several
        # writers, so their rows come by sequence number
        compacting = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
        written = bool(store.schema.primary_keys) and store.options.changelog_producer not in compacting
        entries = sorted(entries, key=lambda e: e.file.min_sequence if written else 0)
        if moves(store) and len({e.partition for e in entries}) > 1:
            yield from _moved_last(store, entries, names, filters)
            return
        for e in entries:
            yield from _file_changes(store, e, names, filters)


def moves(store: Store) -> bool:
    """Whether a key may go from one partition to another: all changes of a snapshot then belong together."""
    keys = store.schema.primary_keys
    return bool(keys) and not set(store.schema.partition_keys) <= set(keys)


def _moved_last(
    store: Store, entries: Sequence[ManifestEntry], names: tuple[str, ...], filters: Filters
) -> Iterator[pa.RecordBatch]:
    """The changes of files where a key that moves is deleted in one partition before it is inserted in the
    other; in each partition its changes keep their order. Memory: the changes of these files."""
    places: dict[tuple[bytes, int], list[pa.RecordBatch]] = {}
    wide = tuple(dict.fromkeys((*names, *store.schema.primary_keys)))
    for e in entries:
        places.setdefault((e.partition, e.bucket), []).extend(_file_changes(store, e, wide, filters))
    waiting = []
    for rows in map(joined, filter(None, places.values())):
        codes = key_columns.codes(key_columns.of_batch(rows, store.schema.key_fields))
        retracts = rowkind.retracts(rowkind.parse(rows.column(0)).to_numpy())
        _, last = np.unique(codes[::-1], return_index=True)
        gone = np.isin(codes, codes[::-1][last[retracts[::-1][last]]])
        rows = rows.select([ROWKIND, *names])
        waiting.append(rows.filter(pa.array(~gone)))
        yield rows.filter(pa.array(gone))
    yield from waiting


def _in_changelogs(store: Store, file: DataFileMeta) -> bool:
    """Whether long-lived changelogs keep this file: where there is a producer, only those that it wrote."""
    produced = store.options.changelog_producer is not ChangelogProducer.NONE
    return not produced or file.file_name.startswith(store.options.changelog_file_prefix)


def _checked(store: Store, entries: list[ManifestEntry]) -> list[ManifestEntry]:
    for e in entries:
        require_readable_file(e.file, store.schema_of(e.file.schema_id))
    return entries


def _file_changes(
    store: Store, entry: ManifestEntry, names: Sequence[str], filters: Filters
) -> Iterator[pa.RecordBatch]:
    count = store.schema.row_count_field
    if count is not None and count not in names:
        yield from counted.shown_changes(_file_changes(store, entry, (*names, count), filters), count)
        return
    needed = tuple(dict.fromkeys((*names, *(n for n in store.schema.names if n in filters.rows.columns))))
    schema = change_schema(store, names)
    keyed = bool(store.schema.primary_keys)
    only = None if filters.rows == TRUE else filters.rows
    place = entry.partition, entry.bucket, entry.file
    rows = read_file(store, *place, FileRequest(needed, system=keyed, predicate=only))
    for batch in tolerated(store, *place, rows):
        kept = batch if only is None else batch.filter(evaluate.mask(only, batch))
        if kept.num_rows:
            if KIND in kept.schema.names:
                kinds = rowkind.texts(kept.column(KIND))
            else:
                kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), kept.num_rows)
            yield pa.RecordBatch.from_arrays([kinds, *(kept.column(n) for n in names)], schema=schema)


def _kept(store: Store, entries: Sequence[ManifestEntry], filters: Filters) -> list[ManifestEntry]:
    """The entries that may hold rows of the filter: changes are not merged, so each file is judged alone."""
    pruner = pruner_of(store, filters, independent=True)
    return [v.entry for v in pruner.prune(entries) if v.kept]


def present(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Changes without the rows that are gone (−U, −D), and without the kinds."""
    kept = rowkind.parse(batch.column(0)).to_numpy(zero_copy_only=False)
    return batch.filter(pa.array(~rowkind.retracts(kept))).remove_column(0)
