"""LogAndLake: the log of a table above, the table's snapshots below, and how a reader goes through both.

A look asks the log for its bounds and the table for its newest snapshot; only where one of them has changed
are files and snapshots read again, and of both their headers alone. A running stream is read in a thread;
every look holds the lock.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit.jobs import JobRunner, ViewJob
from widgets.kit.source import option_map, require_source, title_of
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.kit.watch import WatchingView
from widgets.log.figure import log_figure
from widgets.log.model import (
    LogModel,
    LogSegment,
    kept_in,
    segments_of,
    snapshots_of,
    text_form,
    transactions_of,
)
from widgets.log.steps import ReaderModel, StreamStep, offsets_of_cursor, steps_of

LOOK_SECONDS, NEWEST, MOST_TRANSACTIONS, PLANNED, KEPT = 1.0, 200, 2_000, 40, 1_000
Start = str | Mapping[str, Any]
Reader = Start | StreamStep | Sequence[StreamStep] | Iterator[StreamStep]


class LogSource(Protocol):
    """A table with a log."""

    @property
    def log(self) -> Any: ...

    def stream(self, *, start: Any, follow: bool, normalize: bool | None) -> Iterator[Any]: ...


class LogAndLake(WatchingView):
    """Two lanes over one axis of offsets: the log with its files, and the snapshots at the offsets that they
    name. What lies behind the newest snapshot is in the log only.

    `table` has a log (`log.system`). `reader` is one whose place and next steps are shown: a cursor or any
    other start of a stream, a step (`Change`) or a list of those that it has taken, or a running stream,
    whose steps are then taken in a thread (their rows are not read); None: a reader who would begin now.
    `take` adds a step. `bucket` is the one to show, None: all, with offsets added up. `follow` is the seconds
    between two looks (0: none), see `watch`; a look is cheap where nothing has changed. Other traits
    (`width`, …) go by keyword.

    >>> options = {"log.system": "embedded", "bucket": 1}
    >>> lake, columns = ts.connect("lake"), {"n": ts.BIGINT}
    >>> visits = lake.create_table("shop.visits", schema=columns, primary_key=["n"], options=options)
    >>> committed = visits.write({"n": [1, 2, 3]}), visits.write({"n": [4]})
    >>> view = widgets.LogAndLake(visits, reader={"log": {0: 3}}, follow=0)
    >>> view.model.in_files, view.model.log_only, [step.kind for step in view.model.reader.planned]
    ({0: 4}, 0, ['log'])
    """

    links = ()
    chart = Asked(x="bucket", y="record_count", kind="bars")
    _esm = module("log")
    unreadable = ("The log of the table could not be read.", "Is the table still there, and its broker up?")
    bucket = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        table: LogSource,
        *,
        reader: Reader | None = None,
        bucket: int | None = None,
        follow: float = LOOK_SECONDS,
        **kwargs: object,
    ) -> None:
        self._runner, seconds = JobRunner("log-reader"), float(follow)
        require_source(table, "LogAndLake")
        log: Any = getattr(table, "log", None)
        if log is None:
            raise ts.InvalidRequest(
                f"LogAndLake takes a table with a log, and {title_of(table) or 'this one'} has none: make "
                "one with options={'log.system': 'embedded', 'bucket': 1}"
            )
        self._table, self._log = table, log
        self._title = title_of(table)
        self._start, self._taken, stream = _reader_of(reader)
        self._given = reader
        self._reading = threading.RLock()
        self._seen: tuple[object, ...] = ()
        self._stream_end = ""
        super().__init__(bucket=bucket, **kwargs)
        self.observe(lambda _change: self.refresh(), "bucket")
        try:
            self._load()
        except BaseException:
            self.close()
            raise
        if seconds:
            self.watch(seconds)
        if stream is not None:
            self._runner.start(lambda job: self._read_stream(stream, job), after=self._stream_over)

    @traitlets.validate("bucket")
    def _known_bucket(self, proposal: Mapping[str, Any]) -> int | None:
        bucket: int | None = proposal["value"]
        buckets = sorted(self._log.end)
        if bucket is not None and bucket not in buckets:
            raise traitlets.TraitError(f"bucket {bucket} is none of the log's: 0 to {buckets[-1]}")
        return bucket

    @property
    def model(self) -> LogModel:
        """The moment that is drawn as a value."""
        return self._model

    @property
    def code(self) -> str:
        """The calls that give what is drawn."""
        return "table.log.segments()\ntable.log.transactions()\ntable.log.snapshots()"

    def take(self, step: StreamStep) -> Self:
        """A reader has taken this `step` of a stream of the table."""
        self._taken.append(step)
        del self._taken[:-KEPT]
        return self.refresh()

    def look(self) -> None:
        """Read again if the log or the snapshots have changed since, or the reader has gone on."""
        with self._reading:
            try:
                changed = self._state() != self._seen
            except Exception:
                changed = True  # refresh says what failed
            if changed:
                self.refresh()

    def _state(self) -> tuple[object, ...]:
        """What a look compares."""
        taken = self._steps()
        return (
            self._log.newest_snapshot,
            sorted(self._log.start.items()),
            sorted(self._log.end.items()),
            len(taken),
            taken[-1].cursor if taken else None,
            self._stream_end,
        )

    def _load(self) -> None:
        log, seen = self._log, self._state()
        segments = segments_of(log.segments())
        snapshots = snapshots_of(log.snapshots(newest=NEWEST))
        transactions = transactions_of(log.transactions(_recent(segments) if segments else log.in_files))
        self._model = LogModel(
            self._title,
            log.system,
            log.consistency,
            log.topic,
            self.bucket,
            log.start,
            log.end,
            log.visible,
            log.in_files,
            segments,
            transactions,
            snapshots,
            max(snapshots[0].id - 1, 0) if len(snapshots) == NEWEST else 0,
            self._reader(),
        )
        self._seen = seen
        self.redraw()

    def _steps(self) -> Sequence[StreamStep]:
        """The steps that the reader has taken; a list of the caller's may have grown."""
        return self._given if isinstance(self._given, list) else self._taken

    def _reader(self) -> ReaderModel:
        """Where the reader is, and what a stream from there would give now, in the engine's words."""
        steps = list(self._steps())
        taken = steps_of(steps, None)
        if steps:
            start: Start = steps[-1].cursor
            place = offsets_of_cursor(steps[-1].cursor)
            title = f"{len(steps):,} steps taken" if len(steps) > 1 else "1 step taken"
        else:
            start = "latest-full" if self._start is None else self._start
            place = _place_of(start)
            title = _title_of(self._start)
        if self._stream_end:
            return ReaderModel(title, taken, place, (), self._stream_end, failed=True)
        coming: list[StreamStep] = []
        failed, end = False, "then it waits for rows"
        try:
            steps_now = self._table.stream(start=start, follow=False, normalize=self._normalize)
            for step in itertools.islice(steps_now, PLANNED):
                coming.append(step)
                if step.source == "log":  # up to the visible end
                    break
            if len(coming) == PLANNED:
                end = "and so on"
        except ts.TablestoreError as error:
            failed, end = True, f"{type(error).__name__}: {error}"
        if not coming and not failed:
            end = "it has read all that is visible, and waits for rows"
        return ReaderModel(title, taken, place, steps_of(coming, place), end, failed)

    @property
    def _normalize(self) -> bool | None:
        """False where a normaliser would read the state: its steps are the same."""
        engine = option_map(self._table).get("merge-engine", "deduplicate")
        return False if engine == "deduplicate" else None

    def _read_stream(self, stream: Iterator[StreamStep], job: ViewJob) -> None:
        """Take the steps of a running stream."""
        try:
            for step in stream:
                if job.stopped:
                    return
                self._taken.append(step)
                del self._taken[:-KEPT]
                if not self.watching:  # else the next look sees it
                    self.look()
        except Exception as error:  # the lane of the reader shows it
            self._stream_end = f"{type(error).__name__}: {error}"

    def _stream_over(self) -> None:
        self.refresh()

    def close(self) -> None:
        """Stop following, let go of a running stream, leave the page."""
        self._runner.stop()
        super().close()

    def figure(self, *, width: float) -> Figure:
        """Figures, the log, the lake, the reader."""
        return log_figure(self.model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and what holds the log."""
        return {"title": self._title, "subtitle": kept_in(self._model)}

    def text(self) -> str:
        """The two lanes as bars, the newest snapshots, the reader."""
        return text_form(self.model)

    def data(self) -> pa.Table:
        """The files of the log by bucket: `table.log.segments()`."""
        return self._log.segments()

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The picture as it stands, of the buckets that are shown."""
        return self.export_spec("log", widths, self.export_frames(widths), "bucket") | {"reply": "plain"}


def _reader_of(reader: Any) -> tuple[Start | None, list[StreamStep], Iterator[StreamStep] | None]:
    """(where it starts, the steps it has taken, the stream it reads)."""
    if reader is None or isinstance(reader, str | Mapping):
        return reader, [], None
    if _is_step(reader):
        return None, [reader], None
    if isinstance(reader, Sequence) and all(map(_is_step, reader)):
        return None, list(reader), None
    if isinstance(reader, Iterator):
        return None, [], reader
    raise ts.InvalidRequest(
        f"reader {type(reader).__name__}: give a cursor, a step of table.stream() or a list of them, or a "
        "running stream"
    )


def _is_step(step: object) -> bool:
    return isinstance(getattr(step, "cursor", None), str) and hasattr(step, "source")


def _place_of(start: Start) -> dict[int, int] | None:
    """The offsets of a cursor, or of {"log": offsets}; None of other starts."""
    if isinstance(start, str):
        return offsets_of_cursor(start)
    offsets = start.get("log")
    return {int(b): int(o) for b, o in offsets.items()} if isinstance(offsets, Mapping) else None


def _title_of(start: Start | None) -> str:
    if start is None:
        return "who begins now, with latest-full"
    if _place_of(start) is not None:
        return "at a cursor"
    return (
        f"who begins with {start}" if isinstance(start, str) and len(start) < 40 else "at a start of its own"
    )


def _recent(segments: Sequence[LogSegment]) -> dict[int, int]:
    """The offsets behind which there are `MOST_TRANSACTIONS` at most, or one file."""
    count, start = 0, dict(segments[-1].start)
    for segment in reversed(segments):
        count += segment.transactions
        if count > MOST_TRANSACTIONS and segment is not segments[-1]:
            break
        start.update(segment.start)
    return start
