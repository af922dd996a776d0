"""Reports of tiering, as they are shown and stored: tables, rounds, heartbeats.

Times are seconds after 1970, offsets those of the next row. A report is what one service knows: of a table
that another one holds it says the state that it last heard of. Written by the service to its journal, read by
`./workbench tier`, `explain` and views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tablestore.core.quantities import duration, many
from tablestore.flow.journal import Report

State = Literal["New", "Initialized", "Scheduled", "Pending", "Tiering", "Tiered", "Failed"]
"""Where a table is in its coordinator's circle: New (Initialized after a restart), Scheduled until its
freshness is over, Pending until a service asks, Tiering, then Tiered or Failed."""
STATES: tuple[State, ...] = ("New", "Initialized", "Scheduled", "Pending", "Tiering", "Tiered", "Failed")

HoldPhase = Literal["committing", "registering"]
"""A phase before whose work a round may wait: the commit to the lake, and telling the cluster of it."""
Phase = Literal["planning", "reading", HoldPhase, "ended"]
"""What a round does: plans its splits, reads and writes them, commits to the lake, registers that with the
cluster."""

Outcome = Literal["", "committed", "incomplete", "empty", "registered", "dropped", "failed"]
"""How a round ended; empty while it is under way. `incomplete`: what there was is committed, and the round
met an event: rows may be gone from the cluster that the lake never had. `empty`: there was nothing to read.
`registered`: the lake had a snapshot of which the cluster did not know, it does now, and the round's own
files are gone. `dropped`: the table was no longer this service's, nothing is committed."""

EventName = Literal["partition dropped", "table dropped", "table replaced", "rows lost"]
"""What a service met in the cluster that concerns rows: a partition or a table is gone, a table was made
again, or the log lacks rows that no round had brought."""


@dataclass(frozen=True, slots=True)
class BucketMarks:
    """How far one bucket is: its log has the rows from `start` to `end`, the lake those before `tiered`, its
    readers see those before `readable` (less than `tiered` where level 0 is hidden until a compaction).
    `partition` is its name, None without partitions; `tiered` and `readable` are None where the lake has no
    row yet."""

    partition: str | None
    bucket: int
    end: int
    tiered: int | None = None
    readable: int | None = None
    start: int = 0

    @property
    def lag_rows(self) -> int:
        """Offsets behind what the lake has; rows that retention removed before do not count."""
        return max(self.end - max(self.tiered or 0, self.start), 0)

    @property
    def warm_rows(self) -> int:
        """Offsets that the log and the lake have."""
        return max((self.tiered or 0) - self.start, 0)

    @property
    def cold_rows(self) -> int:
        """Offsets that the lake alone has."""
        return min(self.tiered or 0, self.start)


@dataclass(frozen=True, slots=True)
class TableState(Report):
    """A table: its state since `since`, the epoch under which it was handed out (None: not yet to this
    service), the freshness that it asks for in seconds, when its lake was last known to have all rows of
    the log (None: never), how many rows the log has behind the lake, and why it failed. `warning`: rows may
    go from the log before the lake has them. `kept`: for how many seconds the log keeps rows, None: until the
    lake has them, or not known."""

    table: str
    table_id: int
    state: State
    since: float
    tiering_epoch: int | None = None
    freshness: float | None = None
    tiered_at: float | None = None
    lag_rows: int | None = None
    reason: str = ""
    marks: tuple[BucketMarks, ...] = ()
    warning: str = ""
    kept: float | None = None

    def where(self, now: float) -> str:
        """Where its rows are, as offsets of its log; empty where nobody knows. Changes of a key count each.

        >>> marks = (BucketMarks(None, 0, end=100, tiered=80, start=30),)
        >>> TableState("shop.orders", 1, "Tiered", 0.0, tiered_at=5.0, marks=marks, kept=3600.0).where(9.0)
        'only in the log 20, at most 4.0 s old; in both 50, for 1:00:00 in the log; only in the lake 30'
        """
        if not self.marks:
            return ""
        hot, warm, cold = (
            sum(getattr(mark, name) for mark in self.marks) for name in ("lag_rows", "warm_rows", "cold_rows")
        )
        age = "" if self.tiered_at is None else f", at most {duration(_millis(now - self.tiered_at))} old"
        kept = "" if self.kept is None else f", for {_kept(self.kept)} in the log"
        return (
            f"only in the log {hot:,}{age if hot else ''}; in both {warm:,}{kept}; only in the lake {cold:,}"
        )


@dataclass(frozen=True, slots=True)
class SplitReport:
    """A split of a round: offsets [start, stop) of the log of one bucket, behind a snapshot of its keys if
    `snapshot_id` is given. `offset` is how far it is read; rows and bytes are what was read so far. `started`
    and `ended` are None until then."""

    partition: str | None
    bucket: int
    start: int
    stop: int
    snapshot_id: int | None = None
    offset: int | None = None
    rows: int = 0
    bytes: int = 0
    started: float | None = None
    ended: float | None = None
    reason: str = ""

    @property
    def kind(self) -> str:
        """`log` or `snapshot`."""
        return "log" if self.snapshot_id is None else "snapshot"

    @property
    def seconds(self) -> float:
        """How long it was read and written; 0 until it ends."""
        return 0.0 if self.started is None or self.ended is None else max(self.ended - self.started, 0.0)


@dataclass(frozen=True, slots=True)
class RoundReport(Report):
    """A round: one table under one epoch. `number` counts the rounds of this service from 1. `ended` is None
    while it is under way. `snapshot_id` is the lake's, None where nothing was committed. `notes` say what a
    person should know, such as a lake snapshot that was registered late. `seconds` has the time of each
    part of the work by its name, such as fetch, decode, write, commit."""

    number: int
    table: str
    table_id: int
    tiering_epoch: int
    coordinator_epoch: int
    started: float
    phase: Phase = "planning"
    ended: float | None = None
    splits: tuple[SplitReport, ...] = ()
    outcome: Outcome = ""
    snapshot_id: int | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows that were read so far."""
        return sum(split.rows for split in self.splits)

    @property
    def bytes(self) -> int:
        """Bytes that were read so far."""
        return sum(split.bytes for split in self.splits)

    @property
    def is_committed(self) -> bool:
        """Whether what it read is in the lake."""
        return self.outcome in ("committed", "incomplete")


@dataclass(frozen=True, slots=True)
class TieringEvent(Report):
    """Something that a service met in the cluster, and what it does to the lake: `text`. `offsets`: how many
    of the log the lake lacked when it was last looked at, and will never have; None: not known. `partition`:
    its name, None where it is of the whole table."""

    table: str
    name: EventName
    text: str
    partition: str | None = None
    offsets: int | None = None
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class ReportedTable:
    """A table as a heartbeat names it, by its path, and the epoch that it was held under."""

    table: str
    tiering_epoch: int

    def __str__(self) -> str:
        return f"{self.table} (epoch {self.tiering_epoch})"


@dataclass(frozen=True, slots=True)
class TableError:
    """What the answer to a heartbeat says against one table."""

    table: str
    code: int
    reason: str

    def __str__(self) -> str:
        return f"{self.table}: {self.reason} (error {self.code})"


@dataclass(frozen=True, slots=True)
class Heartbeat(Report):
    """One exchange with the coordinator. Of the request: the tables that are held, those whose rounds ended,
    and whether one more is asked for. Of the answer: the coordinator's epoch (None: no answer, `reason` says
    why), the table that was handed out, errors a table. It may stand for several that said nothing new:
    `count` of them, from `since` on."""

    time: float
    seconds: float = 0.0
    tiering: tuple[ReportedTable, ...] = ()
    finished: tuple[ReportedTable, ...] = ()
    failed: tuple[ReportedTable, ...] = ()
    requests_table: bool = False
    coordinator_epoch: int | None = None
    assigned: ReportedTable | None = None
    errors: tuple[TableError, ...] = ()
    reason: str = ""
    count: int = 1
    since: float | None = None

    @property
    def registers(self) -> bool:
        """Whether it is the first one of a service, which asks for the coordinator's epoch alone."""
        return not (self.tiering or self.finished or self.failed or self.requests_table)

    @property
    def sent(self) -> str:
        """The request in words.

        >>> held = ReportedTable("shop.orders", 3)
        >>> Heartbeat(0.0, finished=(held,), requests_table=True).sent
        'finished shop.orders (epoch 3) · asks for a table'
        """
        parts = []
        for name, tables in (("tiering", self.tiering), ("finished", self.finished), ("failed", self.failed)):
            if tables:
                parts.append(f"{name} {', '.join(map(str, tables))}")
        if self.requests_table:
            parts.append("asks for a table")
        return " · ".join(parts) or "asks for the coordinator's epoch"

    @property
    def received(self) -> str:
        """The answer in words.

        >>> Heartbeat(0.0, requests_table=True, coordinator_epoch=2).received
        'no table waits'
        >>> Heartbeat(0.0, reason="connection refused").received
        'no answer: connection refused'
        """
        if self.coordinator_epoch is None:
            return f"no answer: {self.reason}" if self.reason else "no answer"
        parts = [str(error) for error in self.errors]
        if self.assigned is not None:
            parts.append(f"tier {self.assigned}")
        elif self.requests_table:
            parts.append("no table waits")
        if not parts:
            named = self.tiering or self.finished or self.failed
            parts.append("all right" if named else f"the coordinator's epoch is {self.coordinator_epoch}")
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class TieringReport:
    """All that a service tells: tables by path, rounds, heartbeats and events from old to new (the newest
    ones, as many as are kept), and the state of the service itself: running, paused, stopping, stopped or
    failed; empty where nobody knows."""

    tables: tuple[TableState, ...] = ()
    rounds: tuple[RoundReport, ...] = ()
    heartbeats: tuple[Heartbeat, ...] = ()
    state: str = ""
    reason: str = ""
    events: tuple[TieringEvent, ...] = ()


def _millis(seconds: float) -> int:
    return round(max(seconds, 0.0) * 1000)


def _kept(seconds: float) -> str:
    """`7 days`, else as short times are."""
    days, rest = divmod(seconds, 86_400)
    return many(round(days), "day") if days and not rest else duration(_millis(seconds))
