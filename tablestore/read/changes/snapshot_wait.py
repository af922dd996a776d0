"""Waiting for the next snapshot of a stream: until it is there, and until it is old enough."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.format.snapshot import Snapshot
from tablestore.meta import changelogs
from tablestore.meta.store import Store
from tablestore.read.changes.change import StreamLost


@dataclass(frozen=True, slots=True)
class SnapshotWait:
    """How long a stream waits: not at all unless `follow`, at most `timeout` seconds (None: for ever), with a
    look every `poll_seconds` (None: as `continuous.discovery-interval` says)."""

    store: Store
    follow: bool
    timeout: float | None
    poll_seconds: float | None

    def arrived(self, snapshot: int) -> bool:
        """Whether that snapshot, or the changelog it left, is there, after waiting for it. Raises NotFound if
        it has expired or was rolled back."""
        snapshots, end = self.store.snapshots, self._end()
        poll = self.poll_seconds
        pause = self.store.options.discovery_interval_ms / 1000 if poll is None else poll
        while not changelogs.exists(self.store, snapshot):
            latest = snapshots.latest_id()
            if latest is not None and (latest >= snapshot or latest < snapshot - 1):
                if changelogs.exists(self.store, snapshot):  # it came between the two looks
                    return True
                raise missing(self.store, snapshot)
            if not self._slept(pause, end):
                return False
        return True

    def old_enough(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot is as old as `streaming.read.snapshot.delay`, after waiting for that."""
        delay, end = self.store.options.streaming_delay_ms, self._end()
        if delay is None:
            return True
        while (young_ms := snapshot.time_millis + delay - self.store.env.now_ms()) > 0:
            if not self._slept(young_ms / 1000, end):
                return False
        return True

    def _end(self) -> float | None:
        return None if self.timeout is None else self.store.env.monotonic() + self.timeout

    def _slept(self, seconds: float, end: float | None) -> bool:
        """Sleep for as long, but not past the end; False where the wait is over instead."""
        env = self.store.env
        remaining = None if end is None else end - env.monotonic()
        if not self.follow or (remaining is not None and remaining <= 0):
            return False
        env.sleep(seconds if remaining is None else min(seconds, remaining))
        return True


def missing(store: Store, snapshot: int) -> StreamLost:
    """The error of a stream whose next snapshot is gone."""
    ids = store.snapshots.ids()
    existing = f"there are {ids[0]}..{ids[-1]}" if ids else "there is none"
    why = "was rolled back" if ids and ids[-1] < snapshot else "has expired"
    return StreamLost(f"snapshot {snapshot}, the next of this stream, {why}; {existing}")
