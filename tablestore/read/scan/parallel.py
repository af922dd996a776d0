"""Tasks on threads, with their results in the order of the tasks.

Arrow and numpy decode, gather and encode without Python's lock, so threads help. Results that wait for their
turn have at most `buffered_bytes` together; the task whose turn it is may always add one more, so there is no
deadlock. With one thread none is started and every task runs where its results are taken. A caller that
stops, or an error, ends all tasks: their generators are closed and the threads joined before the call
returns. Memory: `buffered_bytes`, and what each running task needs. Used by scans and compaction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from tablestore.io.paths import is_object_location
from tablestore.meta.store import Store

T = TypeVar("T")
Task = Callable[[], Iterable[T]]
_MAX_THREADS = 4
_WORTHWHILE_BYTES = 4 << 20  # of files below which starting threads is not worth it
_REMOTE_THREADS = 8  # that wait for an object store most of the time
MAX_BUFFERED_BYTES = 256 << 20
THREAD_NAME = "tablestore-task"


def threads(store: Store, sizes: Sequence[int]) -> int:
    """How many threads a table uses for tasks over files of these sizes; 1 for few or small ones.

    By default as many as Arrow may use (`pyarrow.set_cpu_count`, which engines set to 1 in their tasks), at
    most four. Of a table in an object store, for whose answers threads wait: eight, also for small files.
    """
    remote, asked = is_object_location(store.paths.root), store.options.scan_threads
    if len(sizes) < 2 or (sum(sizes) < _WORTHWHILE_BYTES and not remote):
        return 1
    most = _REMOTE_THREADS if remote else min(pa.cpu_count(), _MAX_THREADS)
    return max(1, min(most if asked is None else asked, len(sizes)))


def in_order(
    tasks: Sequence[Task[T]],
    *,
    threads: int,
    size_of: Callable[[T], int],
    buffered_bytes: int = MAX_BUFFERED_BYTES,
) -> Generator[T]:
    """The results of all tasks, one task after another; an error is raised in the place of its task's next
    result."""
    if threads < 2:
        for task in tasks:
            yield from task()
        return
    queue = _TaskQueue(tasks, size_of, buffered_bytes)
    workers = [threading.Thread(target=queue.work, name=THREAD_NAME, daemon=True) for _ in range(threads)]
    try:
        for worker in workers:
            worker.start()
        yield from queue.results()
    finally:
        queue.close()
        for worker in workers:
            if worker.ident is not None and worker is not threading.current_thread():
                worker.join()


class _TaskQueue(Generic[T]):
    """Tasks in order: which is taken next, which results of each wait. All state is behind the lock
    `_changed`."""

    def __init__(self, tasks: Sequence[Task[T]], size_of: Callable[[T], int], buffered_bytes: int) -> None:
        self._tasks, self._size_of, self._max_bytes = tasks, size_of, buffered_bytes
        self._changed = threading.Condition()
        self._next = self._turn = self._buffered_bytes = 0
        self._results: dict[int, deque[T]] = {}
        self._errors: dict[int, BaseException] = {}
        self._ended: set[int] = set()
        self._closed = False

    def work(self) -> None:
        """Take tasks and run them until there are none; the body of a thread."""
        while (number := self._taken()) is not None:
            error: BaseException | None = None
            try:
                self._run(number)
            except BaseException as e:  # it is raised where the results are taken
                error = e
            with self._changed:
                if error is not None:
                    self._errors[number] = error
                self._ended.add(number)
                self._changed.notify_all()

    def _taken(self) -> int | None:
        """The next task, once waiting results leave room for its own; None if there is none."""
        with self._changed:
            self._changed.wait_for(self._may_take)
            if self._closed or self._errors or self._next == len(self._tasks):
                return None
            number, self._next = self._next, self._next + 1
            self._results[number] = deque()
            return number

    def _may_take(self) -> bool:
        stopped = self._closed or bool(self._errors)
        return stopped or self._next <= self._turn or self._buffered_bytes < self._max_bytes

    def _run(self, number: int) -> None:
        results = iter(self._tasks[number]())
        close = getattr(results, "close", None)
        try:
            for result in results:
                if not self._put(number, result):
                    return
        finally:
            if close is not None:
                close()

    def _put(self, number: int, result: T) -> bool:
        """Let a result wait for its turn; False if the caller has stopped."""
        size = self._size_of(result)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._room(number, size))
            if self._closed:
                return False
            self._results[number].append(result)
            self._buffered_bytes += size
            self._changed.notify_all()
            return True

    def _room(self, number: int, size: int) -> bool:
        return self._buffered_bytes + size <= self._max_bytes or (
            number == self._turn and not self._results[number]
        )

    def results(self) -> Iterator[T]:
        """The results of all tasks, in their order."""
        while self._turn < len(self._tasks):
            with self._changed:
                self._changed.wait_for(self._ready)
                buffered = self._results.get(self._turn)
                if not buffered:
                    if self._turn in self._errors:
                        raise self._errors[self._turn]
                    self._turn += 1
                    self._changed.notify_all()
                    continue
                result = buffered.popleft()
                self._buffered_bytes -= self._size_of(result)
                self._changed.notify_all()
            yield result

    def _ready(self) -> bool:
        return bool(self._results.get(self._turn)) or self._turn in self._ended

    def close(self) -> None:
        """End all tasks: no result is taken any more."""
        with self._changed:
            self._closed = True
            self._results.clear()
            self._changed.notify_all()
