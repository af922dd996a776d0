"""What a capture writes down beside Spark's checkpoint: reports of batches, as they are shown, too, and which
events are done.

<checkpoint>/tablestore-progress/<batch>.json      a `BatchReport`, once it is committed; the newest 2,000
<checkpoint>/tablestore-events.json                the events of the newest batch with any, as they are done
<checkpoint>/tablestore-targets.json               which table each name stood for at its first commit

The second file keeps a batch that is done again from doing what an event asked for twice. The third keeps a
capture out of a table that somebody made anew under the name of one that had its rows. All may be lost:
events give the same result when they come again, but for a table that was created anew under a name that
another one was renamed from in the same batch.

Times are seconds after 1970. Freshness is the time from a commit in the source, whose binlog has whole
seconds, to the snapshot of the lake in which its rows are visible.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tablestore.cdc.capture.source import ChunkFacts
from tablestore.core.arguments import checked
from tablestore.flow.journal import JournalFiles, NumberedFiles, Report
from tablestore.flow.source import Offset
from tablestore.io.paths import location


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a batch did to a table of the lake: rows of snapshots, changes (row images), bad rows, and its
    snapshot (None: nothing was committed)."""

    table: str
    snapshot_rows: int = 0
    changes: int = 0
    bad_rows: int = 0
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """A range of keys that was read: of `source`, above `low` and not above `high`, `last` of its table."""

    source: str
    low: str | None
    high: str | None
    last: bool
    rows: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class EventReport:
    """An event of a table of the source (`kind` as in `TableEvent`), and what was done with `table` of the
    lake."""

    kind: str
    source: str
    table: str
    statement: str
    position: str
    seconds: int
    done: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class BatchReport(Report):
    """A batch: planned, read from `started` on, visible at `ended`, at `position` of the source.

    Behind it rows of the `snapshotting` tables are still to be read; `paused` ones are captured no longer,
    until they are read again."""

    number: int
    planned: float
    started: float
    ended: float
    position: str
    log_bytes: int = 0
    bytes_behind: int = 0
    commits: tuple[tuple[int, int], ...] = ()
    snapshotting: tuple[str, ...] = ()
    tables: tuple[TableReport, ...] = ()
    chunks: tuple[ChunkReport, ...] = ()
    events: tuple[EventReport, ...] = ()
    paused: tuple[str, ...] = ()

    @property
    def snapshot_rows(self) -> int:
        """Rows of snapshots."""
        return sum(table.snapshot_rows for table in self.tables)

    @property
    def changes(self) -> int:
        """Row images of the log."""
        return sum(table.changes for table in self.tables)

    @property
    def rows(self) -> int:
        """Rows of snapshots and changes."""
        return self.snapshot_rows + self.changes

    @property
    def worst_freshness(self) -> float | None:
        """Seconds after which the oldest commit of the batch became visible; None without one."""
        return max(0.0, self.ended - min(at for at, _ in self.commits)) if self.commits else None

    @property
    def median_freshness(self) -> float | None:
        """The seconds that half of the commits of the batch have, or fewer; None without one."""
        return Freshness.of([self]).quantile(0.5) if self.commits else None


@dataclass(frozen=True, slots=True)
class PieceProgress:
    """A piece of a batch under way: the range of keys that it is (None: changes), and how many rows it had,
    None until a task has written them."""

    chunk: ChunkFacts | None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch under way since `started`, between two offsets of its source, with its pieces in order. What
    is written becomes visible with the commits of the batch."""

    number: int
    started: float
    start: Offset
    end: Offset
    pieces: tuple[PieceProgress, ...]

    @property
    def rows(self) -> int:
        """Rows that tasks have read and written so far."""
        return sum(piece.rows or 0 for piece in self.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class Freshness:
    """How long transactions took to be visible, as a distribution: `seconds` in rising order, and how many
    transactions had each."""

    seconds: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, reports: Iterable[BatchReport]) -> Freshness:
        """That of the transactions of batches."""
        pairs = [(max(0.0, report.ended - at), n) for report in reports for at, n in report.commits]
        seconds = np.array([seconds for seconds, _ in pairs], np.float64)
        counts = np.array([n for _, n in pairs], np.int64)
        order = np.argsort(seconds, kind="stable")
        return cls(seconds[order], counts[order])

    def quantile(self, share: float) -> float:
        """What this share of the transactions has, or better; NaN without one."""
        if not len(self.counts):
            return float("nan")
        total = np.cumsum(self.counts)
        return float(self.seconds[np.searchsorted(total, share * total[-1])])


KEPT = 2_000
_PROGRESS, _EVENTS, _TARGETS = "tablestore-progress", "tablestore-events.json", "tablestore-targets.json"
_SWEEP = 100  # batches between two removals of old reports


@dataclass(frozen=True, slots=True)
class CaptureJournal:
    """The reports and events of a checkpoint. Reading raises Corrupt for a file that holds none."""

    checkpoint: str

    @property
    def _files(self) -> JournalFiles:
        return JournalFiles.at(self.checkpoint)

    @property
    def _progress(self) -> NumberedFiles:
        return NumberedFiles(self._files, _PROGRESS, KEPT, ".json")

    def note(self, report: BatchReport) -> None:
        """Write the report of a batch; one of the same number is replaced."""
        self._files.put(self._progress.name(report.number), report.to_json())
        if report.number % _SWEEP == 0:
            self._progress.sweep(report.number)

    def numbers(self) -> list[int]:
        """The batches that have reports, in rising order."""
        return self._progress.numbers()

    def reports(self, newest: int = KEPT, *, after: int = -1) -> list[BatchReport]:
        """The newest reports of batches `after` one, in order. A report that is being removed is left out."""
        numbers = [n for n in self.numbers() if n > after][-newest:] if newest > 0 else []
        items = (self._files.fields(self._progress.name(number)) for number in numbers)
        return [BatchReport.from_json(item) for item in items if item is not None]

    def events_done(self, identifier: int) -> list[EventReport]:
        """The events of a batch that were carried out, in order."""
        item: Mapping[str, Any] = self._files.fields(_EVENTS) or {}
        if item.get("identifier") != identifier:
            return []
        return [EventReport(**event) for event in item["events"]]

    def note_events(self, identifier: int, done: Sequence[EventReport]) -> None:
        """Write that these events of a batch are carried out."""
        events = [asdict(event) for event in done]
        self._files.put(_EVENTS, {"v": 1, "identifier": identifier, "events": events})

    def targets(self) -> dict[str, str]:
        """The identity of each table that was opened, by its name in the lake."""
        item = self._files.fields(_TARGETS) or {"targets": {}}
        return {str(name): str(digest) for name, digest in item["targets"].items()}

    def note_targets(self, targets: Mapping[str, str]) -> None:
        """Write which tables the names stand for."""
        self._files.put(_TARGETS, {"v": 1, "targets": dict(targets)})


@checked
def capture_reports(
    checkpoint: str | os.PathLike[str], newest: int = KEPT, *, after: int = -1
) -> list[BatchReport]:
    """The reports of the `newest` batches of a capture by its `checkpoint`, in order, those `after` a number
    only; also of a capture that has ended, or that another process runs.

    >>> ts.capture_reports("a/checkpoint/without/batches")
    []
    """
    return CaptureJournal(location(checkpoint)).reports(newest, after=after)
