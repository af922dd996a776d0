"""Rounds of tiering on Spark: each task reads the splits of a part of a round, from the cluster into files.

Rows never pass through the JVM: a task gets the address of the cluster and offsets, and gives back commit
messages, as versioned bytes. The commit is the driver's. A task that Spark runs twice leaves files that
nobody commits, which the removal of orphan files finds.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from tablestore.core.errors import RoundStopped
from tablestore.tiering.committer import SplitResult
from tablestore.tiering.readers import (
    BoundedSplitReader,
    Observe,
    ReadSeconds,
    SplitProgress,
    SplitTask,
    discard,
)
from tablestore.tiering.runner import Stopped, TaskResult


class SparkRunner:
    """Runs tasks of rounds as tasks of a Spark job, as many at a time as the session has cores."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def parallel(self) -> int:
        """The cores of the session."""
        return max(self._spark.sparkContext.defaultParallelism, 1)

    def run(self, tasks: Sequence[SplitTask], *, observe: Observe, stopped: Stopped) -> TaskResult:
        """The results of all tasks. A round that is stopped meanwhile ends after its job."""
        works = [pickle.dumps(task) for task in tasks]
        done = self._spark.sparkContext.parallelize(works, len(works)).map(_work).collect()
        results: list[SplitResult] = []
        seconds = ReadSeconds()
        for task, (found, moved, fetch, write) in zip(tasks, done, strict=True):
            results += [_result(task, *one) for one in found]
            seconds.fetch += fetch
            seconds.write += write
            for one in moved:
                observe(one)
        if stopped():
            for task in tasks[:1]:
                discard(task, results)
            raise RoundStopped()
        return TaskResult(tuple(results), seconds)

    def close(self) -> None:
        """Nothing: the session is the caller's."""


_Result = tuple[Any, int, bytes | None, int, Any]


def _result(
    task: SplitTask, split: Any, version: int, data: bytes | None, rows: int, mark: Any
) -> SplitResult:
    serializer = task.factory.write_result_serializer()
    return SplitResult(split, None if data is None else serializer.deserialize(version, data), rows, mark)


def _work(work: bytes) -> tuple[list[_Result], list[SplitProgress], float, float]:
    """What a task does, on a worker."""
    task: SplitTask = pickle.loads(work)
    moved: dict[Any, SplitProgress] = {}

    def observe(one: SplitProgress) -> None:
        moved[one.split.table_bucket] = one

    reader = BoundedSplitReader(task, observe)
    serializer = task.factory.write_result_serializer()
    found = [
        (
            one.split,
            serializer.version,
            None if one.result is None else serializer.serialize(one.result),
            one.rows,
            one.mark,
        )
        for one in reader.run()
    ]
    return found, list(moved.values()), reader.seconds.fetch, reader.seconds.write
