"""Writing a table: rows and changes in one commit each, and what engines need to commit.

What needs more than a few lines is in `writes`. Every verb gives `Committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tablestore.core.arguments import checked_but
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import chosen
from tablestore.format.snapshot import BATCH_IDENTIFIER
from tablestore.meta import positions
from tablestore.table import writes
from tablestore.table.row_changes import ChangeSteps, RowChanger, RowInserts, no_rows, nothing
from tablestore.table.table_facts import TableFacts
from tablestore.table.writer import EngineWriter, Writer
from tablestore.write.commit.committer import Committed


@checked_but("bucket", "columns", "partition", "properties", "user", "values", "where")
class TableWrites(TableFacts):
    """The verbs of a table that change its rows."""

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
        holds the key columns). The −D rows of a condition have the old values. Those of keys have them, and
        absent keys are passed over, unless the key says all: in deduplicate tables with a fixed number of
        buckets, without changelog, deletion vectors, log, `sequence.field`, `rowkind.field` and record
        expiry. There nothing is looked up: a −D of each key is written, absent or not, and counts in `rows`;
        other columns are NULL, where that may not be zero or empty. Streams know the old values all the same.
        Without a primary key rows are marked as deleted, which takes deletion vectors.

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

    def position(self, user: str) -> tuple[int, str | None] | None:
        """(last identifier, source position) of the commits of `user`, None before the first.

        >>> _ = orders.write([{"order_id": 4}], user="loader", identifier=17, position="offset 99")
        >>> orders.position("loader")
        (17, 'offset 99')
        """
        if not isinstance(user, str):
            raise InvalidRequest(f"user {user!r} must be text")
        return positions.known(self.store, self.store.snapshots.latest()).get(user)

    def max_sequence(self) -> int:
        """The largest sequence number of any live file, −1 if there is none.

        >>> orders.max_sequence()
        3
        """
        entries = self.store.manifests.live_entries(self.store.snapshots.latest())
        return max((e.file.max_sequence for e in entries), default=-1)
