"""Table: what a user holds. Verbs first; every write returns `Committed`, every read starts as a lazy `Scan`.

A Table is the schema as it was when opened; `refresh()` gives the newest. Safe to share: immutable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tablestore.core.arguments import checked, eagerly_checked
from tablestore.core.errors import (
    CommitConflict,
    InvalidOption,
    InvalidRequest,
    NotFound,
    Unsupported,
    UnsupportedAttribute,
)
from tablestore.core.options.rules import require_usable
from tablestore.core.options.secrets import hidden
from tablestore.core.options.table_options import as_text, current_names
from tablestore.format import commit_message, rowkind, schema_change
from tablestore.format.predicates.predicate import Predicate, all_of, col
from tablestore.format.predicates.predicate_text import chosen, condition
from tablestore.format.schema import ROW_COUNT_OPTION
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.validate import require_deletable, update_kinds
from tablestore.meta import positions, refs
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store
from tablestore.read.changes.stream import Change, with_level_0
from tablestore.read.scan import fallback, scan_mode, time_travel
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import strictly
from tablestore.table import (
    change_log,
    compaction,
    counting,
    deleting,
    finishing,
    lookup,
    maintenance,
    overwriting,
    postpone,
    rescale,
)
from tablestore.table.abilities import Ability, abilities
from tablestore.table.bucket_choice import partition_filter
from tablestore.table.columns import shown
from tablestore.table.compaction import Compaction
from tablestore.table.features import feature, feature_or_none
from tablestore.table.located_keys import located_keys
from tablestore.table.lookup_join.join import LookupJoin
from tablestore.table.lookup_join.source import Columns, On
from tablestore.table.normalize import follow
from tablestore.table.refs import Branches, Consumers, Tags, milliseconds, require_branch
from tablestore.table.scan import Scan, column_names
from tablestore.table.stored_options import StoredOptions
from tablestore.table.writer import EngineWriter, Writer, shared_pool
from tablestore.write.alter import alter
from tablestore.write.arrow_input import as_batches
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.commit.expired_basis import read_for_commit
from tablestore.write.conform import fitted_values
from tablestore.write.delete import with_values
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention.expire import Expiry
from tablestore.write.retention.expire_partitions import PartitionExpiry
from tablestore.write.retention.orphans import Orphans
from tablestore.write.retention.rollback import Rollback
from tablestore.write.support import require_parallel_writers
from tablestore.write.table_write import TableWrite

if TYPE_CHECKING:
    from tablestore.insight.check.check import Violation
    from tablestore.insight.doctor import Diagnosis, Finding
    from tablestore.insight.doctor.mending import Mended
    from tablestore.insight.inspect.inspect import Inspect
    from tablestore.insight.simulator import WhatIf
    from tablestore.table.system import SystemTable

log = logging.getLogger(__name__)
_LAYOUT = {"bucket", "bucket-key", "bucket-function.type", "merge-engine", "data-file.path-directory"}
_LAYOUT |= {"partition.default-name", "partition.legacy-name", "sequence.field", ROW_COUNT_OPTION}
_ELSEWHERE = {"rename": "a table does not know its catalog: lake.rename_table(name, new_name)"}


@checked
class Table:
    """One table of a lake."""

    def __init__(self, store: Store, name: str, *, at: Snapshot | None = None) -> None:
        self.store, self.name, self._at = store, name, at

    # what it is

    @property
    def location(self) -> str:
        """Directory of the table."""
        return self.store.paths.root

    @property
    def schema(self) -> pa.Schema:
        """Columns as an Arrow schema; metadata of fields has comments and types that Arrow does not know."""
        return shown(self.store.schema.shown.fields)

    @property
    def comment(self) -> str | None:
        """What the table is for."""
        return self.store.schema.comment or None

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Primary key columns."""
        return self.store.schema.shown.primary_keys

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Partition columns."""
        return self.store.schema.partition_keys

    @property
    def options(self) -> StoredOptions:
        """Options as stored, but for secrets that another engine put there (`***`); `options.describe()` says
        what each of all options does."""
        return StoredOptions(hidden(self.store.schema.options))

    @cached_property
    def inspect(self) -> Inspect:
        """Metadata as Arrow tables: snapshots, files, levels, … After `at` those of that snapshot, if no
        other is named."""
        return feature("Table.inspect")(self.store, at=self._at)

    @property
    def past(self) -> bool:
        """Whether this is the table as it was, chosen by `at`: read-only."""
        return self._at is not None

    def abilities(self) -> tuple[Ability, ...]:
        """Which verbs (read, stream, write, delete, compact) work on this table, and why others do not."""
        return abilities(self.store)

    def refresh(self) -> Table:
        """The table under its newest schema."""
        return Table(
            Store.open(self.location, io=self.store.io, env=self.store.env, branch=self.store.paths.branch),
            self.name,
        )

    def with_options(self, options: Mapping[str, Any]) -> Table:
        """The same table with other options for this use only: nothing is stored.

        Raises InvalidOption for options that say how the stored files are laid out and for unknown names,
        Unsupported for options whose effect is not there.
        """
        stored = self.store.schema.options
        given = current_names(as_text(options), keyed=bool(self.primary_key), stored=stored)
        require_usable(given)
        for key in sorted(_LAYOUT & set(given)):
            raise InvalidOption(f"option {key!r} is part of the table's layout and cannot be set for one use")
        branch = given.pop("branch", self.store.paths.branch)
        table = self if branch == self.store.paths.branch else self.branch(branch)
        store = table.store.with_schema(table.store.schema.with_options(given))
        if {refs.FALLBACK, refs.PRIMARY} & set(given):
            refs.require_branch_beside(store)
        return Table(store, table.name, at=self._at)

    def alter(self, *changes: schema_change.Change) -> Table:
        """The table after `changes`, stored as one new schema: `t.alter(ts.add("c", ts.INT), ts.drop("d"))`.

        Rows that exist are seen through it at once; no data file is touched. Raises what each change refuses.
        """
        self._require_present()
        if not changes:
            return self.refresh()
        return Table(self.store.altered_to(alter(self.store, changes)), self.name)

    # reading

    def scan(self, columns: Sequence[str] | None = None, where: Predicate | str | None = None) -> Scan:
        """A lazy read of the newest snapshot (of the chosen one after `at`).

        `where` is a condition, here as everywhere `col("amount") > 10` or SQL text such as
        "amount > 10 AND name LIKE '%son'".

        The options `scan.*` and `incremental-*` may name another one, changes or a difference instead:
        `t.with_options({"incremental-between": "3,7"}).scan()`; rows that are gone are left out then.
        """
        target = scan_mode.batch(self.store, self._at)
        store, names = target.under(self.store), column_names(columns)
        other = fallback.of_options(self.store, target) if self._at is None else self._beside()
        return Scan(store, target, names, condition(where, store.schema), other=other)

    def _present(self, where: Predicate | None = None) -> Scan:
        """The newest state, whatever the scan options say: what is written is based on it."""
        store, snapshot = self.store, self.store.snapshots.latest()
        if self._at is not None:
            store, snapshot = time_travel.at(store, self._at), self._at
        return Scan.of_snapshot(store, snapshot, None, where)

    def _beside(self) -> fallback.OtherBranch | None:
        """The branch that is read beside this one, at the moment that `_present` shows."""
        return fallback.newest(self.store) if self._at is None else fallback.as_of(self.store, self._at)

    def _rewritten(self, where: Predicate | None = None) -> Scan:
        """What rows are deleted or updated from: with those at level 0 that wait for a lookup."""
        return Table(strictly(with_level_0(self.store)), self.name)._present(where)

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
        watermark: int | None = None,
    ) -> Table:
        """The table as it was, with the columns it had: read-only. Raises NotFound naming what there is."""
        found = time_travel.resolve(
            self.store, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark
        )
        return Table(time_travel.at(self.store, found), self.name, at=found)

    def get(self, key: Mapping[str, Any], columns: Sequence[str] | None = None) -> dict[str, Any] | None:
        """The row of one primary key, None if there is none. 0.0 and −0.0 are two keys, as in a write."""
        keys = self.primary_key
        if not keys:
            raise InvalidRequest(f"{self.name} has no primary key; scan it with a filter")
        if not isinstance(key, Mapping) or set(key) != set(keys):
            example = ", ".join(f"{k!r}: …" for k in keys)
            raise InvalidRequest(f"a key of {self.name} holds {', '.join(keys)}: get({{{example}}})")
        if columns in ([], ()):  # whether it is there
            return None if self.get(key, keys) is None else {}
        wanted = all_of(*(col(k) == v for k, v in key.items()))
        scan = replace(self._present(wanted), columns=column_names(columns), other=self._beside())
        if scan.other is not None:
            return next(iter(scan.to_arrow().to_pylist()), None)
        named = lookup.one_key(scan, wanted)
        found = iter(()) if named is None else self._lookups.rows(scan, named, scan.names)
        rows = pa.Table.from_batches(found, scan.schema).to_pylist()
        return rows[0] if rows else None

    def get_many(self, keys: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of many primary keys, in any order; absent ones are left out."""
        if not self.primary_key:
            raise InvalidRequest(f"{self.name} has no primary key; scan it with a filter")
        scan, other = replace(self._present(), columns=column_names(columns)), self._beside()
        if other is None:
            return pa.Table.from_batches(self._rows(scan, keys), scan.schema)
        wanted = lookup.key_table(scan, as_batches(keys))
        found = lookup.rows_of_branches(self._lookups, scan, other, wanted, scan.names)
        return pa.Table.from_batches(found, scan.schema)

    def lookup(
        self,
        on: On | None = None,
        *,
        columns: Columns | None = None,
        where: Predicate | str | None = None,
        fill: Mapping[str, Any] | None = None,
        cache: str | None = None,
        follow: bool = True,
    ) -> LookupJoin:
        """A lookup join: facts ⋈ this table, as it is known when a fact comes; keeps up by what changed.

        `on` are columns of this table with those of the facts, `{"c_custkey": "o_custkey"}` (None: the
        primary key). `columns` are what to give, with new names if it is a mapping; `fill` what to give in
        place of NULL. `cache` full, memory, partial or auto, and the other `lookup.*` options say what is
        held. `follow=False` refreshes only when `refresh()` is called; after `at` nothing ever changes.
        """
        asked = {"on": on, "columns": columns, "where": where, "fill": fill, "cache": cache}
        store = self._present().store
        return LookupJoin(store, self.name, **asked, follow=follow, at=self._at)

    def changes(self, *, since: int | str, until: int | str | None = None, mode: str = "auto") -> pa.Table:
        """What changed after snapshot `since` up to `until`, with a `rowkind` column first.

        Two tag names give the difference of their states, as `mode="diff"` does of two snapshot ids: rows
        that are new or other, and −D for keys that are gone.
        """
        return change_log.between(self.store, since, until, mode=mode)

    def stream(self, *, normalize: bool | str | None = None, **options: Any) -> Iterator[Change]:
        """Follow the table: see `read.changes.stream.stream` for start, until, timeout, follow, consumer.

        Where a table without changelog producer tells upserts only, a normaliser adds what was before (−U/+U
        pairs, −D with the old values, nothing of unchanged rows). It keeps the last row of each key on the
        local disk: `step.state`. `normalize="lookup"` keeps nothing and looks up what was before, in the
        snapshot before, of any merge engine; `normalize=False` gives the rows as they were written.
        """
        return follow(self.store, normalize=normalize, **options)

    @eagerly_checked
    def read_split(
        self, split: DataSplit, *, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one split of a plan (what a Spark task runs); `where` as bound by the plan."""
        names = Scan.of_snapshot(self.store, None, columns or None).names
        return split.read(self.store, names, where)

    # writing

    def write(
        self,
        data: Any,
        *,
        row_kind_column: str | None = None,
        user: str | None = None,
        identifier: int = BATCH_IDENTIFIER,
        position: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> Committed:
        """Upsert anything Arrow-like, or changes with their row kinds.

        A row replaces the whole older row of its key: columns that are left out become NULL.
        """
        request = self._request(user, identifier, position, properties, watermark)
        with self._writer(request) as w:
            w.write(data, row_kind_column=row_kind_column)
        return w.committed or Committed()

    def writer(
        self,
        *,
        user: str | None = None,
        identifier: int = BATCH_IDENTIFIER,
        position: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> Writer:
        """Many batches, one commit, when the `with` block ends well."""
        return self._writer(self._request(user, identifier, position, properties, watermark))

    def _writer(self, request: CommitRequest) -> Writer:
        self._require_present()
        target = self._table_write(user=request.user)
        return Writer(target, lambda target: self._commit(target, request))

    def _table_write(self, **options: Any) -> TableWrite:
        o = self.store.options
        defaults = {"pool": shared_pool(o.write_buffer_bytes), "compact": not o.write_only}
        defaults["located"] = partial(located_keys, self.store)
        return TableWrite(self.store, **{**defaults, **options})

    def _commit(self, target: TableWrite, request: CommitRequest) -> Committed:
        messages = target.prepare()
        request = replace(request, basis=target.basis, compacted_from=target.compacted_from)
        return self._expire_after(finishing.commit(self.store, messages, request))

    def _expire_after(self, committed: Committed) -> Committed:
        """Expiry as the options say, told in `expired`. What it meets does not undo the commit."""
        return replace(
            committed, expired=maintenance.after_commit(self.store, self.name, committed.snapshots)
        )

    def open_writer(
        self,
        *,
        user: str | None = None,
        sequence_base: int | None = None,
        compact: bool = False,
        changelog: bool = True,
        buffer_bytes: int | None = None,
    ) -> EngineWriter:
        """A writer for engines: its `prepare()` gives bytes for `commit`. `sequence_base` numbers rows
        without reading manifests.

        `changelog=False` is the documented write option of a full load: no changelog files, whatever the
        producer. `buffer_bytes` is the pool of this process in place of `write-buffer-size`: a task that
        writes one large piece makes fewer, larger files with more.
        """
        self._require_present()
        require_parallel_writers(self.store.schema, self.store.options)
        pool = shared_pool(buffer_bytes or self.store.options.write_buffer_bytes)
        return EngineWriter(
            self._table_write(
                compact=compact, changelog=changelog, sequence_base=sequence_base, pool=pool, user=user
            ),
            self.store,
        )

    def commit(
        self,
        messages: Sequence[bytes],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        position: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> Committed:
        """Commit messages of engine writers at once. The same (user, identifier) again adds nothing (I11)."""
        self._require_present()
        decoded = [commit_message.decode(m) for m in messages]
        bases = [m.compacted_from for m in decoded if m.compacted_from is not None]
        request = self._request(user, identifier, position, properties, watermark)
        request = replace(request, compacted_from=min(bases, default=None), handed_over=not request.streaming)
        committed = Committer(self.store).commit(decoded, request)
        return self._expire_after(finishing.finished(self.store, committed, decoded, request))

    def overwrite(
        self, data: Any, *, partition: Mapping[str, Any] | None = None, dynamic: bool | None = None
    ) -> Committed:
        """Replace the partitions the data touch (or the one named, or an unpartitioned table) by `data`, in
        one OVERWRITE snapshot; `replaced_partitions` of the answer says how many had rows before.

        `partition` may name some of the partition columns only; the data may lack the columns it names.
        `dynamic` true replaces only what the data touch, of the named one too; it defaults to
        `dynamic-partition-overwrite` where none is named. Without rows the partitions stay as they are,
        unless `dynamic` or that option is false; `truncate` empties them.
        """
        self._require_present()
        store, named = self.store, self._partition_filter(partition) if partition else None
        spares = store.options.dynamic_partition_overwrite if dynamic is None else dynamic
        if dynamic is None:
            dynamic = spares and partition is None
        committed = overwriting.overwrite(
            store,
            self._overwriting,
            partial(overwriting.write_filled, store, data, partition or {}),
            self._request(None, BATCH_IDENTIFIER),
            named=named,
            dynamic=dynamic and bool(self.partition_by),
            spares=spares and bool(self.partition_by),
        )
        return self._expire_after(committed)

    def _overwriting(self) -> TableWrite:
        compacts = overwriting.compacts_at_once(self.store.options)
        return self._table_write(compact=compacts, changelog=False, ignore_live=True)

    def rescale(self, bucket: int, *, partition: Mapping[str, Any] | None = None) -> Committed:
        """Give the table `bucket` buckets and rewrite its rows (those of one partition), in one OVERWRITE.

        Partitions that are not rewritten keep their buckets; they are read as before and refuse new rows.
        """
        self._require_present()
        rescale.require_rescalable(self.store, bucket)
        named = self._partition_filter(partition) if partition else None
        if bucket != self.store.options.bucket:
            self.alter(schema_change.set_options({"bucket": bucket}))
        table = self.refresh()
        where = all_of(*(col(k) == v for k, v in partition.items())) if partition else None
        request = self._request(None, BATCH_IDENTIFIER)
        committed = rescale.rewrite(table.store, table._overwriting, request, where=where, named=named)
        return table._expire_after(committed)

    def truncate(self, *, partition: Mapping[str, Any] | None = None) -> Committed:
        """Remove all rows, or those of one partition, in one OVERWRITE snapshot; no data file is read."""
        self._require_present()
        request = self._request(None, BATCH_IDENTIFIER)
        committed = Committer(self.store).overwrite(
            [], request, self._partition_filter(partition), "TRUNCATE"
        )
        return self._expire_after(committed)

    def _partition_filter(self, partition: Mapping[str, Any] | None) -> Any:
        if not partition:
            return lambda _: True
        if not isinstance(partition, Mapping):
            raise InvalidRequest(f"partition {partition!r} must be given by columns: {{column: value}}")
        for name in partition:
            if name not in self.partition_by:
                raise NotFound.among("partition column", name, self.partition_by)
        wanted = Scan.of_snapshot(self.store, None).filter(
            all_of(*(col(k) == v for k, v in partition.items()))
        )
        return partition_filter(self.store, wanted.where)

    def delete(self, what: Predicate | str | Any) -> Committed:
        """Delete rows by a condition (a predicate or its SQL text), or the rows of keys (anything Arrow-like
        that holds the key columns).

        The −D rows carry the old values, so a changelog consumer can retract; absent keys are passed over.
        Without a primary key rows are marked as deleted, which takes deletion vectors. A condition that
        selects whole partitions reads and writes no rows: they leave the table in one OVERWRITE snapshot, of
        which streams tell nothing unless `streaming-read-overwrite` asks for it. Tables with a primary key
        that keep a changelog (or want one: `delete.force-produce-changelog`) write the −D rows all the same.
        """
        if isinstance(what, str):
            what = chosen(what, self.store.schema)
        if not self.primary_key:
            if not isinstance(what, Predicate):
                raise InvalidRequest(f"{self.name} has no primary key: delete by a condition")
            self._require_present()
            if self.store.schema.row_count_field is not None:
                return self._take_away(what)
            committed = deleting.delete(self.store, what, self._request(None, BATCH_IDENTIFIER))
            return self._expire_after(committed)
        require_deletable(self.store.options)
        self._require_present()
        if isinstance(what, Predicate) and deleting.needs_no_rows(self.store, what):
            request = self._request(None, BATCH_IDENTIFIER)
            return self._expire_after(deleting.drop_partitions(self.store, what, request))
        postpone.require_none_waiting(self.store)
        before = self._looked_up()
        scan = self._rewritten()
        rows = scan.filter(what).to_batches() if isinstance(what, Predicate) else self._rows(scan, what)
        return before(self._write_kinds(read_for_commit(self.store, rows), rowkind.DELETE))

    def _looked_up(self) -> Callable[[Committed], Committed]:
        """Compact what an interrupted delete or update left unseen; gives what adds that to an answer."""
        self._require_present()
        made = finishing.look_up_waiting(self.store)
        return lambda done: replace(done, snapshots=(*made, *done.snapshots))

    def _rows(self, scan: Scan, keys: Any) -> Iterator[pa.RecordBatch]:
        wanted = lookup.key_table(scan, as_batches(keys))
        return self._lookups.rows(scan, wanted, scan.names)

    @cached_property
    def _lookups(self) -> lookup.Lookups:
        return lookup.Lookups()

    def update(self, values: Mapping[str, Any], *, where: Predicate | str) -> Committed:
        """Set columns of the rows `where` selects; writes −U/+U pairs so that a changelog consumer can
        retract (partial-update without sequence groups: +U rows)."""
        self._require_current()
        where = chosen(where, self.store.schema)
        if not isinstance(values, Mapping) or not values:
            raise InvalidRequest(f"update({values!r}): name the columns to set, {{column: value}}")
        for name in values:
            if name not in self.store.schema.shown.by_name:
                raise NotFound.among("column", name, self.store.schema.shown.names)
            if name in self.primary_key:
                raise InvalidRequest(
                    f"{name!r} is part of the primary key; delete the rows and write new ones"
                )
        values = fitted_values(values, self.store.schema)
        if not self.primary_key:
            self._require_present()
            if self.store.schema.row_count_field is not None:
                return self._take_away(where, values)
            request = self._request(None, BATCH_IDENTIFIER)
            write = partial(self._table_write, user=request.user, compact=False)
            committed = deleting.update(self.store, values, where, request, write)
            return self._expire_after(committed)
        postpone.require_none_waiting(self.store)
        kinds = update_kinds(merge_function(self.store.schema, self.store.options), values)
        before = self._looked_up()
        found = self._rewritten(where)  # chosen before the writer numbers its rows, which must be newer
        with self.writer() as w:
            for batch in read_for_commit(self.store, found.to_batches()):
                w.write(_updated(batch, values, kinds), row_kind_column="_kind")
        return before(w.committed or Committed())

    def _take_away(self, where: Predicate, values: Mapping[str, Any] | None = None) -> Committed:
        """Delete or update rows of a table that counts them."""
        postpone.require_none_waiting(self.store)
        request = self._request(None, BATCH_IDENTIFIER)
        write = partial(self._table_write, user=request.user)
        return self._expire_after(counting.take_away(self.store, where, request, write, values))

    def _write_kinds(self, batches: Any, kind: int) -> Committed:
        with self.writer() as w:
            for batch in batches:
                kinds = pa.array(np.full(batch.num_rows, kind, dtype=np.int8))
                w.write(batch.append_column("_kind", kinds), row_kind_column="_kind")
        return w.committed or Committed()

    def _request(
        self,
        user: str | None,
        identifier: int,
        position: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> CommitRequest:
        if user is None and identifier != BATCH_IDENTIFIER:
            raise InvalidRequest("a commit identifier needs user=, the name under which it counts")
        return CommitRequest(user or self.store.fresh_user(), identifier, position, properties, watermark)

    def _require_current(self) -> None:
        """Rows that are read to be written again need every column that the table has by now."""
        self.store.require_same()
        newest = self.store.schemas.ids()[-1]
        if newest > self.store.schema.id:
            raise CommitConflict(
                f"{self.name} was altered to schema {newest}; this is schema {self.store.schema.id}: "
                "refresh() it and try again"
            )

    def _require_present(self) -> None:
        if self._at is not None:
            raise InvalidRequest(f"this is {self.name} at snapshot {self._at.id}: the past is read-only")
        self.store.require_same()

    # engines

    def position(self, user: str) -> tuple[int, str | None] | None:
        """(last identifier, source position) of a stream's commits, None before the first."""
        return positions.known(self.store, self.store.snapshots.latest()).get(user)

    def max_sequence(self) -> int:
        """The largest sequence number of any live file, −1 if there is none."""
        entries = self.store.manifests.live_entries(self.store.snapshots.latest())
        return max((e.file.max_sequence for e in entries), default=-1)

    def to_spark(
        self, spark: Any, *, columns: Sequence[str] | None = None, where: Predicate | str | None = None
    ) -> Any:
        """The table as a Spark DataFrame: files that need no merge are read by Spark's own Parquet scan."""
        if not hasattr(spark, "createDataFrame"):
            raise InvalidRequest(f"spark {spark!r} must be a session: ts.spark.session()")
        if not self.scan().whole:
            raise Unsupported("changes and differences in Spark", "use Table.scan, Table.changes or a stream")
        return feature("Table.to_spark")(self, spark, columns=columns, where=where)

    # maintenance

    def compact(
        self,
        *,
        full: bool = False,
        dry_run: bool = False,
        until_quiet: bool = False,
        partition: Mapping[str, Any] | str | None = None,
        bucket: int | Iterable[int] | None = None,
        where: Predicate | str | None = None,
        progress: ProgressCallback | None = None,
    ) -> Compaction:
        """Compact each bucket once by the rules of its strategy, or fully; with `until_quiet` until no rule
        fires, a commit a round; with `dry_run` only tell what would happen and why (after `at`: what would
        have happened then, by today's options).

        `partition`, `bucket` (one or several) and `where` choose: whole buckets are compacted, those that may
        hold rows of a predicate over partition and key columns. `progress(step, done, total, note)` is
        called as it goes on; `ts.text_bar()` draws it.
        """
        if not dry_run:
            self._require_present()
        chosen = {"partition": partition, "bucket": bucket, "where": where}
        if until_quiet and (full or dry_run):
            raise InvalidRequest("until_quiet goes on by the rules: it goes with neither full nor dry_run")
        if dry_run:
            store = self.store if self._at is None else time_travel.at(self.store, self._at)
            return feature("Table.compact(dry_run=True)")(store, full=full, at=self._at, **chosen)
        if until_quiet:
            done = compaction.compact_until_quiet(self.store, **chosen, progress=progress)
        else:
            done = compaction.compact(self.store, full=full, **chosen, progress=progress)
        if done.committed is not None and done.committed.snapshots:
            done = replace(done, committed=self._expire_after(done.committed))
        return done

    def buckets_to_compact(
        self,
        *,
        full: bool = False,
        partition: Mapping[str, Any] | str | None = None,
        bucket: int | Iterable[int] | None = None,
        where: Predicate | str | None = None,
    ) -> list[bytes]:
        """Picklable tasks for `compact_bucket`, one for each chosen bucket that has something to compact."""
        chosen = {"partition": partition, "bucket": bucket, "where": where}
        return compaction.tasks(self.store, full=full, **chosen)

    def what_if(
        self,
        options: Mapping[str, Any],
        *,
        baseline: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> WhatIf:
        """How compaction would have gone under other options: the table's history, replayed over metadata.

        `t.what_if({"num-sorted-run.compaction-trigger": 8})`, beside what its own options give or, with
        `baseline`, what those do. Nothing is changed. Goes back as far as there are snapshots. Raises
        InvalidRequest for options that change nothing about compaction. `progress(done, all)` is called
        after each commit; what it raises ends the replay.
        """
        return feature("Table.what_if")(self.store, options, baseline=baseline, progress=progress)

    def expire_snapshots(
        self,
        *,
        keep: int | None = None,
        older_than: str | timedelta | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Expiry:
        """Remove old snapshots and the files only they need. `keep=n`: exactly the newest n stay.

        `older_than` ("1 h") adds an age; without either the table's options decide. Consumers, tags, branches
        and stream positions protect. `dry_run` tells what the call would tell afterwards: snapshots, files,
        bytes, whose reads end, what stays and until when. `progress` is called as files go.
        """
        self._require_present()
        limits = {"keep": keep, "older_than": older_than}
        return maintenance.expire_snapshots(self.store, **limits, dry_run=dry_run, progress=progress)

    def expire_partitions(
        self,
        expiration_time: str | timedelta | None = None,
        *,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> PartitionExpiry:
        """Take partitions past their time out of the table, the oldest first, reading no data file.

        What is not given is what the options `partition.expiration-time`, `partition.timestamp-formatter`,
        `partition.timestamp-pattern`, `partition.expiration-strategy` (values-time or update-time) and
        `partition.expiration-max-num` say. The files go when their snapshots expire. `dry_run` only tells.
        """
        self._require_present()
        age = None if expiration_time is None else milliseconds(expiration_time, "expiration_time")
        given = {
            "partition.expiration-time": None if age is None else f"{age} ms",
            "partition.timestamp-formatter": timestamp_formatter,
            "partition.timestamp-pattern": timestamp_pattern,
            "partition.expiration-strategy": expire_strategy,
            "partition.expiration-max-num": max_expires,
        }
        chosen = {k: v for k, v in given.items() if v is not None}
        return maintenance.old_partitions(self.store, chosen, dry_run=dry_run)

    @cached_property
    def tags(self) -> Tags:
        """Names that keep snapshots readable: `create`, `rename`, `delete`, `list`."""
        return Tags(self.store)

    @cached_property
    def branches(self) -> Branches:
        """Lines of history beside this one: `create`, `delete`, `fast_forward`, `list`."""
        return Branches(self.store)

    @cached_property
    def consumers(self) -> Consumers:
        """Stream readers that left their place: `reset`, `delete`, `list`."""
        return Consumers(self.store)

    def branch(self, name: str) -> Table:
        """A branch of the table, to read and to write. Raises NotFound naming the nearest."""
        require_branch(self.store, name)
        opened = Store.open(self.location, io=self.store.io, env=self.store.env, branch=name)
        base = self.name.split("$")[0]
        return Table(opened, base if name == MAIN else f"{base}$branch_{name}")

    def rollback(
        self, *, snapshot: int | None = None, tag: str | None = None, timestamp: Any = None
    ) -> Rollback:
        """Go back to a snapshot, a tag or a moment: what came later is removed for good, files included.

        Tags of later snapshots go too, and ids are used again. No writer should be at work meanwhile.
        """
        self._require_present()
        return maintenance.roll_back(self.store, snapshot=snapshot, tag=tag, timestamp=timestamp)

    def analyze(self, columns: Sequence[str] | None = None) -> Committed:
        """Add up rows and columns (None: all, []: rows only) of the newest snapshot; one ANALYZE snapshot.

        `inspect.statistics()` shows them. Distinct counts above 65,536 are estimates, within about 2 %.
        """
        self._require_present()
        return maintenance.analyze(self.store, columns, self._request(None, BATCH_IDENTIFIER))

    def compact_manifests(self) -> Committed:
        """Merge the manifests of the newest snapshot, in one COMPACT snapshot of the same rows and files."""
        self._require_present()
        return maintenance.compact_manifests(self.store, self._request(None, BATCH_IDENTIFIER))

    def remove_orphans(
        self, older_than: str | timedelta = "1 d", *, dry_run: bool = True, force: bool = False
    ) -> Orphans:
        """Find files that nothing names and killed writers left; with `dry_run=False` remove them.

        Younger files may be those of running writers: `older_than` below a minute needs `force`.
        """
        return maintenance.remove_orphans(self.store, older_than=older_than, dry_run=dry_run, force=force)

    def mend(
        self, what: Finding | Diagnosis | None = None, *, dry_run: bool = True, decided: bool = False
    ) -> Mended:
        """Carry out what the doctor prescribes, for a finding of `inspect.doctor()`, for all of them, or
        (None) for what it finds now; a preview unless `dry_run=False`.

        Without `what`, damaged or missing snapshots, manifests, schemas, tags and data files come first:
        every data file is read once, the table goes back to what of it is sound, and what is broken is put
        aside in `tablestore/damaged`, with plain words of what is lost. A table that cannot be opened is
        mended by `tablestore.mend(path)`.

        `decided` also those that give something up (a tag, a consumer's place, an option's meaning): each
        says what in `asks`. Raises InvalidRequest for a single finding that asks or that no call mends.
        """
        self._require_present()
        return feature("Table.mend")(self, what, dry_run=dry_run, decided=decided)

    def check(self) -> list[Violation]:
        """Verify the invariants of the table independently; empty means sound. Never raises for a damaged
        table."""
        return feature("Table.check")(self.store)

    def system(self, name: str) -> SystemTable:
        """A system table such as `snapshots`, to be read like a table; `inspect` has the small ones as Arrow.

        The scan options count: `t.with_options({"incremental-between": "3,7"}).system("audit_log")`.
        """
        return feature("Table.system")(self.store, self.name, name, self._at)

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise UnsupportedAttribute(f"Table.{name}", _ELSEWHERE[name])
        if not name.startswith("_"):
            for kind, place in ((Scan, "scan()"), (feature_or_none("Table.inspect"), "inspect")):
                if hasattr(kind, name):
                    raise AttributeError(f"Table has no attribute {name!r}: table.{place}.{name}")
        raise AttributeError(f"Table has no attribute {name!r}")

    def __repr__(self) -> str:
        key = f", primary key ({', '.join(self.primary_key)})" if self.primary_key else ""
        key = key if self.store.schema.row_count_field is None else ", change-log without a primary key"
        parts = f", partitioned by ({', '.join(self.partition_by)})" if self.partition_by else ""
        at = self._at.id if self._at else self.store.snapshots.latest_id()
        return f"Table({self.name} at snapshot {at}: {len(self.schema)} columns{key}{parts})"


def _updated(batch: pa.RecordBatch, values: Mapping[str, Any], kinds: tuple[int, ...]) -> pa.Table:
    """Rows −U as they are (if wanted), then +U with the new values; of one key −U comes first."""
    after = with_values(batch, values)
    batches = [batch, after][-len(kinds) :]
    column = np.repeat(kinds, batch.num_rows).astype(np.int8)
    return pa.Table.from_batches(batches).append_column("_kind", [column]).combine_chunks()
