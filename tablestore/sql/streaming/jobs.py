"""Jobs: INSERTs that follow their sources, each by one stream, exactly once into tables; and the jobs of a
session: those that it started, and those that their directories remember.

Commits to a table are of the user that has the job's name, and keep the position of the sources: a job whose
checkpoint is lost goes on from there. What runs the streams may differ from start to start.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from weakref import WeakSet

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unavailable
from tablestore.core.options.environment import are_looked_up
from tablestore.core.options.values import duration_ms
from tablestore.flow.batch import Batch
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING, FlowJob
from tablestore.flow.restarts import NO_RESTART, RestartStrategy
from tablestore.flow.runner import LOCAL, Runner, StreamsTogether, runner_of, spark_session
from tablestore.flow.sink import TableSink
from tablestore.format.result_tables import result_schema
from tablestore.sql.problems import conceal
from tablestore.sql.scope import Scope
from tablestore.sql.settings import CHECKPOINTS, TARGET, Settings
from tablestore.sql.spark_engine import session_of
from tablestore.sql.streaming.job_directory import JobDirectories, JobRecord, JobStatus, PartStatus
from tablestore.sql.streaming.job_part import JobPart, PartBatches

STATES = MappingProxyType(
    {
        **{RUNNING: "RUNNING", PAUSED: "PAUSED", WAITING: "RESTARTING"},
        **{ENDED: "FINISHED", STOPPED: "STOPPED", FAILED: "FAILED"},
    }
)
"""The words of Flink for the states of jobs, which SHOW JOBS and `status.json` have."""


class Job(FlowJob):
    """A job of SQL that this process runs. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        parts: tuple[JobPart, ...],
        statements: tuple[str, ...],
        places: JobDirectories,
        strategy: RestartStrategy | None = None,
    ) -> None:
        super().__init__(name, strategy)
        self.parts, self.places = parts, places
        started_ms = SYSTEM.now_ms()
        facts = tuple(p.facts for p in parts)
        self.record = JobRecord(name, SYSTEM.uuid()[:8], started_ms, statements, facts)
        self._status = JobStatus(STATES[RUNNING], started_ms, tuple(PartStatus() for _ in parts))

    @property
    def status(self) -> JobStatus:
        """How it is now."""
        with self._lock:
            return replace(self._status, state=STATES[self._present])

    def start(self, runner: Runner, *, interval_seconds: float) -> None:
        """Start its streams. Raises InvalidRequest where a target has commits of another query of its name;
        none runs then."""
        record = self.places.record(self.name)
        self.record = self.record if record is None else record
        opened = [self._all_opened()]
        if record is None:
            self.places.keep(self.record)
        before = self.places.status(self.name)
        if before is not None and len(before.parts) == len(self.parts):
            self._status = replace(self._status, parts=before.parts)
        are_looked_up(name for part in self.parts for name in part.streams.variables)
        try:
            self._launch(partial(self._begin, runner, interval_seconds, opened))
        except BaseException as e:
            self._end(e)
            raise

    def _begin(
        self, runner: Runner, interval_seconds: float, opened: list[list[PartBatches]]
    ) -> StreamsTogether:
        """Start all streams where their checkpoints are; the first time those that are `opened`."""
        batches = opened.pop() if opened else self._all_opened()
        return StreamsTogether.started(
            partial(
                runner.start,
                part.streams,
                of_part,
                checkpoint=of_part.checkpoint,
                start=of_part.start,
                interval_seconds=interval_seconds,
                variables=part.streams.variables,
            )
            for part, of_part in zip(self.parts, batches, strict=True)
        )

    def caught_up(self) -> bool:
        """Whether its targets have all that its sources hold now. Raises what it failed with."""
        if self.error is not None:
            raise self.error
        for part, status in zip(self.parts, self.status.parts, strict=True):
            reached = part.streams.initial() if status.offset is None else dict(status.offset)
            if part.streams.next(reached) != reached:
                return False
        return True

    def _all_opened(self) -> list[PartBatches]:
        return [self._opened(number) for number in range(len(self.parts))]

    def _opened(self, number: int) -> PartBatches:
        """What carries out the batches of an INSERT."""
        user = self.name if len(self.parts) == 1 else f"{self.name}/{number}"
        directory = self.places.place(self.name, str(number))
        counted = self._counting(number)
        return PartBatches(self.parts[number], directory, user, job_id=self.record.id, noted=counted)

    def _counting(self, number: int) -> Callable[[Batch, int], None]:
        def noted(batch: Batch, rows: int) -> None:
            with self._lock:
                parts = list(self._status.parts)
                part = parts[number]
                self._batches += 1
                parts[number] = PartStatus(part.batches + 1, part.rows + rows, batch.end)
                self._status = replace(self._status, parts=tuple(parts))
                status = self._status
            self.places.note(self.name, status)

        return noted

    def _plain(self, error: BaseException) -> BaseException:
        plain = super()._plain(error)
        conceal(plain)
        return plain

    def _note(self, state: str, reason: str) -> None:
        """Set its state, and write that."""
        super()._note(state, reason)
        with self._lock:
            self._status = replace(self._status, state=STATES[state], error=reason)
            status = self._status
        with contextlib.suppress(TablestoreError, OSError):  # where its directory is gone nobody asks
            self.places.note(self.name, status)


_LOOK_SECONDS = 0.05  # between two looks at how far jobs are
_AT_WORK = frozenset(STATES[state] for state in (RUNNING, WAITING, PAUSED))
_ALL: WeakSet[Jobs] = WeakSet()  # for the end of the process
_SCHEMA = result_schema(
    "job name string, status string, target string, start time ms_utc, batches int64, rows int64, "
    "position string, error string"
)


class Jobs:
    """What one session has started."""

    def __init__(self) -> None:
        self._started: dict[str, Job] = {}  # by directory
        self._reported: set[int] = set()
        _ALL.add(self)

    def start(self, scope: Scope, parts: tuple[JobPart, ...], statements: tuple[str, ...]) -> Job:
        """Start a job of these INSERTs under `pipeline.name`, or a name made of the target's; one that was
        there before goes on. Raises InvalidRequest for a job that runs, and for the name of another one.
        """
        places = directories(scope)
        name = scope.settings["pipeline.name"] or self._fresh_name(parts[0], places)
        job = Job(name, parts, statements, places, _restart_strategy(scope.settings))
        place = places.place(name)
        if place in self._started and self._started[place].running:
            raise InvalidRequest(f"job {name!r} is running: STOP JOB '{name}' stops it")
        record = places.record(name)
        if record is not None:
            _require_same(record, job.record)
        interval = duration_ms(scope.settings["execution.checkpointing.interval"]) / 1000
        job.start(_runner(scope), interval_seconds=interval)
        self._started[place] = job
        return job

    def _fresh_name(self, part: JobPart, places: JobDirectories) -> str:
        """A name that neither a directory nor the commits of the table know."""
        base = part.target
        for number in itertools.count(1):
            name = base if number == 1 else f"{base}-{number}"
            if places.record(name) is None and not (
                isinstance(part.sink, TableSink) and part.sink.opened().position(name)
            ):
                return name
        raise AssertionError("numbers do not end")

    def stop(self, scope: Scope, name: str) -> Job:
        """Stop a job of this session. Raises NotFound, InvalidRequest for one that does not run here."""
        places = directories(scope)
        job = self._started.get(places.place(name))
        if job is None or not job.running:
            status = places.status(name)
            if status is None:
                raise NotFound.among("job", name, places.names())
            raise InvalidRequest(f"job {name!r} does not run in this session")
        job.stop()
        return job

    def drop(self, scope: Scope, name: str) -> None:
        """Forget a job, with its checkpoint and state. Raises NotFound, InvalidRequest for one that runs."""
        places = directories(scope)
        job = self._started.get(places.place(name))
        if job is not None and job.running:
            raise InvalidRequest(f"job {name!r} is running: STOP JOB '{name}' stops it")
        places.forget(name)
        self._started.pop(places.place(name), None)

    def rows(self, scope: Scope) -> pa.Table:
        """Every job, one row an INSERT, by name."""
        places = directories(scope)
        rows = []
        for name in places.names():
            record = places.record(name)
            job = self._started.get(places.place(name))
            status = places.status(name) if job is None else job.status
            if record is None:
                continue  # forgotten meanwhile
            if status is None:
                status = JobStatus(STATES[STOPPED], record.created_ms, ())
            if job is None and status.state in _AT_WORK:  # of a process that has ended, or of another one
                why = "its process has not said how it ended"
                status = replace(status, state=STATES[STOPPED], error=why)
            rows += _rows(record, status, job)
        return pa.Table.from_pylist(rows, _SCHEMA)

    def running(self) -> list[str]:
        """The names of those that run."""
        return [job.name for job in self._started.values() if job.running]

    def failures(self) -> list[str]:
        """What jobs failed with since this was asked last."""
        failed = [j for j in self._started.values() if j.error is not None and id(j) not in self._reported]
        self._reported.update(id(j) for j in failed)
        return [str(j.error) for j in failed]

    def wait(self) -> None:
        """Wait until all have ended. Raises what one failed with."""
        for job in [j for j in self._started.values() if j.running or id(j) not in self._reported]:
            self._reported.add(id(job))
            job.wait()

    def wait_for(self, job: Job) -> None:
        """Wait until a job has ended; Ctrl-C stops it. Raises what it failed with."""
        self._reported.add(id(job))
        try:
            job.wait()
        except KeyboardInterrupt:
            job.stop()
            raise

    def catch_up(self, *names: str, timeout_seconds: float = 600.0) -> None:
        """Wait until the targets of these jobs, one job after the other, have all that their sources then
        hold; without names of all jobs that run. Raises NotFound for a job that this session has not started,
        Unavailable where it takes longer, InvalidRequest where a job ends before, what one fails with."""
        by_name = {job.name: job for job in self._started.values()}
        for name in names:
            if name not in by_name:
                raise NotFound.among("job", name, by_name)
        until = SYSTEM.monotonic() + timeout_seconds
        for name in names or [name for name, job in by_name.items() if job.running]:
            job = by_name[name]
            while not job.caught_up():
                if not job.running and not job.caught_up():
                    raise InvalidRequest(f"job {name!r} has ended, and its sources have more")
                if SYSTEM.monotonic() > until:
                    why = f"job {name!r} did not catch up with its sources in {timeout_seconds:g} s"
                    raise Unavailable(0, why)
                SYSTEM.sleep(_LOOK_SECONDS)

    def stop_all(self) -> None:
        """Stop all that run."""
        for job in self._started.values():
            if job.running:
                job.stop()


def _runner(scope: Scope) -> Runner:
    """What runs a job, as `execution.target` says. Raises MissingPackage, NotFound or InvalidRequest where
    there is no PySpark or no Java, which name the other target."""
    target = scope.settings[TARGET]
    if target == LOCAL:
        return runner_of(target)
    if scope.spark is None:
        scope.spark = spark_session(remedy=f"SET {TARGET!r} = {LOCAL!r}")
    return runner_of(target, spark=session_of(scope))


def _restart_strategy(settings: Settings) -> RestartStrategy:
    """What `restart-strategy.*` says."""
    kind = settings["restart-strategy.type"]
    if kind == "fixed-delay":
        seconds = duration_ms(settings["restart-strategy.fixed-delay.delay"]) / 1000
        attempts = int(settings["restart-strategy.fixed-delay.attempts"])
        return RestartStrategy(attempts, seconds, seconds, 1)
    if kind != "exponential-delay":
        return NO_RESTART
    of = "restart-strategy.exponential-delay."
    return RestartStrategy(
        int(settings[f"{of}attempts-before-reset-backoff"]),
        duration_ms(settings[f"{of}initial-backoff"]) / 1000,
        duration_ms(settings[f"{of}max-backoff"]) / 1000,
        float(settings[f"{of}backoff-multiplier"]),
    )


def _reached(status: PartStatus, part: JobPart | None) -> str:
    """How far an INSERT came, in words; of one that runs, `part`, also of how much."""
    texts = []
    for place, offset in enumerate([] if status.offset is None else status.offset.get("sources", [])):
        if "tables" not in offset:
            texts.append(json.dumps({k: v for k, v in offset.items() if k != "v"}))
            continue
        (snapshot,) = offset["tables"].values()
        newest = None if part is None else part.plan.inputs[place].source.latest()
        of = f" of {next(iter(newest['tables'].values()))}" if newest and "tables" in newest else ""
        texts.append(f"snapshot {snapshot}{of}")
    return ", ".join(texts)


def _rows(record: JobRecord, status: JobStatus, job: Job | None) -> list[dict[str, object]]:
    rows = []
    for number, facts in enumerate(record.parts):
        part = status.parts[number] if number < len(status.parts) else PartStatus()
        rows.append(
            {
                "job name": record.name,
                "status": status.state,
                "target": facts["target"],
                "start time": status.started_ms,
                "batches": part.batches,
                "rows": part.rows,
                "position": _reached(part, job.parts[number] if job is not None and job.running else None),
                "error": status.error.partition("\n")[0],
            }
        )
    return rows


def _require_same(stored: JobRecord, wanted: JobRecord) -> None:
    """Raise InvalidRequest for a job of the same name that is another one, naming what differs."""
    if stored.parts == wanted.parts:
        return
    if len(stored.parts) != len(wanted.parts):
        differs = f"it has {len(stored.parts)} INSERTs, this one {len(wanted.parts)}"
    else:
        pairs = zip(stored.parts, wanted.parts, strict=True)
        names = {k for a, b in pairs for k in {*a, *b} if a.get(k) != b.get(k)}
        differs = (
            f"another {' and another '.join(sorted(names))}; it is: {'; '.join(stored.statements)[:300]}"
        )
    raise InvalidRequest(
        f"there is a job {stored.name!r} with {differs}\n  another name: SET 'pipeline.name' = '…'; "
        f"DROP JOB '{stored.name}' forgets the other one"
    )


def directories(scope: Scope) -> JobDirectories:
    """Where the jobs of a session are kept. Raises OutsideRoots."""
    warehouse = None if scope.catalog is None else scope.lake().warehouse
    named = scope.settings[CHECKPOINTS]
    if named and scope.roots is not None:
        named = scope.roots.inside(named, f"setting {CHECKPOINTS!r}")
    return JobDirectories.of(named, warehouse)


@atexit.register
def _stop_all() -> None:
    """No batch is cut off when the process ends."""
    for jobs in list(_ALL):
        try:
            jobs.stop_all()
        except (TablestoreError, OSError):
            continue
