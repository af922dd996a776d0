"""A stream by Spark: one Structured Streaming query whose batches a function of the driver carries out.

Spark plans batches, records their offsets before they begin, and runs tasks; what a batch computes and where
it is committed is its caller's. A batch may come again after a crash, with the same number and offsets. The
query ends by itself once all sources have ended.
"""

from __future__ import annotations

import gc
import json
import logging
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import TablestoreError, Unavailable
from tablestore.flow.batch import WorkPlan
from tablestore.flow.checkpoint import Checkpoint
from tablestore.flow.source import Offset
from tablestore.spark.sessions import pass_environment
from tablestore.spark.work_source import encoded

logging.getLogger("py4j.clientserver").addFilter(lambda record: "Python Proxy" not in record.msg)
"""The error of a batch is raised by who waits for the query; py4j would print its traceback, too."""
log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
_LOOK_SECONDS = 0.05  # between two looks whether Spark has recorded a batch
_PAUSE_LOOK_SECONDS = 0.5  # between two looks whether a paused query is still there
Counts = tuple[int, dict[int, int]]  # the number of a batch, and the count of each of its pieces


class StreamJob:
    """A running query. `error` is what ended it, None while it runs and where it was stopped or has ended."""

    def __init__(
        self,
        spark: SparkSession,
        plan: WorkPlan,
        on_batch: Callable[[WorkBatch], None],
        checkpoint: str,
        *,
        env: Env = SYSTEM,
    ) -> None:
        self._spark, self._plan, self._on_batch, self._env = spark, plan, on_batch, env
        self._first: Offset | None = None
        self._checkpoint = Checkpoint.at(checkpoint)
        self._query: StreamingQuery | None = None
        self._turn = threading.Lock()  # who holds it carries out a batch, or ends the query between two
        self._going = threading.Event()  # unless it is paused
        self._going.set()
        self._over = threading.Event()  # sources have ended, or somebody stops the query
        self._counts = spark.sparkContext.accumulator((-1, {}), _NewestCounts())
        self._seen: tuple[str, Counts] | None = ("", (-1, {}))  # what Spark was at when it was looked at
        self._since = self._env.monotonic()  # when it was seen there first
        self.error: BaseException | None = None

    def start(self, *, start: Offset | None, interval_seconds: float) -> None:
        """Start the query. `start` is where the first batch of a new checkpoint begins, None: at the
        beginning."""
        self._first = start
        self._checkpoint.remove_remains()
        reader = self._spark.readStream.format("tablestore-work").option("plan", encoded(self._plan))
        works = reader.option("start", json.dumps(start)).load()
        writer = works.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", self._checkpoint.directory
        )
        self._query = writer.trigger(processingTime=f"{int(interval_seconds * 1000)} milliseconds").start()
        if self._checkpoint.pending() is None and self._plan.ended(self._reached()):
            self._over.set()
        threading.Thread(target=self._end_when_over, name="tablestore-job", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether the query is still at work."""
        return self._query is not None and bool(self._query.isActive)

    @property
    def paused(self) -> bool:
        """Whether it waits for `resume`."""
        return not self._going.is_set()

    def pause(self) -> None:
        """Let no batch begin until `resume`; the one that is being carried out is finished."""
        self._going.clear()

    def resume(self) -> None:
        """Let batches begin again."""
        self._going.set()

    def stop(self) -> None:
        """End the query between two batches; the one that is being carried out is finished first."""
        self._over.set()
        self._going.set()
        with self._turn:
            if self._query is not None:
                self._query.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query has ended; whether it has."""
        assert self._query is not None, "it was started"
        try:
            if seconds is None:
                self._query.awaitTermination()
            else:
                self._query.awaitTermination(max(1, int(seconds)))
            self._look()
        except Exception as e:  # what ended the query
            self._failed(e)
        return not self.running

    def failure(self) -> BaseException | None:
        """What ended the query, in our words where it was ours."""
        if self.error is None and self._query is not None and not self.running and not self._over.is_set():
            error = self._query.exception()
            if error is not None:
                self._failed(error)
        return self.error

    def quiet_seconds(self) -> float:
        """For how long nothing has come of the batch that is being planned or carried out, as far as `wait`
        looked; 0 between two."""
        return 0.0 if self._seen is None else self._env.monotonic() - self._since

    def _look(self) -> None:
        """Note what Spark is at, and since when."""
        assert self._query is not None, "it was started"
        status = self._query.status
        seen = (status["message"], self._counts.value) if status["isTriggerActive"] else None
        if seen != self._seen:
            self._seen, self._since = seen, self._env.monotonic()

    def _failed(self, error: BaseException) -> None:
        if self.error is None and not self._over.is_set():
            self.error = _with_causes(error)

    def _batch(self, _: DataFrame, number: int) -> None:
        """What Spark calls with each batch."""
        while not self._going.wait(_PAUSE_LOOK_SECONDS):
            if not self.running:  # Spark has given it up meanwhile
                raise RuntimeError("the query has ended")
        with self._turn:
            if self._over.is_set():  # to return would tell Spark that the batch is done
                raise RuntimeError("the query is being stopped")
            end = self._checkpoint.end(number)  # which Spark records before it begins
            try:
                begin = self._begin(number)
                works = partial(self._plan.works, begin, end)
                self._on_batch(WorkBatch(self._spark, works, number, begin, end, counts=self._counts))
                self._plan.done(end)
            except BaseException as e:
                self.error = e
                raise
        if self._plan.ended(end):
            self._over.set()

    def _begin(self, number: int) -> Offset:
        """Where a batch begins: at the end of the one before."""
        before = self._checkpoint.start(number) if number else self._first
        return self._plan.initial() if before is None else before

    def _reached(self) -> Offset:
        """Where the newest planned batch ends, or the first begins."""
        newest = self._checkpoint.planned()
        return self._begin(0) if newest is None else self._checkpoint.end(newest)

    def _end_when_over(self) -> None:
        """Stop the query when its sources have ended, once Spark has recorded the last batch."""
        while not self._over.wait(_LOOK_SECONDS * 4):
            if not self.running:
                return
        waiter = threading.Event()
        for _ in range(100):
            if not self.running or self._checkpoint.pending() is None:
                break
            waiter.wait(_LOOK_SECONDS)
        with self._turn:
            if self._query is not None:
                self._query.stop()


def start_stream(
    spark: SparkSession,
    plan: WorkPlan,
    on_batch: Callable[[WorkBatch], None],
    *,
    checkpoint: str,
    start: Offset | None = None,
    interval_seconds: float = 1.0,
    variables: Sequence[str] = (),
) -> StreamJob:
    """Start a query over what is planned; `on_batch` carries out each batch, in a thread of the driver.

    `start` is where the first batch of a new checkpoint begins; `variables` of this process's environment
    are those of its workers, too. An error of `on_batch` ends the query.
    """
    pass_environment(spark, variables)
    job = StreamJob(spark, plan, on_batch, checkpoint)
    job.start(start=start, interval_seconds=interval_seconds)
    return job


class WorkBatch:
    """A batch whose tasks are Spark's."""

    def __init__(
        self,
        spark: SparkSession,
        works: Callable[[], Sequence[Any]],
        number: int,
        start: Offset,
        end: Offset,
        *,
        counts: Accumulator[Counts],
    ) -> None:
        self._spark, self._works, self._counts = spark, works, counts
        self.number, self.start, self.end = number, start, end

    def works(self) -> Sequence[Any]:
        """The pieces in order."""
        return self._works()

    def counted(self) -> Mapping[int, int]:
        """The counts of the items that are done, by their places, in their order."""
        number, counts = self._counts.value
        return dict(sorted(counts.items())) if number == self.number else {}

    def over(
        self, task: Callable[[T], R], items: Sequence[T], *, count: Callable[[R], int] | None = None
    ) -> list[R]:
        """What a task gives for each item, in order. `counted` has what is counted in each result as soon as
        its item is done."""
        if not items:
            return []
        counting = None if count is None else _ItemCount(self.number, count, self._counts)
        return _results(_answers(self._spark, _OverItems(task, counting), items))


class SparkTasks:
    """Carries out tasks by Spark's workers. Where Spark does a task twice, what the first wrote is left."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def most(self) -> int:
        """The cores of the session."""
        return max(self._spark.sparkContext.defaultParallelism, 1)

    def run(
        self, task: Callable[[T], R], items: Sequence[T], *, done: Callable[[int, R], None] | None = None
    ) -> list[R]:
        """What the task gives for each item, in order; once no task is under way, `done` gets what is good,
        and then the error of the first item that failed is raised."""
        answers = _answers(self._spark, _OverItems(task, None), items) if items else []
        for place, (good, value) in enumerate(answers):
            if good and done is not None:
                done(place, value)
        return _results(answers)

    def close(self) -> None:
        """Nothing: the session is the caller's."""


def _answers(spark: SparkSession, task: _OverItems, items: Sequence[Any]) -> list[tuple[bool, Any]]:
    """For each item, whether it is done, and its result or its error."""
    sent = [(place, pickle.dumps(item)) for place, item in enumerate(items)]
    return [
        pickle.loads(answer) for answer in spark.sparkContext.parallelize(sent, len(sent)).map(task).collect()
    ]


def _results(answers: Sequence[tuple[bool, Any]]) -> list[Any]:
    """The results, or the first error."""
    for good, value in answers:
        if not good:
            raise value
    return [value for _, value in answers]


class _NewestCounts(AccumulatorParam[Counts]):
    """The counts of the newest batch, gathered in the driver."""

    def zero(self, value: Counts) -> Counts:
        return -1, {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:
        if value1[0] != value2[0]:
            return max(value1, value2, key=lambda counts: counts[0])
        return value1[0], {**value1[1], **value2[1]}


class _ItemCount:
    """Tells the driver what is counted in the result of an item."""

    def __init__(self, number: int, count: Callable[[Any], int], counts: Accumulator[Counts]) -> None:
        self._number, self._count, self._counts = number, count, counts

    def note(self, place: int, result: Any) -> None:
        self._counts.add((self._number, {place: self._count(result)}))


def _with_causes(error: BaseException) -> BaseException:
    """The error with the causes that PySpark keeps of those of the JVM where Python looks for them."""
    cause = getattr(error, "_cause", None)
    if isinstance(cause, BaseException):
        error.__cause__ = _with_causes(cause)
    return error


class _OverItems:
    """The function of a Python worker over items, each with its place."""

    def __init__(self, task: Callable[[Any], Any], counting: _ItemCount | None) -> None:
        self._task, self._counting = task, counting

    def __call__(self, item: tuple[int, bytes]) -> bytes:
        pa.set_cpu_count(1)
        place, sent = item
        return _attempt(partial(self._counted, place), pickle.loads(sent))

    def _counted(self, place: int, item: Any) -> Any:
        result = self._task(item)
        if self._counting is not None:
            self._counting.note(place, result)
        return result


def _attempt(task: Callable[[Any], Any], item: Any) -> bytes:
    """What a task gives, or the error that no second attempt mends: so the driver gets it as it is."""
    try:
        return pickle.dumps((True, task(item)))
    except Unavailable:
        raise
    except TablestoreError as e:
        return pickle.dumps((False, e))
    finally:
        _spare_modules()


@cache
def _spare_modules() -> None:
    """Exempt what a worker has loaded with its first task from garbage collection. Spark collects after each
    task, which would take a tenth of a second for modules alone."""
    gc.collect()
    gc.freeze()
