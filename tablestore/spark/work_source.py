"""`format("tablestore-work")`: a plan of batches as a stream whose rows are descriptions of work, not data.

Each row is (ordinal, work): a piece of the batch, pickled, which the task that gets the row reads itself.
Spark plans, checkpoints and retries. Offset = that of the plan (`flow.batch.WorkPlan`). Options: plan
(pickled, by `encoded`), start (an offset as JSON, for a first batch that does not begin at the beginning).
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tablestore.core.errors import InvalidRequest
from tablestore.flow.batch import WorkPlan
from tablestore.spark.source_options import require_only

SCHEMA = "ordinal int, work binary"


@dataclass
class StreamPartition(InputPartition):
    """One row of the stream."""

    ordinal: int
    work: bytes


class WorkSource(DataSource):
    """The data source Spark makes by name."""

    @classmethod
    def name(cls) -> str:
        return "tablestore-work"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return WorkReader(dict(self.options))


class WorkReader(DataSourceStreamReader):
    """Plans batches in the driver's helper process."""

    def __init__(self, options: dict[str, str]) -> None:
        if not options.get("plan"):
            raise InvalidRequest('format("tablestore-work") needs the option plan')
        require_only(options, ("plan", "start"))
        self._plan: WorkPlan = pickle.loads(base64.b64decode(options["plan"]))
        self._start: dict[str, Any] | None = json.loads(options.get("start") or "null")

    def initialOffset(self) -> dict[str, Any]:
        if self._start is None:
            self._start = self._plan.initial()
        return self._start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._plan.next(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [StreamPartition(w.ordinal, pickle.dumps(w)) for w in self._plan.works(start, end)]

    def read(self, partition: StreamPartition) -> Iterator[tuple[int, bytes]]:  # type: ignore[override]  # its own partitions only
        yield partition.ordinal, partition.work


def encoded(plan: WorkPlan) -> str:
    """A plan as the value of an option; pickled, since it never leaves the processes of one query."""
    return base64.b64encode(pickle.dumps(plan)).decode()
