"""`blackhole`: takes rows and forgets them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tablestore.flow.batch import Work
from tablestore.flow.sink import Computation, SinkBatch
from tablestore.sql.connectors.connector import Connector, ConnectorOptions


class _Nowhere:
    def write(self, batch: pa.RecordBatch) -> None:
        """Forget the rows."""

    def finish(self) -> str:
        return "nowhere"

    def abandon(self) -> None:
        """There is nothing to remove."""


@dataclass(frozen=True)
class CountTask:
    """The task that computes changes and counts them."""

    changes: Computation

    def __call__(self, work: Work) -> int:
        return sum(rows.num_rows for rows, _ in self.changes(work))


@dataclass(frozen=True)
class _Stream:
    """Changes are computed, and forgotten."""

    def write(self, batch: SinkBatch) -> int:
        return sum(batch.batch.over(CountTask(batch.changes), batch.batch.works()))


def _sink(_: ConnectorOptions) -> _Nowhere:
    return _Nowhere()


CONNECTOR = Connector(
    "blackhole",
    "takes rows and forgets them",
    (),
    sink=_sink,
    stream_sink=lambda _: _Stream(),
    takes_retracts=True,
)
