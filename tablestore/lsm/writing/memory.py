"""The memory of write buffers in a process, and the flushes and threads that free it.

Without a shared pool, hundreds of buckets would each use `write-buffer-size`. When it is full the largest
buffer flushes, to level 0, so nothing is spilled elsewhere. Slices keep the whole batch that they were cut
from alive, which costs nothing until some of them are flushed. From then on, after each half pool of new
rows, buffers that did not flush copy their rows (`settle`), so no more than that is kept alive. Owners with
background flushes begin one when three quarters of the pool are buffered; bytes that a flush still writes
count, and writers wait only for a full pool. A pool is safe to share between threads: a writer is flushed by
its own thread only. Encoding a file rarely needs the interpreter's lock, so `Workers` use a second core.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from threading import Barrier
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from tablestore.core.errors import Unavailable

T = TypeVar("T")
_START_SECONDS = 1.0
_BACKGROUND_BYTES = 1 << 20  # fewer bytes are written faster than a thread takes over


class BufferOwner(Protocol):
    """A writer that buffers rows. `wait` returns when its background flush has ended."""

    def flush(self) -> None: ...
    def settle(self) -> None: ...
    def wait(self) -> None: ...


@dataclass(slots=True)
class _WriterMemory:
    thread: int
    background: bool = False
    buffered: int = 0
    flushing: int = 0  # bytes that a background flush still writes
    began: int = 0  # number of that flush in the pool


class MemoryPool:
    """Bytes in the write buffers of this process. Owners that are collected without `release` stop
    counting."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = max(limit_bytes, 1)  # other engines store 0, too
        self._accounts_lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[BufferOwner, _WriterMemory] = weakref.WeakKeyDictionary()
        self._total = 0  # of all accounts; includes collected owners until the next sum
        self._flushes = 0
        self._relieved: set[int] = set()  # threads that flushed since they last settled
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def used_bytes(self) -> int:
        """Bytes that all owners buffer or that their flushes still write."""
        with self._accounts_lock:
            return self._add_up()

    def register(self, owner: BufferOwner, *, background: bool = False) -> None:
        """Begin to count an owner, for the calling thread; `background`: its flushes run on other threads."""
        with self._accounts_lock:
            self._accounts[owner] = _WriterMemory(threading.get_ident(), background)

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)
            self._add_up()

    def report(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """Set the bytes that an owner buffers. While the pool is too full, flush this thread's largest owner,
        or wait for a flush that this thread began."""
        with self._accounts_lock:
            grown, full = self._note(owner, buffered_bytes)
        if not buffered_bytes:
            return  # called inside a flush: nothing to do
        while full and (relief := self._relief()) is not None:
            relief()
        if grown:
            self._settle()

    def flush_began(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """Note that an owner begins a background flush of all its buffered bytes."""
        with self._accounts_lock:
            account = self._accounts.setdefault(owner, _WriterMemory(threading.get_ident()))
            self._flushes += 1
            account.began, account.flushing, account.buffered = self._flushes, buffered_bytes, 0

    def flush_ended(self, owner: BufferOwner) -> None:
        """Note that the background flush of an owner has ended."""
        with self._accounts_lock:
            if owner in self._accounts:
                self._accounts[owner].flushing = 0

    def _note(self, owner: BufferOwner, buffered_bytes: int) -> tuple[bool, bool]:
        """Set an account; (whether to copy the thread's slices now, whether a flush may be needed)."""
        thread = threading.get_ident()
        account = self._accounts.setdefault(owner, _WriterMemory(thread))
        change, account.buffered, account.thread = buffered_bytes - account.buffered, buffered_bytes, thread
        self._total += change
        added = self._unsettled[thread] = self._unsettled.get(thread, 0) + max(0, change)
        grown = added > self.limit_bytes // 2 and thread in self._relieved
        return grown, self._total > self.limit_bytes * 3 // 4

    def _add_up(self) -> int:
        self._total = sum(a.buffered + a.flushing for a in self._accounts.values())
        return self._total

    def _relief(self) -> Callable[[], None] | None:
        """What this thread must call so that the pool stays within its limit: a flush of its largest owner,
        or a wait for the flush that it began first; None if nothing is needed."""
        with self._accounts_lock:
            full = self._add_up() > self.limit_bytes
            total, thread = sum(a.buffered for a in self._accounts.values()), threading.get_ident()
            mine = [(a, o) for o, a in self._accounts.items() if a.thread == thread]
            largest = [(a.buffered, o) for a, o in mine if a.buffered]
            running = [(a.began, o) for a, o in mine if a.flushing]
            room = self.limit_bytes * 3 // 4 if any(a.background for a, _ in mine) else self.limit_bytes
            if full and running and total <= room:
                return min(running, key=lambda m: m[0])[1].wait
            if not largest or not (full or total > room):
                return None
            self._relieved.add(thread)
        return max(largest, key=lambda m: m[0])[1].flush

    def _settle(self) -> None:
        thread = threading.get_ident()
        with self._accounts_lock:
            mine = [o for o, a in self._accounts.items() if a.thread == thread and a.buffered]
            self._unsettled.pop(thread, None)
            self._relieved.discard(thread)
        for owner in mine:
            owner.settle()


def settled(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows without references to larger batches: neighbouring slices of such are copied into one,
    other batches stay."""
    kept: list[pa.RecordBatch] = []
    for own, some in groupby(batches, lambda b: b.get_total_buffer_size() <= 2 * b.nbytes):
        slices = list(some)
        if own:
            kept += slices
        else:  # joining one batch alone would not copy it
            kept.append(pa.concat_batches([slices[0].slice(0, 0), *slices]))
    return kept


class Workers:
    """Up to `threads` threads of one write, started when there is work for them; with none everything runs in
    the caller's. Jobs start in the order of submission, and results come in that order too, so a write gives
    the same result with any number of threads. A job touches only its own bucket. Belongs to one thread,
    which must `close` it."""

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


class Flushing(Generic[T]):
    """Flushes of the rows that `owner` buffers; `take` is called with each result, in the owner's thread.

    They come one at a time, in the caller's thread or in the background. One that fails has lost its rows, so
    the writer then takes no more. Belongs to one thread."""

    def __init__(
        self, owner: BufferOwner, take: Callable[[T], None], *, pool: MemoryPool, workers: Workers | None
    ) -> None:
        self._owner, self._take, self._pool = owner, take, pool
        self._workers = workers if workers is not None and not workers.idle else None
        self._running: Future[T] | None = None
        self._failure: BaseException | None = None
        pool.register(owner, background=self._workers is not None)

    def require_whole(self) -> None:
        """Raise Unavailable if a flush has failed: then only `abort` may be called."""
        if self._failure is not None:
            text = f"a flush of this writer failed and lost its rows; abort and write again: {self._failure}"
            raise Unavailable(0, text) from self._failure

    @contextmanager
    def losing_rows(self) -> Iterator[None]:
        """A context for work that loses rows of the writer if it raises."""
        try:
            yield
        except BaseException as e:
            self._failure = e
            raise

    def run(self, write: Callable[[], T], buffered_bytes: int, *, background: bool) -> None:
        """Flush `buffered_bytes` by `write`, in the `background` if there are workers and it pays. No other
        flush may be running."""
        with self.losing_rows():
            if background and self._workers is not None and buffered_bytes >= _BACKGROUND_BYTES:
                self._pool.flush_began(self._owner, buffered_bytes)
                self._running = self._workers.begin(write)
                return
            self._pool.report(self._owner, 0)
            self._take(write())

    def wait(self) -> None:
        """Return when the running flush has ended; raises its error."""
        running = self._running
        if running is None:
            return
        try:
            flushed = running.result()
        except BaseException as e:
            if running.done():  # else the caller is interrupted
                self._running, self._failure = None, e
                self._pool.flush_ended(self._owner)
            raise
        self._running = None
        self._pool.flush_ended(self._owner)
        self._take(flushed)

    def abort(self) -> None:
        """Return when no flush is running, ignoring its result; the pool stops counting the owner."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(CancelledError):  # never begun
                running.exception()  # it has ended then
        self._pool.release(self._owner)
