"""A job: one stream, which is started again when it ends for a reason that may pass, with growing waits.

The batch that was under way comes again and is committed once. Every other error ends the job. What it reads
and writes is its caller's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tablestore.core.env import SYSTEM
from tablestore.flow.restarts import Restarts, RestartStrategy, plain_error
from tablestore.flow.runner import Stream

log = logging.getLogger(__name__)
RUNNING, PAUSED, WAITING = "running", "paused", "waiting"
ENDED, STOPPED, FAILED = "ended", "stopped", "failed"
_HEARING_SECONDS = 0.2  # between two moments at which Ctrl-C is heard


class RunningJob:
    """What this process does beside its caller, until it has ended. `error` is what it failed with. Safe to
    share between threads."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._stopping, self._over = threading.Event(), threading.Event()

    @property
    def running(self) -> bool:
        """Whether it is at work, or waits to try again."""
        return not self._over.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, `seconds` at most; whether it has. Raises what it failed with."""
        waited = 0.0
        while not self._over.wait(_HEARING_SECONDS):
            waited += _HEARING_SECONDS
            if seconds is not None and waited >= seconds:
                return False
        if self.error is not None:
            raise self.error
        return True

    def _end_with(self, *steps: Callable[[], object]) -> None:
        """Carry out each step of the end, whatever comes of the others, then have ended. The first trouble is
        `error`, unless it failed before."""
        for step in steps:
            try:
                step()
            except Exception as e:  # a full disk, a store that is away: who waits must not wait for ever
                self.error = self.error or e
        self._over.set()


class FlowJob(RunningJob):
    """A stream that this process runs, over and over until it ends for good."""

    def __init__(self, name: str, strategy: RestartStrategy | None = None) -> None:
        super().__init__()
        self.name = name
        self._restarts = Restarts(strategy or RestartStrategy())
        self._stream: Stream | None = None
        self._lock = threading.Lock()  # protects `_stream`, `_state` and `_paused`
        self._state, self._reason = WAITING, ""
        self._paused = False
        self._batches = 0  # that this process has carried out
        self._started = 0.0  # the newest stream, by the clock that only rises

    @property
    def state(self) -> str:
        """running, paused, waiting (to try again), ended (its source has), stopped or failed."""
        with self._lock:
            return self._present

    @property
    def state_text(self) -> str:
        """The state, and why it waits or failed."""
        with self._lock:
            return self._present + (f": {self._reason}" if self._reason else "")

    def quiet_seconds(self) -> float:
        """For how long nothing has come of the batch under way; 0 between two batches, and where it waits."""
        with self._lock:
            stream = self._stream if self._present == RUNNING else None
        return 0.0 if stream is None else stream.quiet_seconds()

    def pause(self) -> None:
        """Let no batch begin until `resume`; the one that is under way is committed. The source must keep its
        log for as long."""
        self._set_paused(True)

    def resume(self) -> None:
        """Let batches begin again."""
        self._set_paused(False)

    def stop(self) -> None:
        """End it between two batches; returns when it has ended. What is started under its name later goes on
        there."""
        self._stopping.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.stop()
        self._over.wait()

    def _set_paused(self, paused: bool) -> None:
        with self._lock:
            self._paused = paused
            if self._stream is not None:
                (self._stream.pause if paused else self._stream.resume)()

    @property
    def _present(self) -> str:
        return PAUSED if self._paused and self._state == RUNNING else self._state

    def _launch(self, begin: Callable[[], Stream]) -> None:
        """Start the stream that `begin` gives, which goes on at its checkpoint, and watch it."""
        self._start_stream(begin)
        self._note(RUNNING, "")
        name = f"tablestore-{self.name}"
        threading.Thread(target=self._watch, args=(begin,), name=name, daemon=True).start()

    def _start_stream(self, begin: Callable[[], Stream]) -> None:
        stream = begin()
        self._started = SYSTEM.monotonic()
        with self._lock:
            self._stream = stream
            if self._paused:
                stream.pause()

    def _watch(self, begin: Callable[[], Stream]) -> None:
        """Wait for the end of the stream; start it again where that may help."""
        error: BaseException | None = None
        while True:
            ran = 0.0
            if error is None:
                try:
                    error = self._end_of_stream()
                except Exception as e:  # what runs it is gone: Spark's Java was killed
                    error = e
                ran = SYSTEM.monotonic() - self._started
            if error is None or self._stopping.is_set():
                break
            wait = self._restarts.wait_after(error, self._batches, ran)
            if wait is None:
                break
            self._note(WAITING, f"again in {wait:g} s after {str(self._plain(error))[:200]}")
            log.warning("job %s: %s", self.name, self._reason)
            if self._stopping.wait(wait):
                break
            try:
                self._start_stream(begin)
                error = None
            except Exception as e:  # the runner's, or of a source that is away
                error = e
        self._end(error)

    def _end_of_stream(self) -> BaseException | None:
        stream = self._stream
        assert stream is not None, "a stream was started"
        batches = self._batches
        while not stream.wait(1):
            if self._state == WAITING and (self._batches > batches or stream.quiet_seconds() == 0):
                self._note(RUNNING, "")  # what it waited for is there
            if self._stopping.is_set():
                stream.stop()
        return stream.failure()

    def _end(self, error: BaseException | None) -> None:
        stopped = self._stopping.is_set()
        if error is not None and not stopped:
            self.error = self._plain(error)
        self._note(FAILED if self.error else STOPPED if stopped else ENDED, str(self.error or ""))
        self._over.set()

    def _plain(self, error: BaseException) -> BaseException:
        """An error as the job shows it."""
        return plain_error(self.name, error)

    def _note(self, state: str, reason: str) -> None:
        with self._lock:
            self._state, self._reason = state, reason
