"""The flushes of one bucket's writer: one at a time, in the caller's thread or on a thread of its workers.

The memory pool learns what a flush writes and when it ends. A flush that fails has lost its rows, so the
writer takes no more. Belongs to one thread. Used by `MergeTreeWriter` and `RowStream`.
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
_BACKGROUND_BYTES = 1 << 20  # less is written sooner than a thread takes it over


class Flushing(Generic[T]):
    """Flushes of what `owner` buffers; `take` gets what each one made, in the owner's thread."""

    def __init__(
        self, owner: BufferOwner, take: Callable[[T], None], *, pool: MemoryPool, workers: Workers | None
    ) -> None:
        self._owner, self._take, self._pool = owner, take, pool
        self._workers = workers if workers is not None and not workers.idle else None
        self._running: Future[T] | None = None
        self._failure: BaseException | None = None
        pool.register(owner, background=self._workers is not None)

    def require_whole(self) -> None:
        """Raise Unavailable if a flush has failed: then only `abort` is left."""
        if self._failure is not None:
            text = f"a flush of this writer failed and lost its rows; abort and write again: {self._failure}"
            raise Unavailable(0, text) from self._failure

    @contextmanager
    def losing_rows(self) -> Iterator[None]:
        """Around work that loses rows of the writer if it raises."""
        try:
            yield
        except BaseException as e:
            self._failure = e
            raise

    def run(self, write: Callable[[], T], buffered_bytes: int, *, background: bool) -> None:
        """Flush `buffered_bytes` by `write`: in the `background` if there are workers and it is worth it. No
        other flush is running."""
        with self.losing_rows():
            if background and self._workers is not None and buffered_bytes >= _BACKGROUND_BYTES:
                self._pool.flush_began(self._owner, buffered_bytes)
                self._running = self._workers.begin(write)
                return
            self._pool.report(self._owner, 0)
            self._take(write())

    def wait(self) -> None:
        """Return when the flush that is running is done; raises what it raised."""
        running = self._running
        if running is None:
            return
        try:
            made = running.result()
        except BaseException as e:
            if running.done():  # else the caller was interrupted
                self._running, self._failure = None, e
                self._pool.flush_ended(self._owner)
            raise
        self._running = None
        self._pool.flush_ended(self._owner)
        self._take(made)

    def abort(self) -> None:
        """Return when no flush is running any more, whatever came of it; the pool stops counting the
        owner."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(CancelledError):  # never begun
                running.exception()  # it has ended then
        self._pool.release(self._owner)
