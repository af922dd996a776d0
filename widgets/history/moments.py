"""The moments of a source: one immutable state of each snapshot, of which every panel shows its part.

Views of one source share one `Moments`, so what they read is read once: the edits (`read`), and what each
commit did with the engine's own record of it. Safe: one lock around reading. Called by levels, controls and
the workbench.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from widgets.history.history import History
from widgets.kit import format as fmt

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
    """The state after a snapshot: live files as `inspect.levels()` gives them, their sums, and what the
    commit after it did, if there is one."""

    snapshot: int | None
    files: pa.Table
    runs: int
    bytes: int
    then: CommitStory | None = None

    @property
    def count(self) -> int:
        """The number of files."""
        return int(self.files.num_rows)


class Moments:
    """Reads a source and gives its states."""

    def __init__(self, source: Any) -> None:
        self.source, self._reading = source, threading.RLock()
        self.history: History | None = None
        self._told: dict[int, CommitStory] = {}
        self._told_to: int | None = None

    def read(self) -> History | None:
        """Read the edits, or those since the last time; None where the source has none."""
        with self._reading:
            edits = getattr(getattr(self.source, "inspect", None), "edits", None)
            self.history = None if edits is None else History.of(edits())
            return self.history

    def files(self, snapshot: int | None) -> pa.Table:
        """Live files after a snapshot (None: the newest). Raises NotFound for one that has expired."""
        history = self.history
        if history is not None and snapshot is not None and history.covers(snapshot):
            return history.files(snapshot)
        return self.source.inspect.levels(snapshot=snapshot)

    def state(self, snapshot: int | None) -> Moment:
        """The state after a snapshot, whole."""
        files = self.files(snapshot)
        runs = files.group_by(["partition", "bucket"]).aggregate([("run", "count_distinct")])
        runs_there, size = sum(runs["run_count_distinct"].to_pylist()), sum(files["bytes"].to_pylist())
        return Moment(snapshot, files, runs_there, size, None if snapshot is None else self.then(snapshot))

    def then(self, snapshot: int) -> CommitStory | None:
        """What the commit after `snapshot` did; None if that is the newest. While another thread reads the
        stories this says so instead of waiting."""
        if not self._reading.acquire(timeout=PATIENCE):
            return CommitStory(snapshot + 1, "", f"#{snapshot + 1}: the history is being read …")
        try:
            return self.stories().get(snapshot + 1)
        finally:
            self._reading.release()

    def stories(self) -> dict[int, CommitStory]:
        """What each commit did, by its id; read again when there are new ones."""
        inspect = self.source.inspect
        with self._reading:
            newest = getattr(inspect, "latest_snapshot_id", lambda: None)()
            if newest is None or newest != self._told_to:
                compactions = getattr(inspect, "compactions", None)
                done = compactions() if compactions is not None else None
                self._told, self._told_to = stories(inspect.commits(), done), newest
            return self._told


_shared: WeakValueDictionary[int, Moments] = WeakValueDictionary()


def moments_of(source: Any) -> Moments:
    """The one `Moments` of a source, as long as a view holds it."""
    found = _shared.get(id(source))
    if found is None or found.source is not source:
        found = _shared[id(source)] = Moments(source)
    return found


def stories(commits: pa.Table, compactions: pa.Table | None) -> dict[int, CommitStory]:
    """What each commit did: `inspect.commits()` and `inspect.compactions()` in words."""
    picks: dict[int, list[dict[str, Any]]] = {}
    for row in compactions.to_pylist() if compactions is not None else ():
        picks.setdefault(row["snapshot_id"], []).append(row)
    names = ("snapshot_id", "commit_kind", "rows_added", "files_added", "files_removed", "bytes_added")
    found = {}
    for row in commits.select([n for n in names if n in commits.column_names]).to_pylist():
        done = picks.get(row["snapshot_id"], [])
        found[row["snapshot_id"]] = CommitStory(
            row["snapshot_id"], row["commit_kind"], _head(row, done), _picks(done)
        )
    return found


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
    found: dict[str, tuple[str, ...]] = {}
    for pick in done:
        place = f"{pick['partition']}/{pick['bucket']}"
        found[place] = found.get(place, ()) + tuple(_rows(pick))
    return found


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
