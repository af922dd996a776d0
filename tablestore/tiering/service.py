"""TieringService: holds tables, runs their rounds, until it is stopped.

One thread speaks to the coordinator: it renews the tables that it has, says which rounds ended and asks for
tables while there is room. Each round has a thread; its splits are read by tasks of the runner. A round whose
table is no longer this service's is given up. A round that fails is reported and its table waits; the others
go on. A service that is started anew first gives back what it had when it was killed, as its journal says,
so that nobody waits for the coordinator's time-out.

`once`: no coordinator is asked; every table has one round and the service ends. The lake refuses what another
service commits meanwhile, whichever of the two is late.
"""

from __future__ import annotations

import fnmatch
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.flow.job import RunningJob
from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TableEpoch, TieringTable
from tablestore.tiering.enumerator import AssignedTable, Received, TieringEnumerator
from tablestore.tiering.journal import read_report
from tablestore.tiering.marks import TieringMarks
from tablestore.tiering.report import (
    Heartbeat,
    ReportedTable,
    RoundReport,
    TableError,
    TableState,
    TieringEvent,
    TieringReport,
)
from tablestore.tiering.round import RoundParts, TieringRound

log = logging.getLogger(__name__)
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How a service works. `tables` are patterns of paths (none: all); `room` how many rounds there are at a
    time; a heartbeat is sent every `heartbeat_seconds`, and every `poll_seconds` while a table is wanted."""

    tables: tuple[str, ...] = ()
    room: int = 2
    heartbeat_seconds: float = 10.0
    poll_seconds: float = 0.5
    once: bool = False

    def accepts(self, table_path: str) -> bool:
        """Whether the service tiers a table."""
        return not self.tables or any(fnmatch.fnmatchcase(table_path, pattern) for pattern in self.tables)


class TieringService(RunningJob):
    """Rounds until `stop`."""

    def __init__(self, parts: RoundParts, settings: ServiceSettings) -> None:
        super().__init__()
        self._over.set()  # until it is started
        self._parts, self._settings = parts, settings
        self._enumerator = TieringEnumerator(room=settings.room, accepts=settings.accepts)
        self._changed = threading.Condition()
        self._rounds: dict[AssignedTable, TieringRound] = {}
        self._numbers = itertools.count(1)
        self._paths: dict[int, str] = {}
        self._paused = False
        self._marks = TieringMarks(parts.cluster, parts.journal)

    # ---- what a caller does

    def start(self) -> TieringService:
        """Begin, in threads of its own."""
        target = self._run_once if self._settings.once else self._run
        self._parts.journal.note_state("running")
        self._over.clear()
        threading.Thread(target=self._guarded, args=(target,), name="tiering", daemon=True).start()
        return self

    def stop(self, seconds: float | None = 60.0) -> bool:
        """End: rounds under way are given up, their tables reported as failed, their files deleted. Waits as
        long as that; whether the service has ended."""
        with self._changed:
            self._stopping.set()
            if self.running:
                self._parts.journal.note_state("stopping")
            self._changed.notify_all()
        return self.wait(seconds)

    def pause(self) -> None:
        """Ask for no more tables; rounds under way go on."""
        self._set_paused(True)

    def resume(self) -> None:
        """Ask for tables again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        with self._changed:
            self._paused = paused
            if self.running:
                self._parts.journal.note_state("paused" if paused else "running")
            self._changed.notify_all()

    @property
    def state(self) -> str:
        """running, paused, stopping, stopped or failed."""
        return self._parts.journal.report().state

    def tables(self) -> tuple[TableState, ...]:
        """What is known of each table."""
        return self._parts.journal.report().tables

    def rounds(self) -> tuple[RoundReport, ...]:
        """The newest rounds, from old to new."""
        return self._parts.journal.report().rounds

    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """The newest exchanges with the coordinator, from old to new."""
        return self._parts.journal.report().heartbeats

    def events(self) -> tuple[TieringEvent, ...]:
        """What the service met in the cluster that concerns rows, from old to new: partitions and tables that
        were dropped, rows that are lost."""
        return self._parts.journal.report().events

    def report(self) -> TieringReport:
        """All of it at one moment."""
        return self._parts.journal.report()

    # ---- the thread that speaks to the coordinator

    def _guarded(self, target: Callable[[], None]) -> None:
        state, reason, ended = "stopped", "", threading.Event()
        marks = threading.Thread(target=self._marks.run, args=(ended,), name="tiering marks", daemon=True)
        marks.start()
        try:
            target()
        except BaseException as e:
            self.error, state, reason = e, "failed", str(e)
        finally:
            ended.set()
            self._parts.journal.note_state(state, reason)
            self._end_with(
                self._parts.runner.close,
                self._parts.cluster.close,
                lambda: self._parts.journal.write(last=True),
            )

    def _run(self) -> None:
        env = self._parts.env
        self._give_back()
        with ThreadPoolExecutor(self._settings.room * 9, thread_name_prefix="tiering round") as pool:
            while not self._stopping.is_set():
                answered = self._beat(pool)
                with self._changed:
                    if not self._stopping.is_set() and not (answered and self._enumerator.has_ended):
                        due = [
                            seconds.due - env.monotonic() for seconds in self._enumerator.assigned.values()
                        ]
                        full = len(self._rounds) >= self._settings.room or self._paused
                        usual = self._settings.heartbeat_seconds if full else self._settings.poll_seconds
                        waits = [usual, *(max(seconds, 0.01) for seconds in due if seconds > 0)]
                        self._changed.wait(min(waits))
                self._parts.journal.write()
            with self._changed:
                self._enumerator.close()
            self._beat(pool)
        self._beat(None)

    def _beat(self, pool: ThreadPoolExecutor | None) -> bool:
        """One exchange; whether there was an answer. Rounds that are due begin."""
        env = self._parts.env
        with self._changed:
            request = self._enumerator.request(env.monotonic())
            if self._paused:
                request = replace(request, request_table=False)
        began, at = env.monotonic(), env.now_ms() / 1000
        try:
            answer = self._parts.cluster.heartbeat(request)
        except (TablestoreError, OSError) as e:
            log.warning("the coordinator does not answer: %s", e)
            self._parts.journal.note_heartbeat(
                Heartbeat(at, env.monotonic() - began, **self._sent(request), reason=str(e))
            )
            return False
        with self._changed:
            received = self._enumerator.receive(request, answer, env.monotonic())
            self._dropped(received)
            if received.given is not None:
                self._taken(received.given)
            due = [
                assigned
                for assigned in self._enumerator.assigned.values()
                if assigned not in self._rounds and assigned.due <= env.monotonic()
            ]
            self._parts.journal.write_assigned(self._enumerator.open_epochs)
            if pool is not None and not self._stopping.is_set():
                for assigned in due:
                    self._rounds[assigned] = self._round(assigned)
                    pool.submit(self._run_round, assigned)
        self._note_answer(request, answer, received, at, env.monotonic() - began)
        return True

    def _taken(self, assigned: AssignedTable) -> None:
        path, epoch = assigned.table.table_path, assigned.table.tiering_epoch
        self._paths[assigned.table.table_id] = path
        before = self._parts.journal.table(path)
        reason = before.reason if before is not None and before.table_id == assigned.table.table_id else ""
        state = TableState(path, assigned.table.table_id, "Pending", self._parts.env.now_ms() / 1000)
        if before is not None and before.table_id == assigned.table.table_id:
            state = replace(before, state="Failed" if reason else "Pending")
        self._parts.journal.note_table(replace(state, tiering_epoch=epoch))

    def _dropped(self, received: Received) -> None:
        for assigned, reason in received.dropped:
            log.warning("%s: %s; its round is given up", assigned.table.table_path, reason)
            if assigned in self._rounds:
                self._rounds[assigned].dropped_reason = reason

    def _round(self, assigned: AssignedTable) -> TieringRound:
        return TieringRound(
            self._parts,
            assigned,
            next(self._numbers),
            ours=lambda: self._settings.once or self._enumerator.holds(assigned),
            stopping=self._stopping.is_set,
            observe=self._marks.planned,
            looked_at=lambda: self._marks.looked_at(assigned.table.table_path),
        )

    def _run_round(self, assigned: AssignedTable) -> None:
        report = self._rounds[assigned].run()
        with self._changed:
            del self._rounds[assigned]
            if report.outcome in ("failed", "dropped"):
                self._enumerator.fail(assigned)
            else:
                self._enumerator.finish(assigned)
            self._changed.notify_all()

    # ---- what was assigned to a service that was killed

    def _give_back(self) -> None:
        """Report as failed what the journal says was assigned to this service."""
        directory, assigned = self._parts.journal.directory, self._parts.journal.assigned_before()
        if directory is None:
            return
        before = read_report(directory)
        self._parts.journal.resume(before)
        self._marks.known_before(self._still_there(before))
        self._numbers = itertools.count(max((report.number for report in before.rounds), default=0) + 1)
        if assigned:
            log.info(
                "given back, since a kill left them: tables %s", ", ".join(str(e.table_id) for e in assigned)
            )
            try:
                self._parts.cluster.heartbeat(HeartbeatRequest(failed=assigned))
            except (TablestoreError, OSError) as e:
                log.warning("the coordinator does not answer: %s", e)

    def _still_there(self, before: TieringReport) -> list[TableState]:
        """The tables of a report of which no event says that they were dropped."""
        dropped = {event.table: event.time for event in before.events if event.name == "table dropped"}
        tables = [state for state in before.tables if self._settings.accepts(state.table)]
        return [state for state in tables if state.table not in dropped or state.since > dropped[state.table]]

    # ---- without a coordinator

    def _run_once(self) -> None:
        if self._parts.journal.directory is not None:
            before = read_report(self._parts.journal.directory)
            self._parts.journal.resume(TieringReport(events=before.events))
            self._marks.known_before(self._still_there(before))
            self._marks.look_for_dropped()
        there = self._parts.cluster.lake_tables()
        accepted = [table for table in there if self._settings.accepts(table.table_path)]
        if self._settings.tables and not accepted:
            raise NotFound(_none_of(self._settings.tables, [table.table_path for table in there]))
        if not accepted:
            log.warning("no table of the cluster has table.datalake.enabled = true: none is tiered")
        with ThreadPoolExecutor(self._settings.room, thread_name_prefix="tiering round") as pool:
            for table in accepted:
                assigned = AssignedTable(table, TableEpoch(table.table_id, 0, table.tiering_epoch), 0.0)
                pool.submit(self._one_of_once, self._round(assigned))

    def _one_of_once(self, tiering_round: TieringRound) -> None:
        if not self._stopping.is_set():
            tiering_round.run()
            self._parts.journal.write()

    # ---- what is reported

    def _sent(self, request: HeartbeatRequest) -> dict[str, Any]:
        named = {"tiering": request.tiering, "finished": request.finished, "failed": request.failed}
        tables = {name: self._reported(epochs) for name, epochs in named.items()}
        return {**tables, "requests_table": request.request_table}

    def _reported(self, epochs: Sequence[TableEpoch]) -> tuple[ReportedTable, ...]:
        return tuple(ReportedTable(self._path(epoch.table_id), epoch.tiering_epoch) for epoch in epochs)

    def _path(self, table_id: int) -> str:
        return self._paths.get(table_id, f"table {table_id}")

    def _note_answer(
        self,
        request: HeartbeatRequest,
        answer: HeartbeatResponse,
        received: Received,
        at: float,
        seconds: float,
    ) -> None:
        given: TieringTable | None = received.given.table if received.given is not None else None
        errors = [
            TableError(self._path(response.table_id), response.error_code, response.message)
            for response in (*answer.tiering, *answer.finished, *answer.failed)
            if response.error_code is not None
        ]
        heartbeat = Heartbeat(
            at,
            seconds,
            **self._sent(request),
            coordinator_epoch=answer.coordinator_epoch,
            assigned=None if given is None else ReportedTable(given.table_path, given.tiering_epoch),
            errors=tuple(errors),
        )
        self._parts.journal.note_heartbeat(heartbeat)
        if given is not None:
            self._parts.journal.write(now=True)


def _none_of(patterns: Sequence[str], there: Sequence[str]) -> str:
    """That no table is one that is wanted, and which there are."""
    text = f"no table with table.datalake.enabled = true matches {', '.join(patterns)}; there is "
    return text + (", ".join(sorted(there)[:_SHOWN]) + (", …" if len(there) > _SHOWN else "") or "none")
