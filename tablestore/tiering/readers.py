"""Reading splits and writing their rows: what a task of a round does.

A reader has no state but the offset of each bucket: a task that is done again begins with the same offsets. A
split ends at its `stop`, whatever rows there are: offsets may lack rows, and batches may be empty or cut. The
logs of all splits of a task are read at once; each split has a writer of its own. Tasks are bounded in their
number of splits, so that the rows that wait in writers are, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import RoundStopped, Unavailable
from tablestore.fluss.log_records import BatchMark
from tablestore.tiering.cluster import ClusterTable, LakeTieringFactory, LakeWriter, RowBatch, TieringCluster
from tablestore.tiering.committer import SplitResult
from tablestore.tiering.splits import TieredBucket, TieringSnapshotSplit, TieringSplit

T = TypeVar("T")
MOST_SPLITS = 32
"""Splits of a task."""


@dataclass(slots=True)
class SplitProgress:
    """How far a split is: the offset up to which it is read, rows and bytes so far, when work on it began and
    ended (seconds after 1970). `gone`: its partition was dropped, it has no result. `mark`: the batch of the
    log that was read last."""

    split: TieringSplit
    offset: int
    rows: int = 0
    bytes: int = 0
    started: float | None = None
    ended: float | None = None
    gone: bool = False
    mark: BatchMark | None = None


@dataclass(slots=True)
class ReadSeconds:
    """Where a task's time went: waiting for rows and decoding them, and writing them."""

    fetch: float = 0.0
    write: float = 0.0


@dataclass(frozen=True, slots=True)
class SplitTask:
    """The splits that one task reads, and the lake that it writes to. Picklable."""

    cluster: TieringCluster
    factory: LakeTieringFactory
    table: ClusterTable
    splits: tuple[TieringSplit, ...]
    replaces: bool = False


Observe = Callable[[SplitProgress], None]


@dataclass(slots=True)
class BoundedSplitReader:
    """Reads the splits of one task to their ends. Belongs to one thread; `run` once.

    `observe` is called as splits move on; `stopped` says that the round is given up.
    """

    task: SplitTask
    observe: Observe = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    env: Env = SYSTEM
    seconds: ReadSeconds = field(default_factory=ReadSeconds)
    _progress: dict[TieredBucket, SplitProgress] = field(default_factory=dict)
    _writers: dict[TieredBucket, LakeWriter] = field(default_factory=dict)

    def run(self) -> list[SplitResult]:
        """The results of all splits but those whose partition was dropped. Raises RoundStopped if the round
        was stopped; whatever it raises, the files are deleted."""
        try:
            self._progress = {
                split.table_bucket: SplitProgress(split, split.log_start) for split in self.task.splits
            }
            self._read_snapshots()
            self._read_logs()
            return self._completed()
        except BaseException:
            for writer in self._writers.values():
                writer.abort()
            raise

    def _read_snapshots(self) -> None:
        task = self.task
        for split in task.splits:
            if isinstance(split, TieringSnapshotSplit):
                for rows in self._timed(task.cluster.read_snapshot(task.table, split)):
                    self._write(split.table_bucket, RowBatch(rows, None, -1, -1))

    def _read_logs(self) -> None:
        task = self.task
        splits = [split for split in task.splits if split.log_start < split.stop]
        for step in self._timed(task.cluster.read_log(task.table, splits)) if splits else ():
            progress = self._progress[step.table_bucket]
            if step.gone:
                progress.gone = True
                if step.table_bucket in self._writers:
                    self._writers.pop(step.table_bucket).abort()
            elif step.batch is not None:
                self._write(step.table_bucket, step.batch)
            progress.offset = max(progress.offset, step.offset)
            progress.mark = step.mark or progress.mark
            self.observe(progress)
        for progress in self._progress.values():
            if not progress.gone and progress.offset < progress.split.stop:
                raise Unavailable(f"{progress.split}: the rows end at offset {progress.offset}")

    def _timed(self, steps: Iterator[T]) -> Iterator[T]:
        """The same; the time until each comes is counted. Raises RoundStopped once the round is stopped."""
        while True:
            if self.stopped():
                raise RoundStopped()
            began = self.env.monotonic()
            step = next(steps, None)
            self.seconds.fetch += self.env.monotonic() - began
            if step is None:
                return
            yield step

    def _write(self, place: TieredBucket, batch: RowBatch) -> None:
        progress, task = self._progress[place], self.task
        began = self.env.monotonic()
        if progress.started is None:
            progress.started = self.env.now_ms() / 1000
        if batch.rows.num_rows:
            if place not in self._writers:
                self._writers[place] = task.factory.create_writer(
                    task.table, progress.split, replaces=task.replaces
                )
            self._writers[place].write(batch)
            progress.rows += batch.rows.num_rows
            progress.bytes += batch.rows.nbytes
        self.seconds.write += self.env.monotonic() - began

    def _completed(self) -> list[SplitResult]:
        began = self.env.monotonic()
        results: list[SplitResult] = []
        try:
            for place, progress in self._progress.items():
                if progress.gone:
                    continue
                writer = self._writers.get(place)
                result = None if writer is None else writer.complete()
                self._writers.pop(place, None)
                results.append(SplitResult(progress.split, result, progress.rows, progress.mark))
                progress.ended = self.env.now_ms() / 1000
                self.observe(progress)
        except BaseException:
            discard(self.task, results)
            raise
        self.seconds.write += self.env.monotonic() - began
        return results


def discard(task: SplitTask, results: Sequence[SplitResult]) -> None:
    """Delete the files of results that nobody commits."""
    written = [result.result for result in results if result.result is not None]
    if written:
        committer = task.factory.create_committer(task.table)
        committer.abort(committer.to_committable(written))


def tasks_of(
    cluster: TieringCluster,
    factory: LakeTieringFactory,
    table: ClusterTable,
    splits: Sequence[TieringSplit],
    *,
    replaces: bool,
    parallel: int,
) -> list[SplitTask]:
    """The splits dealt to at least `parallel` tasks, if there are so many, the larger ones first, so that
    tasks have about as many offsets each."""
    count = max(min(parallel, len(splits)), -(-len(splits) // MOST_SPLITS))
    parts: list[list[TieringSplit]] = [[] for _ in range(count)]
    by_size = sorted(splits, key=lambda each: each.log_start - each.stop)
    for i, split in enumerate(by_size):
        turn, at = divmod(i, count)
        parts[at if turn % 2 == 0 else count - 1 - at].append(split)
    return [SplitTask(cluster, factory, table, tuple(part), replaces) for part in parts]
