"""`format("tablestore-work")`: a plan of batches as a stream without rows: who carries out a batch asks
the plan what there is to do (`stream_jobs.py`).

Spark plans, checkpoints and retries. Offset = that of the plan (`flow.batch.WorkPlan`). Options: plan
(pickled, by `encoded`), start (an offset as JSON, for a first batch that does not begin at the beginning).
Three processes of Spark only hand a stream on, so the engine is imported by the one that plans.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tablestore.core.errors import InvalidOption, InvalidRequest

if TYPE_CHECKING:
    from tablestore.flow.batch import WorkPlan

SCHEMA = "batch int"


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
        unknown = sorted({key.lower() for key in options} - {"plan", "start"})
        if unknown:
            raise InvalidOption(f"unknown option {unknown[0]!r}; there are plan, start")
        self._encoded = options["plan"]
        self._start: dict[str, Any] | None = json.loads(options.get("start") or "null")

    @cached_property
    def _plan(self) -> WorkPlan:
        plan: WorkPlan = pickle.loads(base64.b64decode(self._encoded))
        return plan

    def initialOffset(self) -> dict[str, Any]:
        if self._start is None:
            self._start = self._plan.initial()
        return self._start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._plan.next(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ()


def encoded(plan: WorkPlan) -> str:
    """A plan as the value of an option; pickled, since it never leaves the processes of one query."""
    return base64.b64encode(pickle.dumps(plan)).decode()
