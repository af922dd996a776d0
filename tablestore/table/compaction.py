"""Compaction of a table, bucket by bucket: pick with its reason, rewrite, one COMPACT snapshot.

A bucket's task is a commit message whose `new_files` are the bucket's live files, as bytes: a Spark task runs
`run_task`, and hands back the commit message of what it did. Buckets are independent; a task holds one
window of its runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from tablestore.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import commit_message
from tablestore.format.commit_message import CommitMessage
from tablestore.format.index_manifest import IndexFileMeta
from tablestore.format.manifest import DataFileMeta
from tablestore.format.predicate import Predicate
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm import compact_task
from tablestore.lsm.decision import Decision
from tablestore.lsm.deletions import BucketDeletions
from tablestore.lsm.memory import MemoryPool
from tablestore.lsm.merge.expire import expired_files
from tablestore.meta.store import Store
from tablestore.table import append_compaction, postpone
from tablestore.table.bucket_choice import BucketChoice, Buckets, PartitionChoice
from tablestore.write.bucket_mode import BucketMode
from tablestore.write.commit import CommitRequest, Committed, Committer
from tablestore.write.support import require_writable
from tablestore.write.table_write import discard, refused_leaves_nothing


@dataclass(frozen=True, slots=True)
class Pick:
    """What one bucket's compaction is or would be. `partition` as text."""

    partition: str
    bucket: int
    decision: Decision

    @property
    def text(self) -> str:
        """One line: where, what, why."""
        bucket = "bucket-postpone" if self.bucket == POSTPONE_BUCKET else f"bucket-{self.bucket}"
        where = "/".join(t for t in (self.partition, bucket) if t)
        what = self.decision.unit.text if self.decision.unit else "nothing"
        return f"{where}: {what}, because {self.decision.reason.text}"


@dataclass(frozen=True, slots=True)
class Compaction:
    """Every bucket's pick; `committed` is None after a dry run."""

    picks: tuple[Pick, ...]
    committed: Committed | None = None
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def text(self) -> str:
        """What happened (or would), a line for each bucket that has work."""
        busy = [p for p in self.picks if p.decision.unit]
        lines = [p.text for p in busy] or [p.text for p in self.picks[:1]] or ["no buckets"]
        if self.committed is not None and self.committed.snapshot is not None:
            read, wrote = self.bytes_read / 1e6, self.bytes_written / 1e6
            lines.append(f"snapshot {self.committed.snapshot}: read {read:.1f} MB, wrote {wrote:.1f} MB")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Compaction({self.text})"


def _buckets(store: Store, choice: BucketChoice) -> list[CommitMessage]:
    """Live files of each chosen bucket, as the `new_files` of a message; its index files as `new_index`.

    Rows that wait in postponed buckets are no part of it."""
    latest = store.snapshots.latest()
    files: dict[tuple[bytes, int, int], list[DataFileMeta]] = defaultdict(list)
    for e in choice.entries(store, latest):
        files[e.partition, e.bucket, e.total_buckets].append(e.file)
    indexes: dict[tuple[bytes, int], list[IndexFileMeta]] = defaultdict(list)
    for i in store.manifests.index_entries(latest) if store.options.deletion_vectors else ():
        indexes[i.partition, i.bucket].append(i.file)
    return [
        CommitMessage(p, b, total, new_files=tuple(some), new_index=tuple(indexes[p, b]))
        for (p, b, total), some in files.items()
    ]


def _deletions(store: Store, task: CommitMessage) -> BucketDeletions | None:
    """The deletion vectors of a task's bucket, on tables that have them."""
    if not store.options.deletion_vectors:
        return None
    path = partial(store.index_path, task.partition, task.bucket)
    return BucketDeletions(store.env, store.io, path, task.new_index, store.options.bitmap64)


def _decide(store: Store, task: CommitMessage, full: bool) -> Decision:
    return compact_task.decide(
        store.schema,
        store.options,
        task.new_files,
        full=full,
        now_ms=store.env.local_now_ms(),
        deletions=_deletions(store, task),
        expired=expired_files(store.env, store.schema_of, store.schema, store.options, task.new_files),
    )


def _run(store: Store, task: CommitMessage, full: bool) -> tuple[Decision, CommitMessage | None]:
    return compact_task.compact_bucket(
        store.env,
        store.io,
        store.schema_of,
        store.schema,
        store.options,
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        directory=store.bucket_dir(task.partition, task.bucket),
        files=task.new_files,
        full=full,
        deletions=_deletions(store, task),
    )


def compact(
    store: Store,
    *,
    full: bool,
    dry_run: bool,
    partition: PartitionChoice,
    bucket: Buckets,
    where: Predicate | None = None,
    pool: MemoryPool | None = None,
) -> Compaction:
    """Pick (and, without `dry_run`, rewrite and commit) in every chosen bucket. Rows that wait in postponed
    buckets are given theirs first; `pool` is the memory for that."""
    require_writable(store.schema, store.options)
    choice = BucketChoice.of(store, partition, bucket, where)
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        done = _postponed(store, choice, dry_run, pool)
        if done is not None:
            return done
    picks, messages, seen = [], [], store.snapshots.latest_id() or 0
    try:
        for task in _buckets(store, choice):
            for decision, message in _done(store, task, full, dry_run):
                picks.append(Pick(store.partition_text(task.partition), task.bucket, decision))
                if message is not None:
                    messages.append(message)
    except BaseException:
        discard(store, messages)
        raise
    if not picks and isinstance(partition, str) and partition:
        _require_partition(store, partition)
    if dry_run:
        return Compaction(tuple(picks))
    with refused_leaves_nothing(store, messages):
        request = CommitRequest(store.env.uuid(), compacted_from=seen)
        committed = Committer(store).commit(messages, request) if messages else Committed()
    return _finished(picks, committed, messages)


def _require_partition(store: Store, partition: str) -> None:
    """Raise NotFound, naming the nearest, unless the newest snapshot has rows of the partition."""
    if not store.schema.partition_keys:
        raise InvalidRequest(f"partition {partition!r}: the table has no partitions")
    live, _ = store.manifests.live_entries(store.snapshots.latest()).partitions()
    there = {store.partition_text(p) for p in live}
    if partition not in there:
        raise NotFound.among("partition", partition, there)


def _finished(picks: list[Pick], committed: Committed, messages: list[CommitMessage]) -> Compaction:
    read = sum(f.file_size for m in messages for f in m.compact_before)
    written = sum(f.file_size for m in messages for f in _new(m))
    return Compaction(tuple(picks), committed, read, written)


def _done(
    store: Store, task: CommitMessage, full: bool, dry_run: bool
) -> Iterator[tuple[Decision, CommitMessage | None]]:
    """Each pick in one bucket, carried out unless it is a dry run."""
    if store.schema.primary_keys:
        yield (_decide(store, task, full), None) if dry_run else _run(store, task, full)
        return
    for decision, unit in append_compaction.decide(store, task, task.new_index, full=full):
        yield decision, None if dry_run or unit is None else append_compaction.run(store, unit)


def _postponed(
    store: Store, choice: BucketChoice, dry_run: bool, pool: MemoryPool | None
) -> Compaction | None:
    """The compaction of rows that wait in postponed buckets; None if there are none."""
    entries = store.manifests.live_entries(store.snapshots.latest(), partition=choice.partition)
    if not postpone.waiting(entries):
        return None
    entries = entries.of_partitions(choice.of_partitions(store))
    files = postpone.waiting(entries)
    if not files:
        return None
    buckets = postpone.totals(store, entries, files)
    picks = [
        Pick(store.partition_text(p), POSTPONE_BUCKET, decision)
        for p, decision in postpone.decisions(files, buckets)
    ]
    if dry_run:
        return Compaction(tuple(picks))
    memory = pool or MemoryPool(store.options.write_buffer_bytes)
    committed, messages = postpone.compact(store, files, buckets, memory)
    return _finished(picks, committed, messages)


def _new(message: CommitMessage) -> list[DataFileMeta]:
    """Files a compaction wrote, moved ones left out."""
    before = {f.file_name for f in message.compact_before}
    return [f for f in message.compact_after if f.file_name not in before]


def tasks(
    store: Store,
    *,
    full: bool,
    partition: PartitionChoice = None,
    bucket: Buckets = None,
    where: Predicate | None = None,
) -> list[bytes]:
    """Tasks for `run_task`, one for each chosen bucket in which something would happen, largest first."""
    require_writable(store.schema, store.options)
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        raise Unsupported("compaction of postponed buckets by an engine's tasks", "use Table.compact")
    found, seen = [], store.snapshots.latest_id() or 0
    for task in _buckets(store, BucketChoice.of(store, partition, bucket, where)):
        if store.schema.primary_keys:
            found += [task] if _decide(store, task, full).unit is not None else []
        else:
            units = append_compaction.decide(store, task, task.new_index, full=full)
            found += [unit for _, unit in units if unit is not None]
    found.sort(key=lambda t: -sum(f.file_size for f in t.new_files))
    return [commit_message.encode(replace(t, seen=seen)) for t in found]


def run_task(store: Store, task: bytes, *, full: bool) -> bytes | None:
    """Compact one bucket; the commit message as bytes, None if nothing was to be done. Nothing is committed
    here."""
    wanted = commit_message.decode(task)
    if store.schema.primary_keys:
        _, message = _run(store, wanted, full)
    else:
        message = append_compaction.run(store, wanted)
    return None if message is None else commit_message.encode(replace(message, seen=wanted.seen))
