"""Deletes and updates on tables without primary key: found by a scan, marked by deletion vectors.

Each data file that may hold rows of the filter is read once, in the columns of the filter (in all for an
update). A filter of whole partitions reads no file: they are removed by metadata. After a conflict with a
compaction or another delete, it is done again from the newer snapshot. Memory: one batch, and the deleted
positions of one data file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitConflict
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import deletion_vector
from tablestore.format.commit_message import CommitMessage
from tablestore.format.data_format import FileRequest
from tablestore.format.deletion_vector import DeletionVector
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.merge import counted
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import read_file
from tablestore.read.scan.plan import Plan, plan
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.table import finishing
from tablestore.table.bucket_choice import partition_filter
from tablestore.table.row_changes import ChangeSteps, RowChanger, deleting_all, no_rows
from tablestore.write.commit.commit_or_discard import commit_or_discard, discarded_on_error
from tablestore.write.commit.committer import Committed, Committer
from tablestore.write.commit.conflict_check import conflict_if_expired, read_for_commit
from tablestore.write.commit.request import Basis, CommitRequest
from tablestore.write.delete import DeletionMarks, require_deletable
from tablestore.write.table_write import TableWrite

log = logging.getLogger(__name__)
LogCommit = Callable[[TableWrite, CommitRequest, Sequence[CommitMessage]], Committed]
_TRIES = 5
_NONE = np.empty(0, dtype=np.int64)


def delete(store: Store, where: Predicate, request: CommitRequest) -> Committed:
    """Delete the rows that `where` selects, in one OVERWRITE snapshot; none if there are no such rows."""
    bound = predicate.bind(where, store.schema)
    if selects_partitions(store, bound):
        return drop_partitions(store, bound, request)
    return change_rows(store, bound, request, ChangeSteps(deleting_all), None)


def selects_partitions(store: Store, where: Predicate) -> bool:
    """Whether a condition selects all rows of a partition or none, whatever their values."""
    return Filters.of(predicate.bind(where, store.schema), store.schema).rows == TRUE


def needs_no_rows(store: Store, where: Predicate) -> bool:
    """Whether a delete in a table with a primary key may remove whole partitions by metadata: the table keeps
    no changelog, of deletes neither."""
    options = store.options
    if options.changelog_producer is not ChangelogProducer.NONE or options.delete_makes_changelog:
        return False
    return selects_partitions(store, where)


def drop_partitions(store: Store, where: Predicate, request: CommitRequest) -> Committed:
    """Remove the partitions that a condition selects by metadata, in one OVERWRITE snapshot; none if there
    are none."""
    chosen, newest = partition_filter(store, where), store.newest()
    if not len(store.manifests.live_entries(newest.snapshot, partition=chosen)):
        return Committed(replaced_partitions=0)
    return Committer(store).overwrite([], replace(request, newest=newest), chosen, "DELETE")


def change_rows(
    store: Store,
    where: Predicate | None,
    request: CommitRequest,
    steps: ChangeSteps,
    write: Callable[[], TableWrite] | None,
    to_log: LogCommit | None = None,
) -> Committed:
    """Change the rows that `where` selects (None: all) and add those that come in, in one OVERWRITE snapshot:
    rows that change are marked as deleted and come back in new files. Without `write` rows can only be
    deleted, and who changes them gets the columns of the condition only. `to_log` commits in a table with a
    log: the rows that go are there, too. Raises InvalidRequest where rows cannot be marked as deleted: at
    once, or with rows that come in for the first that goes."""
    if steps.inserts is no_rows:
        require_deletable(store)
    bound = None if where is None else predicate.bind(where, store.schema)

    def once() -> Committed:
        steps.restart()
        newest = store.newest()
        snapshot, asked = newest.snapshot, replace(request, newest=newest)
        if write is None:
            return _commit(store, *_marked(store, snapshot, bound, steps.change, None), asked)
        with write() as target:
            messages, rows = changed(store, snapshot, bound, steps, target)
        if to_log is None or not messages:
            return _commit(store, messages, rows, asked)
        asked = replace(request, basis=Basis(snapshot, appends=True))
        return replace(to_log(target, asked, messages), rows=rows)

    return again(once)


def changed(
    store: Store, snapshot: Snapshot | None, where: Predicate | None, steps: ChangeSteps, target: TableWrite
) -> tuple[list[CommitMessage], int]:
    """(messages, rows) of a run over the rows of a snapshot that a bound filter selects: their marks, and
    what is in `target` then."""
    marks, rows = _marked(store, snapshot, where, steps.change, target)
    with discarded_on_error(store, marks):
        for batch in steps.inserts():
            rows += batch.num_rows
            target.write(batch)
        written = target.prepare()
    return _joined(marks, written), rows


def again(
    once: Callable[[], Committed], *, unless: type[CommitConflict] | tuple[type[CommitConflict], ...] = ()
) -> Committed:
    """The result of `once`, which is called again, on the newer snapshot, when another commit came first or
    the snapshot expired meanwhile; not for conflicts of the kind `unless`."""
    for _ in range(_TRIES - 1):
        try:
            return once()
        except unless:
            raise
        except CommitConflict as e:
            log.info("rows to delete have moved: %s", e)
    return once()


def _commit(store: Store, messages: list[CommitMessage], rows: int, request: CommitRequest) -> Committed:
    if not messages:
        return Committed()
    return replace(commit_or_discard(store, messages, request), rows=rows)


def _joined(marks: list[CommitMessage], written: list[CommitMessage]) -> list[CommitMessage]:
    """The messages, one a bucket."""
    by_place = {(m.partition, m.bucket): m for m in written}
    for m in marks:
        place = m.partition, m.bucket
        other = by_place.get(place)
        if other is not None:
            m = replace(other, new_index=m.new_index, deleted_index=m.deleted_index)
        by_place[place] = m
    return list(by_place.values())


def _marked(
    store: Store,
    snapshot: Snapshot | None,
    where: Predicate | None,
    change: RowChanger,
    target: TableWrite | None,
) -> tuple[list[CommitMessage], int]:
    """(messages, rows) that mark the rows of a bound filter that change; what they become goes to
    `target`."""
    rows = 0
    with conflict_if_expired(store, snapshot.id if snapshot is not None else None):
        planned = plan(store, snapshot, where)
        marks = DeletionMarks(store, store.manifests.index_entries(snapshot))
        try:
            for split in planned.splits:
                for number, file in enumerate(split.files):
                    rows += _mark(marks, planned, split, number, file, change, target)
            return marks.messages(), rows
        except BaseException:
            marks.discard()
            raise


def _mark(
    marks: DeletionMarks,
    plan: Plan,
    split: DataSplit,
    number: int,
    file: DataFileMeta,
    change: RowChanger,
    target: TableWrite | None,
) -> int:
    """Mark the rows of one file that go; how many there are."""
    before = split.deletion_file(number)
    old = None if before is None else deletion_vector.read(plan.store.io, before, rows=file.row_count)
    places = []
    for positions, batch in _selected(plan, split, file, old, whole=target is not None):
        changes = change(batch)
        places.append(positions[changes.gone])
        if target is not None:
            target.log_removed(split.bucket, batch.take(pa.array(changes.gone)))
        if target is not None and changes.rows is not None:
            target.write(changes.rows)
    gone = np.concatenate(places) if places else _NONE
    if not len(gone):
        return 0
    require_deletable(plan.store)
    new = DeletionVector.of(gone)
    bucket = split.partition, split.bucket, split.total_buckets
    marks.put(bucket, file.file_name, new if old is None else new.union(old))
    return new.cardinality


def _selected(
    plan: Plan, split: DataSplit, file: DataFileMeta, old: DeletionVector | None, *, whole: bool
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """(positions, rows) of a file that the filter selects and that are still there."""
    store, where = plan.store, plan.where
    columns = [n for n in store.schema.names if whole or (where is not None and n in where.columns)]
    start = 0
    request = FileRequest(columns, system=False)
    for batch in read_file(store, split.partition, split.bucket, file, request):
        chosen = np.ones(batch.num_rows, dtype=bool)
        if where is not None:
            chosen = evaluate.mask(where, batch).to_numpy(zero_copy_only=False).astype(bool)
        alive = None if old is None else old.alive(start, batch.num_rows)
        chosen = chosen if alive is None else chosen & alive
        if chosen.any():
            yield start + np.flatnonzero(chosen), batch.filter(pa.array(chosen))
        start += batch.num_rows


def change_counted(
    store: Store,
    where: Predicate | None,
    request: CommitRequest,
    write: Callable[[], TableWrite],
    steps: ChangeSteps,
) -> Committed:
    """Change the rows of a change-log table without a primary key (`lsm/merge/counted.py`) that `where`
    selects (None: all), and add those that come in, each once.

    Rows of negative counts remove the selected rows; an update adds the changed rows as often. Both are made
    from one snapshot: if another commit comes first the counts may differ, so the commit is refused and all
    is done again. Memory: one batch and the write buffers.
    """
    return again(lambda: _count_once(store, where, request, write, steps))


def _count_once(
    store: Store,
    where: Predicate | None,
    request: CommitRequest,
    write: Callable[[], TableWrite],
    steps: ChangeSteps,
) -> Committed:
    steps.restart()
    count = store.schema.row_count_field
    assert count is not None
    snapshot = store.snapshots.latest()
    planned = plan(store, snapshot, where)
    with write() as target:
        splits = (s.read(store, store.schema.names, planned.where) for s in planned.splits)
        for batch in read_for_commit(store, chain.from_iterable(splits), snapshot):
            old = counted.there(batch, count)
            changes = steps.change(old)
            target.write_stored(counted.negated(old.take(pa.array(changes.gone)), count))
            if changes.rows is not None:
                target.write_stored(changes.rows)
        for batch in steps.inserts():
            target.write(batch)
        messages = target.prepare()
    if not messages:
        return Committed()
    request = replace(request, basis=Basis(snapshot), compacted_from=target.compacted_from)
    return finishing.commit(store, messages, request)
