"""What has happened to a demo's warehouse so far, one JSON object a line: so that a killed run is known
from a finished one and resumed.

A line is written after what it records. The tables and checkpoints are the truth; the journal only knows
times and sizes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Places:
    """Where things of the demo are inside its warehouse, which is an ordinary lake besides."""

    warehouse: Path

    @property
    def own(self) -> Path:
        """What is not a table."""
        return self.warehouse / ".demo"

    @property
    def source(self) -> Path:
        return self.own / "source"

    @property
    def journal(self) -> Path:
        return self.own / "journal.jsonl"

    @property
    def spark_log(self) -> Path:
        return self.own / "spark.log"

    def checkpoint(self, query: str) -> Path:
        return self.own / "checkpoints" / query


class Busy(Exception):
    """Another run holds the warehouse."""


@contextmanager
def alone(places: Places) -> Iterator[None]:
    """Hold the warehouse; raises Busy if another live process does."""
    places.own.mkdir(parents=True, exist_ok=True)
    with (places.own / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another run is using {places.warehouse}") from None
        yield


@dataclass(frozen=True)
class Journal:
    """Events of a warehouse, in order."""

    path: Path

    def add(self, event: str, **facts: Any) -> None:
        """Append one event, on disk before this returns."""
        line = json.dumps({"event": event, **facts}) + "\n"
        with self.path.open("ab+") as file:
            if file.tell() and not self._whole(file):
                file.write(b"\n")  # what a killed run left of its last line stays a line of its own
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _whole(file: Any) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """All events, or those of one name. A torn last line is left out."""
        if not self.path.exists():
            return []
        events = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return [e for e in events if name is None or e["event"] == name]

    def last(self, name: str) -> dict[str, Any] | None:
        """The newest event of a name."""
        events = self.events(name)
        return events[-1] if events else None
