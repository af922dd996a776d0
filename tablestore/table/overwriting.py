"""Overwriting a table or some of its partitions by new rows, in one OVERWRITE snapshot.

Static: the named partitions, or all, are replaced whatever the rows are. Dynamic: only the partitions that
get rows. Rescaling (FORMAT.md 6.4) overwrites partitions by their own rows. Rows are written
first as if the table were empty; if the commit is refused their files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unsupported
from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.format.commit_message import CommitMessage
from tablestore.format.predicates import literal, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import strictly
from tablestore.read.scan.plan import plan
from tablestore.write.arrow_input import as_batches
from tablestore.write.commit.changes import folded, upgraded
from tablestore.write.commit.commit_or_discard import discarded_if_refused, discarded_on_error
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.commit.request import Basis
from tablestore.write.routing.routing import BucketMode
from tablestore.write.table_write import TableWrite

Chooser = Callable[[bytes], bool]


def compacts_at_once(options: TableOptions) -> bool:
    """Whether readers see rows only above level 0, so that writers must compact."""
    return options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW


def overwrite(
    store: Store,
    write: Callable[[], TableWrite],
    fill: Callable[[TableWrite], None],
    request: CommitRequest,
    *,
    named: Chooser | None,
    dynamic: bool,
    spares: bool = False,
) -> Committed:
    """Replace the `named` partitions (None: all), or with `dynamic` those of them that get rows, by the rows
    that `fill` writes; with `spares` none if it writes none. Raises SchemaMismatch for rows of partitions
    that are not named."""
    mode = BucketMode.of(store.schema, store.options)
    if mode is BucketMode.CROSS_PARTITION and (dynamic or named is not None):
        why = "its keys may lie in others: overwrite the whole table, or delete and write"
        raise Unsupported("overwriting some partitions of a table whose key lacks partition columns", why)
    messages = _written(store, write(), fill)
    if spares and not messages:
        return Committed(replaced_partitions=0)
    with discarded_on_error(store, messages):
        _require_named(store, messages, named)
    touched = {m.partition for m in messages}
    replaced = touched.__contains__ if dynamic else named or (lambda _: True)
    with discarded_if_refused(store, messages):
        return Committer(store).overwrite(messages, request, replaced)


def _require_named(store: Store, messages: Sequence[CommitMessage], named: Chooser | None) -> None:
    """Raise SchemaMismatch for rows of other partitions."""
    outside = [m for m in messages if named is not None and not named(m.partition)]
    if outside:
        where = store.partition_text(outside[0].partition)
        raise SchemaMismatch(
            f"the data hold rows of partition {where!r}, which is not the one that is overwritten"
        )


def write_filled(store: Store, data: Any, partition: Mapping[str, Any], target: TableWrite) -> None:
    """Write anything Arrow-like, with the columns of `partition` where the data do not have them."""
    named = predicate.bind(predicate.columns_are(partition), store.schema)
    values = {p.column: p.value for p in predicate.conjuncts(named) if isinstance(p, predicate.Compare)}
    fields = store.schema.columns(tuple(partition))
    for batch in as_batches(data, target.schema):
        for f in fields:
            if f.name not in batch.schema.names:
                value = literal.array([values.get(f.name)], f.type)
                batch = batch.append_column(f.name, pa.repeat(value[0], batch.num_rows))
        target.write(batch)


def _written(store: Store, write: TableWrite, fill: Callable[[TableWrite], None]) -> Sequence[CommitMessage]:
    """The messages of all rows that `fill` writes."""
    with write as target:
        fill(target)
        prepared = target.prepare()
    messages = []
    for message in prepared:
        as_append, dropped = folded(message)
        for file in dropped:
            store.io.delete(store.file_path(message.partition, message.bucket, file))
        messages.append(as_append)
    if store.options.overwrite_upgrade and store.schema.primary_keys:
        return upgraded(messages, store.key_order, store.options.num_levels - 1)
    return messages


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
    """Overwrite the `named` partitions, which `where` selects, by their own rows under the schema of `store`,
    whose number of buckets was altered: one batch at a time is read and routed to the new buckets. The commit
    is refused if somebody wrote meanwhile: those rows would be lost."""
    snapshot = store.snapshots.latest()
    source = strictly(store)
    planned = plan(source, snapshot, where)

    def fill(target: TableWrite) -> None:
        for split in planned.splits:
            for batch in split.read(source, store.schema.names, planned.where):
                target.write_stored(batch)

    unchanged = replace(request, basis=Basis(snapshot))
    return overwrite(store, write, fill, unchanged, named=named, dynamic=False)
