"""A stream without Spark: a thread plans batches and has them carried out, processes here do the tasks.

What is planned, recorded and done again after a crash is as for a query of Spark (`spark/stream_jobs.py`),
over the same checkpoint.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Batch, WorkPlan
from tablestore.flow.checkpoint import Checkpoint
from tablestore.flow.source import Offset
from tablestore.flow.workers import TaskWorkers

T = TypeVar("T")
R = TypeVar("R")
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
