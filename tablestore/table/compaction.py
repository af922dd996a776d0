"""Compaction of a table, bucket by bucket: pick with its reason, rewrite, one COMPACT snapshot.

Engines ship buckets to their workers as tasks, in bytes: a worker calls `run_task`, which gives the commit
message. Buckets are independent; each holds one window of its runs in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import commit_message
from tablestore.format.commit_message import CommitMessage, CompactionTask, decode_task, encode_task
from tablestore.format.compaction_record import counts_of
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.io.confined import roots_of
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.bucket_compaction import compact_bucket, decide
from tablestore.lsm.compaction.compact_result import ReadListener
from tablestore.lsm.compaction.compaction_report import Compaction, Pick
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.open_writers import writing
from tablestore.meta.store import Store, partition_named
from tablestore.read.scan import parallel
from tablestore.table import append_compaction, postpone
from tablestore.table.bucket_choice import BucketChoice, Buckets, PartitionChoice
from tablestore.write.buckets import bucket_of
from tablestore.write.commit import synced
from tablestore.write.commit.commit_or_discard import commit_or_discard, discarded_on_error
from tablestore.write.commit.conflict_check import conflict_if_expired
from tablestore.write.commit.request import CommitRequest, Committed
from tablestore.write.progress import Part, Progress, ProgressCallback
from tablestore.write.routing.routing import BucketMode
from tablestore.write.supported import require_writable

__all__ = ["Compaction", "Pick", "compact", "compact_until_quiet", "look_up", "run_task", "tasks"]
Place = tuple[bytes, int]  # partition, bucket


def buckets_of(store: Store, choice: BucketChoice, snapshot: Snapshot | None) -> list[Bucket]:
    """The chosen buckets with their live files; of tables with deletion vectors with the index files, too.

    Postponed buckets are left out."""
    files: dict[tuple[bytes, int, int], list[DataFileMeta]] = defaultdict(list)
    for e in choice.entries(store, snapshot):
        files[e.partition, e.bucket, e.total_buckets].append(e.file)
    indexes: dict[tuple[bytes, int], list[IndexFileMeta]] = defaultdict(list)
    for i in store.manifests.index_entries(snapshot) if store.options.deletion_vectors else ():
        indexes[i.partition, i.bucket].append(i.file)
    return [
        bucket_of(store, p, b, total_buckets=total, files=some, index_files=indexes[p, b])
        for (p, b, total), some in files.items()
    ]


def compact(
    store: Store,
    *,
    full: bool,
    partition: PartitionChoice,
    bucket: Buckets,
    where: Predicate | str | None = None,
    pool: MemoryPool | None = None,
    progress: ProgressCallback | None = None,
) -> Compaction:
    """Pick, rewrite and commit in every chosen bucket. Rows that wait in postponed buckets are given theirs
    first; `pool` is the memory for that. `progress` is called with bytes."""
    require_compactable(store)
    choice = BucketChoice.of(store, partition, bucket, where)
    newest = store.newest()
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        done = _postponed(store, choice, newest.snapshot, pool)
        if done is not None:
            return done
    picks, messages, snapshot = [], [], newest.snapshot
    compacted_from = snapshot.id if snapshot is not None else 0
    written: list[CommitMessage] = []
    with conflict_if_expired(store, compacted_from):
        buckets = buckets_of(store, choice, snapshot)
    reported = Progress(store.env, "compaction", sum(b.size for b in buckets), progress)
    with (
        discarded_on_error(store, written),
        conflict_if_expired(store, compacted_from),
        store.manifests.naming_rows(),
        closing(_all_done(store, buckets, full, written, reported)) as done_so_far,
    ):
        for chosen, decision, message, part in done_so_far:
            records = () if message is None else message.compactions
            record = records[0] if records else None
            place = store.partition_text(chosen.partition), chosen.number
            picks.append(Pick(*place, decision, record=record))
            if message is not None:
                messages.append(message)
            unit = None if store.schema.primary_keys else decision.unit
            part.end(chosen.size if unit is None else unit.size)
    require_picks(store, picks, partition, snapshot)
    request = CommitRequest(store.fresh_user(), compacted_from=compacted_from, newest=newest)
    committed = commit_or_discard(store, messages, request) if messages else Committed()
    reported.end()
    return _finished(picks, committed, messages)


def require_compactable(store: Store) -> None:
    """Raise Unsupported for what this version does not compact."""
    require_writable(store.schema, store.options, roots=roots_of(store.io))


def _all_done(
    store: Store,
    buckets: Sequence[Bucket],
    full: bool,
    messages: list[CommitMessage],
    reported: Progress,
) -> Generator[tuple[Bucket, Decision, CommitMessage | None, Part]]:
    """The picks carried out in each bucket, in order; large buckets on threads (see
    `tablestore.scan.threads`).

    Every message goes into `messages` at once, so that its files can be deleted if another bucket fails.
    """

    def run(bucket: Bucket) -> Iterator[tuple[Bucket, Decision, CommitMessage | None, Part]]:
        partition = store.partition_text(bucket.partition)
        part = reported.part("/".join(t for t in (partition, f"bucket-{bucket.number}") if t))
        for decision, message in _done(bucket, full, part):
            if message is not None:
                messages.append(message)
            yield bucket, decision, message, part

    tasks = [partial(run, bucket) for bucket in buckets]
    threads = parallel.threads(store, [b.size for b in buckets])
    yield from parallel.in_order(tasks, threads=threads, size_of=lambda _: 1)


def compact_until_quiet(store: Store, **choice: Any) -> Compaction:
    """Compact pick by pick until no rule fires in the chosen buckets; one commit a round."""
    done = compact(store, full=False, **choice)
    last = done
    while last.busy and last.committed is not None and last.committed.snapshots:
        last = compact(store, full=False, **choice)
        done = done.then(last) if last.busy else done
    return done


def look_up(store: Store, places: frozenset[Place] | None, *, full: bool = False) -> tuple[int, ...]:
    """Compact the buckets (None: all) in which rows wait at level 0 (with `full`: above the oldest level),
    until none does or no rule fires; the ids of the snapshots made. Raises CommitConflict if another
    compaction came first."""
    ids: list[int] = []
    waits_below = store.options.num_levels - 1 if full else 1
    while True:
        latest = store.snapshots.latest()
        compacted_from = latest.id if latest is not None else 0
        choice = BucketChoice(lambda p: places is None or any(p == partition for partition, _ in places))
        messages: list[CommitMessage] = []
        with discarded_on_error(store, messages), conflict_if_expired(store, compacted_from):
            for bucket in buckets_of(store, choice, latest):
                chosen = places is None or (bucket.partition, bucket.number) in places
                if chosen and any(f.level < waits_below for f in bucket.files):
                    _, message = compact_bucket(bucket, full=full)
                    messages += [message] if message is not None else []
        if not messages:
            return tuple(ids)
        request = CommitRequest(store.env.uuid(), compacted_from=compacted_from)
        ids += commit_or_discard(store, messages, request).snapshots


def require_picks(
    store: Store, picks: list[Pick], partition: PartitionChoice, snapshot: Snapshot | None
) -> None:
    """Raise NotFound where there are no picks because the named partition has no rows."""
    if not picks and isinstance(partition, str) and partition:
        _require_partition(store, partition, snapshot)


def _require_partition(store: Store, partition: str, snapshot: Snapshot | None) -> None:
    """Raise NotFound, naming the nearest, unless the snapshot has rows of the partition."""
    if not store.schema.partition_keys:
        raise InvalidRequest(f"partition {partition!r}: the table has no partitions")
    live, _ = store.manifests.live_entries(snapshot).partitions()
    there = {store.partition_text(p) for p in live}
    if partition_named(store, partition) not in there:
        raise NotFound.among("partition", partition, there)


def _finished(picks: list[Pick], committed: Committed, messages: list[CommitMessage]) -> Compaction:
    counts = [counts_of(m.compact_before, m.compact_after) for m in messages]
    sums = (sum(c[name] for c in counts) for name in ("bytes_read", "bytes_written", "bytes_moved"))
    return Compaction(tuple(picks), committed, *sums)


def _done(
    bucket: Bucket, full: bool, on_read: ReadListener
) -> Iterator[tuple[Decision, CommitMessage | None]]:
    """The picks carried out in one bucket."""
    if bucket.schema.primary_keys:
        yield compact_bucket(bucket, full=full, on_read=on_read)
        return
    for decision, portion in append_compaction.decide(bucket, full=full):
        if portion is None:
            yield decision, None
        else:
            record = append_compaction.record_of(decision, portion)
            yield decision, append_compaction.run(portion, record, on_read)


def waiting_picks(
    store: Store, choice: BucketChoice, snapshot: Snapshot | None
) -> tuple[postpone.Waiting, dict[bytes, int], list[tuple[bytes, Decision]]] | None:
    """The rows of the chosen partitions that wait in postponed buckets: their files, how many buckets each
    partition has, and the decisions; None if there are none."""
    entries = store.manifests.live_entries(snapshot, partition=choice.partition)
    if not postpone.waiting(entries):
        return None
    entries = entries.of_partitions(choice.of_partitions(store))
    files = postpone.waiting(entries)
    if not files:
        return None
    buckets = postpone.totals(store, entries, files)
    return files, buckets, postpone.decisions(files, buckets)


def _postponed(
    store: Store, choice: BucketChoice, snapshot: Snapshot | None, pool: MemoryPool | None
) -> Compaction | None:
    """The compaction of rows that wait in postponed buckets; None if there are none."""
    waiting = waiting_picks(store, choice, snapshot)
    if waiting is None:
        return None
    files, buckets, decisions = waiting
    picks = [Pick(store.partition_text(p), POSTPONE_BUCKET, decision) for p, decision in decisions]
    memory = pool or MemoryPool(store.options.write_buffer_bytes)
    committed, messages = postpone.compact(store, files, buckets, memory)
    return _finished(picks, committed, messages)


def tasks(
    store: Store,
    *,
    full: bool,
    partition: PartitionChoice = None,
    bucket: Buckets = None,
    where: Predicate | str | None = None,
) -> list[bytes]:
    """Tasks for `run_task`, one for each chosen bucket that has something to compact, largest first."""
    require_compactable(store)
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        raise Unsupported("compaction of postponed buckets by an engine's tasks", "use Table.compact")
    latest = store.snapshots.latest_id() or 0
    due_tasks: list[CompactionTask] = []
    choice = BucketChoice.of(store, partition, bucket, where)
    with conflict_if_expired(store, latest):
        for chosen in buckets_of(store, choice, store.snapshots.latest()):
            if store.schema.primary_keys:
                due = decide(chosen, full=full, now_ms=store.env.local_now_ms()).unit is not None
                due_tasks += [_task(chosen, latest, full=full)] if due else []
                continue
            for decision, portion in append_compaction.decide(chosen, full=full):
                if portion is not None:
                    record = append_compaction.record_of(decision, portion)
                    due_tasks.append(_task(portion, latest, planned=record))
    due_tasks.sort(key=lambda task: task.size, reverse=True)
    return list(map(encode_task, due_tasks))


def _task(bucket: Bucket, snapshot: int, **facts: Any) -> CompactionTask:
    place = bucket.partition, bucket.number, bucket.total_buckets
    return CompactionTask(*place, bucket.files, bucket.index_files, snapshot=snapshot, **facts)


def run_task(store: Store, data: bytes) -> bytes | None:
    """Carry out a task of `tasks`; the commit message as bytes, None if there was nothing to do. Commits
    nothing."""
    task = decode_task(data)
    some: dict[str, Any] = {"files": task.files, "index_files": task.index_files}
    bucket = bucket_of(store, task.partition, task.bucket, total_buckets=task.total_buckets, **some)
    with writing(store, handed_over=True), conflict_if_expired(store, task.snapshot):
        if task.planned is not None:
            message: CommitMessage | None = append_compaction.run(bucket, task.planned)
        else:
            _, message = compact_bucket(bucket, full=task.full)
    if message is None:
        return None
    synced.sync_messages(store, [message])
    return commit_message.encode(replace(message, compacted_from=task.snapshot))
