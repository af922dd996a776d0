"""Processes of this machine that carry out tasks: as many as cores, each started when it is first needed.

A single item is done in this process, where a worker would only cost its start. Workers have the import path
and the environment of this process as they are when a task is sent. They end with it, however it ends.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from tablestore.core.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")


class TaskWorkers:
    """At most `most` processes (None: one a core), however many threads call `run`."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most or max(1, len(os.sched_getaffinity(0)))
        self._places = threading.Semaphore(self.most)  # of processes that are at work
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()  # protects `_idle`

    def run(
        self, task: Callable[[T], R], items: Sequence[T], *, done: Callable[[int, R], None] | None = None
    ) -> list[R]:
        """What the task gives for each item, in order; `done` gets the place of an item and what it gave, as
        soon as that is there. Raises the error of the first item that failed, once no task is under way;
        Unavailable where a process was killed."""
        run = _TaskRun(task, items, done)
        at_once = min(self.most, len(items))
        if at_once <= 1:
            run.here()
        else:
            threads = [
                threading.Thread(target=self._work, args=(run,), name=f"tablestore-task-{n}", daemon=True)
                for n in range(at_once)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return run.results()

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _work(self, run: _TaskRun[Any, Any]) -> None:
        with self._places:
            self._serve(run)

    def _serve(self, run: _TaskRun[Any, Any]) -> None:
        """Have one process do items until none is left, or one has failed."""
        worker: _Worker | None = None
        for place, item in run.left():
            try:
                worker = worker or self._worker()
                run.note(place, worker.call(run.task, item))
            except BaseException as e:
                run.fail(place, e)
        if worker is not None and worker.lives:
            with self._lock:
                self._idle.append(worker)

    def _worker(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Worker()


class _TaskRun(Generic[T, R]):
    """The items of one call, which threads take one after another."""

    def __init__(
        self, task: Callable[[T], R], items: Sequence[T], done: Callable[[int, R], None] | None
    ) -> None:
        self.task, self._done = task, done
        self._left = list(enumerate(items))[::-1]
        self._results: dict[int, R] = {}
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()  # protects all of it

    def left(self) -> Iterator[tuple[int, T]]:
        """Items with their places, until none is left or one has failed."""
        while True:
            with self._lock:
                if self._errors or not self._left:
                    return
                place, item = self._left.pop()
            yield place, item

    def here(self) -> None:
        """Do all items in this process."""
        for place, item in self.left():
            self.note(place, self.task(item))

    def note(self, place: int, result: R) -> None:
        with self._lock:
            self._results[place] = result
        if self._done is not None:
            self._done(place, result)

    def fail(self, place: int, error: BaseException) -> None:
        with self._lock:
            self._errors[place] = error

    def results(self) -> list[R]:
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[place] for place in sorted(self._results)]


class _Worker:
    """One process, and this side of its socket. One thread at a time."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(folder for folder in sys.path if folder)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tablestore.flow.worker", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that Ctrl-C is heard by this process alone
            )
        self._connection = Connection(ours.detach())

    def call(self, task: Callable[[Any], Any], item: Any) -> Any:
        """What the task gives for an item. Raises its error; Unavailable where the process has ended."""
        call = pickle.dumps((dict(os.environ), task, item))
        try:
            self._connection.send_bytes(call)
            good, *answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as e:
            self.close()
            raise Unavailable(
                0, f"a process that carried out tasks has ended ({self._process.wait()})"
            ) from e
        if good:
            return answer[0]
        error, quoted = answer
        error.add_note(quoted)
        raise error

    @property
    def lives(self) -> bool:
        return not self._connection.closed

    def close(self) -> None:
        """End the process; closing the socket tells it."""
        self._connection.close()
        self._process.wait()
