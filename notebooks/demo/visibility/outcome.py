"""What is written in the visibility lab, and what became of it, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from notebooks.demo.visibility.designs import COLUMNS


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: `batches` of `rows` each, a checkpoint after every `checkpoint` of them, `pause`
    seconds between two; the writer is lost before batch `crash`. `in_step`: the writer waits until the reader
    has a batch, where the design lets it see rows at once, so that speed does not matter."""

    batches: int = 60
    rows: int = 4
    checkpoint: int = 12
    pause: float = 0.02
    crash: int = 40
    seed: int = 7
    in_step: bool = False

    def batch(self, number: int) -> pa.RecordBatch:
        """The rows of a batch: the same for the same number."""
        first = number * self.rows
        amounts = np.random.default_rng([self.seed, number]).integers(5, 500, self.rows)
        return batch_of(np.arange(first, first + self.rows), amounts)

    def checkpoints(self) -> Iterator[range]:
        """The batches of each checkpoint."""
        for first in range(0, self.batches, self.checkpoint):
            yield range(first, min(first + self.checkpoint, self.batches))


@dataclass(frozen=True, slots=True)
class Delivery:
    """A row that came to the reader `milliseconds` after it was given to the writer first. `early`: before a
    commit of it had begun; `again`: the reader had it."""

    row: int
    batch: int
    milliseconds: float
    early: bool
    again: bool


@dataclass(frozen=True, slots=True)
class VisibilityOutcome:
    """What became of the rows under one design. `taken_back`: rows that the reader had when the writer was
    lost, and the table of the next process had not; `twice_in_log`: before any normaliser; `files_agree`:
    whether at the end the table's files hold each row once. Files and snapshots count those of the first and
    the last row, too."""

    number: int
    design: str
    rows: int
    deliveries: tuple[Delivery, ...]
    taken_back: int
    twice_in_log: int
    data_files: int
    log_files: int
    snapshots: int
    files_agree: bool

    @property
    def latencies(self) -> np.ndarray:
        """Milliseconds until the reader had each row first, ascending."""
        return np.sort([d.milliseconds for d in self.deliveries if not d.again])

    def quantile(self, share: float) -> float:
        """The milliseconds within which this share of the rows was there; NaN without any."""
        latencies = self.latencies
        return (
            float(latencies[min(int(len(latencies) * share), len(latencies) - 1)])
            if len(latencies)
            else float("nan")
        )

    @property
    def doubles(self) -> int:
        """Rows that the reader got again."""
        return sum(d.again for d in self.deliveries)

    @property
    def early(self) -> int:
        """Rows that the reader had before a commit of them had begun."""
        return sum(d.early and not d.again for d in self.deliveries)

    @property
    def never(self) -> int:
        """Rows that the reader never got."""
        return self.rows - len(self.latencies)

    def __str__(self) -> str:
        return (
            f"{self.number} {self.design}: p50 {self.quantile(0.5):.1f} ms, {self.doubles} doubles, "
            f"{self.taken_back} taken back, {self.never} never seen"
        )


def batch_of(ids: Any, amounts: Any) -> pa.RecordBatch:
    """Rows of the lab's table."""
    columns = [pa.array(ids, pa.int64()), pa.array(amounts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
