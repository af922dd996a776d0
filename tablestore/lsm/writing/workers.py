"""Workers: the threads on which one write flushes and prepares buckets while another thread reads its rows.

Encoding a file rarely needs the interpreter's lock, so it uses a second core. Jobs start in the order of
submission, and results come in that order too, so a write gives the same result with any number of threads.
With no threads everything runs in the caller's. Belongs to one thread, which must `close` it; a job touches
only its own bucket. Used by `write.table_write` and by writers of buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")
_START_SECONDS = 1.0


class Workers:
    """Up to `threads` threads, started when there is work for them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None

    @property
    def idle(self) -> bool:
        """Whether there are no threads."""
        return self._threads < 1

    def begin(self, job: Callable[[], T]) -> Future[T]:
        """Start a job; returns the future of its result."""
        assert not self.idle, "there are no threads"
        if self._executor is None:
            self._executor = self._started()
        return self._executor.submit(job)

    def _started(self) -> ThreadPoolExecutor:
        """The executor, with all threads running: one that is interrupted while it starts would be unknown to
        the executor, which then would not wait for it."""
        executor = ThreadPoolExecutor(self._threads, thread_name_prefix="tablestore-write")
        together = Barrier(self._threads)
        wait([executor.submit(together.wait, _START_SECONDS) for _ in range(self._threads)])
        return executor

    def every(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all jobs in order. The first error is raised after all have ended."""
        if self.idle or len(jobs) < 2:
            return [job() for job in jobs]
        begun = [self.begin(job) for job in jobs]
        wait(begun)
        return [future.result() for future in begun]

    def close(self) -> None:
        """End the threads: waits for running jobs; queued ones (of an aborted write) are not started."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
