"""Table: one table, with its verbs. Verbs first; every write returns `Committed`, every read starts as a lazy
`Scan`.

A Table is the schema as it was when opened; `refresh()` gives the newest. Safe to share: immutable. The
docstrings of verbs say what they give; their code is in `definition`, `reads`, `writes`, `history`, `upkeep`,
and, of those that look at the table, in `insight` (`doors`). The examples run over the lake of
`tests/table/test_examples.py`: `orders` has the columns order_id (primary key), customer, amount, status and
the snapshots 1 and 2, tagged "v1" and "v2"; `events` has no key and is partitioned by day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablestore import doors
from tablestore.core import rich
from tablestore.core.arguments import checked_but
from tablestore.core.errors import InvalidRequest, NotFound, UnsupportedAttribute
from tablestore.core.options.secrets import hidden
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import chosen
from tablestore.format.schema_change import Change as SchemaChange
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.change import Change
from tablestore.read.changes.stream import Seconds, SnapshotId, StreamRequest
from tablestore.read.changes.stream_start import Start
from tablestore.read.scan.data_split import DataSplit
from tablestore.table import compaction, definition, history, reads, upkeep, writes
from tablestore.table.abilities import Ability, abilities
from tablestore.table.columns import shown
from tablestore.table.compaction import Compaction
from tablestore.table.handle import Handle
from tablestore.table.log_view import LogView
from tablestore.table.lookup_join.join import LookupJoin
from tablestore.table.lookup_join.source import Columns, On
from tablestore.table.normalize import follow as followed
from tablestore.table.refs import Branches, Consumers, Tags
from tablestore.table.row_changes import ChangeSteps, RowChanger, RowInserts, no_rows, nothing
from tablestore.table.scan import Scan
from tablestore.table.stored_options import StoredOptions
from tablestore.table.table_log import table_log
from tablestore.table.writer import EngineWriter, Writer
from tablestore.write.commit.committer import Committed
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention.expire import Expiry
from tablestore.write.retention.expire_partitions import PartitionExpiry
from tablestore.write.retention.orphans import Orphans
from tablestore.write.retention.rollback import Rollback

if TYPE_CHECKING:
    from tablestore.doors import (
        Diagnosis,
        Finding,
        HistoryWhatIf,
        Inspect,
        Mended,
        SystemTable,
        Violations,
    )

_ELSEWHERE = {"rename": "a table does not know its catalog: lake.rename_table(name, new_name)"}


@checked_but(
    *("bucket", "columns", "key", "name", "options", "partition", "properties", "since", "timeout", "until"),
    *("user", "values", "where"),
)
class Table:
    """One table of a lake, as `lake.table(name)` and `ts.open(path)` give it."""

    def __init__(self, store: Store, name: str, *, at: Snapshot | None = None) -> None:
        self.store, self.name = store, name
        self._handle = Handle(store, name, at)

    @classmethod
    def _of(cls, handle: Handle) -> Table:
        table = cls(handle.store, handle.name, at=handle.at)
        table._handle = handle
        return table

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
        return doors.inspect(self.store, at=self._handle.at)

    @property
    def log(self) -> LogView | None:
        """The log of the table: its offsets per bucket, its size, `finish`; None for a table without one."""
        committer = writes.with_log(self._handle)
        return None if committer is None else LogView(committer, lambda: writes.finish_log(self._handle))

    @property
    def past(self) -> bool:
        """Whether this is the table as it was, chosen by `at`: read-only."""
        return self._handle.at is not None

    def abilities(self) -> tuple[Ability, ...]:
        """Which verbs (read, stream, write, delete, compact) work on this table, and why others do not.

        >>> [a.verb for a in orders.abilities() if a.works]
        ['read', 'stream', 'write', 'delete', 'compact']
        """
        return abilities(self.store)

    def refresh(self) -> Table:
        """The table under its newest schema, which somebody else may have altered. Raises NotFound if it is
        gone.

        >>> _ = ts.open(orders.location).alter(ts.add("note", ts.STRING))
        >>> len(orders.schema), len(orders.refresh().schema)
        (4, 5)
        """
        return Table._of(definition.refreshed(self._handle))

    def with_options(self, options: Mapping[str, Any]) -> Table:
        """The same table with other `options` for this use only: nothing is stored.

        Raises InvalidOption for options that say how the stored files are laid out and for unknown names,
        Unsupported for options whose effect is not there.

        >>> orders.with_options({"scan.tag-name": "v1"}).scan().count()
        3
        """
        return Table._of(definition.with_options(self._handle, options))

    def alter(self, *changes: SchemaChange) -> Table:
        """The table after `changes` (`ts.add`, `ts.drop`, `ts.rename`, …), stored as one new schema.

        Rows that exist are seen through it at once; no data file is touched. Raises what each change refuses,
        CommitConflict if somebody else alters the table at the same time.

        >>> orders.alter(ts.add("note", ts.STRING), ts.drop("status")).schema.names
        ['order_id', 'customer', 'amount', 'note']
        """
        return Table._of(definition.altered(self._handle, changes))

    # reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        *,
        log: bool | None = None,
    ) -> Scan:
        """A lazy read of the newest snapshot (of the chosen one after `at`).

        `columns` are names, in the order wanted (None: all). `where` is a condition, here as everywhere
        `col("amount") > 10` or SQL text such as "amount > 10 AND customer LIKE 'a%'".

        The options `scan.*` and `incremental-*` may name another snapshot, changes or a difference instead:
        `t.with_options({"incremental-between": "1,2"}).scan()`; rows that are gone are left out then.

        With `log` rows of the table's log that are not yet in a snapshot are there, too, merged as a commit
        would merge them (None: as the option tablestore.scan.log says); after `at(timestamp=…)` those of
        that moment. `log=False` reads the snapshot alone.

        Raises NotFound for an unknown column and where the log no longer has those rows, InvalidRequest for a
        condition that does not fit, and for `log` where a table has none.

        >>> orders.scan(["order_id", "amount"], where=col("amount") > 10).to_arrow().to_pylist()
        [{'order_id': 2, 'amount': 25.0}]
        """
        return reads.scan(self._handle, columns, where, log=log)

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
        watermark: int | None = None,
    ) -> Table:
        """The table as it was, with the columns it had: read-only.

        Exactly one of: `snapshot` an id; `tag` a name; `timestamp` the newest snapshot of that moment or
        before (epoch milliseconds, a datetime, or ISO text in local time); `watermark` the oldest that has
        reached it. Raises NotFound naming what there is.

        >>> orders.at(tag="v1").get({"order_id": 2})["amount"], orders.get({"order_id": 2})["amount"]
        (20.0, 25.0)
        """
        asked: dict[str, Any] = {
            "snapshot": snapshot,
            "tag": tag,
            "timestamp": timestamp,
            "watermark": watermark,
        }
        return Table._of(history.at(self._handle, **asked))

    def get(
        self, key: Mapping[str, Any], columns: Sequence[str] | None = None, *, log: bool = False
    ) -> dict[str, Any] | None:
        """The row of one primary key, None if there is none.

        `key` holds every column of the primary key; 0.0 and −0.0 are two keys, as in a write. `columns` are
        what to give (None: all, []: an empty mapping if the row is there). With `log` the rows of the log
        behind the snapshot count, too, as in `scan`: those of the key's bucket are looked through. Raises
        InvalidRequest for another key, or a table without one (with `log`: without a log).

        >>> orders.get({"order_id": 3}, columns=["customer"])
        {'customer': 'ann'}
        """
        return reads.get(self._handle, key, columns, log=log)

    def get_many(self, keys: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of many primary keys, in any order; absent ones are left out.

        `keys` is anything Arrow-like that holds the key columns; `columns` are what to give (None: all).
        Raises InvalidRequest for a table without a primary key.

        >>> orders.get_many([{"order_id": 1}, {"order_id": 9}], columns=["order_id"]).to_pylist()
        [{'order_id': 1}]
        """
        return reads.get_many(self._handle, keys, columns)

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
        primary key). `columns` are what to give, with new names if it is a mapping; only rows of `where` are
        joined; `fill` is what to give in place of NULL. `cache` full, memory, partial or auto, and the other
        `lookup.*` options say what is kept. `follow=False` refreshes only when `refresh()` is called; after
        `at` nothing ever changes. Raises NotFound for unknown columns.

        >>> join = orders.lookup({"order_id": "id"}, columns=["status"])
        >>> join.join([{"id": 2}, {"id": 9}]).to_pylist()
        [{'id': 2, 'status': 'paid'}, {'id': 9, 'status': None}]
        """
        asked: dict[str, Any] = {"on": on, "columns": columns, "where": where, "fill": fill, "cache": cache}
        store = self._handle.state().store
        return LookupJoin(store, self.name, **asked, follow=follow, at=self._handle.at)

    def changes(self, *, since: int | str, until: int | str | None = None, mode: str = "auto") -> pa.Table:
        """The changes after snapshot `since` up to `until` (None: the newest), with a `rowkind` column first.

        `mode` delta reads the rows that were written, changelog the changelog files, auto these if the table
        has them. Two tag names give the difference of their states, as `mode="diff"` does of two snapshot
        ids: rows that are new or changed, and −D for keys that are gone. Raises NotFound for expired
        snapshots.

        >>> orders.changes(since=1).select(["rowkind", "order_id", "amount"]).to_pylist()
        [{'rowkind': '+I', 'order_id': 2, 'amount': 25.0}]
        """
        return history.changes_between(self.store, since, until, mode=mode)

    def stream(
        self,
        *,
        start: Start | None = None,
        until: SnapshotId | None = None,
        timeout: Seconds | None = None,
        follow: bool = True,
        consumer: str | None = None,
        poll_seconds: Seconds | None = None,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        normalize: bool | str | None = None,
    ) -> Iterator[Change]:
        """Steps of the table, first its state, then each snapshot's changes, waiting for snapshots to come.

        `start` is "latest-full" (state, then changes; the default unless `scan.mode` says otherwise),
        "latest" (later changes only), "earliest", a snapshot id (its changes first), a cursor, {"timestamp":
        moment}, {"snapshot": id, "full": True} or {"log": {bucket: offset}}. It ends after snapshot `until`,
        after `timeout` seconds without a new one, or, unless `follow`, when there is none; `poll_seconds` is
        how long it waits between two looks. A `consumer` that is known goes on where it was, and keeps its
        snapshots from expiring. `columns` and `where` choose as in `scan`.

        Where a table without changelog producer has upserts only, a normaliser adds what was before (−U/+U
        pairs, −D with the old values, nothing of unchanged rows). It keeps the last row of each key on the
        local disk: `step.state`. `normalize="lookup"` keeps nothing and looks up what was before, in the
        snapshot before, of any merge engine; `normalize=False` gives the rows as they were written.

        A table with a log gives the state of a snapshot and then the rows of the log from there on, each once
        and as soon as they are visible. Where the log has expired, changes come from files of snapshots:
        `step.source` is "log" or "files", `step.reason` says why.

        Raises NotFound when the next snapshot has expired, Unsupported for a table or partition whose
        'change-tracking' is off (unless `where` leaves it out, or changes are looked up).

        >>> steps = orders.stream(start="earliest", follow=False, normalize=False)
        >>> [(step.snapshot, sum(batch.num_rows for batch in step.batches)) for step in steps]
        [(1, 3), (2, 1)]
        """
        request = StreamRequest(
            start=start,
            until=until,
            timeout=timeout,
            follow=follow,
            consumer=consumer,
            poll_seconds=poll_seconds,
            columns=columns,
            where=where,
        )
        return followed(self.store, request, normalize=normalize, log=table_log(self.store, self._handle.log))

    def read_split(
        self, split: DataSplit, *, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one `split` of a plan: what a task of an engine runs.

        `columns` are names (None: all); `where` is the condition as bound by the plan. Raises NotFound when
        the snapshot expired meanwhile.

        >>> plan = orders.scan().plan()
        >>> sum(batch.num_rows for split in plan.splits for batch in orders.read_split(split))
        3
        """
        return reads.read_split(self._handle, split, columns, where)

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
        """Upsert `data`, anything Arrow-like, or changes with their row kinds, in one commit.

        A row replaces the whole older row of its key: columns that are left out become NULL.
        `row_kind_column` names a column of "+I", "-U", "+U", "-D". `user` and `identifier` are the name and
        number of a stream's commit: the same pair again adds nothing. `position` of the source, `properties`
        and `watermark` (epoch ms) are kept in the snapshot. Raises SchemaMismatch for columns that do not
        fit, before a byte is written.

        >>> orders.write([{"order_id": 4, "customer": "eve", "amount": 1.5}]).snapshot
        3
        >>> orders.write([{"order_id": 4, "kind": "-D"}], row_kind_column="kind").rows
        1
        """
        asked = writes.request(self.store, user, identifier, position, properties, watermark)
        return writes.write(self._handle, data, row_kind_column, asked)

    def writer(
        self,
        *,
        user: str | None = None,
        identifier: int = BATCH_IDENTIFIER,
        position: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> Writer:
        """Many batches, one commit, when the `with` block ends well; nothing if it raises.

        `user`, `identifier`, `position`, `properties` and `watermark` are those of `write`.

        >>> with orders.writer(user="loader", identifier=17) as w:
        ...     w.write([{"order_id": 4, "customer": "eve"}])
        ...     w.write([{"order_id": 5, "customer": "fay"}])
        >>> w.committed.rows
        2
        """
        asked = writes.request(self.store, user, identifier, position, properties, watermark)
        return writes.writer(self._handle, asked)

    def open_writer(
        self,
        *,
        user: str | None = None,
        sequence_base: int | None = None,
        compact: bool = False,
        changelog: bool = True,
        buffer_bytes: int | None = None,
    ) -> EngineWriter:
        """A writer for engines: its `prepare()` gives bytes for `commit`.

        `user` is the commit user. `sequence_base` numbers rows without reading manifests (None: above what is
        there). `compact` runs compactions in the writer. `changelog=False` is the documented write option of
        a full load: no changelog files, whatever the producer. `buffer_bytes` is the pool of this process in
        place of `write-buffer-size`: a task that writes one large piece makes fewer, larger files with more.
        Raises Unsupported where only one writer may be at work.

        >>> w = orders.open_writer(user="job")
        >>> w.write(pa.table({"order_id": [4], "customer": ["eve"]}))
        >>> orders.commit(w.prepare(), user="job", identifier=1).rows
        1
        """
        asked: dict[str, Any] = {
            "user": user,
            "sequence_base": sequence_base,
            "compact": compact,
            "changelog": changelog,
        }
        return writes.open_writer(self._handle, **asked, buffer_bytes=buffer_bytes)

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
        """Commit `messages` of engine writers at once. The same (`user`, `identifier`) again adds nothing
        (I11).

        `position`, `properties` and `watermark` are those of `write`. Raises CommitConflict if somebody else
        removed what the messages build on, CommitUnknown if the store did not say: then retry the same.

        >>> w = orders.open_writer(user="job")
        >>> w.write(pa.table({"order_id": [4], "customer": ["eve"]}))
        >>> messages = w.prepare()
        >>> orders.commit(messages, user="job", identifier=1).snapshots
        (3,)
        >>> orders.commit(messages, user="job", identifier=1).replayed
        True
        """
        asked = writes.request(self.store, user, identifier, position, properties, watermark)
        return writes.commit(self._handle, messages, asked)

    def overwrite(
        self, data: Any, *, partition: Mapping[str, Any] | None = None, dynamic: bool | None = None
    ) -> Committed:
        """Replace the partitions the `data` touch (or the one named, or an unpartitioned table) by `data`, in
        one OVERWRITE snapshot; `replaced_partitions` of the answer says how many had rows before.

        `partition` may name some of the partition columns only; the data may lack the columns it names.
        `dynamic` true replaces only what the data touch, of the named one too; it defaults to
        `dynamic-partition-overwrite` where none is named. Without rows the partitions stay as they are,
        unless `dynamic` or that option is false; `truncate` empties them. Raises CommitConflict if somebody
        else wrote to them meanwhile.

        >>> events.overwrite([{"n": 7}], partition={"day": "2026-01-01"}).replaced_partitions
        1
        >>> events.scan().to_pandas()["n"].sort_values().tolist()
        [3, 7]
        """
        return writes.overwrite(self._handle, data, partition=partition, dynamic=dynamic)

    def rescale(self, bucket: int, *, partition: Mapping[str, Any] | None = None) -> Committed:
        """Give the table `bucket` buckets and rewrite its rows (those of one `partition`), in one OVERWRITE.

        Partitions that are not rewritten keep their buckets; they are read as before and refuse new rows.
        Raises InvalidRequest unless the table has a fixed number of buckets, CommitConflict if somebody wrote
        meanwhile.

        >>> _ = orders.rescale(2)
        >>> orders.refresh().options["bucket"]
        '2'
        """
        return writes.rescaled(self._handle, bucket, partition=partition)

    def truncate(self, *, partition: Mapping[str, Any] | None = None) -> Committed:
        """Remove all rows, or those of one `partition`, in one OVERWRITE snapshot; no data file is read.

        Raises NotFound for what is no partition column.

        >>> _ = events.truncate(partition={"day": "2026-01-01"})
        >>> events.scan().count()
        1
        """
        return writes.truncate(self._handle, partition=partition)

    def delete(self, what: Predicate | str | Any) -> Committed:
        """Delete rows.

        `what` is a condition (a predicate or its SQL text), or the rows of keys (anything Arrow-like that
        holds the key columns). The −D rows carry the old values, so a changelog consumer can retract; absent
        keys are passed over. Without a primary key rows are marked as deleted, which takes deletion vectors.

        A condition that selects whole partitions reads and writes no rows: they leave the table in one
        OVERWRITE snapshot, which streams of rows as they were written skip unless `streaming-read-overwrite`
        asks for it. Tables with a primary key that keep a changelog (or want one:
        `delete.force-produce-changelog`) write the −D rows all the same. Raises InvalidRequest for
        keys of a table without a primary key, Unsupported where the merge engine would ignore a delete.

        >>> orders.delete("status = 'paid'").rows
        2
        >>> orders.delete([{"order_id": 1}]).rows
        1
        """
        return writes.delete(self._handle, what)

    def update(self, values: Mapping[str, Any], *, where: Predicate | str) -> Committed:
        """Set columns of the rows that `where` selects to `values`, {column: value}.

        Where another commit changes rows of the same buckets meanwhile, all is done again on its snapshot, at
        most five times, then that is a CommitConflict.

        Writes −U/+U pairs so that a changelog consumer can retract (partial-update without sequence groups:
        +U rows). Raises InvalidRequest for columns of the primary key, for a NULL that the merge engine would
        not show and where a column is aggregated so that rows cannot be replaced (all functions but `sum`,
        `last_value` and `last_non_null_value`); CommitConflict if the table was altered.

        >>> _ = orders.update({"status": "sent"}, where=col("order_id") == 2)
        >>> orders.get({"order_id": 2})["status"]
        'sent'
        """
        return writes.update(self._handle, values, where)

    def change_rows(
        self,
        change: RowChanger,
        *,
        where: Predicate | str | None = None,
        columns: Sequence[str] = (),
        inserts: RowInserts = no_rows,
        restart: Callable[[], None] = nothing,
    ) -> Committed:
        """Delete and update rows by what `change` says of each batch of them, and insert rows, in one commit.

        `change` gets batches of the rows that `where` selects (None: all) with every column and gives
        `RowChanges`; `columns` are those that it sets. `inserts` gives batches of new rows and is called
        behind the last `change`. When another commit comes first, all is done again, `restart` first. Writes
        what `update` and `delete` write. Raises InvalidRequest for `columns` of the primary key.

        >>> def double(batch):
        ...     rows = batch.set_column(2, "amount", pa.compute.multiply(batch["amount"], 2))
        ...     return ts.RowChanges(updated=range(len(rows)), rows=rows)
        >>> _ = orders.change_rows(double, where="customer = 'ann'", columns=["amount"])
        >>> orders.scan().to_pandas()["amount"].tolist()
        [20.0, 25.0, 10.0]
        """
        self._handle.require_current()
        bound = None if where is None else chosen(where, self.store.schema)
        keys = set(self.primary_key) & set(columns)
        if keys:
            raise InvalidRequest(
                f"{min(keys)!r} is part of the primary key; delete the rows and write new ones"
            )
        for name in columns:
            if name not in self.store.schema.shown.by_name:
                raise NotFound.among("column", name, self.store.schema.shown.names)
        steps = ChangeSteps(change, inserts, restart)
        return writes.change_rows(self._handle, steps, where=bound, columns={})

    # engines

    def position(self, user: str) -> tuple[int, str | None] | None:
        """(last identifier, source position) of the commits of `user`, None before the first.

        >>> _ = orders.write([{"order_id": 4}], user="loader", identifier=17, position="offset 99")
        >>> orders.position("loader")
        (17, 'offset 99')
        """
        return history.position(self.store, user)

    def max_sequence(self) -> int:
        """The largest sequence number of any live file, −1 if there is none.

        >>> orders.max_sequence()
        3
        """
        return history.max_sequence(self.store)

    def to_spark(
        self,
        spark: Any,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        pushdown: bool = True,
    ) -> Any:
        """The table as a Spark DataFrame, at the snapshot that is the newest now.

        `spark` is a session (`ts.spark.session()`); `columns` and `where` choose as in `scan`. Each query
        skips files by its own conditions, without `pushdown` by `where` alone; Spark reads all files itself
        where it gives the same rows, and its plan says what is left out. Raises Unsupported for changes and
        differences, MissingPackage without PySpark.

        >>> orders.to_spark(ts.spark.session(), where="amount > 10").count()  # doctest: +SKIP
        1
        """
        reads.require_plannable(self._handle, spark)
        return doors.to_spark(self, spark, columns=columns, where=where, pushdown=pushdown)

    # upkeep

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
        """Compact each bucket once by the rules of its strategy; rows stay what they are (I12).

        `full` merges everything of a bucket; `until_quiet` goes on until no rule fires, a commit a round;
        `dry_run` only reports what would happen and why (after `at`: what would have happened then, by
        today's options).

        `partition`, `bucket` (one or several) and `where` choose: whole buckets are compacted, those that may
        hold rows of a predicate over partition and key columns. `progress(step, done, total, note)` is called
        as it goes on; `ts.text_bar()` draws it. Raises InvalidRequest for `until_quiet` with `full` or
        `dry_run`.

        >>> done = orders.compact(full=True)
        >>> done.committed.snapshot, orders.inspect.files().num_rows
        (3, 1)
        """
        chosen: dict[str, Any] = {"partition": partition, "bucket": bucket, "where": where}
        how: dict[str, Any] = {"full": full, "dry_run": dry_run, "until_quiet": until_quiet}
        return upkeep.compact(self._handle, **how, **chosen, progress=progress)

    def buckets_to_compact(
        self,
        *,
        full: bool = False,
        partition: Mapping[str, Any] | str | None = None,
        bucket: int | Iterable[int] | None = None,
        where: Predicate | str | None = None,
    ) -> list[bytes]:
        """Picklable tasks for `ts.compact_bucket`, one for each chosen bucket that has something to compact.

        `full`, `partition`, `bucket` and `where` are those of `compact`.

        >>> tasks = orders.buckets_to_compact(full=True)
        >>> messages = [ts.compact_bucket(orders.location, task) for task in tasks]
        >>> orders.commit(messages, user="compactor").snapshot
        3
        """
        chosen: dict[str, Any] = {"partition": partition, "bucket": bucket, "where": where}
        return compaction.tasks(self.store, full=full, **chosen)

    def what_if(
        self,
        options: Mapping[str, Any],
        *,
        baseline: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> HistoryWhatIf:
        """How compaction would have gone under other `options`: the table's history, replayed over metadata.

        It stands beside what the table's own options give or, with `baseline`, what those do. Nothing is
        changed. Goes back as far as there are snapshots. `progress(done, all)` is called after each commit;
        what it raises ends the replay. Raises InvalidRequest for options that change nothing about
        compaction.

        >>> orders.what_if({"num-sorted-run.compaction-trigger": 2}).reproduced
        True
        """
        return doors.what_if(self.store, options, baseline=baseline, progress=progress)

    def expire_snapshots(
        self,
        *,
        keep: int | None = None,
        older_than: str | timedelta | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Expiry:
        """Remove old snapshots and the files only they need, and what the options let go of a log.

        `keep=n`: exactly the newest n stay. `older_than` ("1 h") adds an age; without either the table's
        options decide. Consumers, tags, branches and stream positions protect. `dry_run` gives the report
        without removing anything: snapshots, files, bytes, reads that end, what stays and until when.
        `progress` is called as files go. Raises InvalidRequest for `keep` below 1.

        >>> orders.expire_snapshots(keep=1).snapshots
        (1,)
        """
        limits: dict[str, Any] = {"keep": keep, "older_than": older_than}
        return history.expire_snapshots(self._handle, **limits, dry_run=dry_run, progress=progress)

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
        """Remove partitions that are too old, the oldest first, without reading data files.

        Arguments left out default to the table's options: `expiration_time` ("90 d") is
        `partition.expiration-time`, `timestamp_formatter` and `timestamp_pattern` are
        `partition.timestamp-formatter` and `-pattern`, `expire_strategy` is `partition.expiration-strategy`
        (values-time or update-time), `max_expires` is `partition.expiration-max-num`. The files are removed
        when their snapshots expire. `dry_run` only reports. Raises InvalidRequest where the table has no
        partitions, or no age is known.

        >>> events.expire_partitions("3650 d", timestamp_formatter="yyyy-MM-dd", dry_run=True).partitions
        ()
        """
        how: dict[str, Any] = {
            "formatter": timestamp_formatter,
            "pattern": timestamp_pattern,
            "strategy": expire_strategy,
        }
        limits: dict[str, Any] = {"max_expires": max_expires, "dry_run": dry_run}
        return history.expire_old_partitions(self._handle, expiration_time, **how, **limits)

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
        """Named stream readers and where each goes on: `reset`, `delete`, `list`."""
        return Consumers(self.store)

    def branch(self, name: str) -> Table:
        """The branch of that `name`, to read and to write. Raises NotFound naming the nearest.

        >>> orders.branches.create("dev", tag="v1")
        >>> orders.branch("dev").scan().count()
        3
        """
        return Table._of(definition.branch(self._handle, name))

    def rollback(
        self, *, snapshot: int | None = None, tag: str | None = None, timestamp: Any = None
    ) -> Rollback:
        """Roll back to an earlier snapshot: what came later is removed for good, files included.

        Exactly one of `snapshot` (an id), `tag` and `timestamp` (as `at` takes it) says where to. Tags of
        later snapshots are removed, too, and ids are used again. No writer should be running. Raises NotFound
        for an unknown one.

        >>> _ = orders.rollback(tag="v1")
        >>> orders.get({"order_id": 2})["amount"]
        20.0
        """
        return history.roll_back(self._handle, snapshot=snapshot, tag=tag, timestamp=timestamp)

    def analyze(self, columns: Sequence[str] | None = None) -> Committed:
        """Statistics of the newest snapshot, read and kept in one ANALYZE snapshot; `inspect.statistics()`.

        `columns` are those to add up (None: all, []: rows only). Distinct counts above 65,536 are estimates,
        within about 2 %. Raises NotFound for a table without snapshots.

        >>> orders.analyze(["customer"]).snapshot
        3
        """
        return upkeep.analyze(self._handle, columns)

    def compact_manifests(self) -> Committed:
        """Merge the manifests of the newest snapshot, in one COMPACT snapshot of the same rows and files.

        >>> orders.compact_manifests().snapshot
        3
        """
        return upkeep.compact_manifests(self._handle)

    def remove_orphans(
        self, older_than: str | timedelta = "1 d", *, dry_run: bool = True, force: bool = False
    ) -> Orphans:
        """The files that killed writers left and nothing names; with `dry_run=False` they are removed.

        Files younger than `older_than` stay: they may be those of running writers. Those of writers that
        are open for longer stay, too; the answer names these writers. An age below a minute needs `force`,
        which says that nobody writes. Raises InvalidRequest for what is no duration.

        >>> len(orders.remove_orphans().files)
        0
        """
        return upkeep.remove_orphans(self._handle, older_than=older_than, dry_run=dry_run, force=force)

    def mend(
        self, what: Finding | Diagnosis | None = None, *, dry_run: bool = True, decided: bool = False
    ) -> Mended:
        """Carry out what the doctor prescribes; a preview unless `dry_run=False`.

        `what` is a finding of `inspect.doctor()`, or all of them, or (None) what it finds now. Then damaged
        or missing snapshots, manifests, schemas, tags and data files come first: every data file is read
        once, the table goes back to its newest sound state, and broken files are put aside in
        `tablestore/damaged`; the result says what is lost. Older snapshots that can be read stay, as tags
        where ids would have a gap; indexes are made again; a damaged log is repaired. A table that cannot be
        opened is mended by `tablestore.mend(path)`.

        `decided` also those that give something up (a tag, a consumer's place, an option's meaning): each
        says what in `asks`. Raises InvalidRequest for a single finding that asks or that no call mends.

        >>> orders.mend().dry_run
        True
        """
        self._handle.require_present()
        return doors.mend(self, what, dry_run=dry_run, decided=decided)

    def check(self) -> Violations:
        """The violations of the invariants, found by reading the whole table; empty means sound. Never raises
        for a damaged table. A list that shows itself in a notebook, with a `text`.

        >>> orders.check()
        []
        """
        return doors.check(self.store, log=self._handle.log)

    def system(self, name: str) -> SystemTable:
        """The system table of that `name`, such as `snapshots`, to be read like a table; `inspect` has the
        small ones as Arrow.

        The scan options count: `t.with_options({"incremental-between": "1,2"}).system("audit_log")`. Raises
        NotFound naming the nearest.

        >>> orders.system("audit_log").scan(["rowkind", "order_id"]).head(1).to_arrow().to_pylist()
        [{'rowkind': '+I', 'order_id': 1}]
        """
        return doors.system_table(self.store, self.name, name, self._handle.at)

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise UnsupportedAttribute(f"Table.{name}", _ELSEWHERE[name])
        if not name.startswith("_"):
            if hasattr(Scan, name):
                raise AttributeError(f"Table has no attribute {name!r}: table.scan().{name}")
            if doors.is_of_inspect(name):
                raise AttributeError(f"Table has no attribute {name!r}: table.inspect.{name}")
        raise AttributeError(f"Table has no attribute {name!r}")

    def __repr__(self) -> str:
        key = f", primary key ({', '.join(self.primary_key)})" if self.primary_key else ""
        key = key if self.store.schema.row_count_field is None else ", change-log without a primary key"
        parts = f", partitioned by ({', '.join(self.partition_by)})" if self.partition_by else ""
        at = self._handle.at.id if self._handle.at else self.store.snapshots.latest_id()
        return f"Table({self.name} at snapshot {at}: {len(self.schema)} columns{key}{parts})"

    def _repr_html_(self) -> str | None:
        return rich.card("table", self.store, self.name, self._handle.at)
