"""Reading a table: a lazy scan, rows by their keys, changes, streams, splits of a plan.

What needs more than a few lines is in `reads`, `history` and `normalize`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked_but
from tablestore.format.predicates.predicate import Predicate
from tablestore.read.changes.change import Change
from tablestore.read.changes.stream import Seconds, SnapshotId, StreamRequest
from tablestore.read.changes.stream_start import Start
from tablestore.read.scan.data_split import DataSplit
from tablestore.table import history, lookup, reads
from tablestore.table.lazy_read import column_names
from tablestore.table.log_of import table_log
from tablestore.table.lookup_join.join import JoinSettings, LookupJoin
from tablestore.table.lookup_join.source import Columns, On
from tablestore.table.normalize import follow as followed
from tablestore.table.scan import Scan, snapshot_scan
from tablestore.table.table_facts import TableFacts
from tablestore.write.arrow_input import as_batches


@checked_but("columns", "key", "since", "timeout", "until", "where")
class TableReads(TableFacts):
    """The verbs of a table that read it."""

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
        table = self._handle
        reads.primary_key_of(table)
        state, other = replace(table.state(), columns=column_names(columns)), table.other_branch()
        if other is None:
            return pa.Table.from_batches(reads.rows_of_keys(table, state, keys), state.schema)
        wanted = lookup.key_table(state.store, as_batches(keys))
        batches = lookup.rows_of_branches(table.lookups, state, other, wanted, state.names)
        return pa.Table.from_batches(batches, state.schema)

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
        settings = JoinSettings(on, columns, where, fill, cache, follow, self._handle.at)
        return LookupJoin(self._handle.state().store, self.name, settings)

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
        names = snapshot_scan(
            self.store, None, columns or None
        ).names  # unknown ones are refused before a read
        return split.read(self.store, names, where)
