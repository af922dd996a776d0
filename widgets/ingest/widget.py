"""IngestProgress: a long job in a worker thread: rate, time left, chunks, log; Pause, Stop and Retry.

`run(fn)` returns at once and calls `fn(progress)` in a daemon thread; `fn` reports with `update`, `describe`
and `mark`, and looks at `stopped` (or calls `proceed`, which also honours Pause). The picture is drawn at
most ten times a second whatever `fn` does; views that are linked read their table again when a commit lands,
in the clock's thread, so the job never waits for them. State is one frozen `IngestState` behind one lock.
"""

import reprlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.ingest.chunks import MAX_CHUNKS
from widgets.ingest.figure import ingest_figure
from widgets.ingest.model import (
    ChunkRange,
    IngestState,
    LogMark,
    Sample,
    chunk_words,
    sampled,
    text_form,
    with_chunk,
    with_commit,
    with_mark,
)
from widgets.kit import format as fmt
from widgets.kit.svg import Figure
from widgets.kit.view import View, module

PER_SECOND = 10
TICK_SECONDS = 0.5


class Follower(Protocol):
    """What reads its table again when a commit lands: a view, or a composite of views."""

    def refresh(self) -> object:
        """Read again."""
        ...


class Described(Protocol):
    """What the source says about a chunk: how many rows, and between which keys."""

    @property
    def rows(self) -> int | None: ...
    @property
    def lo(self) -> object: ...
    @property
    def hi(self) -> object: ...


class IngestProgress(View):
    """The progress of one long job: rows a second, time left, lag, commits, chunks; Pause, Stop and Retry.

    `title` names the job; `total` is its number of rows and `chunks` that of its chunks, where they are
    known. `clock` gives seconds. Other traits (`width`, …) go by keyword. `run` starts the job in a thread
    and gives it the view, on which it calls `update` and `proceed`.

    >>> view = widgets.IngestProgress("orders", total=3)
    >>> view.run(lambda job: job.update(rows=3, commit=1)).wait().data()["state"]
    'done'
    """

    _esm = module("ingest")
    verbs = ("pause", "resume", "stop", "retry")
    cards: traitlets.List[Any] = traitlets.List().tag(sync=True)
    """Names and values of each chunk's card, as the source describes it; empty beyond 600 chunks."""

    def __init__(
        self,
        title: str = "ingest",
        *,
        total: int | None = None,
        chunks: int = 0,
        clock: Callable[[], float] = time.monotonic,
        **kwargs: object,
    ) -> None:
        if not isinstance(title, str):
            text = (
                f"IngestProgress takes a title, not {reprlib.repr(title)}; run() shows an ingest into a table"
            )
            raise ts.InvalidRequest(text)
        self._progress = IngestState(title=title, total=total, chunk_count=chunks)
        self._state_lock = threading.RLock()
        self._clock = clock
        self._began, self._paused_for, self._paused_at = clock(), 0.0, 0.0
        self._sample = Sample(self._began, 0)
        self._drawn_at = float("-inf")
        self._worker: threading.Thread | None = None
        self._job: Callable[[IngestProgress], object] | None = None
        self._followers: list[Follower] = []
        self._shown_commits = 0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self.stopped = threading.Event()
        self._going = threading.Event()
        self._going.set()
        super().__init__(**kwargs)
        self.redraw()

    @property
    def progress(self) -> IngestState:
        """The present moment as a value."""
        return self._progress

    @property
    def code(self) -> str:
        """The call that shows the same."""
        return f"widgets.IngestProgress({self._progress.title!r}).run(job)"

    @property
    def running(self) -> bool:
        """Whether the job is under way."""
        return self._worker is not None and self._worker.is_alive()

    def run(self, job: Callable[["IngestProgress"], object]) -> Self:
        """Start `job(self)` in a daemon thread and return at once."""
        if self.running:
            raise RuntimeError("a job is under way; stop() it or wait() for it first")
        self.stopped.clear()
        self._going.set()
        self._over.clear()
        self._failure = None
        self._job = job
        with self._state_lock:
            old = self._progress
            self._progress = IngestState(
                old.title,
                "running",
                total=old.total,
                chunk_count=old.chunk_count,
                facts=old.facts,
                key=old.key,
            )
            self._shown_commits = 0
            self._began, self._paused_for = self._clock(), 0.0
            self._sample = Sample(self._began, 0)
        self.redraw()
        self._worker = threading.Thread(target=self._work, args=(job,), name="ingest", daemon=True)
        self._worker.start()
        threading.Thread(target=self._tick, name="ingest-clock", daemon=True).start()
        return self

    def retry(self) -> Self:
        """Run the same job again, after it failed or was stopped."""
        if self._job is None:
            raise RuntimeError("there is no job to retry; run(job) starts one")
        return self.run(self._job)

    def link(self, other: View | Follower) -> Self:
        """Follow each other; anything with `refresh` reads its table again when a commit lands."""
        self._followers.append(other)
        return super().link(other) if isinstance(other, View) else self

    def _work(self, job: Callable[["IngestProgress"], object]) -> None:
        try:
            job(self)
        except BaseException as error:
            self._failure = error
            hint = "Mend the cause, then Retry: what was committed stays."
            self._become("failed", error=f"{type(error).__name__}: {error}", next_step=hint)
        else:
            self._become("stopped" if self.stopped.is_set() else "done")
        finally:
            self._refresh_followers()
            self._over.set()
            self.redraw()

    def _tick(self) -> None:
        """Show the passing of time, commits and the last throttled update while the job says nothing."""
        while not self._over.wait(TICK_SECONDS):
            self.update()
            self._refresh_followers()

    def _refresh_followers(self) -> None:
        commits = self._progress.commits
        if commits != self._shown_commits:
            self._shown_commits = commits
            for follower in self._followers:
                try:
                    follower.refresh()
                except Exception as error:  # the job goes on, the others follow
                    warnings.warn(f"a view could not be refreshed: {error!r}", RuntimeWarning, stacklevel=2)

    def update(
        self,
        *,
        rows: int | None = None,
        total: int | None = None,
        committed: int | None = None,
        phase: str | None = None,
        commit: int | None = None,
        lag_s: float | None = None,
        chunk: tuple[int, str] | tuple[int, str, float] | None = None,
        chunks: int | None = None,
        log_head: int | None = None,
        log_done: int | None = None,
        log_name: str | None = None,
    ) -> None:
        """Report: `rows` so far, `commit` the snapshot just made, `chunk` = (number, state, share read).

        States of a chunk: waiting, reading, read, committed. `log_head` and `log_done` are bytes of the log:
        all there is, and what is in a snapshot. Cheap to call often; any thread may call it.
        """
        news: dict[str, Any] = {
            "rows": rows,
            "total": total,
            "committed": committed,
            "phase": phase,
            "lag_s": lag_s,
        }
        news |= {"log_head": log_head, "log_done": log_done, "log_name": log_name, "chunk_count": chunks}
        changes = {name: value for name, value in news.items() if value is not None}

        def updated(progress: IngestState) -> IngestState:
            progress = replace(progress, **changes)
            if chunk is not None:
                progress = with_chunk(progress, int(chunk[0]), *chunk[1:])
            return progress if commit is None else with_commit(progress, commit, at=progress.elapsed)

        self._change(updated)

    def describe(self, chunks: Sequence[Described], *, key: str = "") -> Self:
        """What the source says of its chunks, in order; `key` names the column they are cut by."""
        facts = tuple(ChunkRange(chunk.rows, chunk.lo, chunk.hi) for chunk in chunks)
        with self._state_lock:
            self._progress = replace(self._progress, facts=facts, key=key)
        bare = replace(self._progress, chunks={}, retried={})
        few = range(len(chunks) if len(chunks) <= MAX_CHUNKS else 0)
        self.cards = [[list(pair) for pair in chunk_words(bare, number)[1:]] for number in few]
        self._change(lambda progress: progress)
        return self

    def mark(
        self, name: str, *, low: int, high: int | None = None, note: str = "", committed: bool = False
    ) -> None:
        """A stretch of the log that a chunk or a batch takes; the same name again replaces it."""
        self._change(lambda progress: with_mark(progress, LogMark(name, low, high, note, committed)))

    def _change(self, change: Callable[[IngestState], IngestState]) -> None:
        """Take news in, with the time that has passed, and draw if the last picture is old enough."""
        with self._state_lock:
            now = self._clock()
            progress = self._progress
            if progress.state == "running":
                progress = replace(progress, elapsed=now - self._began - self._paused_for)
            progress = change(progress)
            if progress.state == "running":
                progress, self._sample = sampled(progress, self._sample, now)
            self._progress = progress
            due = now - self._drawn_at >= 1 / PER_SECOND
            if due:
                self._drawn_at = now
        if due:
            self.redraw()

    def proceed(self) -> bool:
        """Wait while paused; False once the job should end."""
        if not self._going.is_set():
            self._waits(True)
            self._going.wait()
            self._waits(False)
        return not self.stopped.is_set()

    def _waits(self, waits: bool) -> None:
        with self._state_lock:
            self._progress = replace(self._progress, waits=waits)
        self.redraw()

    def pause(self) -> Self:
        """Ask the job to wait at its next `proceed()`."""
        with self._state_lock:
            if self._progress.state == "running":
                self._going.clear()
                self._paused_at = self._clock()
                self._become("paused")
                stalls = (*self._progress.stalls, self._progress.samples)
                self._progress = replace(self._progress, stalls=stalls)
        self.redraw()
        return self

    def resume(self) -> Self:
        """Let a paused job go on."""
        with self._state_lock:
            if self._progress.state == "paused":
                self._end_pause()
                self._become("running")
        self._going.set()
        self.redraw()
        return self

    def stop(self) -> Self:
        """Ask the job to end; it does so the next time it looks at `stopped` or calls `proceed()`."""
        self.stopped.set()
        with self._state_lock:
            if self._progress.state == "paused":
                self._end_pause()
            if self._progress.state in ("running", "paused"):
                self._become("stopping")
        self._going.set()
        self.redraw()
        return self

    def _end_pause(self) -> None:
        now = self._clock()
        self._paused_for += now - self._paused_at
        self._sample = Sample(now, self._progress.rows)

    def _become(self, state: str, **changes: Any) -> None:
        with self._state_lock:
            elapsed = self._clock() - self._began - self._paused_for
            self._progress = replace(self._progress, state=state, elapsed=elapsed, **changes)

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the job is over, and raise what it raised."""
        if self._worker is not None:
            self._worker.join(timeout)
            if self._worker.is_alive():
                raise TimeoutError(f"{self._progress.title} still runs after {timeout} s")
        if (failure := self._failure) is not None:
            raise failure
        return self

    def refresh(self) -> Self:
        """Draw again."""
        self.redraw()
        return self

    def figure(self, *, width: float) -> Figure:
        """Figures, bar and chunk map."""
        return ingest_figure(self._progress, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, phase and state."""
        progress = self._progress
        state = progress.state if progress.state != "running" else ""
        if state == "paused" and not progress.waits:
            state = "pausing: the job waits at its next step"
        parts = [part for part in (progress.phase, state) if part]
        return {"title": progress.title, "subtitle": " · ".join(parts), "state": progress.state}

    def text(self) -> str:
        """One bar and the figures."""
        return text_form(self._progress)

    def data(self) -> dict[str, Any]:
        """The figures as a dict."""
        progress = self._progress
        names = (
            "state",
            "phase",
            "rows",
            "committed",
            "total",
            "commits",
            "commit",
            "lag_s",
            "elapsed",
            "error",
        )
        speed = {"rows_per_second": progress.mean_speed, "text": fmt.duration(progress.elapsed)}
        return {name: getattr(progress, name) for name in names} | speed

    def chart_rows(self) -> pa.Table:
        """The figures that are numbers, one a row."""
        figures = {name: value for name, value in self.data().items() if isinstance(value, int | float)}
        values = pa.array(map(float, figures.values()), pa.float64())
        return pa.table({"figure": pa.array(figures, pa.string()), "value": values})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The picture as it stands; its buttons need a kernel."""
        return self.export_spec(
            "ingest", widths, self.export_frames(widths), "cards", snapshot=None, selected=[]
        ) | {"reply": "plain"}
