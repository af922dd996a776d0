"""Deletes and updates by a predicate in change-log tables without a primary key (`lsm/merge/counted.py`).

Rows of negative counts remove the selected rows; an update adds the changed rows as often. Both are made from
one snapshot: if another commit comes first the counts may differ, so the commit is refused and all is done
again. Memory: one batch and the write buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from tablestore.format.predicates.predicate import Predicate
from tablestore.lsm.merge import counted
from tablestore.meta.store import Store
from tablestore.read.scan.plan import plan
from tablestore.table import finishing
from tablestore.table.deleting import again
from tablestore.table.row_changes import ChangeSteps
from tablestore.write.commit.committer import CommitRequest, Committed
from tablestore.write.commit.expired_basis import read_for_commit
from tablestore.write.commit.request import Basis
from tablestore.write.table_write import TableWrite


def change_rows(
    store: Store,
    where: Predicate | None,
    request: CommitRequest,
    write: Callable[[], TableWrite],
    steps: ChangeSteps,
) -> Committed:
    """Change the rows that `where` selects (None: all), and add those that come in, each once."""
    return again(lambda: _once(store, where, request, write, steps))


def _once(
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
