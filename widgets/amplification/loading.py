"""Work that a view does in a thread, so that a notebook stays free: one job at a time, the newest wins.

`start` waits a moment, so what is quick is done when it returns; a job that is overtaken by a newer one is
told to stop and its result is dropped. A static picture waits a little longer than a live one, once. Used by
AmplificationChart and WhatIf.
"""

import threading
from collections.abc import Callable

PATIENCE, STATIC_PATIENCE = 0.2, 3.0


class Cancelled(Exception):
    """The job was stopped before it was done."""


class Job:
    """What the work sees of itself: whether it shall stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    def check(self) -> None:
        """Raise Cancelled if it was asked to end."""
        if self.stopped:
            raise Cancelled


class Worker:
    """Runs jobs in a daemon thread. Safe: one lock, named after what it protects."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._newest = threading.Lock()
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self._waited_for: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[Job], None], *, patience: float = PATIENCE) -> bool:
        """Run `work` and wait for it that long; whether it is done by then. A job before it is stopped."""
        self.cancel()
        job = Job()
        thread = threading.Thread(target=self._run, args=(work, job), name=self._name, daemon=True)
        with self._newest:
            self._job, self._thread = job, thread
        thread.start()
        thread.join(patience)
        return not thread.is_alive()

    @staticmethod
    def _run(work: Callable[[Job], None], job: Job) -> None:
        try:
            work(job)
        except Cancelled:
            return

    def superseded(self, job: Job) -> bool:
        """Whether a newer job has taken the place of this one."""
        with self._newest:
            return self._job is not job

    def cancel(self) -> None:
        """Stop the job that is running."""
        with self._newest:
            if self._job is not None:
                self._job.stop()

    def wait_at_most(self, seconds: float) -> None:
        """Wait for the job, but not longer than that, and not twice."""
        thread = self._thread
        if thread is None or thread in (threading.current_thread(), self._waited_for):
            return
        self._waited_for = thread
        thread.join(seconds)

    def wait(self, timeout: float | None = None) -> None:
        """Block until no job is running."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"{self._name} still runs after {timeout} s")
