"""The report of one round while it goes on: what its threads tell, as the frozen value that views read."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from tablestore.core.env import Env
from tablestore.tiering.committer import RoundPlan
from tablestore.tiering.enumerator import AssignedTable
from tablestore.tiering.readers import SplitProgress
from tablestore.tiering.report import BucketMarks, Outcome, Phase, RoundReport, SplitReport
from tablestore.tiering.splits import Offsets, TieredBucket, TieringSnapshotSplit, TieringSplit


@dataclass(slots=True)
class RoundProgress:
    """What is known of a round. Safe to share between threads."""

    number: int
    assigned: AssignedTable
    env: Env
    report: RoundReport = field(init=False)
    _splits: dict[TieredBucket, SplitReport] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        table, epoch = self.assigned.table, self.assigned.epoch
        self.report = RoundReport(
            self.number,
            table.table_path,
            table.table_id,
            epoch.tiering_epoch,
            epoch.coordinator_epoch,
            self.seconds_now(),
        )

    def seconds_now(self) -> float:
        """Seconds after 1970."""
        return self.env.now_ms() / 1000

    def planned(self, plan: RoundPlan) -> RoundReport:
        """The splits are known."""
        with self._lock:
            self._splits = {split.table_bucket: _split(split) for split in plan.splits}
        self.report = replace(self.report, notes=plan.notes)
        return self.at("reading")

    def noted(self, note: str) -> RoundReport:
        """A person should know something more."""
        self.report = replace(self.report, notes=(*self.report.notes, note))
        return self.current()

    def at(self, phase: Phase) -> RoundReport:
        """The round has come to a phase."""
        self.report = replace(self.report, phase=phase)
        return self.current()

    def moved(self, progress: SplitProgress) -> None:
        """A split has moved on."""
        place = progress.split.table_bucket
        with self._lock:
            self._splits[place] = replace(
                self._splits[place],
                offset=progress.offset,
                rows=progress.rows,
                bytes=progress.bytes,
                started=progress.started,
                ended=progress.ended,
                reason="its partition was dropped" if progress.gone else "",
            )

    def took(self, **seconds: float) -> None:
        """Add to the time of parts of the work."""
        with self._lock:
            before = self.report.seconds
            added = {name: before.get(name, 0.0) + value for name, value in seconds.items()}
            self.report = replace(self.report, seconds={**before, **added})

    def ended(self, outcome: Outcome, *, snapshot_id: int | None = None, reason: str = "") -> RoundReport:
        """The round is over."""
        self.report = replace(
            self.report,
            phase="ended",
            ended=self.seconds_now(),
            outcome=outcome,
            snapshot_id=snapshot_id,
            reason=reason,
        )
        return self.current()

    def current(self) -> RoundReport:
        """The report as it is now."""
        with self._lock:
            return replace(self.report, splits=tuple(self._splits.values()))


def _split(split: TieringSplit) -> SplitReport:
    snapshot = split.snapshot_id if isinstance(split, TieringSnapshotSplit) else None
    return SplitReport(split.partition_name, split.bucket, split.log_start, split.stop, snapshot)


def marks_of(plan: RoundPlan, tiered: Offsets, readable: Offsets | None) -> tuple[BucketMarks, ...]:
    """The marks of each bucket: `tiered` is what the lake has, `readable` what its readers see, None: the
    same."""
    names = dict(plan.partitions)
    return tuple(
        BucketMarks(
            None if place.partition_id is None else names.get(place.partition_id),
            place.bucket,
            log.latest,
            tiered.get(place),
            (tiered if readable is None else readable).get(place),
            log.earliest,
        )
        for place, log in plan.bounds.items()
    )
