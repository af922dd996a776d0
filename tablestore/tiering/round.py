"""One round from its start to its end: plan, read, commit, and what is reported of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial

from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError
from tablestore.core.options.values import duration_ms
from tablestore.tiering.cluster import TieringCluster
from tablestore.tiering.committer import (
    RoundCommitted,
    RoundPlan,
    commit_round,
    plan_round,
    require_same_table,
)
from tablestore.tiering.enumerator import AssignedTable
from tablestore.tiering.factory import LakeCommitter, LakeTieringFactory
from tablestore.tiering.hold import RoundHold
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.log_identity import LogIdentity
from tablestore.tiering.policy import LogPolicy
from tablestore.tiering.readers import ReadSeconds, SplitProgress, tasks_of
from tablestore.tiering.report import HoldPhase, RoundReport, TableState
from tablestore.tiering.round_report import RoundProgress, marks_of
from tablestore.tiering.runner import TaskResult, TaskRunner
from tablestore.tiering.splits import Offsets

log = logging.getLogger(__name__)
FRESHNESS = "table.datalake.freshness"
_FRESHNESS = "3min"
_NOTE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RoundParts:
    """What rounds need: the cluster, the lake, where tasks run, and where is written down what happens."""

    cluster: TieringCluster
    factory: LakeTieringFactory
    runner: TaskRunner
    journal: TieringJournal
    env: Env
    skips_lost_rows: bool = False
    identity: LogIdentity = field(default_factory=LogIdentity)
    hold: RoundHold = field(default_factory=RoundHold)


@dataclass(slots=True)
class TieringRound:
    """The round of one table that was handed out. `ours` says whether the table is still this service's;
    `stopping` whether the service ends; `observe` gets what it plans."""

    parts: RoundParts
    assigned: AssignedTable
    number: int
    ours: Callable[[], bool]
    stopping: Callable[[], bool]
    observe: Callable[[RoundPlan], None] = lambda _: None
    dropped_reason: str = ""
    _noted: float = float("-inf")

    def run(self) -> RoundReport:
        """The report of the round; errors are in it. Nothing is raised but what ends the process."""
        progress = RoundProgress(self.number, self.assigned, self.parts.env)
        self._note(progress.current())
        self._note_table(changed(self._before(), state="Tiering", since=progress.seconds_now(), reason=""))
        try:
            report = self._run(progress)
        except Exception as e:
            reason = self.dropped_reason or _text(e)
            level = logging.INFO if self.dropped_reason or self.stopping() else logging.WARNING
            expected = isinstance(e, TablestoreError | OSError)
            log.log(level, "%s: round failed: %s", self.path, reason, exc_info=None if expected else e)
            report = progress.ended("dropped" if self.dropped_reason else "failed", reason=reason)
            state = changed(self._before(), state="Failed", since=progress.seconds_now(), reason=reason)
            self._note_table(state)
        self._note(report)
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
            parts.cluster, committer, table, identity=parts.identity, skips_lost_rows=parts.skips_lost_rows
        )
        progress.took(plan=clock() - began)
        self._note(progress.planned(plan))
        self.observe(plan)
        before = {} if plan.replaces else dict(plan.lake.offsets)
        self._note_marks(plan, before, committer)
        if not plan.splits and not plan.replaces:
            self._tiered(plan, before, committer, planned_at)
            return progress.ended("registered" if plan.notes else "empty", snapshot_id=plan.lake.snapshot_id)
        committed = self._read_and_commit(progress, committer, plan)
        done = {**before, **{one.table_bucket: one.stop for one in plan.splits}}
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
        return progress.ended("committed", snapshot_id=committed.snapshot_id)

    def _read_and_commit(
        self, progress: RoundProgress, committer: LakeCommitter, plan: RoundPlan
    ) -> RoundCommitted:
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
            done = parts.runner.run(tasks, observe=observe, stopped=self._given_up)
        progress.took(fetch=done.seconds.fetch, write=done.seconds.write)
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
        return committed

    def _reached(self, progress: RoundProgress, phase: HoldPhase) -> None:
        """The round has come to a phase, before which it may have to wait."""
        self._note(progress.at(phase))
        self.parts.hold.wait(self.path, phase, self._given_up)

    def _moved(self, progress: RoundProgress, one: SplitProgress) -> None:
        progress.moved(one)
        now = self.parts.env.monotonic()
        if now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            self._note(progress.current())

    def _given_up(self) -> bool:
        return self.stopping() or not self.ours()

    def _before(self) -> TableState:
        """What is known of the table."""
        table = self.assigned.table
        known = self.parts.journal.table(self.path)
        if known is None or known.table_id != table.table_id:
            known = TableState(self.path, table.table_id, "New", 0.0)
        return changed(known, tiering_epoch=table.tiering_epoch)

    def _note(self, report: RoundReport) -> None:
        self.parts.journal.note_round(report)

    def _note_table(self, state: TableState) -> None:
        self.parts.journal.note_table(state)

    def _note_marks(self, plan: RoundPlan, tiered: Offsets, committer: LakeCommitter) -> None:
        readable = committer.readable(tiered)
        marks = marks_of(plan, tiered, readable)
        lag = sum(one.lag_rows for one in marks)
        fresh = duration_ms(plan.table.options.get(FRESHNESS, _FRESHNESS)) / 1000
        kept_ms = LogPolicy.of(plan.table.options).kept_ms
        kept = None if kept_ms is None else kept_ms / 1000
        self._note_table(changed(self._before(), marks=marks, lag_rows=lag, freshness=fresh, kept=kept))

    def _tiered(self, plan: RoundPlan, tiered: Offsets, committer: LakeCommitter, at: float) -> None:
        self._note_marks(plan, tiered, committer)
        now = self.parts.env.now_ms() / 1000
        self._note_table(changed(self._before(), state="Tiered", since=now, tiered_at=at, reason=""))


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
