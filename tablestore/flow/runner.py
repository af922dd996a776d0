"""What runs streams: Spark, or processes of this machine. `runner_of` is the one place that chooses.

A runner plans batches, records their offsets before they begin (`checkpoint.py`), and runs tasks; what a
batch computes and where it is committed is its caller's. A batch may come again after a crash, with the same
number and offsets. Both runners keep the same files, so that either goes on where the other has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tablestore import doors
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unsupported
from tablestore.flow.batch import Batch, WorkPlan
from tablestore.flow.checkpoint import Checkpoint
from tablestore.flow.local import LocalStream, TaskWorkers
from tablestore.flow.source import Offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
SPARK, LOCAL = "spark", "local"
ENGINES = (SPARK, LOCAL)


class Stream(Protocol):
    """A stream at work. `error` is what ended it, None while it runs, once it was stopped and once it has
    ended."""

    error: BaseException | None

    @property
    def running(self) -> bool:
        """Whether it is still at work."""

    def pause(self) -> None:
        """Let no batch begin until `resume`; the one that is being carried out is finished."""

    def resume(self) -> None:
        """Let batches begin again."""

    def stop(self) -> None:
        """End it between two batches; the one that is being carried out is finished first."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""

    def failure(self) -> BaseException | None:
        """What ended it, in our words where it was ours."""

    def quiet_seconds(self) -> float:
        """For how long nothing has come of the batch that is being planned or carried out; 0 between two."""


class TaskPool(Protocol):
    """Carries out tasks that are of no stream. Safe to share between threads."""

    @property
    def most(self) -> int:
        """How many tasks run at a time."""

    def run(
        self, task: Callable[[T], R], items: Sequence[T], *, done: Callable[[int, R], None] | None = None
    ) -> list[R]:
        """What the task gives for each item, in order; `done` gets the place of an item and what it gave.
        All of it is picklable. Raises the error of an item that failed, once no task is under way."""

    def close(self) -> None:
        """Let go of processes that are the pool's own."""


class Runner(Protocol):
    """Runs streams, and tasks of no stream."""

    def pool(self) -> TaskPool:
        """What carries out tasks that are of no stream."""

    def start(
        self,
        plan: WorkPlan,
        on_batch: Callable[[Batch], None],
        *,
        checkpoint: str,
        start: Offset | None = None,
        interval_seconds: float = 1.0,
        variables: Sequence[str] = (),
    ) -> Stream:
        """Start a stream over what is planned; `on_batch` carries out each batch, in a thread of its own.

        `start` is where the first batch of a new checkpoint begins (None: at the beginning). A batch is
        planned every `interval_seconds`. `variables` of this process's environment are those of its workers,
        too. An error of `on_batch` ends the stream.
        """


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Tasks are done by processes of this machine: `processes` of them, None: one a core."""

    processes: int | None = None

    def pool(self) -> TaskPool:
        """Processes of this machine, which start when they are needed."""
        return TaskWorkers(self.processes)

    def start(
        self,
        plan: WorkPlan,
        on_batch: Callable[[Batch], None],
        *,
        checkpoint: str,
        start: Offset | None = None,
        interval_seconds: float = 1.0,
        **_: Any,
    ) -> LocalStream:
        """As `Runner.start`; workers have all variables of this process."""
        stream = LocalStream(plan, on_batch, Checkpoint.at(checkpoint), TaskWorkers(self.processes))
        stream.start(start=start, interval_seconds=interval_seconds)
        return stream


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Tasks are Spark's; each stream is a query of it."""

    spark: SparkSession

    def pool(self) -> TaskPool:
        """Spark's workers."""
        return doors.spark_tasks(self.spark)

    def start(self, plan: WorkPlan, on_batch: Callable[[Batch], None], **how: Any) -> Stream:
        """As `Runner.start`."""
        return doors.start_stream(self.spark, plan, on_batch, **how)


def require_engine(engine: str, *, spark: object, processes: int | None) -> None:
    """Raise NotFound for the name of no engine, InvalidRequest for what another engine takes."""
    if engine not in ENGINES:
        raise NotFound.among("engine", engine, ENGINES)
    if engine == LOCAL and spark is not None:
        raise InvalidRequest(f'spark= is a session of engine="{SPARK}"; leave it out with engine="{LOCAL}"')
    if engine == SPARK and processes is not None:
        raise InvalidRequest(
            f'processes= is of engine="{LOCAL}"; with Spark say it of the session: ts.spark.session(cores=…)'
        )
    if processes is not None and processes < 1:
        raise InvalidRequest(f"processes {processes!r} must be a number above 0")


def runner_of(engine: str, *, spark: SparkSession | None = None, processes: int | None = None) -> Runner:
    """The runner of that name; Spark's with a session (None: one is started). Raises MissingPackage, NotFound
    or InvalidRequest where there is no PySpark or no Java, which name the other engine."""
    require_engine(engine, spark=spark, processes=processes)
    if engine == LOCAL:
        return LocalRunner(processes)
    return SparkRunner(spark_session() if spark is None else spark)


def spark_session(
    app: str = "tablestore",
    *,
    cores: int | None = None,
    log_file: str | None = None,
    remedy: str = f'choose engine="{LOCAL}"',
    conf: Mapping[str, Any] | None = None,
) -> SparkSession:
    """The session that runs, or a new one: local, or as the settings `conf` say.

    Raises MissingPackage, NotFound or InvalidRequest where there is no PySpark or no Java, which name the
    `remedy`: how to choose the other engine."""
    try:
        return doors.spark_session(app, cores=cores, log_file=log_file, **dict(conf or {}))
    except (Unsupported, NotFound, InvalidRequest) as e:
        raise _with_remedy(e, remedy) from None


def _with_remedy(error: TablestoreError, remedy: str) -> TablestoreError:
    """The error, whose text names what works without what is missing."""
    error.args = (f"{error.args[0]}; or {remedy}, which needs neither Spark nor Java", *error.args[1:])
    return error


_LOOK_SECONDS = 0.2  # in turn at each stream


class StreamsTogether:
    """Streams at work, of which one that fails stops the others. Safe to share between threads, but for
    `wait`, which is of one."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams, self._left = tuple(streams), tuple(streams)
        self.error: BaseException | None = None

    @classmethod
    def started(cls, begins: Iterable[Callable[[], Stream]]) -> StreamsTogether:
        """What these start; where one does not start, none is left running."""
        streams: list[Stream] = []
        try:
            for begin in begins:
                streams.append(begin())
        except BaseException:
            cls(streams).stop()
            raise
        return cls(streams)

    @property
    def running(self) -> bool:
        """Whether one of them is still at work."""
        return any(stream.running for stream in self._streams)

    def pause(self) -> None:
        """Let no batch begin until `resume`."""
        for stream in self._streams:
            stream.pause()

    def resume(self) -> None:
        """Let batches begin again."""
        for stream in self._streams:
            stream.resume()

    def stop(self) -> None:
        """End each between two of its batches."""
        for stream in self._streams:
            stream.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all have ended, `seconds` at most; whether they have. One that fails ends the others."""
        waited = 0.0
        while self._left and (seconds is None or waited < seconds):
            waited += _LOOK_SECONDS * len(self._left)
            self._left = tuple(stream for stream in self._left if not self._has_ended(stream))
            if self.error is not None:
                self.stop()
                self._left = ()
        return not self._left

    def failure(self) -> BaseException | None:
        """What ended them."""
        return self.error

    def quiet_seconds(self) -> float:
        """That of the one of which nothing has come for longest."""
        return max((stream.quiet_seconds() for stream in self._streams if stream.running), default=0.0)

    def _has_ended(self, stream: Stream) -> bool:
        ended = stream.wait(_LOOK_SECONDS)
        if ended:
            self.error = self.error or stream.failure()
        return ended
