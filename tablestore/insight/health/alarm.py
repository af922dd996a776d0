"""Alarms: findings over time, with the figures that they are about. Immutable values; made by `alarms`.

Times are milliseconds after 1970. The names of figures end in their unit: `_bytes`, `_seconds`, `_rows`,
`_amplification`; others are counts, `share` is a part of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablestore.core.quantities import many
from tablestore.format.result_tables import result_schema, table_of
from tablestore.insight.doctor.finding import SEVERITIES, Finding

MOMENTS = result_schema(
    "snapshot_id int64, at ms_utc, files int64, bytes int64, rows int64, buckets int64, due_buckets int64, "
    "most_runs int64, opened_runs double, write_amplification double, space_amplification double, "
    "age_seconds double, log_rows int64"
)
ALARMS = result_schema(
    "table string, kind string, severity string, where string, what string, began ms_utc, ended ms_utc, "
    "measure string, limit double, worst double, remedy string, mends bool"
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A finding, and for how long it holds.

    `finding` is the newest one while it holds, else the one at its worst. `measure` names the figure it is
    about, `points` are (time, value) of that, also before and after it, and `limit` is the value from which
    on it holds; None where more than one number decides. `ended` is None while it holds. `began` is None
    where nothing says when; with `earlier` it held at the first moment that is known.
    """

    table: str
    finding: Finding
    measure: str
    points: tuple[tuple[int, float | None], ...] = ()
    limit: float | None = None
    began: int | None = None
    ended: int | None = None
    earlier: bool = False

    @property
    def holds(self) -> bool:
        """Whether it holds now."""
        return self.ended is None

    @property
    def worst(self) -> float | None:
        """The largest value while it held."""
        first, end = self.began or 0, self.ended
        held = [v for t, v in self.points if v is not None and t >= first and (end is None or t < end)]
        return max(held, default=None)

    @property
    def order(self) -> tuple[bool, int, int, str, str]:
        """What holds first, then by severity, then the newest."""
        rank = SEVERITIES.index(self.finding.severity)
        return not self.holds, rank, -(self.began or 0), self.table, self.finding.kind

    def __repr__(self) -> str:
        return f"Alarm({self.finding.text})"


@dataclass(frozen=True, slots=True)
class AlarmHistory:
    """The figures of a table at moments of its history, and the alarms of that time.

    `moments` has a row (`MOMENTS`) for each snapshot that was looked at, oldest first, and one for now, `at`;
    `snapshots` is how many there are. `alarms`: those that hold, the worst first, then those that are over.
    """

    table: str
    at: int
    snapshots: int
    moments: pa.Table
    alarms: tuple[Alarm, ...] = ()

    @property
    def holding(self) -> tuple[Alarm, ...]:
        """The alarms that hold now."""
        return tuple(a for a in self.alarms if a.holds)

    @property
    def summary(self) -> str:
        """`1 alarm, 2 over; 13 of 13 snapshots looked at`."""
        over = len(self.alarms) - len(self.holding)
        counts = f"{many(len(self.holding), 'alarm')}{f', {over:,} over' if over else ''}"
        looked = max(self.moments.num_rows - 1, 0)
        return f"{counts}; {looked:,} of {many(self.snapshots, 'snapshot')} looked at"

    def to_arrow(self) -> pa.Table:
        """A row for each alarm (`ALARMS`)."""
        return alarm_rows(self.alarms)

    def __repr__(self) -> str:
        return "\n".join([f"{self.table}: {self.summary}", *(a.finding.text for a in self.holding)])


def alarm_rows(alarms: Sequence[Alarm]) -> pa.Table:
    """A row for each alarm (`ALARMS`)."""
    return table_of(
        ALARMS,
        (
            (
                *(a.table, a.finding.kind, a.finding.severity, a.finding.where, a.finding.what),
                *(a.began, a.ended, a.measure, a.limit, a.worst, a.finding.remedy, a.finding.mends),
            )
            for a in alarms
        ),
    )
