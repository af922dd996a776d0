"""Writes: insert, overwrite, delete and update, each in a commit after which old snapshots expire as the
table's options say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitUnknown, InvalidRequest, NotFound, TablestoreError, Unsupported
from tablestore.core.options.log_store import LogSystem
from tablestore.format import commit_message, rowkind, schema_change
from tablestore.format.predicates.predicate import Predicate, columns_are
from tablestore.format.predicates.predicate_text import chosen
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.log.settings import require_own_rows
from tablestore.lsm.merge.groups import MergeFunction
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.validate import require_deletable, update_kinds
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.open_writers import writing
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.scan.file_read import strictly
from tablestore.read.table_log import settings_of
from tablestore.table import deleting, finishing, history, lookup, overwriting, postpone
from tablestore.table.bucket_choice import partition_filter
from tablestore.table.definition import altered, refreshed
from tablestore.table.handle import Handle
from tablestore.table.logged import LogCommitter
from tablestore.table.reads import located_keys, rows_of_keys
from tablestore.table.row_changes import KIND, ChangeSteps, as_kinds, deleting_all, no_rows, setting
from tablestore.table.scan import Scan, snapshot_scan
from tablestore.table.writer import EngineWriter, Writer, shared_pool
from tablestore.write.arrow_input import as_batches, fitted_values
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.commit.conflict_check import read_for_commit
from tablestore.write.commit.request import Basis
from tablestore.write.key_deletes import key_rows, keys_suffice
from tablestore.write.log_tee import LogTee
from tablestore.write.supported import require_parallel_writers
from tablestore.write.table_write import TableWrite, WriteSettings


def request(
    store: Store,
    user: str | None,
    identifier: int,
    position: str | None = None,
    properties: Mapping[str, str] | None = None,
    watermark: int | None = None,
) -> CommitRequest:
    """The request of a commit; without `user` under a name that nobody else has."""
    if user is None and identifier != BATCH_IDENTIFIER:
        raise InvalidRequest("a commit identifier needs user=, the name under which it counts")
    return CommitRequest(user or store.fresh_user(), identifier, position, properties, watermark)


def batch_request(store: Store) -> CommitRequest:
    """The request of a commit that stands for itself and is no part of a stream."""
    return request(store, None, BATCH_IDENTIFIER)


def expired_after(table: Handle, committed: Committed) -> Committed:
    """The result of a commit with what expired after it. Errors of expiry do not undo the commit. Raises
    RowsNotVisible for one that readers do not see."""
    finishing.require_visible(table.store, committed)
    expired = history.after_commit(table.store, table.name, committed.snapshots, last=table.last_expiry)
    if not table.store.options.write_only:
        history.expire_log(table)
    return replace(committed, expired=expired)


def table_write(
    store: Store,
    settings: WriteSettings | None = None,
    *,
    pool: MemoryPool | None = None,
    user: str | None = None,
    tee: Callable[[Snapshot | None], LogTee] | None = None,
) -> TableWrite:
    """The writer of one commit to the table; by default it compacts unless the table is `write-only`."""
    settings = settings or WriteSettings(compact=not store.options.write_only)
    pool, located = pool or shared_pool(store.options.write_buffer_bytes), partial(located_keys, store)
    return TableWrite(store, settings, pool=pool, user=user, located=located, tee=tee)


def with_log(table: Handle) -> LogCommitter | None:
    """The table with its log, None if it has none."""
    settings = settings_of(table.store)
    if settings is None or table.log is None:
        return None
    return LogCommitter(table.store, table.log, settings, lambda user: table_write(table.store, user=user))


def logged(table: Handle) -> LogCommitter | None:
    """The table with the log that its writers append to, None if it has none."""
    return None if table.store.options.log_system is LogSystem.FLUSS else with_log(table)


def _require_rows_written(table: Handle, what: str) -> None:
    """Raise InvalidRequest for a table of the past, NotFound for one that is gone, Unsupported for one whose
    rows others bring."""
    table.require_present()
    require_own_rows(table.store.options, what)


def finished(table: Handle) -> LogCommitter | None:
    """The same; what the log has and the files have not, since a writer was killed, is in the files then."""
    committer = logged(table)
    if committer is not None:
        committer.finish()
    return committer


def _ready(table: Handle, asked: CommitRequest) -> LogCommitter | None:
    """The table's log as a commit needs it. That of a tiered table may be ahead of the files, unless the
    commit is based on what these hold."""
    to = logged(table)
    if to is not None and to.settings.tiered and asked.basis is None:
        return to
    return finished(table)


def finish_log(table: Handle) -> tuple[int, ...]:
    """Bring the files up to the log; the ids of the snapshots made."""
    _require_rows_written(table, "log.finish()")
    committer = logged(table)
    return () if committer is None else committer.finish()


def commit_written(
    table: Handle, target: TableWrite, asked: CommitRequest, to: LogCommitter | None = None
) -> Committed:
    """Commit the rows written to `target`."""
    if to is not None:
        table.store.require_same()
    messages = target.prepare()
    if to is not None:
        return expired_after(table, to.commit(target, asked, messages))
    basis = _stricter(target.basis, asked.basis)
    asked = replace(asked, basis=basis, compacted_from=target.compacted_from, newest=target.newest)
    return expired_after(table, finishing.commit(table.store, messages, asked))


def _stricter(routed: Basis | None, asked: Basis | None) -> Basis | None:
    """The basis of a commit of which keys were located (`routed`) and rows may have been read (`asked`)."""
    return routed if asked is None or (routed is not None and not routed.appends) else asked


def writer(table: Handle, asked: CommitRequest) -> Writer:
    """A writer whose rows are one commit."""
    if table.store.options.log_system is LogSystem.NONE:  # it looks itself whether the table is still there
        table.require_not_past()
    else:
        _require_rows_written(table, "a write")
    return _checked_writer(table, asked)


def _checked_writer(table: Handle, asked: CommitRequest) -> Writer:
    """The same for a table that is known to be there."""
    to = _ready(table, asked)
    if to is not None and to.settings.eventual and Committer(table.store).knows(asked):
        to = None  # a replay, whose rows the log has
    files = to is None or not to.settings.tiered or asked.basis is not None
    settings = WriteSettings(compact=not table.store.options.write_only, files=files)
    target = table_write(table.store, settings, user=asked.user, tee=None if to is None else to.tee)
    return Writer(target, table.store, lambda target: commit_written(table, target, asked, to))


def write(table: Handle, data: Any, row_kind_column: str | None, asked: CommitRequest) -> Committed:
    """All of `data` in one commit."""
    with writer(table, asked) as w:
        w.write(data, row_kind_column=row_kind_column)
    return w.committed or Committed()


def open_writer(
    table: Handle,
    *,
    user: str | None,
    sequence_base: int | None,
    compact: bool,
    changelog: bool,
    buffer_bytes: int | None,
) -> EngineWriter:
    """A writer that gives commit messages."""
    _require_rows_written(table, "a write")
    store = table.store
    require_parallel_writers(store.schema, store.options)
    pool = shared_pool(buffer_bytes or store.options.write_buffer_bytes)
    to = logged(table)
    files, tee = to is None or not to.settings.tiered, None if to is None else to.tee
    settings = WriteSettings(compact, changelog, sequence_base=sequence_base, files=files)
    return EngineWriter(table_write(store, settings, pool=pool, user=user, tee=tee), store)


def commit(table: Handle, messages: Sequence[bytes], asked: CommitRequest) -> Committed:
    """Commit messages of engine writers at once."""
    _require_rows_written(table, "a write")
    decoded = [commit_message.decode(m) for m in messages]
    bases = [m.compacted_from for m in decoded if m.compacted_from is not None]
    asked = replace(asked, compacted_from=min(bases, default=None), handed_over=not asked.streaming)
    to = _ready(table, asked)
    if to is not None:
        return expired_after(table, to.commit_messages(decoded, asked))
    committed = Committer(table.store).commit(decoded, asked)
    return expired_after(table, finishing.finished(table.store, committed, decoded, asked))


def overwrite(
    table: Handle, data: Any, *, partition: Mapping[str, Any] | None, dynamic: bool | None
) -> Committed:
    """Replace partitions by `data` in one OVERWRITE snapshot."""
    _require_rows_written(table, "overwrite")
    finished(table)
    store, named = table.store, _partitions(table.store, partition) if partition else None
    spares = store.options.dynamic_partition_overwrite if dynamic is None else dynamic
    if dynamic is None:
        dynamic = spares and partition is None
    partitioned = bool(store.schema.partition_keys)
    with writing(store):
        committed = overwriting.overwrite(
            store,
            partial(_overwriting, store),
            partial(overwriting.write_filled, store, data, partition or {}),
            batch_request(store),
            named=named,
            dynamic=dynamic and partitioned,
            spares=spares and partitioned,
        )
    return expired_after(table, committed)


def _overwriting(store: Store) -> TableWrite:
    compacts = overwriting.compacts_at_once(store.options)
    return table_write(store, WriteSettings(compacts, changelog=False, ignore_live=True))


def rescaled(table: Handle, bucket: int, *, partition: Mapping[str, Any] | None) -> Committed:
    """Rewrite the rows, or those of one partition, into `bucket` buckets."""
    table.require_present()
    if settings_of(table.store) is not None:
        raise Unsupported(
            "another number of buckets of a table with a log",
            "the log has one part a bucket: make a table with that number and insert the rows",
        )
    overwriting.require_rescalable(table.store, bucket)
    named = _partitions(table.store, partition) if partition else None
    before = table.store.options.bucket
    if bucket != before:
        altered(table, [schema_change.set_options({"bucket": bucket})])
    try:
        return _rewritten(refreshed(table), partition, named)
    except CommitUnknown:
        raise
    except (TablestoreError, OSError) as e:
        if bucket != before:
            _altered_back(table, before, e)
        raise


def _altered_back(table: Handle, bucket: int, why: Exception) -> None:
    """Give the table the number of buckets that it had before its rows could not be rewritten; raises
    CommitUnknown if that fails."""
    try:
        altered(table, [schema_change.set_options({"bucket": bucket})])
    except (TablestoreError, OSError) as e:
        text = (
            f"the option bucket is changed, the rows are in the buckets that they had: {why}; rescale again"
        )
        raise CommitUnknown(text) from e


def _rewritten(
    table: Handle, partition: Mapping[str, Any] | None, named: Callable[[bytes], bool] | None
) -> Committed:
    """The rows, or those of one partition, in the number of buckets that the table has now."""
    where = columns_are(partition) if partition else None
    write, asked = partial(_overwriting, table.store), batch_request(table.store)
    with writing(table.store):
        committed = overwriting.rewrite(table.store, write, asked, where=where, named=named)
    return expired_after(table, committed)


def truncate(table: Handle, *, partition: Mapping[str, Any] | None) -> Committed:
    """Remove all rows, or those of one partition, in one OVERWRITE snapshot."""
    _require_rows_written(table, "truncate")
    finished(table)
    asked, named = batch_request(table.store), _partitions(table.store, partition)
    return expired_after(table, Committer(table.store).overwrite([], asked, named, "TRUNCATE"))


def _partitions(store: Store, partition: Mapping[str, Any] | None) -> Callable[[bytes], bool]:
    """Whether a partition is one of those named by (some of) their columns; all of them without names."""
    if not partition:
        return lambda _: True
    if not isinstance(partition, Mapping):
        raise InvalidRequest(f"partition {partition!r} must be given by columns: {{column: value}}")
    for name in partition:
        if name not in store.schema.partition_keys:
            raise NotFound.among("partition column", name, store.schema.partition_keys)
    return partition_filter(store, snapshot_scan(store, None).filter(columns_are(partition)).where)


def delete(table: Handle, what: Predicate | str | Any) -> Committed:
    """Delete rows by a condition or by keys: whole partitions by metadata, else as the table's kind
    allows."""
    store = table.store
    if isinstance(what, str):
        what = chosen(what, store.schema)
    require_own_rows(store.options, "delete")
    if not store.schema.shown.primary_keys:
        if not isinstance(what, Predicate):
            raise InvalidRequest(f"{table.name} has no primary key: delete by a condition")
        table.require_present()
        if store.schema.row_count_field is not None:
            return _change_counted(table, what, ChangeSteps(deleting_all))
        if settings_of(store) is not None:
            return _change_logged(table, what, ChangeSteps(deleting_all))
        with writing(store):
            committed = deleting.delete(store, what, batch_request(store))
        return expired_after(table, committed)
    require_deletable(store.options)
    if isinstance(what, Predicate):
        table.require_present()
        if settings_of(store) is None and deleting.needs_no_rows(store, what):
            return expired_after(table, deleting.drop_partitions(store, what, batch_request(store)))
        return _change_keyed(table, what, ChangeSteps(deleting_all), ())
    if settings_of(store) is None and keys_suffice(store):  # the writer looks whether the table is there
        table.require_not_past()
        keys = lookup.key_table(store, as_batches(what)).combine_chunks()
        return _write_deletes(
            table, lambda at: (r for b in keys.to_batches() for r in key_rows(store, b, at))
        )
    table.require_present()
    postpone.require_none_waiting(store)
    earlier = _compact_waiting(table)
    finished(table)  # so that they are found among all that the log has
    scan = _rewritable(table)
    rows = read_for_commit(store, rows_of_keys(table, scan, what), scan.snapshot)
    return _after(earlier, _write_deletes(table, lambda _: rows))


def _write_deletes(table: Handle, rows: Callable[[Snapshot | None], Iterable[pa.RecordBatch]]) -> Committed:
    """A −D for each of the rows at the snapshot that they are numbered after, in one commit; none without
    rows."""
    with _checked_writer(table, batch_request(table.store)) as w:
        for batch in rows(w.snapshot):
            kinds = pa.array(np.full(batch.num_rows, rowkind.DELETE, dtype=np.int8))
            w.write(batch.append_column(KIND, kinds), row_kind_column=KIND)
    return w.committed or Committed()


def update(table: Handle, values: Mapping[str, Any], where: Predicate | str) -> Committed:
    """Set columns of the rows that a condition selects."""
    table.require_current()
    where = chosen(where, table.store.schema)
    values = _settable(table.store, values, table.store.schema.shown.primary_keys)
    return change_rows(table, ChangeSteps(setting(values)), where=where, columns=values)


def change_rows(
    table: Handle, steps: ChangeSteps, *, where: Predicate | None, columns: Mapping[str, Any]
) -> Committed:
    """Change rows and add rows in one commit; `columns` are those that updates set, with the constants that
    are known."""
    store = table.store
    require_own_rows(store.options, "update")
    if store.schema.shown.primary_keys:
        return _change_keyed(table, where, steps, update_kinds(_function(store), columns))
    table.require_present()
    if store.schema.row_count_field is not None:
        return _change_counted(table, where, steps)
    if settings_of(store) is not None:
        return _change_logged(table, where, steps)
    asked = batch_request(store)
    written = partial(table_write, store, WriteSettings(compact=False), user=asked.user)
    with writing(store):
        changed = deleting.change_rows(store, where, asked, steps, written)
    return expired_after(table, changed)


def _change_logged(table: Handle, where: Predicate | None, steps: ChangeSteps) -> Committed:
    """`change_rows` in a table with a log and without a primary key: the log has −D for each row that goes,
    also where a condition selects whole partitions."""
    store, asked = table.store, batch_request(table.store)
    to = logged(table)
    assert to is not None, "the table has a log"
    if not store.options.deletion_vectors and steps.inserts is no_rows:
        raise InvalidRequest(
            "rows of a table with a log and without a primary key are removed by deletion vectors only, so "
            "that its log has them, too: first t.alter(ts.set_options({'deletion-vectors.modifiable': True, "
            "'deletion-vectors.enabled': True})), or t.truncate(partition=…), which streams do not see"
        )

    def restart() -> None:
        to.finish()  # so that rows are chosen among all that the log has
        steps.restart()

    written = partial(table_write, store, WriteSettings(compact=False), user=asked.user, tee=to.tee)
    again = replace(steps, restart=restart)
    with writing(store):
        changed = deleting.change_rows(store, where, asked, again, written, to.commit)
    return expired_after(table, changed)


def _function(store: Store) -> MergeFunction:
    return merge_function(store.schema, store.options)


def _change_keyed(
    table: Handle, where: Predicate | None, steps: ChangeSteps, kinds: tuple[int, ...]
) -> Committed:
    """`change_rows` in a table with a primary key: writes rows of kinds −D, −U and +U; again where another
    commit changed rows of the same buckets meanwhile."""
    store, function = table.store, _function(table.store)
    postpone.require_none_waiting(store)
    earlier = _compact_waiting(table)

    def once() -> Committed:
        steps.restart()
        finished(table)  # so that they are chosen among all that the log has
        scan = _rewritable(table, where)  # chosen before the writer numbers its rows, which must be newer
        basis = Basis(scan.snapshot, buckets=True)
        with writer(table, replace(batch_request(store), basis=basis)) as w:
            for batch in read_for_commit(store, scan.to_batches(), scan.snapshot):
                for rows in as_kinds(batch, steps.change(batch), kinds, function):
                    w.write(rows, row_kind_column=KIND)
            for batch in steps.inserts():
                w.write(batch)
        return w.committed or Committed()

    return _after(earlier, deleting.again(once))


def _settable(store: Store, values: Mapping[str, Any], keys: Iterable[str]) -> Mapping[str, Any]:
    """The values as the columns store them; raises for what are no columns, or columns of the key."""
    if not isinstance(values, Mapping) or not values:
        raise InvalidRequest(f"update({values!r}): name the columns to set, {{column: value}}")
    for name in values:
        if name not in store.schema.shown.by_name:
            raise NotFound.among("column", name, store.schema.shown.names)
        if name in keys:
            raise InvalidRequest(f"{name!r} is part of the primary key; delete the rows and write new ones")
    return fitted_values(values, store.schema)


def _rewritable(table: Handle, where: Predicate | None = None) -> Scan:
    """The scan of rows to delete or update, with those at level 0 that wait for a lookup."""
    return Handle(strictly(with_level_0(table.store)), table.name).state(where)


def _compact_waiting(table: Handle) -> tuple[int, ...]:
    """Compact the rows at level 0 that interrupted deletes and updates left; the ids of the snapshots
    made."""
    table.require_present()
    return tuple(finishing.look_up_waiting(table.store))


def _after(earlier: tuple[int, ...], committed: Committed | None) -> Committed:
    committed = committed or Committed()
    return replace(committed, snapshots=(*earlier, *committed.snapshots))


def _change_counted(table: Handle, where: Predicate | None, steps: ChangeSteps) -> Committed:
    """`change_rows` in a table that counts its rows."""
    store = table.store
    postpone.require_none_waiting(store)
    asked = batch_request(store)
    written = partial(table_write, store, user=asked.user)
    with writing(store):
        changed = deleting.change_counted(store, where, asked, written, steps)
    return expired_after(table, changed)
