"""A table's metadata as Arrow tables: `Inspect(store)` behind `table.inspect`.

Those that Paimon has as system tables are in `system_tables`; the others are made for pictures. Times are
local wall clock, like those that writers put into manifests. Only `row_groups` opens a data file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablestore import doors
from tablestore.core.arguments import checked_but
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.values import INFINITE
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor import Diagnosis, diagnose, limits_of
from tablestore.insight.explain.merge_steps import Merging
from tablestore.insight.explain.merge_steps.stored_runs import KeyWindow, merging
from tablestore.insight.health import AlarmHistory, AlarmLimits, Health, Healths, alarm_history, readers
from tablestore.insight.inspect import edits as inspect_edits
from tablestore.insight.inspect import files as inspect_files
from tablestore.insight.inspect import files as inspect_pressure
from tablestore.insight.inspect import metadata
from tablestore.insight.inspect import tree as inspect_tree
from tablestore.insight.inspect.amplification.views import Amplifications
from tablestore.insight.inspect.commits import CommitSums, CompactionRows
from tablestore.insight.inspect.edits import FileHistory, Origins
from tablestore.insight.inspect.storage import Storage, stored
from tablestore.insight.inspect.system_tables import SystemTables, naming_rows
from tablestore.io.requests import Requests, requests_of
from tablestore.lsm.lookup import cache as lookup_cache
from tablestore.lsm.merge.validate import validate
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store, partition_named

if TYPE_CHECKING:
    from tablestore.doors import Figure

MOST_EDITS = 200_000
"""Files of `edits` at most where no part of the history is asked for."""


def _text(value: Any, what: str) -> str:
    """Text, out of a column too; raises InvalidRequest."""
    value = unwrapped(value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} {value!r} must be text, as inspection gives it")
    return value


@checked_but("between", "partition")
class Inspect(SystemTables):
    """Metadata of one table as Arrow tables.

    Where a method takes a `snapshot` it is an id, a tag's name or a `Snapshot`; None: the one that
    `Table.at` chose, else the newest. A `partition` is a text such as "l_year=1995/l_month=6".
    Remembers the snapshots it has read, the counts of commits, compactions, the life of files, where files
    came from, the last health and views of amplification; not thread-safe.
    """

    def __init__(self, store: Store, *, at: Snapshot | None = None) -> None:
        super().__init__(store, at=at)
        self._origins = Origins(store)
        self._commits = CommitSums(store, self._snapshots)
        self._compactions = CompactionRows(store, self._snapshots)
        self._amplified, self._history = Amplifications(store), FileHistory(store)
        self._edits: tuple[object, pa.Table] | None = None
        self._healths = Healths(store)

    def __repr__(self) -> str:
        names = [n for of in (Inspect, SystemTables) for n in vars(of) if not n.startswith("_")]
        return f"Inspect({self._store.paths.root}: {', '.join(names)})"

    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot, None for a table without any; no snapshot is read.

        >>> orders.inspect.latest_snapshot_id()
        2
        """
        return self._store.snapshots.latest_id()

    def num_levels(self) -> int:
        """Number of levels of a new LSM tree: `num-levels`, else the compaction trigger plus one.

        >>> orders.inspect.num_levels()
        6
        """
        return self._store.options.num_levels

    @naming_rows
    def commits(self, *, newest: int | None = None) -> pa.Table:
        """What each snapshot changed: rows, files and bytes added and removed, oldest snapshot first; with
        `newest` so many of the newest, and no other snapshot is read.

        >>> orders.inspect.commits()["rows_added"].to_pylist()
        [3, 1]
        """
        if newest is not None and newest < 1:
            raise InvalidRequest(f"newest {newest} must be at least 1")
        return self._commits.table(newest)

    def snapshot_count(self) -> int:
        """How many snapshots there are; none is read.

        >>> orders.inspect.snapshot_count()
        2
        """
        return len(self._store.snapshots.ids())

    @naming_rows
    def edits(self, *, first: int | None = None, last: int | None = None) -> pa.Table:
        """The life of the table: a row for each file, from the snapshot that `added` it to the one that
        `removed` it; null is before the first snapshot, and not up to the last.

        The files of any snapshot are those added up to it and not removed up to it. Columns are those of
        `levels`, but the ends of a file's keys are numbers of a line, which `levels` scales to 0 … 1. With
        `first` or `last` the part of the history between these snapshots, else the newest with at most
        200,000 files; the schema's metadata `edits` names the `first` and `last` snapshot whose state the
        rows give. What has been read is kept: a commit costs its own delta.

        >>> orders.inspect.edits().select(["added", "removed", "rows"]).to_pylist()
        [{'added': 1, 'removed': None, 'rows': 3}, {'added': 2, 'removed': None, 'rows': 1}]
        """
        whole = first is None and last is None
        lives = self._history.newest(MOST_EDITS) if whole else self._history.lives(first, last)
        if self._edits is None or self._edits[0] is not lives:
            self._edits = lives, inspect_edits.edits(self._store, lives)
        return self._edits[1]

    @naming_rows
    def manifest_lists(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Manifest lists of a `snapshot` (base, delta, changelog) and its index manifest: sizes, and how
        many files they are about.

        >>> orders.inspect.manifest_lists()["kind"].to_pylist()
        ['base', 'delta']
        """
        return inspect_tree.manifest_lists(self._store, self._snapshot(snapshot))

    @naming_rows
    def list_manifests(self, manifest_list: str) -> pa.Table:
        """The manifests of a `manifest_list`, with the partitions, buckets and levels that each is about.
        Raises NotFound, and InvalidRequest for what is no name of a list.

        >>> base, delta = orders.inspect.manifest_lists()["file_name"].to_pylist()
        >>> orders.inspect.list_manifests(delta)["files_added"].to_pylist()
        [1]
        """
        return inspect_tree.listed(self._store, _text(manifest_list, "manifest list"))

    @naming_rows
    def entries(self, manifest: str) -> pa.Table:
        """The files that a `manifest` adds and removes, in order; columns as those of `diff`. Raises
        NotFound, and InvalidRequest for what is no name of a manifest.

        >>> first = orders.inspect.manifests()["file_name"][0].as_py()
        >>> orders.inspect.entries(first).select(["change", "level", "rows"]).to_pylist()
        [{'change': 'added', 'level': 0, 'rows': 3}]
        """
        return inspect_tree.entries(self._store, _text(manifest, "manifest"))

    @naming_rows
    def state(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Live data files of a `snapshot` with the rows that their deletion vectors mask; columns as those
        of `diff`.

        >>> orders.inspect.state()["rows"].to_pylist()
        [3, 1]
        """
        return inspect_tree.state(self._store, self._snapshot(snapshot))

    @naming_rows
    def diff(self, before: int | str | Snapshot, after: int | str | Snapshot | None = None) -> pa.Table:
        """Files of two snapshots, `before` and `after` (None: the newest), side by side.

        `change` is removed, added, moved (to another level), masked (only another deletion vector) or kept.
        `min_key_pos` and `max_key_pos` lie on one axis from 0 to 1 over the keys of all of them.

        >>> orders.inspect.diff("v1", "v2").select(["change", "rows"]).to_pylist()
        [{'change': 'added', 'rows': 1}, {'change': 'kept', 'rows': 3}]
        """
        return inspect_tree.difference(self._store, self._snapshot(before), self._snapshot(after))

    @naming_rows
    def row_groups(self, file: str, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """The column chunks of a data or changelog `file` of a `snapshot`, row group by row group: sizes,
        encodings, nulls, bounds.

        `file` is a name or path. ORC files have stripes, Avro files blocks, with the columns that these
        formats know. Opens the file's footer. Raises NotFound for a file that the snapshot does not name.

        >>> newest = orders.inspect.files()["file_path"][1].as_py()
        >>> chunks = orders.inspect.row_groups(newest)
        >>> chunks.filter(pa.compute.equal(chunks["column"], "amount"))["max"].to_pylist()
        ['25.0']
        """
        return inspect_tree.row_groups(self._store, self._snapshot(snapshot), _text(file, "file"))

    @naming_rows
    def levels(
        self,
        snapshot: int | str | Snapshot | None = None,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        back: int | None = None,
    ) -> pa.Table:
        """Live data files of a `snapshot` by place in their LSM tree, newest run first; of one `partition`,
        of one `bucket`, or all.

        `run` 0 is the newest level-0 file; each level from 1 on is one run. `min_key_pos` and `max_key_pos`
        lie on an axis from 0 to 1 over the keys of the bucket. `snapshot_id` is the snapshot that added a
        level-0 file, null when it has expired and for other levels; `masked_rows` the number of rows that
        the file's deletion vector masks, null if it has none. With `back` only so many snapshots are looked
        through for those that added files.

        >>> orders.inspect.levels().select(["run", "level", "snapshot_id"]).to_pylist()
        [{'run': 0, 'level': 0, 'snapshot_id': 2}, {'run': 1, 'level': 0, 'snapshot_id': 1}]
        """
        partition, bucket = self._place(partition, bucket)
        at = self._snapshot(snapshot)
        live = self._chosen(at, partition, bucket)
        fresh = {e.file.file_name for e in live if e.file.level == 0}
        origins = self._origins.of(at, fresh, back=back)
        masked = inspect_files.masked_rows(self._store.manifests.index_entries(at))
        return inspect_files.levels(self._store, live, origins=origins, masked=masked)

    def _chosen(self, snapshot: Snapshot | None, partition: str | None, bucket: int | None) -> Entries:
        """Live files of a partition, of a bucket, or all: objects are made of those alone."""
        live = self._store.manifests.live_entries(snapshot)
        if bucket is not None:
            live = live.filter(live.numbers("bucket") == bucket)
        if partition is not None:
            live = live.of_partitions(lambda p: self._store.partition_text(p) == partition)
        return live

    def references(self) -> pa.Table:
        """Tags and branches with the snapshot that each keeps or began at, and whether this branch still has
        it.

        `kind` is "tag" or "branch"; a branch without snapshots has no `snapshot_id`.

        >>> orders.inspect.references().select(["kind", "name", "in_history"]).to_pylist()
        [{'kind': 'tag', 'name': 'v1', 'in_history': True}, {'kind': 'tag', 'name': 'v2', 'in_history': True}]
        """
        return metadata.references(self._store)

    @naming_rows
    def compactions(self, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """Every compaction the table has had, oldest first, of one `partition`, of one `bucket`, or all: the
        rule and its sum, files, bytes, duration.

        `explanation` names every rule that was tried. Compactions of expired snapshots are kept in the
        table's history, unless another engine expired them.

        >>> _ = orders.compact(full=True)
        >>> orders.inspect.compactions().select(["bucket", "output_level", "rows_in", "rows_out"]).to_pylist()
        [{'bucket': 0, 'output_level': 5, 'rows_in': 4, 'rows_out': 3}]
        """
        partition, bucket = self._place(partition, bucket)
        return self._compactions.table(partition=partition, bucket=bucket)

    @naming_rows
    def cache(self) -> pa.Table:
        """The memory that this process uses for lookups of all tables: entries, bytes, hits, misses.

        >>> orders.inspect.cache().column_names
        ['entries', 'key_bytes', 'row_bytes', 'hits', 'misses']
        """
        state = lookup_cache.LOCAL.state
        return pa.table({name: pa.array([n], pa.int64()) for name, n in asdict(state).items()})

    def pressure(self, snapshot: int | str | Snapshot | None = None) -> pa.Table:
        """Buckets of a `snapshot` with the number of flushes before a compaction and before a write stall,
        the nearest first.

        >>> orders.inspect.pressure().select(["runs", "flushes_until_stall"]).to_pylist()
        [{'runs': 2, 'flushes_until_stall': 7}]
        """
        return inspect_pressure.pressure(self._store, self._snapshot(snapshot))

    def health(self, snapshot: int | str | Snapshot | None = None) -> Health:
        """How the buckets of a `snapshot` stand: a verdict in one sentence, and for each bucket its runs,
        files and bytes with what the rules would compact now, the worst first (`.buckets`).

        >>> orders.inspect.health().verdict
        'healthy: 1 bucket, 2 runs, nothing due'
        """
        with self._store.manifests.naming_rows():
            return self._healths.of(self._snapshot(snapshot))

    @naming_rows
    def stays(self) -> pa.Table:
        """Each data file of the table's history: its bucket, level, bytes and rows, and the snapshots that
        `added` it (NULL: before the oldest) and `removed` it (NULL: it is live).

        >>> orders.inspect.stays().select(["rows", "added", "removed"]).to_pylist()
        [{'rows': 3, 'added': 1, 'removed': None}, {'rows': 1, 'added': 2, 'removed': None}]
        """
        return inspect_edits.stays(self._store, self._history.lives())

    def doctor(
        self, snapshot: int | str | Snapshot | None = None, *, listing: bool = False, **limits: float
    ) -> Diagnosis:
        """Why the table is slow or at risk at a `snapshot`: findings with evidence and the call that mends
        each, and what was looked at.

        Made from metadata; with `listing` the buckets are listed, too, for files that nothing names.
        `limits` are the fields of `insight.doctor.Limits`. `Table.mend` carries the calls out.

        >>> orders.inspect.doctor().summary
        'sound'
        >>> orders.inspect.doctor(runs=1).kinds
        ('sorted runs',)
        """
        return diagnose(self._store, self._snapshot(snapshot), limits_of(limits), listing=listing)

    def alarms(
        self,
        *,
        freshness: str | None = None,
        log_rows: int | None = None,
        write_amplification: float | None = None,
        moments: int = 32,
    ) -> AlarmHistory:
        """The figures of the table over its history (`.moments`), and the alarms of that time (`.alarms`):
        findings of the doctor with the figure they are about, when each began and ended, and the call that
        mends it.

        At most `moments` snapshots are looked at, evenly over the history, by the options of today. Also an
        alarm: no new rows for longer than `freshness` ("1 h"), more than `log_rows` of the log in no file, a
        `write_amplification` beyond a number. What is not a snapshot's is looked at now, and has no
        beginning.

        >>> _ = [orders.write([{"order_id": n, "amount": 1.0}]) for n in range(2)]
        >>> orders.with_options({"write-only": True}).inspect.alarms().summary
        '0 alarms; 4 of 4 snapshots looked at'
        """
        limits = AlarmLimits.of(freshness, log_rows, write_amplification)
        if isinstance(moments, bool) or not isinstance(moments, int) or moments < 1:
            raise InvalidRequest(f"moments {moments!r} must be a number of snapshots, from 1 on")
        view = partial(self._amplified.view, "snapshot")
        return alarm_history(self._store, self._snapshots.all(), view, limits, moments=moments)

    def readers(self, snapshot: int | str | Snapshot | None = None) -> Diagnosis:
        """Which engines and versions would read a `snapshot` wrongly: a finding each, with what they give,
        the cure and the source, and what is known of the others. Made from metadata.

        >>> orders.inspect.readers().kinds[0]
        'unmerged keys'
        """
        return readers(self._store, self._snapshot(snapshot))

    @naming_rows
    def amplification(
        self, per: str = "table", *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """Write, read and space amplification of the table, or `per` "snapshot", "bucket" or "level"; of one
        `partition`, of one `bucket`, or all.

        Bytes ingested are those of the data files that writers flushed, before any compaction; changelogs
        are counted separately. What reads open is the most they can: `runs`; `point_*` for one key, on
        average over the rows; `range_*` for a hundredth of the keys of every bucket. `compacted_bytes` of a
        fully compacted copy are exact or estimated, and `why`, with the sum; `space_min` to `space_max` holds
        the space amplification in 95 of 100 cases. Of a local table a sample of keys is read for that, 20 ms
        at most once a snapshot. All since `since_snapshot`; rows of a
        snapshot show the sums and the state after it. What moves rows out of postponed buckets counts with
        bucket -2.

        >>> _ = orders.compact(full=True)
        >>> orders.inspect.amplification("snapshot")["runs"].to_pylist()
        [1, 2, 1]
        """
        partition, bucket = self._place(partition, bucket)
        return self._amplified.view(per, partition=partition, bucket=bucket)

    def merging(
        self,
        snapshot: int | str | Snapshot | None = None,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        where: Predicate | str | None = None,
        between: tuple[float, float] | None = None,
        runs: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int = 10,
    ) -> Merging:
        """How the runs of a bucket become one row a key, for `limit` keys: inputs, winners of each column,
        output and why, from the table's own merge function.

        The bucket is that of `partition` and `bucket` in a `snapshot`; None: the one with most runs.
        `where` chooses keys by a condition on key columns; `between` by two places on the axis of
        `levels()`, 0 to 1. With `runs` only so many of the newest are merged: deletes are then kept, for
        the older ones. `options`: as if the table had these, such as another merge engine; nothing is
        stored.

        >>> orders.inspect.merging(where="order_id = 2").states["why"].to_pylist()
        ['sequence 3 > 1: the newest row wins, of L0 #2.']
        """
        partition, bucket = self._place(partition, bucket)
        at, store = self._snapshot(snapshot), self._store
        if options:
            store = store.with_schema(store.schema.with_options(options))
            validate(store.schema, store.options)
        return merging(
            store,
            at,
            KeyWindow(where, between, limit),
            partition=partition,
            bucket=bucket,
            newest=runs,
            origins=lambda names: self._origins.of(at, names),
        )

    def storage(self) -> Storage:
        """Every file below the table's directory: who wrote it, who needs it, when it may go; with its sums.

        `.files` are the rows, `.summary()` bytes by kind and state, `.holders()` by who keeps them, `.text`
        a screen of it. The bytes are those on disk.

        >>> data = orders.inspect.storage().summary().slice(0, 1).to_pylist()[0]
        >>> data["kind"], data["state"], data["files"]
        ('data', 'live', 2)
        """
        with self._store.manifests.naming_rows():
            return stored(self._store)

    def requests(self) -> Requests:
        """Requests to the object store so far, by kind: of this process, through this table's connection.

        The difference of two is what a commit, a plan or a scan between them took. None are counted for a
        table in a file system.

        >>> before = orders.inspect.requests()
        >>> print(orders.inspect.requests() - before)
        no requests
        """
        return requests_of(self._store.io)

    def plot(
        self,
        view: str,
        *,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        kind: str | None = None,
        how: str | None = None,
        **arguments: Any,
    ) -> Figure:
        """A chart of one `view` of this table's metadata, such as "commits" or "levels", see `Scan.plot` for
        `x`, `y`, `kind` and `how`; `arguments` are those of the view.

        Raises NotFound naming the nearest for an unknown view, and as `Scan.plot` does.

        >>> orders.inspect.plot("commits", x="snapshot_id", y="rows_added").data[0].y
        (3.0, 1.0)
        """
        views = self._views()
        if view not in views:
            raise NotFound.among("view with rows", view, views)
        rows = getattr(self, view)(**arguments)
        return doors.plot(rows, by="Inspect.plot", x=x, y=y, kind=kind, how=how)

    @classmethod
    def _views(cls) -> list[str]:
        """The names of the methods that give rows."""
        members = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
        return [
            n
            for n, member in members.items()
            if getattr(member, "__annotations__", {}).get("return") == "pa.Table"
        ]

    def _place(self, partition: str | None, bucket: int | None) -> tuple[str | None, int | None]:
        """A partition as "p=1" and a bucket, given in any form that views have.

        Raises InvalidRequest for what can name none, instead of finding nothing there.
        """
        partition, bucket = unwrapped(partition), unwrapped(bucket)
        if partition is not None:
            if not isinstance(partition, str):
                raise InvalidRequest(f"partition {partition!r} must be text such as 'p=1'")
            partition.encode()  # raises for half of a character, which `checked` names
        if bucket is not None and (isinstance(bucket, bool) or not isinstance(bucket, int)):
            raise InvalidRequest(f"bucket {bucket!r} must be a bucket's number, from 0 on")
        if bucket is not None and not 0 <= bucket <= INFINITE:
            raise InvalidRequest(f"bucket {bucket} must be a bucket's number, from 0 to {INFINITE}")
        return None if partition is None else partition_named(self._store, partition, self._at), bucket
