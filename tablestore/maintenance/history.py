"""What a maintenance service has done, kept in one file of the warehouse, so that a later one goes on.

<directory>/<name>/report.json     the newest report; replaced as a whole
<directory>/<name>/began           written once, when a service begins: where it is gone, the lake is away
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import Corrupt, NotFound, require_there
from tablestore.io.fileio import FileIO
from tablestore.io.paths import checked_name, join, location
from tablestore.io.routed import file_io_for
from tablestore.maintenance.report import MaintenanceReport, WorkDone

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
