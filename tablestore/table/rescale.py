"""Rescaling: changes the number of buckets of a table or of one partition (FORMAT.md 6.4).

The option is altered, then the partitions are overwritten by their own rows, read and routed to the new
buckets one batch at a time. The commit is refused if somebody wrote meanwhile: those rows would be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tablestore.core.errors import InvalidRequest
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import strictly
from tablestore.read.scan.plan import plan
from tablestore.table.overwriting import Chooser, overwrite
from tablestore.write.commit.committer import CommitRequest, Committed
from tablestore.write.commit.request import Basis
from tablestore.write.routing.bucket_mode import BucketMode
from tablestore.write.table_write import TableWrite


def require_rescalable(store: Store, bucket: int) -> None:
    """Raise InvalidRequest unless the table has a fixed number of buckets and `bucket` is one."""
    if isinstance(bucket, bool) or not isinstance(bucket, int) or bucket < 1:
        raise InvalidRequest(f"bucket {bucket!r} must be a number of buckets, from 1 on")
    mode = BucketMode.of(store.schema, store.options)
    if mode is not BucketMode.FIXED:
        raise InvalidRequest(
            f"only tables with a fixed number of buckets are rescaled; this has {mode} buckets"
        )


def rewrite(
    store: Store,
    write: Callable[[], TableWrite],
    request: CommitRequest,
    *,
    where: Predicate | None,
    named: Chooser | None,
) -> Committed:
    """Overwrite the `named` partitions, which `where` selects, by their own rows under the schema of
    `store`."""
    snapshot = store.snapshots.latest()
    source = strictly(store)
    planned = plan(source, snapshot, where)

    def fill(target: TableWrite) -> None:
        for split in planned.splits:
            for batch in split.read(source, store.schema.names, planned.where):
                target.write_stored(batch)

    unchanged = replace(request, basis=Basis(snapshot))
    return overwrite(store, write, fill, unchanged, named=named, dynamic=False)
