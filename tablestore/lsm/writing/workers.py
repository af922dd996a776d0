"""Workers: the threads on which one write flushes and prepares buckets beside the thread that reads its rows.

Encoding a file hardly holds the interpreter's lock, so a second core takes it over. Jobs start in the order
in which they were given; results come in that order too, so a write ends the same with any number of threads.
With none everything runs in the caller's. Belongs to one thread, which must `close` it; jobs touch nothing
but their own bucket. Used by `write.table_write` and by writers of buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")
_START_SECONDS = 1.0


class Workers:
    """At most `threads` threads, started when there is work for them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None

    @property
    def idle(self) -> bool:
        """Whether there are no threads to give work to."""
        return self._threads < 1

    def begin(self, job: Callable[[], T]) -> Future[T]:
        """Start a job; its result, or what it raised, is in the future."""
        assert not self.idle, "there are no threads"
        if self._executor is None:
            self._executor = self._started()
        return self._executor.submit(job)

    def _started(self) -> ThreadPoolExecutor:
        """Threads that run before they get work: one that an interrupt meets while it starts is unknown to
        its executor, which then does not wait for what it does."""
        executor = ThreadPoolExecutor(self._threads, thread_name_prefix="tablestore-write")
        together = Barrier(self._threads)
        wait([executor.submit(together.wait, _START_SECONDS) for _ in range(self._threads)])
        return executor

    def every(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all jobs in their order. The first that fails is raised, after all have ended."""
        if self.idle or len(jobs) < 2:
            return [job() for job in jobs]
        begun = [self.begin(job) for job in jobs]
        wait(begun)
        return [future.result() for future in begun]

    def close(self) -> None:
        """Let the threads end: what runs is waited for, what is queued (of a write given up) not begun."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
