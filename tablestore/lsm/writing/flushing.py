"""Flushing: the flushes of one bucket's writer, one at a time, in the caller's thread or in the background.

The memory pool is notified when a flush begins and ends. A flush that fails has lost its rows, so the writer
then takes no more. Belongs to one thread. Used by `MergeTreeWriter` and `BucketRowStream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from tablestore.core.errors import Unavailable
from tablestore.lsm.writing.memory import BufferOwner, MemoryPool
from tablestore.lsm.writing.workers import Workers

T = TypeVar("T")
_BACKGROUND_BYTES = 1 << 20  # fewer bytes are written faster than a thread takes over


class Flushing(Generic[T]):
    """Flushes of the rows that `owner` buffers; `take` is called with each result, in the owner's thread."""

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
