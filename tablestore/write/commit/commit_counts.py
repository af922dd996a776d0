"""The commits of this process: how many, and what they lost to others that were first."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from tablestore.format.snapshot import LostRaces


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """`snapshots` made; of these the `retries`, and the `retry_seconds` from first tries to those that
    succeeded; `conflicts`: commits that were refused since others had changed what they build on, or were
    first too often."""

    snapshots: int = 0
    retries: int = 0
    retry_seconds: float = 0.0
    conflicts: int = 0


class CommitCounter:
    """Counts commits. Safe to share between threads."""

    def __init__(self) -> None:
        self._counts, self._lock = CommitCounts(), threading.Lock()

    @property
    def counts(self) -> CommitCounts:
        """What there was so far."""
        with self._lock:
            return self._counts

    def published(self, races: LostRaces) -> None:
        """A snapshot was made."""
        with self._lock:
            c = self._counts
            seconds = c.retry_seconds + races.millis / 1000
            self._counts = replace(
                c, snapshots=c.snapshots + 1, retries=c.retries + races.retries, retry_seconds=seconds
            )

    def refused(self) -> None:
        """A commit was refused by a conflict."""
        with self._lock:
            self._counts = replace(self._counts, conflicts=self._counts.conflicts + 1)


COUNTER = CommitCounter()
"""All commits of this process."""
