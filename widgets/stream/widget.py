"""StreamTable: the changes of a query as they come, and a button that stops it.

A thread reads the stream and keeps the last rows; another one draws them at most five times a second. State
is one frozen `StreamModel` behind one lock.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

import tablestore as ts
from widgets.kit.svg import Figure
from widgets.kit.view import View, module
from widgets.stream.figure import stream_figure
from widgets.stream.model import (
    OP,
    StreamModel,
    at_time,
    state_text,
    text_form,
    with_batch,
)

FRAME_SECONDS = 0.2


@runtime_checkable
class Stream(Protocol):
    """Batches with the kind of change as column `op`, as a SELECT in streaming mode gives them."""

    @property
    def schema(self) -> pa.Schema: ...

    def to_batches(self) -> Iterator[pa.RecordBatch]: ...

    def stop(self) -> None: ...


class StreamTable(View):
    """The changes of a query as they come: the last rows, how many of each kind, rows a second; Stop.

    `stream` is the result of a SELECT in streaming mode; it is read from now on, in a thread, until `stop` or
    its end. `keep` is how many rows are shown, `title` stands above them; `clock` gives the
    seconds by which rows are counted. Other traits (`width`, …) go by keyword.

    >>> session = ts.sql_session()
    >>> _ = session.sql("SET 'execution.runtime-mode' = 'streaming'")
    >>> view = widgets.StreamTable(session.sql("SELECT * FROM (VALUES (1), (2)) AS t (x)")).wait()
    >>> view.data()["x"].to_pylist(), view.model.counts
    ([1, 2], {'+I': 2})
    """

    links = ()
    _esm = module("stream")
    verbs = ("stop",)

    def __init__(
        self,
        stream: Stream,
        *,
        title: str = "stream",
        keep: int = 15,
        clock: Callable[[], float] = time.monotonic,
        **kwargs: object,
    ) -> None:
        if not isinstance(stream, Stream) or OP not in stream.schema.names:
            raise ts.InvalidRequest(
                f"StreamTable takes the result of a SELECT in streaming mode, not {type(stream).__name__}"
            )
        if keep < 1:
            raise ts.InvalidRequest(f"keep {keep} rows: at least one")
        self._stream, self._keep, self._clock = stream, keep, clock
        self._model = StreamModel(title, stream.schema.empty_table())
        self._lock = threading.Lock()
        self._over, self._came = threading.Event(), threading.Event()
        self._began = clock()
        super().__init__(**kwargs)
        self.redraw()
        self._reader = threading.Thread(target=self._read, name="stream", daemon=True)
        self._reader.start()
        threading.Thread(target=self._draw, name="stream-clock", daemon=True).start()

    @property
    def model(self) -> StreamModel:
        """The present moment as a value."""
        return self._model

    @property
    def running(self) -> bool:
        """Whether rows may still come."""
        return not self._over.is_set()

    def _read(self) -> None:
        state, error = "ended", ""
        try:
            for batch in self._stream.to_batches():
                with self._lock:
                    self._model = with_batch(self._model, batch, keep=self._keep)
                self._came.set()
        except BaseException as problem:
            state, error = "failed", f"{type(problem).__name__}: {problem}"
        with self._lock:
            state = "stopped" if self._model.state == "stopping" and not error else state
            self._model = replace(at_time(self._model, self._clock() - self._began), state=state, error=error)
        self._over.set()
        self._came.set()
        self.redraw()

    def _draw(self) -> None:
        while not self._over.wait(FRAME_SECONDS):
            with self._lock:
                if self._model.live:
                    self._model = at_time(self._model, self._clock() - self._began)
            self.redraw()

    def stop(self) -> Self:
        """Stop following; what came stays."""
        with self._lock:
            if self._model.live:
                self._model = replace(self._model, state="stopping")
        self._stream.stop()
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the stream has ended or was stopped. Raises TimeoutError."""
        self._reader.join(timeout)
        if self._reader.is_alive():
            raise TimeoutError(f"{self._model.title} still runs after {timeout} s")
        return self

    def wait_for_rows(self, timeout: float) -> Self:
        """Block until the first rows are there, at most so many seconds."""
        self._came.wait(timeout)
        self._over.wait(FRAME_SECONDS)  # what ends at once is shown whole
        self.redraw()
        return self

    def close(self) -> None:
        """Stop following and leave the page."""
        if hasattr(self, "_model"):
            self.stop()
        super().close()

    def refresh(self) -> Self:
        """Draw again."""
        self.redraw()
        return self

    def figure(self, *, width: float) -> Figure:
        """Numbers and the last rows."""
        return stream_figure(self._model, keep=self._keep, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and state."""
        model = self._model
        return {"title": model.title, "subtitle": state_text(model), "state": model.state}

    def text(self) -> str:
        """The last rows in a terminal."""
        return text_form(self._model)

    def data(self) -> pa.Table:
        """The last rows."""
        return self._model.last

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The picture as it stands; its button needs a kernel."""
        return self.export_spec("stream", widths, self.export_frames(widths)) | {"reply": "plain"}
