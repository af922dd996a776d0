"""The moments of a source: one immutable state of each snapshot, of which every panel shows its part.

Views of one source share one `Moments`, so what they read is read once: the edits (`read`), and what each
commit did with the engine's own record of it. Safe: one lock around reading. Called by levels, controls and
the workbench.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.history.history import MOST, History
from widgets.kit import format as fmt

WINDOW = 1_000
"""Snapshots of a long history that are read at once: those around the one that is looked at."""
SOON = 300
"""Snapshots of a short history, which is read at once; of a longer one the first picture looks through so
many for those that added files."""
CACHED = 32
"""States that are kept."""
LevelsAt = Callable[[int | None], pa.Table]
PATIENCE = 0.3
"""Seconds that a panel waits for the reading of another thread."""


@dataclass(frozen=True, slots=True)
class CommitStory:
    """What one commit did, as text: its head, and by bucket the engine's own reasons and sums."""

    snapshot: int
    kind: str
    head: str
    picks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(self, opened: str) -> tuple[str, ...]:
        """What it did in the opened bucket ("day=mon/0"), or else in the first one, and in how many more."""
        at = opened if opened in self.picks else next(iter(self.picks), "")
        if not at:
            return ()
        more = len(self.picks) - 1
        return (*self.picks[at], *([f"and {fmt.plural(more, 'bucket')} more"] if more else []))


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The state after a snapshot: live files as `inspect.levels()` gives them, and their sums. What the
    commit after it did is a `Moments.story`: it may come later."""

    snapshot: int | None
    files: pa.Table
    runs: int
    bytes: int

    @property
    def count(self) -> int:
        """The number of files."""
        return int(self.files.num_rows)


class Moments:
    """Reads a source and gives its states: one value a moment, which all views of the source share. With
    `levels_at` these are the files it gives, and there is no history."""

    def __init__(self, source: Any, levels_at: LevelsAt | None = None) -> None:
        self.source, self._reading, self._levels_at = source, threading.RLock(), levels_at
        self.history: History | None = None
        self._edits: pa.Table | None = None
        self._of_edits: History | None = None
        self.oldest: int | None = None
        self.newest: int | None = None
        self._states: dict[int | None, Moment] = {}
        self._cached: dict[int, CommitStory] = {}
        self._cached_to: int | None = None
        self._cached_at: pa.Scalar | None = None

    def read(self, at: int | None = None) -> History | None:
        """Read the edits, or those since the last time; None where the source has none. Of a long history
        the `WINDOW` snapshots around `at` (None: the newest)."""
        with self._reading:
            inspect: Any = getattr(self.source, "inspect", None)
            before = self.history
            if self._levels_at is not None or getattr(inspect, "edits", None) is None:
                self.history = None
            elif not hasattr(inspect, "snapshot_count") or inspect.snapshot_count() <= WINDOW:
                self.history = self._history(inspect.edits())
                self.oldest, self.newest = _ends(self.history)
            else:
                self.history = self._window(inspect, at)
            if self.history is None or self.history is not before:
                self.forget()  # a history knows more of them
            return self.history

    def _history(self, edits: pa.Table) -> History | None:
        """The history of these edits; the one at hand where they are the same."""
        if self._edits is not edits:
            self._edits, self._of_edits = edits, History.of(edits)
        return self._of_edits

    def _window(self, inspect: Any, at: int | None) -> History | None:
        """A part of a long history. While the newest is looked at, its first snapshot stays for a while, so
        that a commit sends its own edit."""
        self.newest = newest = inspect.latest_snapshot_id()
        self.oldest = newest - inspect.snapshot_count() + 1
        before, width = self.history, WINDOW
        while True:
            last = newest if at is None or at > newest - width else min(at + width // 2, newest)
            first = last - width + 1
            if before is not None and last == newest and first - width // 4 < before.first <= first:
                first = before.first
            elif before is not None and last < newest and before.covers(at):
                first, last = before.first, min(before.last, newest)
            history = self._history(inspect.edits(first=max(first, self.oldest), last=last))
            if history is None or len(history) <= MOST or width == 1:
                return history
            width //= 2

    @property
    def window(self) -> str:
        """`moments #9001 – #10000 of 10,000` where only a part of the history is at hand, else empty."""
        history = self.history
        if history is None or self.newest is None or self.oldest is None:
            return ""
        if history.first <= self.oldest and history.last >= self.newest:
            return ""
        many = self.newest - self.oldest + 1
        return f"moments #{history.first} – #{history.last} of {many:,}"

    def forget(self) -> None:
        """Read states again when they are asked for."""
        self._states.clear()

    def state(self, snapshot: int | None) -> Moment:
        """The state after a snapshot (None: the newest), whole; the last ones are kept. A history that is at
        hand is read on where it ends before. Raises NotFound for one that has expired."""
        history, moment = self.history, self._states.pop(snapshot, None)
        if moment is None:
            if history is None and self._is_short():
                history = self.read()
            elif history is not None and history.last == self.newest and (snapshot or 0) > history.last:
                history = self.read()  # a new commit: its edits are few, its files may be many
            if history is not None and snapshot is not None and history.covers(snapshot):
                moment = _moment(snapshot, history.files(snapshot))
            else:
                moment = _moment(snapshot, self._levels(snapshot))
        self._states[snapshot] = moment
        while len(self._states) > CACHED:
            del self._states[next(iter(self._states))]
        return moment

    def _is_short(self) -> bool:
        """Whether the whole history is read as soon as the files of one moment."""
        inspect: Any = getattr(self.source, "inspect", None)
        if self._levels_at is not None or not hasattr(inspect, "edits"):
            return False
        return 0 < getattr(inspect, "snapshot_count", lambda: 0)() <= SOON

    def _levels(self, snapshot: int | None) -> pa.Table:
        if self._levels_at is not None:
            return self._levels_at(snapshot)
        inspect = self.source.inspect
        if getattr(inspect, "snapshot_count", lambda: 0)() > SOON:
            return inspect.levels(snapshot=snapshot, back=SOON)
        return inspect.levels(snapshot=snapshot)

    def stays(self) -> pa.Table:
        """Each data file of the whole history, as `inspect.stays()`."""
        with self._reading:
            return self.source.inspect.stays()

    def story(self, snapshot: int) -> CommitStory | None:
        """What a commit did; None where there is none. While another thread reads the stories this says so
        instead of waiting."""
        if not self._reading.acquire(timeout=PATIENCE):
            return CommitStory(snapshot, "", f"#{snapshot}: the history is being read …")
        try:
            return self.stories().get(snapshot)
        finally:
            self._reading.release()

    def stories(self) -> dict[int, CommitStory]:
        """What each commit did, by its id; read again when there are new ones."""
        inspect = self.source.inspect
        with self._reading:
            newest = getattr(inspect, "latest_snapshot_id", lambda: None)()
            if newest is None or newest != self._cached_to:
                compactions = getattr(inspect, "compactions", None)
                done = compactions() if compactions is not None else None
                self._tell(inspect.commits(), done)
                self._cached_to = newest
            return self._cached

    def newest_stories(self, rows: int) -> dict[str, tuple[str, Mapping[str, tuple[str, ...]]]]:
        """(head, picks) of each commit by its id as text, the newest first, for a page; of older ones
        without picks, once these have more than so many rows of text."""
        page: dict[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {}
        for snapshot, story in sorted(self.stories().items(), reverse=True):
            rows -= sum(len(lines) for lines in story.picks.values())
            page[str(snapshot)] = story.head, story.picks if rows > 0 else {}
        return page

    def _tell(self, commits: pa.Table, done: pa.Table | None) -> None:
        """Put new commits in words, all of them where the last one in words is another now."""
        ids, times = commits["snapshot_id"].to_numpy(), commits["commit_time"]
        kept, last = dict[int, CommitStory](), max(self._cached, default=0)
        at = int(np.searchsorted(ids, last))
        if last and at < len(ids) and ids[at] == last and times[at] == self._cached_at:
            kept = {i: story for i, story in self._cached.items() if i >= ids[0]}
            commits = commits.slice(at + 1)
            done = None if done is None else done.filter(pc.greater(done["snapshot_id"], last))
        self._cached = kept | stories(commits, done)
        self._cached_at = times[-1] if len(ids) else None


def _moment(snapshot: int | None, files: pa.Table) -> Moment:
    runs = files.group_by(["partition", "bucket"]).aggregate([("run", "count_distinct")])
    there = pc.sum(runs["run_count_distinct"]).as_py() or 0
    return Moment(snapshot, files, int(there), int(pc.sum(files["bytes"]).as_py() or 0))


def _ends(history: History | None) -> tuple[int | None, int | None]:
    return (None, None) if history is None else (history.first, history.last)


_shared: WeakValueDictionary[int, Moments] = WeakValueDictionary()


def moments_of(source: Any) -> Moments:
    """The one `Moments` of a source, as long as a view holds it."""
    moments = _shared.get(id(source))
    if moments is None or moments.source is not source:
        moments = _shared[id(source)] = Moments(source)
    return moments


def stories(commits: pa.Table, compactions: pa.Table | None) -> dict[int, CommitStory]:
    """What each commit did: `inspect.commits()` and `inspect.compactions()` in words."""
    picks: dict[int, list[dict[str, Any]]] = {}
    for row in compactions.to_pylist() if compactions is not None else ():
        picks.setdefault(row["snapshot_id"], []).append(row)
    names = ("snapshot_id", "commit_kind", "rows_added", "files_added", "files_removed", "bytes_added")
    by_id = {}
    for row in commits.select([n for n in names if n in commits.column_names]).to_pylist():
        done = picks.get(row["snapshot_id"], [])
        by_id[row["snapshot_id"]] = CommitStory(
            row["snapshot_id"], row["commit_kind"], _head(row, done), _picks(done)
        )
    return by_id


def _head(row: dict[str, Any], done: list[dict[str, Any]]) -> str:
    added, removed = row.get("files_added") or 0, row.get("files_removed") or 0
    if row["commit_kind"] == "COMPACT" and done:
        buckets = {(pick["partition"], pick["bucket"]) for pick in done}
        where = f" in {fmt.plural(len(buckets), 'bucket')}" if len(buckets) > 1 else ""
        return f"#{row['snapshot_id']} COMPACT: {fmt.plural(removed, 'file')} → {added:,}{where}"
    parts = [f"{fmt.plus_rows(row.get('rows_added') or 0)} in {fmt.plural(added, 'file')}"]
    parts += [f"{fmt.plural(removed, 'file')} taken away"] if removed else []
    return f"#{row['snapshot_id']} {row['commit_kind']}: {', '.join(parts)}"


def _picks(done: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The rows of each bucket's compactions in one commit."""
    by_bucket: dict[str, tuple[str, ...]] = {}
    for pick in done:
        place = f"{pick['partition']}/{pick['bucket']}"
        by_bucket[place] = by_bucket.get(place, ()) + tuple(_rows(pick))
    return by_bucket


def _rows(pick: dict[str, Any]) -> list[str]:
    bucket = f"bucket {pick['bucket']}"
    rows = [f"{pick['partition']} · {bucket}" if pick["partition"] else bucket]
    rows += [part.strip() for part in str(pick["explanation"]).splitlines() if part.strip()]
    if pick["files_read"] or not pick["files_moved"]:
        read = f"read {fmt.bytes_text(pick['bytes_read'])} · {fmt.plural(pick['files_read'], 'file')}"
        rows.append(f"{read}, wrote {fmt.bytes_text(pick['bytes_written'])}")
        rows.append(f"rows {fmt.count(pick['rows_in'])} → {fmt.count(pick['rows_out'])}")
    if pick["files_moved"]:
        rows.append(f"moved {fmt.plural(pick['files_moved'], 'file')}, not rewritten")
    return rows
