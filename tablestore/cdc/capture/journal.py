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

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tablestore.cdc.capture.report import BatchReport, EventReport
from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join, location
from tablestore.io.routed import file_io_for

KEPT = 2_000
_PROGRESS, _EVENTS, _TARGETS = "tablestore-progress", "tablestore-events.json", "tablestore-targets.json"
_SWEEP = 100  # batches between two removals of old reports


@dataclass(frozen=True, slots=True)
class Journal:
    """The reports and events of a checkpoint."""

    checkpoint: str

    @property
    def _io(self) -> FileIO:
        return file_io_for(location(self.checkpoint))

    def _place(self, *parts: str) -> str:
        return join(location(self.checkpoint), *parts)

    def note(self, report: BatchReport) -> None:
        """Write the report of a batch; one of the same number is replaced."""
        self._io.make_dir(self._place(_PROGRESS))
        path = self._place(_PROGRESS, f"{report.number}.json")
        self._io.replace(path, json.dumps(report.to_json(), ensure_ascii=False).encode())
        if report.number % _SWEEP == 0:
            for number in self.numbers():
                if number <= report.number - KEPT:
                    self._io.delete(self._place(_PROGRESS, f"{number}.json"))

    def numbers(self) -> list[int]:
        """The batches that have reports, in rising order."""
        names = (s.name.removesuffix(".json") for s in self._io.list(self._place(_PROGRESS)))
        return sorted(int(name) for name in names if name.isdigit())

    def reports(self, newest: int = KEPT, *, after: int = -1) -> list[BatchReport]:
        """The newest reports of batches `after` one, in order. A report that is being removed is left out."""
        reports = []
        for number in [n for n in self.numbers() if n > after][-newest:] if newest > 0 else ():
            try:
                reports.append(BatchReport.from_json(self._read(_PROGRESS, f"{number}.json")))
            except FileNotFoundError:
                continue
        return reports

    def events_done(self, identifier: int) -> list[EventReport]:
        """The events of a batch that were carried out, in order."""
        try:
            item = self._read(_EVENTS)
        except FileNotFoundError:
            return []
        if item.get("identifier") != identifier:
            return []
        return [EventReport(**event) for event in item["events"]]

    def note_events(self, identifier: int, done: Sequence[EventReport]) -> None:
        """Write that these events of a batch are carried out."""
        text = json.dumps({"v": 1, "identifier": identifier, "events": [asdict(event) for event in done]})
        self._io.make_dir(location(self.checkpoint))
        self._io.replace(self._place(_EVENTS), text.encode())

    def targets(self) -> dict[str, str]:
        """The identity of each table that was opened, by its name in the lake."""
        try:
            return {str(name): str(digest) for name, digest in self._read(_TARGETS)["targets"].items()}
        except FileNotFoundError:
            return {}

    def note_targets(self, targets: Mapping[str, str]) -> None:
        """Write which tables the names stand for."""
        self._io.make_dir(location(self.checkpoint))
        self._io.replace(self._place(_TARGETS), json.dumps({"v": 1, "targets": dict(targets)}).encode())

    def _read(self, *parts: str) -> dict[str, Any]:
        path = self._place(*parts)
        try:
            item = json.loads(self._io.read(path))
        except ValueError:
            item = None
        if not isinstance(item, dict):
            raise InvalidRequest(f"{path} is no report of a batch")
        return item


@checked
def capture_reports(
    checkpoint: str | os.PathLike[str], newest: int = KEPT, *, after: int = -1
) -> list[BatchReport]:
    """The reports of the `newest` batches of a capture by its `checkpoint`, in order, those `after` a number
    only; also of a capture that has ended, or that another process runs.

    >>> ts.capture_reports("a/checkpoint/without/batches")
    []
    """
    return Journal(location(checkpoint)).reports(newest, after=after)
