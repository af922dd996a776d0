"""Where the tasks of a round run: on threads of this process, or (`tablestore.spark.tiering`) on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import RoundStopped
from tablestore.tiering.committer import SplitResult
from tablestore.tiering.readers import BoundedSplitReader, Observe, ReadSeconds, SplitTask, discard

Stopped = Callable[[], bool]


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
        """Let go of threads."""


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
            BoundedSplitReader(one, observe, lambda: failed.is_set() or stopped(), self._env) for one in tasks
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
    done: list[tuple[SplitTask, list[SplitResult]]] = []
    errors: list[BaseException] = []
    for task, one in zip(tasks, pending, strict=True):
        error = one.exception()
        if error is None:
            done.append((task, one.result()))
            results += one.result()
        else:
            errors.append(error)
    if errors:
        for task, found in done:
            discard(task, found)
        raise _cause(errors)
    seconds = ReadSeconds(sum(r.seconds.fetch for r in readers), sum(r.seconds.write for r in readers))
    return TaskResult(tuple(results), seconds)


def _cause(errors: Sequence[BaseException]) -> BaseException:
    """The error that the others follow from: not that the round was stopped."""
    return next((e for e in errors if not isinstance(e, RoundStopped)), errors[0])
