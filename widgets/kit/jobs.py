"""What a view does in the background: one job at a time in a daemon thread, so that the notebook stays free.

Invariants: at most one job is the current one; what it raises is kept for `wait`; `Stopped` ends it quietly.
A job is asked to stop, never killed: it calls `check` between pieces of work and sleeps by `sleep`, which a
stop ends at once. `start` refuses while a job runs (the compaction panel, the findings); `restart` stops the
running job and takes its place (amplification and what-if, where only the newest result counts).
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from widgets.kit.view import View

PATIENCE, STATIC_PATIENCE = 0.2, 3.0
"""Seconds that `restart` waits for a quick job, and that a static picture waits for a job, once."""


class Stopped(Exception):
    """The job was asked to stop; nothing of the piece it was at is kept."""


class ViewJob:
    """What the work sees of itself: whether it was asked to stop."""

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
        """Raise Stopped if it was asked to end."""
        if self.stopped:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait; raises Stopped at once when asked to end."""
        self._stop.wait(seconds)
        self.check()


Work = Callable[[ViewJob], object]


def _nothing() -> None: ...


class JobRunner:
    """Runs jobs one at a time. Safe: callers are the notebook's thread and the job itself; one lock, named
    after what it protects."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._current = threading.Lock()
        self._job: ViewJob | None = None
        self._thread: threading.Thread | None = None
        self._waited_for: threading.Thread | None = None
        self.failure: Exception | None = None

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, work: Work, *, before: Callable[[], None] = _nothing, after: Callable[[], None] = _nothing
    ) -> bool:
        """Run `before` here and `work`, then `after`, in a thread; False if something runs already."""
        with self._current:
            if self.busy:
                return False
            before()
            self._begin(work, after)
            return True

    def restart(self, work: Work, *, patience: float = PATIENCE) -> bool:
        """Stop the job there is, run `work` in its place and wait for it `patience` seconds; whether it is
        done by then."""
        self.stop()
        with self._current:
            thread = self._begin(work, _nothing)
        thread.join(patience)
        return not thread.is_alive()

    def _begin(self, work: Work, after: Callable[[], None]) -> threading.Thread:
        self._job, self.failure = ViewJob(), None
        arguments = (work, self._job, after)
        self._thread = threading.Thread(target=self._run, args=arguments, name=self._name, daemon=True)
        self._thread.start()
        return self._thread

    def _run(self, work: Work, job: ViewJob, after: Callable[[], None]) -> None:
        try:
            work(job)
        except Stopped:
            pass
        except Exception as error:
            if self._job is job:  # else a newer job has taken its place
                self.failure = error
        finally:
            after()

    def replaced(self, job: ViewJob) -> bool:
        """Whether a newer job has taken the place of this one."""
        return self._job is not job

    def stop(self) -> None:
        """Ask the job that runs to end."""
        if (job := self._job) is not None:
            job.stop()

    def wait_at_most(self, seconds: float) -> None:
        """Wait for the job, but not longer than that, and not twice."""
        thread = self._thread
        if thread is None or thread in (threading.current_thread(), self._waited_for):
            return
        self._waited_for = thread
        thread.join(seconds)

    def wait(self, timeout: float | None = None) -> None:
        """Block until the job is over, and raise what it raised."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"{self._name} still runs after {timeout} s")
        if (failure := self.failure) is not None:
            self.failure = None
            raise failure


class WorkingView(View):
    """A view that works in the background. Subclasses make `_jobs`; the idle one here is of a view that could
    not be made: it is closed, too."""

    _jobs = JobRunner("idle")

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return self._jobs.busy

    def cancel(self) -> Self:
        """Stop the work; what was shown stays."""
        self._jobs.stop()
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the work is over, at most so many seconds, and raise what it raised."""
        self._jobs.wait(timeout)
        return self

    def close(self) -> None:
        """Stop the work, and leave the page."""
        self.cancel()
        super().close()


def job_name(job: object, otherwise: str) -> str:
    """What the engine calls a job, or the last part of the path of its checkpoint or journal."""
    if isinstance(job, str | Path):
        return str(job).rstrip("/").rpartition("/")[2]
    name = getattr(job, "name", "")
    return name if isinstance(name, str) and name else otherwise


def job_failure(job: object) -> str:
    """What ended a job of the engine, in its words."""
    error = getattr(job, "error", None)
    error = error() if callable(error) else error
    return error_text(error) if isinstance(error, BaseException) else ""


def error_text(error: BaseException) -> str:
    """The kind of an error and its words."""
    return f"{type(error).__name__}: {error}"
