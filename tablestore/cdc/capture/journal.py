"""What a capture writes down beside Spark's checkpoint: reports of batches, and which events are
done.

<checkpoint>/tablestore-progress/<batch>.json      a `BatchReport`, once it is committed; the newest 2,000
<checkpoint>/tablestore-events.json                the events of the newest batch with any, as they are done
<checkpoint>/tablestore-targets.json               which table each name stood for at its first commit

Views and `./workbench cdc` read the reports. The second file keeps a batch that is done again from doing what
an event asked for twice. The third keeps a capture out of a table that somebody made anew under the name of
one that had its rows. All may be lost: events give the same result when they come again, but for a table
that was created anew under a name that another one was renamed from in the same batch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tablestore.cdc.capture.report import BatchReport, EventReport
from tablestore.core.arguments import checked
from tablestore.flow.journal import JournalFiles, NumberedFiles
from tablestore.io.paths import location

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
