"""What has happened to a demo's warehouse so far, one JSON object a line: so that a killed run is known
from a finished one and resumed.

A line is written after what it records. The tables and checkpoints are the truth; the journal only knows
times and sizes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tablestore.io.paths import is_object_location, location


@dataclass(frozen=True, slots=True)
class Places:
    """Where things of the demo are: inside its warehouse, which is an ordinary lake besides. Of a warehouse
    in an object store, `local` is the directory of this machine for what is no table."""

    warehouse: Path | str
    local: Path | None = None

    @classmethod
    def of(cls, warehouse: str) -> Places:
        """Those of a warehouse as a user writes it. An object store's directory is below the user's state
        directory, by the store's address."""
        place = location(warehouse)
        if not is_object_location(place):
            return cls(Path(place).resolve())
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        store = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        name = hashlib.sha256(f"{store} {place}".encode()).hexdigest()[:16]
        return cls(place, state / "tablestore-workbench" / f"demo-{name}")

    @property
    def own(self) -> Path:
        """What is not a table."""
        return Path(self.warehouse) / ".demo" if self.local is None else self.local

    @property
    def shipped_source(self) -> str:
        """Where workers read the source: in the warehouse."""
        return str(self.source) if self.local is None else f"{self.warehouse}/.demo/source"

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
