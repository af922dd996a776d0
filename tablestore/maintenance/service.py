"""MaintenanceService: looks at tables, does the most urgent work that limits and leases allow.

One thread works, one renews leases. Compactions are tasks of a pool, so that several buckets are compacted at
a time where it has the processes. Each piece of work is one commit of the table, all or nothing; a service
that is killed leaves at most orphan files and leases, which end by themselves. A table is looked at again
when it has a new snapshot, or after a while, since time alone makes work, too. Work that failed rests for a
minute, then for twice as long, for an hour at most. Where the store fails the service itself, it waits with
growing pauses and tries again, as a stream does.

Memory: the metadata of one table at a time, and what a compaction of one bucket holds, in each process.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tablestore.core.env import Env
from tablestore.core.errors import NotFound, TablestoreError
from tablestore.core.quantities import duration, size
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING, RunningJob
from tablestore.flow.restarts import Restarts, RestartStrategy
from tablestore.flow.runner import TaskPool
from tablestore.insight.health import Health
from tablestore.maintenance.leases import LeaseBook
from tablestore.maintenance.policy import (
    DAY_MINUTES,
    HOUR_MS,
    ByteBudget,
    MaintenanceLimits,
    MaintenancePolicy,
    PolicyBook,
)
from tablestore.maintenance.report import (
    MOST,
    History,
    MaintenanceReport,
    TableHealth,
    WorkDone,
    WorkSums,
    WorkWaiting,
)
from tablestore.maintenance.work import (
    LATER,
    STALLED,
    CarriedOut,
    MaintenanceWork,
    OptionAdvice,
    WorkOutcome,
    advise_options,
    due_work,
    predicted,
)
from tablestore.table.lake import Lake
from tablestore.table.table import Table

log = logging.getLogger(__name__)
_AGAIN_MS = 60_000  # a table without a new snapshot is looked at again after that
_REST_MS = 30_000
_BY_TIME = {"orphans": "what killed writers left, every", "analyze": "statistics, every"}


@dataclass(frozen=True, slots=True)
class _Resting:
    """Work that failed: how often in turn, until when it rests, and what came of it last."""

    failures: int
    until_ms: int
    last: WorkDone


@dataclass(slots=True)
class _Looked:
    """What was seen of a table: its newest snapshot then, when, how it stood, and the work that was due."""

    snapshot: int | None
    at_ms: int
    health: TableHealth
    work: list[MaintenanceWork]


class MaintenanceService(RunningJob):
    """Maintenance of the tables of a lake, in a thread of this process. Safe to share."""

    def __init__(
        self,
        lake: Lake,
        policies: PolicyBook,
        limits: MaintenanceLimits,
        leases: LeaseBook,
        history: History,
        pool: TaskPool,
        *,
        follow: bool,
        poll_seconds: float,
        env: Env,
    ) -> None:
        super().__init__()
        self._lake, self._policies, self._limits, self._leases = lake, policies, limits, leases
        self._history, self._pool, self._follow = history, pool, follow
        self._poll_seconds, self._env = poll_seconds, env
        self._budget = ByteBudget(limits.hour_bytes, history.spent())
        self._looked: dict[str, _Looked] = {}
        self._resting: dict[tuple[str, str, str], _Resting] = {}  # by the place of the work
        self._restarts, self._turns = Restarts(RestartStrategy()), 0
        self._reason = ""  # why the service waits
        self._sign: float | None = None  # when something came last of the turn under way; None between two
        self._waiting: tuple[WorkWaiting, ...] = ()
        self._troubles: dict[str, str] = {}
        self._done = deque[WorkDone](maxlen=MOST)
        self._sums = WorkSums()
        self._state = RUNNING
        self._running = threading.Event()  # cleared while it is paused
        self._running.set()
        self._lock = threading.Lock()  # protects what is seen from outside, and the history

    # ---- what a caller does

    def start(self) -> MaintenanceService:
        """Begin, in threads of its own."""
        threading.Thread(target=self._run, name="maintenance", daemon=True).start()
        threading.Thread(target=self._renew, name="maintenance leases", daemon=True).start()
        return self

    def stop(self, seconds: float | None = None) -> bool:
        """End it; the piece of work under way is finished first. Waits so long; whether it has ended."""
        self._stopping.set()
        self._running.set()
        return self._over.wait(seconds)

    def pause(self) -> None:
        """Begin no more work until `resume`."""
        self._running.clear()
        self._note(PAUSED, ended=False)

    def resume(self) -> None:
        """Begin work again."""
        self._running.set()
        self._note(RUNNING, ended=False)

    @property
    def state(self) -> str:
        """running, paused, waiting (to try again), ended, stopped or failed."""
        with self._lock:
            return self._state

    @property
    def done(self) -> tuple[WorkDone, ...]:
        """What this service has done, without that of those before it, oldest first; the newest 1,000
        pieces."""
        with self._lock:
            return tuple(self._done)

    @property
    def sums(self) -> WorkSums:
        """All that this service has done, added up."""
        with self._lock:
            return self._sums.copy()

    @property
    def failing(self) -> tuple[WorkDone, ...]:
        """The work that is still due, and failed when it was tried last."""
        with self._lock:
            return tuple(resting.last for resting in self._resting.values())

    def quiet_seconds(self) -> float:
        """For how long nothing has come of the turn under way; 0 between two."""
        sign = self._sign
        return 0.0 if sign is None else self._env.monotonic() - sign

    def done_after(self, count: int) -> tuple[WorkDone, ...]:
        """What it has done after its first `count` pieces of work, as far as it is remembered."""
        with self._lock:
            new = self._sums.count - count
            return tuple(self._done)[-new:] if new else ()

    def report(self) -> MaintenanceReport:
        """What it did, what waits and for what."""
        with self._lock:
            return MaintenanceReport(
                self._history.name,
                self._state,
                self._env.now_ms() / 1000,
                tuple(looked.health for _, looked in sorted(self._looked.items())),
                self._limits.hour_bytes,
                self._budget.spent(self._env.now_ms()),
                self._history.done,
                self._waiting,
                tuple(sorted(self._troubles.items())),
                self._reason,
            )

    def __repr__(self) -> str:
        return self.report().text

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    # ---- the thread that works

    def _run(self) -> None:
        state = FAILED
        try:
            while not self._stopping.is_set():
                self._running.wait()
                seconds = self._seconds_after_turn()
                if seconds is None:
                    break
                self._stopping.wait(seconds)
            state = STOPPED if self._stopping.is_set() else ENDED
        except BaseException as e:
            self.error = e
        finally:
            for table in self._leases.tables:
                self._released(table)
            self._note(state)
            self._end_with(lambda: self._history.write(self.report()), self._pool.close)

    def _seconds_after_turn(self) -> float | None:
        """Take a turn; seconds to the next one, None where none is to come."""
        try:
            worked = self.turn()
        except (TablestoreError, OSError) as e:
            problem = self._away() or e
            wait = self._restarts.wait_after(problem, self._turns) if self._follow else None
            if wait is None:
                raise
            log.warning("maintenance: %s; again in %g s", problem, wait)
            self._note(WAITING, f"again in {wait:g} s after {problem}", ended=False)
            return wait
        finally:
            self._sign = None
        self._turns += 1
        if self.state == WAITING:
            self._note(RUNNING, ended=False)
        return 0.0 if worked else self._poll_seconds if self._follow else None

    def _away(self) -> Exception | None:
        """That the lake is away, if it is: whatever else fails then, fails for that."""
        try:
            self._history.require_there()
        except (TablestoreError, OSError) as e:
            return e
        return None

    def _renew(self) -> None:
        while not self._over.wait(self._leases.seconds / 4):
            try:
                self._leases.renew()
            except (TablestoreError, OSError) as e:
                log.warning("leases of maintenance: %s", e)

    def plan(self) -> tuple[WorkWaiting, ...]:
        """What would be done now, in order, and what for; nothing is done, and no lease is taken."""
        some = self._due()
        return tuple(WorkWaiting(w.table, w.kind, w.where, w.why, self._limit_of(w), w.size) for w in some)

    def advice(self, table: str, policy: MaintenancePolicy | None = None) -> OptionAdvice:
        """Which compaction options the history of a table recommends under a policy (None: its own), and what
        they would have saved: each candidate is replayed over its metadata. Raises NotFound for a table that
        the service leaves alone, InvalidRequest for one without sorted runs."""
        own = self._policies.policy(table)
        if own is None:
            raise NotFound(f"no policy of this service is for {table}")
        return advise_options(self._lake.table(table), table, policy or own)

    def turn(self) -> bool:
        """Look at the tables, do the most urgent work that may be done, write down what came of it; whether
        there was any."""
        self._sign = self._env.monotonic()
        self._history.begin()
        worked = self._worked()
        self._history.write(self.report())
        return worked

    def _worked(self) -> bool:
        some = self._due()
        chosen: list[tuple[MaintenanceWork, WorkDone]] = []
        waiting = []
        for work in some:
            if self._stopping.is_set() or not self._running.is_set():
                break
            if chosen and not (work.apart and chosen[0][0].apart):
                continue
            waits_for = self._waits_for(work)
            if waits_for:
                waiting.append(WorkWaiting(work.table, work.kind, work.where, work.why, waits_for, work.size))
                continue
            chosen.append((work, self._begun(work)))
            if not work.apart or len(chosen) == self._pool.most:
                break
        if chosen:
            self._do(chosen)
            return True
        if self._stopping.is_set() or not self._running.is_set():
            return False
        with self._lock:
            self._waiting = tuple(waiting)
        busy = {work.table for work in some}
        for table in self._leases.tables:
            if table not in busy:
                self._released(table)
        return False

    def _due(self) -> list[MaintenanceWork]:
        """The work of all tables, the most urgent first."""
        return sorted((work for table in self._tables() for work in self._work(table)), key=lambda w: w.order)

    def _tables(self) -> Iterator[str]:
        names = [name for name in self._lake.tables() if self._policies.policy(name) is not None]
        if not names:
            self._history.require_there()
        with self._lock:
            lost = self._looked.keys() - set(names)
            for gone in lost:
                del self._looked[gone]
                self._troubles.pop(gone, None)
            for place in [place for place in self._resting if place[0] in lost]:
                del self._resting[place]
        return iter(names)

    def _work(self, name: str) -> list[MaintenanceWork]:
        """The work that is due in a table, looked for again where it may have changed."""
        policy = self._policies.policy(name)
        assert policy is not None, "the tables of a service have one"
        now, looked = self._env.now_ms(), self._looked.get(name)
        try:
            table = self._lake.table(name)
            newest = table.store.snapshots.latest_id()
            if looked is None or looked.snapshot != newest or now - looked.at_ms >= _AGAIN_MS:
                state = table.inspect.health()
                work = [*due_work(table, state, name, policy), *self._timed(table, name, policy)]
                looked = _Looked(newest, now, _numbers(name, state), work)
            due = {each.place for each in looked.work}
            with self._lock:
                self._looked[name] = looked
                self._troubles.pop(name, None)
                for place in [p for p in self._resting if p[0] == name and p not in due]:
                    del self._resting[place]
        except (TablestoreError, OSError) as e:
            with self._lock:
                self._troubles[name] = str(e)
                self._looked[name] = _Looked(None, now, TableHealth(name), [])
            return []
        resting = {place for place, rests in self._resting.items() if rests.until_ms > now}
        return [work for work in looked.work if work.place not in resting]

    def _timed(self, table: Table, name: str, policy: MaintenancePolicy) -> Iterator[MaintenanceWork]:
        """What comes by time; of a table without snapshots nothing."""
        if table.store.snapshots.latest_id() is None:
            return
        for kind, every in (("orphans", policy.orphans_every), ("analyze", policy.analyze_every)):
            if every is None:
                continue
            last = self._history.last(name, kind)
            if last is None or self._env.now_ms() - 1000 * last >= (
                policy.milliseconds(f"{kind}_every") or 0
            ):
                why = f"{_BY_TIME[kind]} {every}" + (", for the first time" if last is None else "")
                yield MaintenanceWork(name, kind, why, LATER)  # type: ignore[arg-type]  # two of the kinds

    def _waits_for(self, work: MaintenanceWork) -> str:
        """What a piece of work waits for; empty where it may be done now, with the lease of its table."""
        waits_for = self._limit_of(work)
        if waits_for:
            return waits_for
        lease = self._leases.claim(work.table)
        if lease.holder != self._leases.holder:
            return f"the service {lease.holder}, which has the table"
        return ""

    def _limit_of(self, work: MaintenanceWork) -> str:
        """The limit that work waits for."""
        now = self._env.now_ms()
        if work.urgency < STALLED:
            minute = self._env.local_ms(now) // 60_000 % DAY_MINUTES
            if self._limits.windows and not any(w.holds(minute) for w in self._limits.windows):
                return f"its hours, {', '.join(str(w) for w in self._limits.windows)}"
            if not self._budget.allows(now, work.size):
                waits = duration(self._budget.wait_ms(now, work.size))
                return f"{size(work.size)} of the {size(self._limits.hour_bytes or 0)} an hour, in {waits}"
        return ""

    def _begun(self, work: MaintenanceWork) -> WorkDone:
        """A piece of work as it begins, with what it is predicted to cost, which the budget spends."""
        began = self._env.now_ms()
        done = WorkDone(began / 1000, 0.0, work.table, work.kind, work.where, work.why, runs_before=work.runs)
        try:
            read, written = predicted(self._lake.table(work.table), work)
        except (TablestoreError, OSError) as e:
            return replace(done, error=str(e) or type(e).__name__)
        self._budget.spend(began, max(read, work.size))
        return replace(done, predicted_read=read, predicted_written=written)

    def _do(self, chosen: Sequence[tuple[MaintenanceWork, WorkDone]]) -> None:
        """Carry out work that has begun, all at a time, and write down what came of each piece."""
        able = [work for work, done in chosen if not done.error]
        outcomes: dict[tuple[str, str, str], WorkOutcome] = {}
        carry_out = CarriedOut(self._lake)

        def ended(place: int, outcome: WorkOutcome) -> None:
            outcomes[able[place].place] = outcome
            self._sign = self._env.monotonic()

        lost = ""
        try:
            if all(work.kind == "compact" for work in able):
                self._pool.run(carry_out, able, done=ended)
            else:
                ended(0, carry_out(able[0]))
        except Exception as e:  # a worker that was killed, a cluster that is gone; what has ended is known
            lost = str(e) or type(e).__name__
            log.exception("maintenance has lost a piece of work")
        for work, done in chosen:
            self._note_done(work, done, outcomes.get(work.place, WorkOutcome(error=done.error or lost)))

    def _note_done(self, work: MaintenanceWork, done: WorkDone, outcome: WorkOutcome) -> None:
        error, runs = outcome.error, 0
        try:
            runs = 0 if error else _runs(self._lake.table(work.table), work)
        except (TablestoreError, OSError) as e:
            error = str(e) or type(e).__name__
        began = round(1000 * done.began)
        self._looked[work.table].snapshot = None  # look at it again
        seconds = (self._env.now_ms() - began) / 1000
        done = replace(done, seconds=seconds, result=outcome.text, runs_after=runs, error=error)
        done = replace(done, read=outcome.read, written=outcome.written)
        before = self._resting.get(work.place)
        failures = 1 if before is None else before.failures + 1
        if error:
            log.warning("maintenance of %s: %s", work.table, error)
        with self._lock:
            if error:
                until = began + min(_REST_MS << failures, HOUR_MS)
                self._resting[work.place] = _Resting(failures, until, done)
            else:
                self._resting.pop(work.place, None)
            self._done.append(done)
            self._sums.add(done)
            self._history.add(done)

    def _released(self, table: str) -> None:
        try:
            self._leases.release(table)
        except (TablestoreError, OSError) as e:
            log.warning("the lease of %s ends by itself: %s", table, e)

    def _note(self, state: str, reason: str = "", *, ended: bool = True) -> None:
        """Say what state it is in, and why; what has ended is neither paused nor resumed."""
        with self._lock:
            if ended or self._state in (RUNNING, PAUSED, WAITING):
                self._state, self._reason = state, reason


def _numbers(name: str, state: Health) -> TableHealth:
    buckets = state.buckets.num_rows
    sums = (state.files, state.bytes, state.rows, buckets, state.due, state.most_runs, state.opened)
    return TableHealth(name, state.snapshot, *sums)


def _runs(table: Table, work: MaintenanceWork) -> int:
    """Sorted runs of the bucket that was compacted, as it is now."""
    if work.kind != "compact" or work.bucket < 0 or not table.store.schema.primary_keys:
        return 0
    buckets = table.inspect.health().buckets.to_pylist()
    return next(
        (b["runs"] for b in buckets if (b["partition"], b["bucket"]) == (work.partition, work.bucket)), 0
    )
