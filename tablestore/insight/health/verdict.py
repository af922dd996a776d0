"""The verdict on a table: a sentence and a state out of the numbers of its buckets. Pure.

`Health` is what was measured (`measure`), one row a bucket in `buckets`. Shown by cards and by the views of
health.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from tablestore.core import rich
from tablestore.core.quantities import many, size
from tablestore.format.result_tables import result_schema

HealthState = Literal["empty", "healthy", "due", "risk"]
STATES: tuple[HealthState, ...] = ("empty", "healthy", "due", "risk")
BUCKETS = result_schema(
    "partition string, bucket int32, runs int32, level0_files int32, files int32, bytes int64, "
    "rows int64, deletes int64, due_files int32, due_bytes int64, due string, reason string"
)


@dataclass(frozen=True, slots=True)
class Health:
    """How a table stands at a snapshot.

    `buckets` has a row for each bucket (`BUCKETS`), the worst first: what a compaction would take now, in the
    engine's words (`due`, NULL where nothing is), and why. `merges` is False for tables without sorted runs.
    `stop` is the stop trigger, `stalled` the number of buckets above it, `waiting` that of files in postponed
    buckets. With `complete` False there were too many files to decide each bucket: `due` has those in which
    one is certain.
    """

    snapshot: int | None
    merges: bool
    buckets: pa.Table
    stop: int = 0
    stalled: int = 0
    waiting: int = 0
    complete: bool = True

    @property
    def files(self) -> int:
        """Live data files."""
        return int(_numbers(self.buckets, "files").sum()) + self.waiting

    @property
    def bytes(self) -> int:
        """Bytes of the live data files of buckets."""
        return int(_numbers(self.buckets, "bytes").sum())

    @property
    def rows(self) -> int:
        """Rows stored in them."""
        return int(_numbers(self.buckets, "rows").sum())

    @property
    def due(self) -> int:
        """Buckets in which a compaction is due."""
        return int(self.buckets.num_rows - self.buckets["due"].null_count)

    @property
    def due_bytes(self) -> int:
        """Bytes of the files that these compactions would take."""
        return int(_numbers(self.buckets, "due_bytes").sum())

    @property
    def opened(self) -> float:
        """Sorted runs that a read of one key opens, on average over the rows."""
        runs, rows = _numbers(self.buckets, "runs"), _numbers(self.buckets, "rows")
        return float((runs * rows).sum() / rows.sum()) if rows.sum() else 0.0

    @property
    def most_runs(self) -> int:
        """Sorted runs of the fullest bucket."""
        return int(_numbers(self.buckets, "runs").max(initial=0))

    @property
    def state(self) -> HealthState:
        """`empty`, `healthy`, `due` (a compaction is) or `risk` (writers have to wait for one)."""
        return verdict(self)[0]

    @property
    def verdict(self) -> str:
        """`healthy: 168 buckets, 1 run each, nothing due`."""
        return verdict(self)[1]

    def __repr__(self) -> str:
        held = f"{many(self.files, 'file')}, {size(self.bytes)}, {many(self.rows, 'row')}"
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        return f"{self.verdict}\n{at}: {held} in {many(self.buckets.num_rows, 'bucket')}"

    def _repr_html_(self) -> str | None:
        return rich.card("health", self)


def verdict(health: Health) -> tuple[HealthState, str]:
    """The state, and the sentence that says why."""
    buckets = health.buckets.num_rows
    waits = f"{many(health.waiting, 'file')} in postponed buckets"
    if health.snapshot is None:
        return "empty", "empty: no snapshot yet"
    if not buckets:
        return ("due", f"{waits} wait for compaction") if health.waiting else ("empty", "empty: no files")
    more = f"; {waits}" if health.waiting else ""
    if health.stalled:
        over = f"{health.stalled:,} of {many(buckets, 'bucket')} above the stop trigger {health.stop}"
        return "risk", f"writers wait: {over}; {_reads(health)}{more}"
    if not health.due and not health.waiting:
        return "healthy", f"healthy: {many(buckets, 'bucket')}, {_each(health)}, nothing due"
    if not health.due:
        return "due", f"nothing due in {many(buckets, 'bucket')}{more} wait for compaction"
    share = f"{'' if health.complete else 'at least '}{health.due:,} of {many(buckets, 'bucket')}"
    verb = "waits" if health.due == 1 else "wait"
    return "due", f"{share} {verb} for compaction; {_reads(health)}{more}"


def _reads(health: Health) -> str:
    if not health.merges:
        return f"{many(health.files, 'file')} of {size(health.bytes)}"
    opened = f"{health.opened:.1f}".removesuffix(".0")
    return f"reads open {opened} {'run' if opened == '1' else 'runs'}"


def _each(health: Health) -> str:
    """`1 run each`, `1 to 4 runs each`."""
    runs = _numbers(health.buckets, "runs")
    if not health.merges:
        return many(health.files, "file")
    least, most = int(runs.min()), int(runs.max())
    each = "" if len(runs) == 1 else " each"
    return f"{many(most, 'run')}{each}" if least == most else f"{least} to {most} runs{each}"


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table[name]
    return (column.fill_null(0) if column.null_count else column).to_numpy().astype(np.int64)
