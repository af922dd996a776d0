"""Deletes and updates on tables without primary key: found by a scan, marked by deletion vectors.

Each data file that may hold rows of the filter is read once, in the columns that are asked (all of them for
an update). A filter of whole partitions reads nothing: they are taken out of the manifests. Who loses against
a compaction or another delete looks at the newer snapshot and does it again. Memory: one batch, and the
deleted positions of one data file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitConflict
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import deletion_vector
from tablestore.format.commit_message import CommitMessage
from tablestore.format.deletion_vector import DeletionVector
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import read_file
from tablestore.read.scan.plan import Plan, plan
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.table.bucket_choice import partition_filter
from tablestore.write.commit.commit_or_discard import commit_or_discard, discarded_on_error
from tablestore.write.commit.committer import Committed, Committer
from tablestore.write.commit.expired_basis import conflict_if_expired
from tablestore.write.commit.request import CommitRequest
from tablestore.write.delete import DeletionMarks, require_deletable, with_values
from tablestore.write.table_write import TableWrite

log = logging.getLogger(__name__)
_TRIES = 5


def delete(store: Store, where: Predicate, request: CommitRequest) -> Committed:
    """Delete the rows that `where` selects, in one OVERWRITE snapshot; none if there are no such rows."""
    bound = predicate.bind(where, store.schema)
    if selects_partitions(store, bound):
        return drop_partitions(store, bound, request)
    require_deletable(store)
    return again(lambda: _commit(store, *_messages(store, bound), request))


def selects_partitions(store: Store, where: Predicate) -> bool:
    """Whether a condition selects all rows of a partition or none, whatever they are."""
    return Filters.of(predicate.bind(where, store.schema), store.schema).rows == TRUE


def needs_no_rows(store: Store, where: Predicate) -> bool:
    """Whether a delete on a table with a primary key may take whole partitions out of the manifests: no
    changelog names its rows, and the table wants none of deletes."""
    options = store.options
    if options.changelog_producer is not ChangelogProducer.NONE or options.delete_makes_changelog:
        return False
    return selects_partitions(store, where)


def drop_partitions(store: Store, where: Predicate, request: CommitRequest) -> Committed:
    """Take the partitions that a condition selects out of the manifests, in one OVERWRITE snapshot; none if
    there are none."""
    chosen = partition_filter(store, where)
    if not len(store.manifests.live_entries(store.snapshots.latest(), partition=chosen)):
        return Committed(replaced_partitions=0)
    return Committer(store).overwrite([], request, chosen, "DELETE")


def update(
    store: Store,
    values: Mapping[str, Any],
    where: Predicate,
    request: CommitRequest,
    write: Callable[[], TableWrite],
) -> Committed:
    """Set columns of the rows that `where` selects: they are marked as deleted and written anew, in one
    OVERWRITE snapshot."""
    require_deletable(store)
    bound = predicate.bind(where, store.schema)

    def once() -> Committed:
        with write() as target:
            marks, rows = _messages(store, bound, target, values)
            with discarded_on_error(store, marks):
                written = target.prepare()
        return _commit(store, _joined(marks, written), rows, request)

    return again(once)


def again(once: Callable[[], Committed]) -> Committed:
    """What `once` gives; tried anew, from the newer snapshot, when another commit came first or the snapshot
    expired meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return once()
        except CommitConflict as e:
            log.info("rows to delete have moved: %s", e)
    return once()


def _commit(store: Store, messages: list[CommitMessage], rows: int, request: CommitRequest) -> Committed:
    if not messages:
        return Committed()
    return replace(commit_or_discard(store, messages, request), rows=rows)


def _joined(marks: list[CommitMessage], written: list[CommitMessage]) -> list[CommitMessage]:
    """One message a bucket."""
    found = {(m.partition, m.bucket): m for m in written}
    for m in marks:
        place = m.partition, m.bucket
        other = found.get(place)
        if other is not None:
            m = replace(other, new_index=m.new_index, deleted_index=m.deleted_index)
        found[place] = m
    return list(found.values())


def _messages(
    store: Store,
    where: Predicate,
    target: TableWrite | None = None,
    values: Mapping[str, Any] | None = None,
) -> tuple[list[CommitMessage], int]:
    """(messages, rows) that mark the rows of a bound filter; with `values` those rows, changed, go to
    `target`."""
    snapshot, rows = store.snapshots.latest(), 0
    with conflict_if_expired(store, snapshot.id if snapshot is not None else None):
        found = plan(store, snapshot, where)
        marks = DeletionMarks(store, store.manifests.index_entries(snapshot))
        try:
            for split in found.splits:
                for number, file in enumerate(split.files):
                    rows += _mark(marks, found, split, number, file, target, values)
            return marks.messages(), rows
        except BaseException:
            marks.discard()
            raise


def _mark(
    marks: DeletionMarks,
    found: Plan,
    split: DataSplit,
    number: int,
    file: DataFileMeta,
    target: TableWrite | None,
    values: Mapping[str, Any] | None,
) -> int:
    """Note the rows of one file that go; how many."""
    known = split.deletion_file(number)
    old = None if known is None else deletion_vector.read(found.store.io, known, rows=file.row_count)
    places = []
    for positions, batch in _selected(found, split, file, old, whole=values is not None):
        places.append(positions)
        if target is not None and values is not None:
            target.write(with_values(batch, values))
    if not places:
        return 0
    new = DeletionVector.of(np.concatenate(places))
    bucket = split.partition, split.bucket, split.total_buckets
    marks.put(bucket, file.file_name, new if old is None else new.union(old))
    return new.cardinality


def _selected(
    found: Plan, split: DataSplit, file: DataFileMeta, old: DeletionVector | None, *, whole: bool
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """(positions, rows) of a file that the filter selects and that are still there."""
    store, where = found.store, found.where
    assert where is not None
    columns = [n for n in store.schema.names if whole or n in where.columns]
    start = 0
    for batch in read_file(store, split.partition, split.bucket, file, columns, system=False):
        chosen = predicate.mask(where, batch).to_numpy(zero_copy_only=False).astype(bool)
        alive = None if old is None else old.alive(start, batch.num_rows)
        chosen = chosen if alive is None else chosen & alive
        if chosen.any():
            yield start + np.flatnonzero(chosen), batch.filter(pa.array(chosen))
        start += batch.num_rows
