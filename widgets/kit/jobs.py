"""The one thing a view does at a time, in a daemon thread, so that the notebook stays free and Pause
works.

Invariants: at most one job runs; what it raises is kept for `wait`; `Paused` ends a job quietly. A job asks
`check` between pieces of work, and sleeps by `sleep`, which Pause ends at once. Used by the compaction panel
and by the findings.
"""

import threading
from collections.abc import Callable


class Paused(Exception):
    """The job was asked to stop; nothing of the piece it was at is kept."""


class Work:
    """Runs jobs one at a time. Safe: callers are the notebook's thread and the job itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def pausing(self) -> bool:
        """Whether the job was asked to stop."""
        return self._pause.is_set()

    def start(
        self, job: Callable[[], None], *, before: Callable[[], None], after: Callable[[], None]
    ) -> bool:
        """Run `before` here and `job`, then `after`, in a thread; False if something runs already."""
        with self._lock:
            if self.busy:
                return False
            self._pause.clear()
            self.failure = None
            before()
            self._thread = threading.Thread(
                target=self._run, args=(job, after), name="widget-work", daemon=True
            )
            self._thread.start()
            return True

    def _run(self, job: Callable[[], None], after: Callable[[], None]) -> None:
        try:
            job()
        except Paused:
            pass
        except Exception as error:
            self.failure = error
        finally:
            after()

    def pause(self) -> None:
        """Ask the job to stop."""
        self._pause.set()

    def check(self) -> None:
        """Raise Paused if the job was asked to stop."""
        if self._pause.is_set():
            raise Paused

    def sleep(self, seconds: float) -> None:
        """Wait; raises Paused at once when asked to stop."""
        self._pause.wait(seconds)
        self.check()

    def wait(self, timeout: float | None = None) -> None:
        """Block until the job is over, and raise what it raised."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"the work still runs after {timeout} s")
        if (failure := self.failure) is not None:
            self.failure = None
            raise failure
