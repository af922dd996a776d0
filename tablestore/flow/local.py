"""A stream without Spark: a thread plans batches and has them carried out, processes here do the tasks.

What is planned, recorded and done again after a crash is as for a query of Spark (`spark/stream_jobs.py`),
over the same checkpoint. There are as many processes as cores, each started when it is first needed. A single
item is done in this process, where a worker would only cost its start. Workers have the import path and the
environment of this process as they are when a task is sent. They end with it, however it ends.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Unavailable
from tablestore.flow.batch import Batch, WorkPlan
from tablestore.flow.checkpoint import Checkpoint
from tablestore.flow.source import Offset

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


_IDLE_SECONDS = 0.05  # at least, between two looks for something new


class LocalStream:
    """A stream of this process. `error` is what ended it, None while it runs and where it was stopped or has
    ended. Safe to share between threads."""

    def __init__(
        self,
        plan: WorkPlan,
        on_batch: Callable[[Batch], None],
        checkpoint: Checkpoint,
        workers: TaskWorkers,
    ) -> None:
        self._plan, self._on_batch = plan, on_batch
        self._checkpoint, self._workers = checkpoint, workers
        self._going = threading.Event()  # unless it is paused
        self._going.set()
        self._stopping, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._sign: float | None = None  # when something came last of what is under way; None between two
        self.error: BaseException | None = None

    def start(self, *, start: Offset | None, interval_seconds: float) -> None:
        """Start it. `start` is where the first batch of a new checkpoint begins, None: at the beginning."""
        self._checkpoint.begin()
        self._note_sign()
        arguments = (start, interval_seconds)
        self._thread = threading.Thread(target=self._run, args=arguments, name="tablestore-job", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self._thread is not None and not self._over.is_set()

    def pause(self) -> None:
        """Let no batch begin until `resume`; the one that is being carried out is finished."""
        self._going.clear()

    def resume(self) -> None:
        """Let batches begin again."""
        self._going.set()

    def stop(self) -> None:
        """End it between two batches; the one that is being carried out is finished first."""
        self._stopping.set()
        self._going.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._over.wait()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        return self._over.wait(seconds)

    def failure(self) -> BaseException | None:
        """What ended it."""
        return self.error

    def quiet_seconds(self) -> float:
        """For how long nothing has come of the batch that is being planned or carried out; 0 between two."""
        sign = self._sign
        return 0.0 if sign is None else SYSTEM.monotonic() - sign

    def _note_sign(self) -> None:
        self._sign = SYSTEM.monotonic()

    def _run(self, start: Offset | None, interval_seconds: float) -> None:
        try:
            self._follow(start, interval_seconds)
        except BaseException as e:
            self.error = e
        finally:
            self._sign = None
            self._workers.close()
            self._over.set()

    def _follow(self, first: Offset | None, interval_seconds: float) -> None:
        """Carry out the batch that was under way before, then one after another until all has ended."""
        beginning = self._plan.initial() if first is None else first
        pending = self._checkpoint.pending()
        if pending is not None:
            before = self._checkpoint.start(pending)
            begin = beginning if before is None else before
            self._carry_out(pending, begin, self._checkpoint.end(pending))
        newest = self._checkpoint.planned()
        number, at = (0, beginning) if newest is None else (newest + 1, self._checkpoint.end(newest))
        while self._may_go_on() and not self._plan.ended(at):
            began = self._sign = SYSTEM.monotonic()
            end: Offset = json.loads(json.dumps(self._plan.next(at)))
            idle = end == at
            if not idle:
                self._checkpoint.note_planned(number, end)
                self._carry_out(number, at, end)
                number, at = number + 1, end
                if self._plan.ended(at):
                    return
            self._sign = None
            left = interval_seconds - (SYSTEM.monotonic() - began)
            self._stopping.wait(max(left, _IDLE_SECONDS if idle else 0))

    def _may_go_on(self) -> bool:
        """Wait while it is paused; False where it is being stopped."""
        self._going.wait()
        return not self._stopping.is_set()

    def _carry_out(self, number: int, start: Offset, end: Offset) -> None:
        """Carry out a batch, and note that; nothing where the stream is being stopped."""
        self._sign = None
        if self._may_go_on():
            self._note_sign()
            self._on_batch(LocalBatch(self._plan, number, start, end, self._workers, self._note_sign))
            self._plan.done(end)
            self._checkpoint.note_done(number)


class LocalBatch:
    """A batch whose tasks are done by processes of this machine."""

    def __init__(
        self,
        plan: WorkPlan,
        number: int,
        start: Offset,
        end: Offset,
        workers: TaskWorkers,
        note_sign: Callable[[], None],
    ) -> None:
        self._plan, self._workers, self._note_sign = plan, workers, note_sign
        self.number, self.start, self.end = number, start, end
        self._counts: dict[int, int] = {}

    def works(self) -> Sequence[Any]:
        """The pieces in order."""
        return self._plan.works(self.start, self.end)

    def over(
        self, task: Callable[[T], R], items: Sequence[T], *, count: Callable[[R], int] | None = None
    ) -> list[R]:
        """What a task gives for each item, in order. `counted` has what is counted in each result as soon as
        its item is done."""
        counts: dict[int, int] = {}
        if count is not None:
            self._counts = counts

        def done(place: int, result: R) -> None:
            self._note_sign()
            if count is not None:
                counts[place] = count(result)

        return self._workers.run(task, items, done=done)

    def counted(self) -> Mapping[int, int]:
        """The counts of the items that are done, by their places, in their order."""
        return dict(sorted(self._counts.copy().items()))
