"""Overwriting a table or some of its partitions by new rows, in one OVERWRITE snapshot.

Static: the named (sub-)partition, or everything, is replaced whatever the rows are. Dynamic: the partitions
that get rows. Rows are written first as if the table were empty; a refusal deletes what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tablestore.errors import SchemaMismatch, Unsupported
from tablestore.format.commit_message import CommitMessage
from tablestore.meta.store import Store
from tablestore.options import MergeEngine, TableOptions
from tablestore.write.bucket_mode import BucketMode
from tablestore.write.commit import CommitRequest, Committed, Committer
from tablestore.write.overwrite import folded, lifted
from tablestore.write.table_write import TableWrite, discard, refused_leaves_nothing

Chooser = Callable[[bytes], bool]


def compacts_at_once(options: TableOptions) -> bool:
    """Whether rows of the table are seen only above level 0, so that writers must compact."""
    return options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW


def overwrite(
    store: Store,
    write: Callable[[], TableWrite],
    fill: Callable[[TableWrite], None],
    request: CommitRequest,
    *,
    named: Chooser | None,
    dynamic: bool,
) -> Committed:
    """Replace the `named` partitions (None: all), or with `dynamic` those of them that get rows, by what
    `fill` writes. Rows of partitions that are not named are refused."""
    mode = BucketMode.of(store.schema, store.options)
    if mode is BucketMode.CROSS_PARTITION and (dynamic or named is not None):
        why = "its keys may lie in others: overwrite the whole table, or delete and write"
        raise Unsupported("overwriting some partitions of a table whose key lacks partition columns", why)
    messages = _written(store, write(), fill)
    outside = [m for m in messages if named is not None and not named(m.partition)]
    if outside:
        discard(store, messages)
        where = store.partition_text(outside[0].partition)
        raise SchemaMismatch(
            f"the data hold rows of partition {where!r}, which is not the one that is overwritten"
        )
    touched = {m.partition for m in messages}
    replaced = touched.__contains__ if dynamic else named or (lambda _: True)
    with refused_leaves_nothing(store, messages):
        return Committer(store).overwrite(messages, request, replaced)


def _written(store: Store, target: TableWrite, fill: Callable[[TableWrite], None]) -> Sequence[CommitMessage]:
    """The messages of everything `fill` writes."""
    try:
        fill(target)
        prepared = target.prepare()
    except BaseException:
        target.abort()
        raise
    finally:
        target.close()
    messages = []
    for message in prepared:
        one, dropped = folded(message)
        for file in dropped:
            store.io.delete(store.file_path(message.partition, message.bucket, file))
        messages.append(one)
    if store.options.overwrite_upgrade and store.schema.primary_keys:
        return lifted(messages, store.key_order, store.options.num_levels - 1)
    return messages
