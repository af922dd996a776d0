"""What a maintenance service did, does and waits for: immutable values, kept as JSON below the warehouse.

Times are seconds after 1970, sizes bytes. Written by the service, so that a later one goes on; read by
`ts.maintenance_report`, the command and views.

<directory>/<name>/report.json     the newest report; replaced as a whole
<directory>/<name>/began           written once, when a service begins: where it is gone, the lake is away
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt, NotFound, require_there
from tablestore.core.quantities import duration, many, size
from tablestore.insight.cards import html
from tablestore.insight.cards.html import TextCell
from tablestore.insight.doctor import Finding
from tablestore.insight.doctor.finding import look
from tablestore.insight.health import Alarm
from tablestore.io.fileio import FileIO
from tablestore.io.paths import checked_name, join, location
from tablestore.io.routed import file_io_for

SCHEMA = pa.schema(
    {
        "began": pa.timestamp("ms", "UTC"),
        "seconds": pa.float64(),
        "table": pa.string(),
        "kind": pa.string(),
        "where": pa.string(),
        "why": pa.string(),
        "predicted_read": pa.int64(),
        "predicted_written": pa.int64(),
        "read": pa.int64(),
        "written": pa.int64(),
        "runs_before": pa.int32(),
        "runs_after": pa.int32(),
        "result": pa.string(),
        "error": pa.string(),
    }
)
_SHOWN, _LONGEST = 10, 400
_HEADS = [("table", False), ("what", False), ("runs", True), ("read", True), ("wrote", True), ("why", False)]


@dataclass(frozen=True, slots=True)
class WorkDone:
    """One piece of work that was tried: why, what was predicted, what was measured. `error` is why nothing of
    it was committed, empty where it was."""

    began: float
    seconds: float
    table: str
    kind: str
    where: str
    why: str
    predicted_read: int = 0
    predicted_written: int = 0
    read: int = 0
    written: int = 0
    runs_before: int = 0
    runs_after: int = 0
    result: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        """`shop.orders bucket-0 compact: size ratio: …; 8 → 1 runs, read 12 MiB (predicted 12 MiB), …`."""
        head = f"{self.table} {self.where} {self.kind}".replace("  ", " ")
        if self.error:
            return f"{head}: failed, nothing was committed: {self.error}"
        parts = [self.why]
        if self.kind == "compact":
            runs = f"{self.runs_before} → {many(self.runs_after, 'run')}, " if self.runs_before else ""
            wrote = f"wrote {size(self.written)} (predicted {size(self.predicted_written)})"
            parts.append(f"{runs}read {size(self.read)}, {wrote}")
        parts.append(duration(int(1000 * self.seconds)))
        return f"{head}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class WorkWaiting:
    """Work that is not done yet, why it is wanted, and what it waits for; empty where it comes next."""

    table: str
    kind: str
    where: str
    why: str
    waits_for: str
    size: int = 0

    @property
    def text(self) -> str:
        """`shop.orders bucket-0 compact: … – waits for the window 22:00-06:00`."""
        waits = f"; waits for {self.waits_for}" if self.waits_for else ""
        return f"{self.table} {self.where} {self.kind}: {self.why}{waits}".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class TableHealth:
    """How a table stood when it was last looked at; the numbers of `inspect.health()`."""

    table: str
    snapshot: int | None = None
    files: int = 0
    bytes: int = 0
    rows: int = 0
    buckets: int = 0
    due_buckets: int = 0
    most_runs: int = 0
    opened_runs: float = 0.0


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """One service at one moment: what it has done lately, oldest first, what waits, the most urgent first,
    and the tables that it could not look at, with the error. `reason`: why the service itself waits."""

    name: str
    state: str
    at: float
    tables: tuple[TableHealth, ...] = ()
    hour_bytes: int | None = None
    spent_bytes: int = 0
    done: tuple[WorkDone, ...] = ()
    waiting: tuple[WorkWaiting, ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()
    reason: str = ""

    @property
    def summary(self) -> str:
        """`running: 12 tables, 3 done, 1 failed, 2 waiting; 1.2 GiB of 10 GiB in the last hour`."""
        failed = sum(bool(work.error) for work in self.done)
        counts = [many(len(self.tables), "table"), f"{len(self.done) - failed:,} done"]
        counts += [f"{failed:,} failed"] if failed else []
        counts += [f"{len(self.waiting):,} waiting"] if self.waiting else []
        limit = "" if self.hour_bytes is None else f" of {size(self.hour_bytes)}"
        state = f"{self.state}, {self.reason}" if self.reason else self.state
        return f"{state}: {', '.join(counts)}; read {size(self.spent_bytes)}{limit} in the last hour"

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Work that failed, until the same work was done; tables that it could not look at, and work that
        waits for a limit or a lease, for which nothing says since when."""
        some = [*_failures(self.done), *_queues(self.waiting)]
        for table, error in self.troubles:
            calls = (look("table.check()"),)
            some.append(Alarm(table, Finding("unreadable", "risk", "table", error, calls, mends=False), ""))
        return tuple(sorted(some, key=lambda alarm: alarm.order))

    @property
    def text(self) -> str:
        """The summary, the newest work, what waits, what is in trouble."""
        lines = [self.summary, *(work.text for work in self.done[-_SHOWN:])]
        lines += [work.text for work in self.waiting[:_SHOWN]]
        lines += [f"{table}: {error}" for table, error in self.troubles]
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """A row for each piece of work done (`SCHEMA`); times are timestamps."""
        columns = {name: [getattr(work, name) for work in self.done] for name in SCHEMA.names}
        columns["began"] = [int(1000 * work.began) for work in self.done]
        return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MaintenanceReport:
        """What `as_json` gave."""
        parts: dict[str, Any] = dict(values)
        parts["tables"] = tuple(TableHealth(**table) for table in parts["tables"])
        parts["done"] = tuple(WorkDone(**work) for work in parts["done"])
        parts["waiting"] = tuple(WorkWaiting(**work) for work in parts["waiting"])
        parts["troubles"] = tuple((str(table), str(error)) for table, error in parts["troubles"])
        return cls(**parts)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _card(self)


def _failures(done: Sequence[WorkDone]) -> Iterator[Alarm]:
    """An alarm for each time during which a piece of work failed again and again."""
    places: dict[tuple[str, str, str], list[WorkDone]] = {}
    for work in done:
        places.setdefault((work.table, work.kind, work.where), []).append(work)
    for (table, kind, where), tries in places.items():
        points, failed, last = list[tuple[int, float | None]](), 0, tries[0]
        for work in tries:
            at = int(1000 * work.began)
            if failed and not work.error:
                points.append((at, 0))
                yield _failure(table, f"{where} {kind}".strip(), last.error, points, ended=at)
                points = []
            failed, last = (failed + 1, work) if work.error else (0, last)
            points += [(at, failed)] if failed else []
        if failed:
            yield _failure(table, f"{where} {kind}".strip(), last.error, points, ended=None)


def _failure(
    table: str, where: str, error: str, points: Sequence[tuple[int, float | None]], *, ended: int | None
) -> Alarm:
    calls = (look("table.inspect.doctor()"),)
    finding = Finding("failed maintenance", "risk", where, error, calls, mends=False)
    return Alarm(table, finding, "failures", tuple(points), began=points[0][0], ended=ended)


def _queues(waiting: Sequence[WorkWaiting]) -> Iterator[Alarm]:
    """An alarm for each table whose work waits."""
    for table in dict.fromkeys(work.table for work in waiting if work.waits_for):
        mine = [work for work in waiting if work.table == table and work.waits_for]
        what = f"{many(len(mine), 'piece')} of work wait for {mine[0].waits_for}"
        evidence = {"pieces": len(mine), "bytes": sum(work.size for work in mine)}
        calls = (look("table.compact(dry_run=True)"),)
        finding = Finding("queue", "slow", mine[0].where, what, calls, evidence, mends=False)
        yield Alarm(table, finding, "pieces")


def _card(report: MaintenanceReport) -> str:
    """HTML: the newest work with its numbers, then what waits. Everything from data is escaped."""
    ill = report.state == "failed" or report.troubles or report.reason
    state = "risk" if ill else "due" if report.waiting else "healthy"
    done = [_cells(work) for work in report.done[-_SHOWN:]]
    waits = [[TextCell(work.text, colour="ink2", wraps=True)] for work in report.waiting[:_SHOWN]]
    waiting = html.folded(
        f"{many(len(report.waiting), 'piece')} of work waiting", html.rows([("", False)], waits)
    )
    troubles = (html.esc(f"{table}: {error}", longest=_LONGEST) for table, error in report.troubles)
    return html.card(
        report.name,
        "maintenance",
        chip=(state, report.state),
        body=[html.rows(_HEADS, done) if done else "", waiting if waits else "", *troubles],
        note=report.summary,
    )


def _cells(work: WorkDone) -> list[TextCell]:
    read, wrote = (size(count) if count else "" for count in (work.read, work.written))
    return [
        TextCell(work.table),
        TextCell(work.where or work.kind),
        TextCell(f"{work.runs_before} → {work.runs_after}" if work.runs_before else ""),
        TextCell(read),
        TextCell(wrote),
        TextCell(work.error or work.why, colour="err" if work.error else "ink2", wraps=True),
    ]


FOLDER, NAME = "tablestore-maintenance", "maintain"
_FILE, _BEGAN = "report.json", "began"
MOST = 1_000
"""Pieces of work that are remembered."""
BYTES = ("read", "written", "predicted_written")


@dataclass(slots=True)
class WorkSums:
    """What a service has done since it began, added up: of each table, however much it was.

    `pieces` by (table, kind, "done" or "failed"), `seconds` by (table, kind), `bytes` by (table, field of
    `WorkDone`). Memory: by tables and kinds. Not thread-safe.
    """

    count: int = 0
    pieces: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    seconds: dict[tuple[str, ...], float] = field(default_factory=dict)
    bytes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, work: WorkDone) -> None:
        """Add a piece of work."""
        self.count += 1
        self.pieces[work.table, work.kind, "failed" if work.error else "done"] += 1
        timed = work.table, work.kind
        self.seconds[timed] = self.seconds.get(timed, 0.0) + work.seconds
        for name in BYTES:
            self.bytes[work.table, name] += getattr(work, name)

    def copy(self) -> WorkSums:
        """The sums of this moment."""
        return WorkSums(self.count, self.pieces.copy(), dict(self.seconds), self.bytes.copy())


class History:
    """The work of one service and of those before it under its name. Not thread-safe but for `done`."""

    def __init__(self, io: FileIO, warehouse: str, name: str | None) -> None:
        self.name = checked_name(name or NAME, "service")
        self._io, self._warehouse, self._has_begun = io, warehouse, False
        self._path, self._began = (join(warehouse, FOLDER, self.name, file) for file in (_FILE, _BEGAN))
        self._done = deque[WorkDone](maxlen=MOST)
        self._last: dict[tuple[str, str], float] = {}
        self._written = ""
        for work in read_report(io, warehouse, self.name).done if io.exists(self._path) else ():
            self.add(work)

    def begin(self) -> None:
        """Note that a service begins."""
        if not self._has_begun:
            self._io.replace(self._began, b"")
            self._has_begun = True

    def require_there(self) -> None:
        """Raise Unavailable where the lake is away since the service began."""
        require_there(not self._has_begun or self._io.exists(self._began), self._warehouse)

    @property
    def done(self) -> tuple[WorkDone, ...]:
        """The work, oldest first."""
        return tuple(self._done)

    def add(self, work: WorkDone) -> None:
        """Remember a piece of work."""
        self._done.append(work)
        if not work.error:
            self._last[work.table, work.kind] = work.began

    def last(self, table: str, kind: str) -> float | None:
        """When work of a kind was last done in a table, in seconds after 1970."""
        return self._last.get((table, kind))

    def spent(self) -> list[tuple[int, int]]:
        """(milliseconds after 1970, bytes) of what compactions have read."""
        return [(int(1000 * work.began), work.read) for work in self._done if work.read]

    def write(self, report: MaintenanceReport) -> None:
        """Put a report where readers find it, unless it says nothing new. Raises Unavailable as
        `require_there`."""
        values: dict[str, Any] = report.as_json()
        same = json.dumps({**values, "at": 0})
        if same != self._written:
            self.require_there()
            self._io.replace(self._path, json.dumps(values).encode())
            self._written = same


def maintenance_report(
    warehouse: str | os.PathLike[str], name: str | None = None, **options: Any
) -> MaintenanceReport:
    """The newest report of the service called `name` (None: as `Lake.maintain` calls it) over a `warehouse`;
    it may have ended, or be another process. `options` are those of `ts.connect`. Raises NotFound where none
    was written.

    >>> ts.maintenance_report("lake").summary                             # doctest: +SKIP
    'running: 12 tables, 3 done; read 1.2 GiB of 10.0 GiB in the last hour'
    """
    place = location(warehouse)
    return read_report(file_io_for(place, options), place, name)


def read_report(io: FileIO, warehouse: str, name: str | None) -> MaintenanceReport:
    """The newest report of a service. Raises NotFound where none was written, Corrupt."""
    path = join(warehouse, FOLDER, checked_name(name or NAME, "service"), _FILE)
    try:
        return MaintenanceReport.from_json(json.loads(io.read(path)))
    except FileNotFoundError:
        raise NotFound(f"no maintenance service has written a report at {path}") from None
    except (ValueError, KeyError, TypeError) as e:
        raise Corrupt(path, f"it is no report of maintenance: {e}") from None
