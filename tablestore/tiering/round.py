"""One round from its start to its end: plan, read, commit, what is reported of it, and where it waits.

A person or a test may do something at that very moment: a kill, mostly. While a file has the name of a phase,
rounds that come to this phase wait before its work: `committing`, all is read and nothing is in the lake;
`registering`, the lake has the rows and the cluster does not know. They go on when the file is gone or names
the other one, and when they are given up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for
from tablestore.tiering.cluster import LakeCommitter, LakeTieringFactory, TieringCluster
from tablestore.tiering.committer import (
    RoundCommitted,
    RoundPlan,
    SplitResult,
    commit_round,
    plan_round,
    require_same_table,
)
from tablestore.tiering.dropped import DroppedRows, dropped_while_read
from tablestore.tiering.enumerator import AssignedTable
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.lake_offsets import LogIdentity
from tablestore.tiering.policy import LogPolicy, freshness_seconds
from tablestore.tiering.readers import ReadSeconds, SplitProgress, tasks_of
from tablestore.tiering.report import (
    BucketMarks,
    HoldPhase,
    Outcome,
    Phase,
    RoundReport,
    SplitReport,
    TableState,
    TieringEvent,
)
from tablestore.tiering.runner import TaskResult, TaskRunner
from tablestore.tiering.splits import Offsets, TieredBucket, TieringSnapshotSplit, TieringSplit

log = logging.getLogger(__name__)
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RoundHold:
    """The file that says where rounds wait; without a `file` they never do. Safe to share between threads."""

    file: str | None = None
    env: Env = SYSTEM

    def wait(self, table_path: str, phase: Phase, given_up: Callable[[], bool]) -> None:
        """Wait before the work of a phase, if the file says so. Raises InvalidRequest where it names none."""
        waited = False
        while self._phase() == phase and not given_up():
            if not waited:
                log.warning("%s: waits before %s, as %s says", table_path, phase, self.file)
                waited = True
            self.env.sleep(_SECONDS)

    def _phase(self) -> str:
        """What the file says; nothing where there is none, or nothing in it yet."""
        if self.file is None:
            return ""
        place = location(self.file)
        try:
            word = file_io_for(place).read(place).decode(errors="replace").strip()
        except FileNotFoundError:
            return ""
        if word and word not in get_args(HoldPhase):
            phases = " or ".join(get_args(HoldPhase))
            raise InvalidRequest(f"{self.file} says {word[:40]!r}: rounds can wait before {phases}")
        return word


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


_NOTE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RoundParts:
    """What rounds need: the cluster, the lake, where tasks run, and where is written down what happens.
    `skips_lost_rows`: they go on behind rows that the log lost. `drops`: what the cluster has dropped goes
    from the lake, too."""

    cluster: TieringCluster
    factory: LakeTieringFactory
    runner: TaskRunner
    journal: TieringJournal
    env: Env
    skips_lost_rows: bool = False
    drops: bool = False
    identity: LogIdentity = field(default_factory=LogIdentity)
    hold: RoundHold = field(default_factory=RoundHold)


@dataclass(slots=True)
class TieringRound:
    """The round of one table that was handed out. `ours` says whether the table is still this service's;
    `stopping` whether the service ends; `observe` gets what it plans; `looked_at` gives the state of the
    table with the ends of its log as they were last seen, None where nobody looked."""

    parts: RoundParts
    assigned: AssignedTable
    number: int
    ours: Callable[[], bool]
    stopping: Callable[[], bool]
    observe: Callable[[RoundPlan], None] = lambda _: None
    looked_at: Callable[[], TableState | None] = lambda: None
    dropped_reason: str = ""
    _events: int = 0
    _noted: float = float("-inf")

    def run(self) -> RoundReport:
        """The report of the round; errors are in it. Nothing is raised but what ends the process."""
        progress = RoundProgress(self.number, self.assigned, self.parts.env)
        self.parts.journal.note_round(progress.current())
        self.parts.journal.note_table(
            replace(self._before(), state="Tiering", since=progress.seconds_now(), reason="")
        )
        try:
            report = self._run(progress)
        except Exception as e:
            reason = self.dropped_reason or str(e) or type(e).__name__
            level = logging.INFO if self.dropped_reason or self.stopping() else logging.WARNING
            expected = isinstance(e, TablestoreError | OSError)
            log.log(level, "%s: round failed: %s", self.path, reason, exc_info=None if expected else e)
            report = progress.ended("dropped" if self.dropped_reason else "failed", reason=reason)
            state = replace(self._before(), state="Failed", since=progress.seconds_now(), reason=reason)
            self.parts.journal.note_table(state)
        self.parts.journal.note_round(report)
        return report

    @property
    def path(self) -> str:
        """The path of the table."""
        return self.assigned.table.table_path

    def _run(self, progress: RoundProgress) -> RoundReport:
        parts, clock = self.parts, self.parts.env.monotonic
        began, planned_at = clock(), progress.seconds_now()
        table = parts.cluster.table(self.path)
        require_same_table(table, self.assigned.table)
        parts.factory.prepare(table)
        committer = parts.factory.create_committer(table)
        plan = plan_round(
            *(parts.cluster, committer, table),
            identity=parts.identity,
            skips_lost_rows=parts.skips_lost_rows,
            dropped=DroppedRows(parts.drops, self.looked_at(), self._tell),
        )
        progress.took(plan=clock() - began)
        self.parts.journal.note_round(progress.planned(plan))
        self.observe(plan)
        before = {} if plan.replaces else dict(plan.lake.offsets)
        self._note_marks(plan, before, committer)
        if not plan.commits:
            self._tiered(plan, before, committer, planned_at)
            outcome: Outcome = "registered" if plan.notes else "empty"
            outcome = "incomplete" if self._events else outcome
            return progress.ended(outcome, snapshot_id=plan.lake.snapshot_id)
        committed, results = self._read_and_commit(progress, committer, plan)
        done = {
            **before,
            **plan.passed,
            **{result.split.table_bucket: result.split.stop for result in results},
        }
        self._tiered(plan, done, committer, planned_at)
        seconds = clock() - began
        log.info(
            "%s: %d rows of %d splits are in lake snapshot %s, %.2f s",
            self.path,
            committed.rows,
            len(plan.splits),
            committed.snapshot_id,
            seconds,
        )
        outcome = "incomplete" if self._events else "committed"
        return progress.ended(outcome, snapshot_id=committed.snapshot_id)

    def _read_and_commit(
        self, progress: RoundProgress, committer: LakeCommitter, plan: RoundPlan
    ) -> tuple[RoundCommitted, tuple[SplitResult, ...]]:
        parts, clock = self.parts, self.parts.env.monotonic
        tasks = tasks_of(
            parts.cluster,
            parts.factory,
            plan.table,
            plan.splits,
            replaces=plan.replaces,
            parallel=parts.runner.parallel,
        )
        done = TaskResult((), ReadSeconds())
        if tasks:  # a table that was made again may have no row yet
            observe = partial(self._moved, progress)
            with parts.cluster.snapshots_kept(plan.table, plan.splits):
                done = parts.runner.run(tasks, observe=observe, stopped=self._given_up)
        progress.took(fetch=done.seconds.fetch, write=done.seconds.write)
        self._tell_of_partitions(progress, plan, done.results)
        began = clock()
        committed = commit_round(
            parts.cluster,
            committer,
            plan,
            done.results,
            still_ours=lambda: not self._given_up(),
            reached=partial(self._reached, progress),
        )
        progress.took(commit=clock() - began)
        return committed, done.results

    def _tell_of_partitions(
        self, progress: RoundProgress, plan: RoundPlan, results: Sequence[SplitResult]
    ) -> None:
        """Tell of splits without a result: their partitions were dropped while they were read."""
        read = {result.split.table_bucket for result in results}
        missing: dict[str | None, int] = {}
        for split in plan.splits:
            if split.table_bucket not in read:
                rows = split.stop - plan.lake.offsets.get(split.table_bucket, 0)
                missing[split.partition_name] = missing.get(split.partition_name, 0) + rows
        for partition, rows in missing.items():
            event = dropped_while_read(plan.table, partition, rows)
            log.warning("%s: %s", self.path, event.text)
            self._tell(event)
            self.parts.journal.note_round(progress.noted(event.text))

    def _tell(self, event: TieringEvent) -> None:
        """Write an event down, before what it tells is done."""
        self._events += 1
        self.parts.journal.note_event(replace(event, time=self.parts.env.now_ms() / 1000))

    def _reached(self, progress: RoundProgress, phase: HoldPhase) -> None:
        """The round has come to a phase, before which it may have to wait."""
        self.parts.journal.note_round(progress.at(phase))
        self.parts.hold.wait(self.path, phase, self._given_up)

    def _moved(self, progress: RoundProgress, progress_of_split: SplitProgress) -> None:
        progress.moved(progress_of_split)
        now = self.parts.env.monotonic()
        if now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            self.parts.journal.note_round(progress.current())

    def _given_up(self) -> bool:
        return self.stopping() or not self.ours()

    def _before(self) -> TableState:
        """What is known of the table."""
        table = self.assigned.table
        state = self.parts.journal.table(self.path)
        if state is None or state.table_id != table.table_id:
            state = TableState(self.path, table.table_id, "New", 0.0)
        return replace(state, tiering_epoch=table.tiering_epoch)

    def _note_marks(self, plan: RoundPlan, tiered: Offsets, committer: LakeCommitter) -> None:
        readable = committer.readable(tiered)
        marks = marks_of(plan, tiered, readable)
        lag = sum(mark.lag_rows for mark in marks)
        fresh = freshness_seconds(plan.table.options)
        kept_ms = LogPolicy.of(plan.table.options).kept_ms
        kept = None if kept_ms is None else kept_ms / 1000
        self.parts.journal.note_table(
            replace(self._before(), marks=marks, lag_rows=lag, freshness=fresh, kept=kept)
        )

    def _tiered(self, plan: RoundPlan, tiered: Offsets, committer: LakeCommitter, at: float) -> None:
        self._note_marks(plan, tiered, committer)
        now = self.parts.env.now_ms() / 1000
        self.parts.journal.note_table(
            replace(self._before(), state="Tiered", since=now, tiered_at=at, reason="")
        )
