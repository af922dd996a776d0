"""What a service does, in memory and as files: tables, rounds, heartbeats, events, the newest ones of each.

<directory>/tables.jsonl, rounds.jsonl, heartbeats.jsonl, events.jsonl     a report a line, from old to new
<directory>/state.json                                                     the state of the service
<directory>/assigned.json                                                  the epochs of tables that it holds

Each file is replaced as a whole where something has changed, at most four times a second, more seldom where
there is so much that it would take more than a tenth of the time, and when the service ends; whoever reads
them sees one moment of each. Losing them loses nothing but what was seen. Safe to share between threads.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tablestore.core.arguments import checked
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, TablestoreError
from tablestore.flow.journal import JournalFiles, Report
from tablestore.flow.restarts import is_transient
from tablestore.fluss.heartbeat import TableEpoch
from tablestore.io.paths import location
from tablestore.tiering.report import Heartbeat, RoundReport, TableState, TieringEvent, TieringReport

log = logging.getLogger(__name__)
KEPT_ROUNDS, KEPT_HEARTBEATS, KEPT_EVENTS = 200, 200, 200
_SECONDS = 0.25
_TIMES_AS_LONG = 10
"""How many times as long as writing takes it is not done again."""
_ASSIGNED, _STATE = "assigned.json", "state.json"
_KINDS: Mapping[str, type[Report]] = MappingProxyType(
    {"tables": TableState, "rounds": RoundReport, "heartbeats": Heartbeat, "events": TieringEvent}
)
"""What is reported of, by the names of files and of parts of a `TieringReport`."""


@dataclass(slots=True)
class TieringJournal:
    """The reports of one service; without a `directory` in memory only."""

    directory: str | None = None
    env: Env = SYSTEM
    _tables: dict[str, TableState] = field(default_factory=dict)
    _rounds: dict[int, RoundReport] = field(default_factory=dict)
    _heartbeats: deque[Heartbeat] = field(default_factory=lambda: deque(maxlen=KEPT_HEARTBEATS))
    _events: deque[TieringEvent] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    _state: tuple[str, str] = ("", "")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _written: float = float("-inf")
    _took: float = 0.0
    _trouble: str = ""
    _files: dict[str, dict[int, tuple[Report, bytes]]] = field(default_factory=dict)
    _assigned: tuple[TableEpoch, ...] | None = None

    def note_table(self, table: TableState) -> None:
        """Set what is known of a table."""
        with self._lock:
            self._tables[table.table] = table

    def forget_table(self, path: str) -> None:
        """Know nothing of a table any more."""
        with self._lock:
            self._tables.pop(path, None)

    def change_table(self, path: str, change: Callable[[TableState], TableState]) -> None:
        """Change what is known of a table, if anything is."""
        with self._lock:
            if path in self._tables:
                self._tables[path] = change(self._tables[path])

    def note_round(self, report: RoundReport) -> None:
        """Set what is known of a round, by its number."""
        with self._lock:
            self._rounds[report.number] = report
            while len(self._rounds) > KEPT_ROUNDS:
                del self._rounds[min(self._rounds)]

    def note_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Add an exchange with the coordinator. Of several in a row that say nothing the newest is kept, and
        how many there were."""
        with self._lock:
            before = self._heartbeats[-1] if self._heartbeats else None
            if before is not None and _idle(before) and _idle(heartbeat):
                self._heartbeats.pop()
                since = before.time if before.since is None else before.since
                heartbeat = replace(heartbeat, count=before.count + 1, since=since)
            self._heartbeats.append(heartbeat)

    def note_event(self, event: TieringEvent) -> None:
        """Add an event, and write it at once: what it tells is about to be done."""
        with self._lock:
            self._events.append(event)
        self.write(last=True)

    def note_state(self, state: str, reason: str = "") -> None:
        """Set the state of the service."""
        with self._lock:
            self._state = state, reason

    def resume(self, before: TieringReport) -> None:
        """Go on from the report of a service that has ended; rounds that it was at when it was killed have
        failed."""
        last = max((report.time for report in before.heartbeats), default=0.0)
        with self._lock:
            for table in before.tables:
                self._tables.setdefault(table.table, table)
            for report in before.rounds:
                if report.ended is None:
                    ended = max(last, report.started)
                    why = "the service was killed"
                    report = replace(report, phase="ended", ended=ended, outcome="failed", reason=why)
                self._rounds.setdefault(report.number, report)
            self._heartbeats.extendleft(reversed(before.heartbeats))
            self._events.extendleft(reversed(before.events))

    def table(self, path: str) -> TableState | None:
        """What is known of a table."""
        with self._lock:
            return self._tables.get(path)

    def report(self) -> TieringReport:
        """All that is known now."""
        with self._lock:
            tables = tuple(self._tables[path] for path in sorted(self._tables))
            rounds = tuple(self._rounds[number] for number in sorted(self._rounds))
            heard, events = tuple(self._heartbeats), tuple(self._events)
            state, reason = self._state
            return TieringReport(tables, rounds, heard, state, reason or self._trouble, events)

    def write(self, *, now: bool = False, last: bool = False) -> None:
        """Write the files, unless that was a moment ago: `now` even then, `last` whatever it takes. Where the
        store is full or away, a later call writes them, and the report says so; `last` raises Unavailable."""
        if self.directory is None:
            return
        with self._writing:
            at = self.env.monotonic()
            pause = self._took * _TIMES_AS_LONG
            if last or at - self._written >= (pause if now else max(_SECONDS, pause)):
                with self._bearing(last=last):
                    self._write(self.directory)
                self._written = self.env.monotonic()
                self._took = self._written - at

    def write_assigned(self, epochs: Sequence[TableEpoch]) -> None:
        """Write at once which tables the service holds, if that has changed: what a kill leaves can be given
        back. Where the store is full or away, a later call writes it."""
        assigned = tuple(epochs)
        if self.directory is not None and assigned != self._assigned:
            with self._bearing():
                JournalFiles.at(self.directory).put(_ASSIGNED, [asdict(epoch) for epoch in assigned])
                self._assigned = assigned

    @contextlib.contextmanager
    def _bearing(self, *, last: bool = False) -> Iterator[None]:
        """Note what keeps files from being written, where that may pass, and do not raise it."""
        trouble = ""
        try:
            yield
        except TablestoreError as e:
            if last or not is_transient(e):
                raise
            trouble = f"what it does is not written down: {e}"
        with self._lock:
            if trouble and not self._trouble:
                log.warning("%s", trouble)
            self._trouble = trouble

    def assigned_before(self) -> tuple[TableEpoch, ...]:
        """What a service of this journal held when it ended."""
        epochs = None
        if self.directory is not None:
            with contextlib.suppress(Corrupt):  # a loss of power emptied it
                epochs = JournalFiles.at(self.directory).value(_ASSIGNED)
        return tuple(TableEpoch(**epoch) for epoch in epochs or ())

    def _write(self, directory: str) -> None:
        report, files = self.report(), JournalFiles.at(directory)
        for name in _KINDS:
            before = self._files.get(name)
            lines = _lines(getattr(report, name), before or {})
            if before is None or lines.keys() != before.keys():
                files.put(f"{name}.jsonl", b"".join(line for _, line in lines.values()))
            self._files[name] = lines
        files.put(_STATE, {"state": report.state, "reason": report.reason})


@checked
def tiering_report(journal: str | os.PathLike[str]) -> TieringReport:
    """What a service does, by the directory of its `journal`; also of one that has ended, or that another
    process runs.

    >>> ts.tiering_report("a/journal/without/reports").tables
    ()
    """
    return read_report(location(journal))


def read_report(directory: str) -> TieringReport:
    """The report of a service by the directory of its journal; empty parts where there is none yet. Raises
    Corrupt for files of something else."""
    files = JournalFiles.at(directory)
    state = files.fields(_STATE) or {"state": "", "reason": ""}
    reports: dict[str, Any] = {
        name: tuple(kind.from_json(item) for item in _read(files, name)) for name, kind in _KINDS.items()
    }
    return TieringReport(**reports, state=state["state"], reason=state["reason"])


def _idle(heartbeat: Heartbeat) -> bool:
    named = heartbeat.finished or heartbeat.failed or heartbeat.errors or heartbeat.reason
    return not (named or heartbeat.assigned or heartbeat.tiering or heartbeat.registers)


def _lines(
    reports: Iterable[Report], before: Mapping[int, tuple[Report, bytes]]
) -> dict[int, tuple[Report, bytes]]:
    """The reports with their lines, by identity; those from `before` are not made again."""
    return {id(report): before.get(id(report)) or (report, _line(report)) for report in reports}


def _line(report: Report) -> bytes:
    return json.dumps(report.to_json(), ensure_ascii=False).encode() + b"\n"


def _read(files: JournalFiles, name: str) -> list[dict[str, Any]]:
    data = files.read(f"{name}.jsonl") or b""
    try:
        return [json.loads(line) for line in data.splitlines()]
    except ValueError as e:
        raise Corrupt(files.place(f"{name}.jsonl"), f"no reports: {e}") from None
