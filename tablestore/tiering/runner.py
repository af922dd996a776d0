"""Where the tasks of a round run: on threads of this process, or on the workers of an engine of `flow`.

Workers get the address of the cluster and offsets, and give commit messages; rows stay with them. The commit
is this process's. What a worker that was killed has written nobody commits: the removal of orphan files finds
it.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import RoundStopped
from tablestore.flow.runner import TaskPool
from tablestore.tiering.committer import SplitResult
from tablestore.tiering.readers import (
    BoundedSplitReader,
    Observe,
    ReadSeconds,
    SplitProgress,
    SplitTask,
    discard,
)
from tablestore.tiering.splits import TieredBucket

Stopped = Callable[[], bool]
_LOOK_SECONDS = 0.1  # between two looks whether a round is given up


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What all tasks of a round gave, and where their time went, summed over tasks."""

    results: tuple[SplitResult, ...]
    seconds: ReadSeconds


class TaskRunner(Protocol):
    """Runs the tasks of rounds. Safe to share between rounds."""

    @property
    def parallel(self) -> int:
        """How many tasks of a round run at a time."""

    def run(self, tasks: Sequence[SplitTask], *, observe: Observe, stopped: Stopped) -> TaskResult:
        """The results of all tasks; if one fails its error, and the files of the others are deleted."""

    def close(self) -> None:
        """Let go of threads and processes."""


class ThreadRunner:
    """Runs tasks on `threads` threads, which all rounds share."""

    def __init__(self, threads: int = 2, *, env: Env = SYSTEM) -> None:
        self._pool, self._env = ThreadPoolExecutor(threads, thread_name_prefix="tiering"), env
        self._threads = threads

    @property
    def parallel(self) -> int:
        """The number of threads."""
        return self._threads

    def run(self, tasks: Sequence[SplitTask], *, observe: Observe, stopped: Stopped) -> TaskResult:
        """The results of all tasks; the first error stops the others."""
        failed = threading.Event()
        readers = [
            BoundedSplitReader(task, observe, lambda: failed.is_set() or stopped(), self._env)
            for task in tasks
        ]

        def run(reader: BoundedSplitReader) -> list[SplitResult]:
            try:
                return reader.run()
            except BaseException:
                failed.set()
                raise

        pending = [self._pool.submit(run, reader) for reader in readers]
        return gathered(tasks, pending, readers)

    def close(self) -> None:
        """Wait for the threads to end."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def gathered(
    tasks: Sequence[SplitTask],
    pending: Sequence[Future[list[SplitResult]]],
    readers: Sequence[BoundedSplitReader],
) -> TaskResult:
    """The results once all have ended; raises the error that came first."""
    results: list[SplitResult] = []
    errors: list[BaseException] = []
    for future in pending:
        error = future.exception()
        if error is None:
            results += future.result()
        else:
            errors.append(error)
    if errors:
        discard(tasks[0], results)
        raise _cause(errors)
    seconds = ReadSeconds(sum(r.seconds.fetch for r in readers), sum(r.seconds.write for r in readers))
    return TaskResult(tuple(results), seconds)


def _cause(errors: Sequence[BaseException]) -> BaseException:
    """The error that the others follow from: not that the round was stopped."""
    return next((e for e in errors if not isinstance(e, RoundStopped)), errors[0])


class PoolRunner:
    """Runs tasks by the workers of a pool, which all rounds share. How far a split is is seen when its task
    has ended; a round that is given up ends at once where its workers are of this machine."""

    def __init__(self, pool: TaskPool) -> None:
        self._pool = pool

    @property
    def parallel(self) -> int:
        """The tasks that the pool carries out at a time."""
        return self._pool.most

    def run(self, tasks: Sequence[SplitTask], *, observe: Observe, stopped: Stopped) -> TaskResult:
        """The results of all tasks; an error is raised once the others have ended."""
        ended: list[_SplitAnswer] = []

        def done(_: int, answer: _SplitAnswer) -> None:
            ended.append(answer)
            for progress in answer.moved:
                observe(progress)

        with tempfile.TemporaryDirectory(prefix="tablestore-round-") as folder:
            mark = Path(folder, "stopped")
            try:
                with _marked(mark, stopped):
                    answers = self._pool.run(_SplitReading(str(mark)), tasks, done=done)
                if stopped():
                    raise RoundStopped()
            except BaseException:
                discard(tasks[0], [result for answer in ended for result in answer.results])
                raise
        fetch, write = (sum(getattr(a.seconds, what) for a in answers) for what in ("fetch", "write"))
        results = tuple(result for answer in answers for result in answer.results)
        return TaskResult(results, ReadSeconds(fetch, write))

    def close(self) -> None:
        """Let go of the pool's workers."""
        self._pool.close()


@dataclass(frozen=True, slots=True)
class _SplitAnswer:
    """What a worker gives for a task."""

    results: tuple[SplitResult, ...]
    moved: tuple[SplitProgress, ...]
    seconds: ReadSeconds


@dataclass(frozen=True, slots=True)
class _SplitReading:
    """What a worker does with a task, until the file `mark` is there."""

    mark: str

    def __call__(self, task: SplitTask) -> _SplitAnswer:
        moved: dict[TieredBucket, SplitProgress] = {}

        def observe(progress: SplitProgress) -> None:
            moved[progress.split.table_bucket] = progress

        reader = BoundedSplitReader(task, observe, Path(self.mark).exists)
        return _SplitAnswer(tuple(reader.run()), tuple(moved.values()), reader.seconds)


@contextmanager
def _marked(mark: Path, stopped: Stopped) -> Iterator[None]:
    """Make the file `mark` as soon as `stopped`, in a thread that ends with the block."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            if stopped():
                return mark.touch()

    thread = threading.Thread(target=look, name="tiering round stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
