"""Keeping a table: compaction, expiry, tags and branches, statistics, orphans, what is wrong with it.

What needs more than a few lines is in `compaction`, `history` and above `insight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from tablestore import doors
from tablestore.core.arguments import checked_but
from tablestore.core.errors import CommitUnknown, InvalidRequest, NotFound, TablestoreError
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta import open_writers, statistics
from tablestore.meta.statistics import Statistics
from tablestore.read.scan import time_travel
from tablestore.read.table_log import embedded_log_of
from tablestore.table import compaction, history
from tablestore.table.compaction import Compaction
from tablestore.table.lazy_read import column_names
from tablestore.table.log_of import require_log_ends_at
from tablestore.table.refs import Branches, Consumers, Tags, milliseconds
from tablestore.table.scan import snapshot_scan
from tablestore.table.table_facts import TableFacts
from tablestore.table.writes import batch_request, expired_after, finished
from tablestore.write import analyze as columns_of
from tablestore.write.commit.committer import Committed, Committer
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention import orphans, rollback
from tablestore.write.retention.expire import Expiry
from tablestore.write.retention.expire_partitions import PartitionExpiry
from tablestore.write.retention.orphans import Orphans
from tablestore.write.retention.rollback import Rollback

if TYPE_CHECKING:
    from tablestore.doors import ClusterPlan, ClusterSpec, HistoryWhatIf, Violations

_MERGE_ALL = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}


@checked_but("bucket", "columns", "options", "partition", "where")
class TableKeeping(TableFacts):
    """The verbs of a table that keep it in shape; rows stay what they are."""

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
        table, store = self._handle, self.store
        if not dry_run and table.log is None:  # the compaction looks itself whether the table is there
            table.require_not_past()
        elif not dry_run:
            table.require_present()
        if until_quiet and (full or dry_run):
            raise InvalidRequest("until_quiet goes on by the rules: it goes with neither full nor dry_run")
        if dry_run:
            then = store if table.at is None else time_travel.at(store, table.at)
            return doors.dry_run(then, full=full, at=table.at, **chosen)
        if not store.options.tiering_enabled:  # rounds of tiering bring what the log has
            finished(table)
        with open_writers.writing(store):
            if until_quiet:
                done = compaction.compact_until_quiet(store, **chosen, progress=progress)
            else:
                done = compaction.compact(store, full=full, **chosen, progress=progress)
        if isinstance(done.committed, Committed) and done.committed.snapshots:
            done = replace(done, committed=expired_after(table, done.committed))
        if store.options.write_only:  # its writers leave the old rows of a log to this job
            history.expire_log(table)
        return done

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

    @overload
    def what_if(
        self,
        options: Mapping[str, Any],
        *,
        baseline: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
        cluster: None = None,
    ) -> HistoryWhatIf: ...

    @overload
    def what_if(
        self, options: Mapping[str, Any] | None = None, *, cluster: ClusterSpec | Mapping[str, Any]
    ) -> ClusterPlan: ...

    def what_if(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        baseline: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
        cluster: ClusterSpec | Mapping[str, Any] | None = None,
    ) -> HistoryWhatIf | ClusterPlan:
        """How compaction would have gone under other `options`: the table's history, replayed over metadata.

        It stands beside what the table's own options give or, with `baseline`, what those do. Nothing is
        changed. Goes back as far as there are snapshots. `progress(done, all)` is called after each commit;
        what it raises ends the replay. Raises InvalidRequest for options that change nothing about
        compaction.

        With `cluster` it says how many buckets and workers so many rows a second need, with its sums:
        `rows_per_second`, `freshness` ("1 min"), `cores` of a worker, `latency` of the store, and the other
        fields of `insight.simulator.cluster.ClusterSpec`. Rows are upserts of the table's keys alike.

        >>> orders.what_if({"num-sorted-run.compaction-trigger": 2}).reproduced
        True
        >>> orders.what_if(cluster={"rows_per_second": 100, "freshness": "1 min"}).buckets
        1
        """
        if cluster is not None:
            if baseline is not None or progress is not None:
                raise InvalidRequest("cluster= is no replay: leave baseline and progress out")
            return doors.what_if_cluster(self.store, cluster, options)
        if options is None:
            raise InvalidRequest("what_if needs options to replay the history under, or cluster=")
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
        self._handle.require_present()
        store = self.store
        if sum(v is not None for v in (snapshot, tag, timestamp)) != 1:
            raise InvalidRequest("give exactly one of snapshot, tag and timestamp")
        if timestamp is not None:
            target = time_travel.at_or_before(store, time_travel.millis_of(timestamp))
        else:
            target = rollback.target_of(store, snapshot=snapshot, tag=tag)
        require_log_ends_at(store, target, "rollback")
        return rollback.rollback(store, target)

    def analyze(self, columns: Sequence[str] | None = None) -> Committed:
        """Statistics of the newest snapshot, read and kept in one ANALYZE snapshot; `inspect.statistics()`.

        `columns` are those to add up (None: all, []: rows only). Distinct counts above 65,536 are estimates,
        within about 2 %. Raises NotFound for a table without snapshots.

        >>> orders.analyze(["customer"]).snapshot
        3
        """
        self._handle.require_present()
        store = self.store
        snapshot = store.snapshots.latest()
        if snapshot is None:
            raise NotFound("the table has no snapshot to analyze yet")
        chosen = column_names(columns)
        names = store.schema.shown.names if chosen is None else chosen
        scan = snapshot_scan(store, snapshot, names or store.schema.shown.names[:1])
        fields = store.schema.columns(scan.names if names else ())
        rows, by_column = columns_of.analyze(scan.to_batches(), fields)
        live = store.manifests.live_entries(snapshot)
        physical, size = sum(e.file.row_count for e in live), sum(e.file.file_size for e in live)
        share = size * rows // physical if physical else 0
        name = statistics.write(store, Statistics(snapshot.id, store.schema.id, rows, share, by_column))
        try:
            return Committer(store).commit_statistics(name, batch_request(store))
        except CommitUnknown:
            raise
        except TablestoreError:
            store.io.delete(store.paths.statistics(name))
            raise

    def compact_manifests(self) -> Committed:
        """Merge all manifests of the newest snapshot, in one COMPACT snapshot of the same rows and files, as
        Paimon's procedure does; nothing if they are merged.

        >>> orders.compact_manifests().snapshot
        3
        """
        self._handle.require_present()
        store = self.store
        snapshot = store.snapshots.latest()
        manifests = [] if snapshot is None else store.manifests.manifests(snapshot)
        if len(manifests) < 2 and not any(m.num_deleted for m in manifests):
            return Committed()
        whole = store.schema.with_options(_MERGE_ALL)
        return Committer(store.with_schema(whole)).merge_manifests(batch_request(store))

    def remove_orphans(
        self, older_than: str | timedelta = "1 d", *, dry_run: bool = True, force: bool = False
    ) -> Orphans:
        """The files of the table's directory that killed writers left and nothing names; with `dry_run=False`
        they are removed.

        Files younger than `older_than` stay: they may be those of running writers. Those of writers that
        are open for longer stay, too; the answer names these writers. An age below a minute needs `force`,
        which says that nobody writes. Raises InvalidRequest for what is no duration.

        >>> len(orders.remove_orphans().files)
        0
        """
        age, store = milliseconds(older_than, "older_than"), self.store
        unnamed = orphans.remove_orphans(store, older_than_ms=age, dry_run=dry_run, force=force)
        log = embedded_log_of(store)
        if log is None:
            return unnamed
        age = open_writers.sparing(age, unnamed.writers, store.env.now_ms())
        parts = log.remove_orphans(older_than_ms=age, dry_run=dry_run)
        return replace(unnamed, files=tuple(sorted({*unnamed.files, *parts})))

    def check(self, *, progress: ProgressCallback | None = None) -> Violations:
        """The violations of the invariants, found by reading the whole table anew; empty means sound. Never
        raises for a damaged table. A list that shows itself in a notebook, with a `text`. `progress` as in
        `compact`. Memory: about 2 kB for each file.

        >>> orders.check()
        []
        """
        return doors.check(self.store, log=self._handle.log, progress=progress)
