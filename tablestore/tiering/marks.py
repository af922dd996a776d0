"""How far the lake is behind between rounds: the ends of logs, asked for while no round looks at them.

A thread of its own: a server that does not answer must not hold back heartbeats. Tables are those of which a
round was planned, a few at each look in turn; partitions that are newer wait for their round. One that the
cluster no longer has is an event, also where it was dropped while no service ran, and is looked at no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.tiering.cluster import ClusterTable, TieringCluster
from tablestore.tiering.committer import RoundPlan
from tablestore.tiering.dropped import dropped_table
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.policy import LogPolicy
from tablestore.tiering.report import BucketMarks, TableState
from tablestore.tiering.splits import BucketBounds

log = logging.getLogger(__name__)
_SECONDS, _TABLES = 0.25, 16


@dataclass(slots=True)
class TieringMarks:
    """Keeps the marks of `journal` up to date, and its files. Safe to share between threads."""

    cluster: TieringCluster
    journal: TieringJournal
    _planned: dict[str, tuple[ClusterTable, tuple[tuple[int, str], ...]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, TableState] = field(default_factory=dict)
    _began: dict[tuple[str, int], float] = field(default_factory=dict)
    _before: dict[str, TableState] = field(default_factory=dict)  # of services before, not looked for yet

    def planned(self, plan: RoundPlan) -> None:
        """A round of this table begins: it is written down, and the table is the last to be looked at."""
        with self._lock:
            self._planned.pop(plan.table.path, None)
            self._planned[plan.table.path] = plan.table, plan.partitions
            self._seen.pop(plan.table.path, None)
            key = plan.table.path, plan.table.table_id
            self._began.setdefault(key, self.journal.env.now_ms() / 1000)
        self.journal.write(now=True)

    def known_before(self, tables: Iterable[TableState]) -> None:
        """Tables of a service that has ended, of which some may have been dropped since."""
        with self._lock:
            self._before.update((state.table, state) for state in tables)

    def run(self, ended: threading.Event) -> None:
        """Look until it has ended."""
        while not ended.wait(_SECONDS):
            self.look()
            self.look_for_dropped()
            self.journal.write()

    def look(self) -> None:
        """Look at the next tables; one that cannot be asked stays as it was."""
        with self._lock:
            next_tables = list(self._planned.items())[:_TABLES]
            for path, planned in next_tables:
                del self._planned[path]
                self._planned[path] = planned
        for path, (table, partitions) in next_tables:
            try:
                self._look(path, table, dict(partitions))
            except (TablestoreError, OSError) as e:
                log.debug("%s: where its log ends is not known: %s", path, e)
                if not isinstance(e, NotFound):
                    with self._lock:
                        self._seen.pop(path, None)
                self._is_settled(path, self.looked_at(path))

    def look_for_dropped(self) -> None:
        """Look whether tables that were known before are still there; each until the cluster answers."""
        with self._lock:
            states = [self._before.pop(path) for path in list(self._before)[:_TABLES]]
        self.known_before([state for state in states if not self._is_settled(state.table, None)])

    def _is_settled(self, path: str, last_state: TableState | None) -> bool:
        """Whether the cluster says if it has a table; an event if it has none of its name. One that was made
        again is told by its round."""
        try:
            self.cluster.table(path)
        except NotFound:
            with self._lock:
                self._planned.pop(path, None)
                self._seen.pop(path, None)
            event = dropped_table(path, last_state)
            log.warning("%s", event.text)
            self.journal.forget_table(path)
            self.journal.note_event(replace(event, time=self.journal.env.now_ms() / 1000))
        except (TablestoreError, OSError) as e:
            log.debug("%s: whether it is there is not known: %s", path, e)
            return False
        return True

    def looked_at(self, path: str) -> TableState | None:
        """What was known of a table at the last look since its last round began; None if there was none, or
        the cluster did not answer later."""
        with self._lock:
            return self._seen.get(path)

    def _look(self, path: str, table: ClusterTable, partitions: Mapping[int, str]) -> None:
        ids: list[int | None] = [*partitions] if table.partition_keys else [None]
        try:
            bounds_now = self.cluster.bounds(table, ids)
        except NotFound:
            there = self.cluster.partitions(path) if table.partition_keys else {}
            if not there:
                raise
            bounds_now = self.cluster.bounds(table, [id for id in ids if id in there])
        logs = {
            (None if place.partition_id is None else partitions[place.partition_id], place.bucket): bounds
            for place, bounds in bounds_now.items()
        }

        def moved(state: TableState) -> TableState:
            if state.table_id != table.table_id:
                return state
            marks = tuple(_moved(mark, logs.get((mark.partition, mark.bucket))) for mark in state.marks)
            lag = sum(mark.lag_rows for mark in marks)
            policy, now = LogPolicy.of(table.options), self.journal.env.now_ms() / 1000
            # of a table that never was: when its first round began
            since = self._began.get((path, table.table_id)) if state.tiered_at is None else state.tiered_at
            warning = policy.warning(lag_rows=lag, tiered_at=since, now=now)
            if warning and not state.warning:
                log.warning("%s: %s", path, warning)
            changed = replace(state, marks=marks, lag_rows=lag, warning=warning)
            with self._lock:
                self._seen[path] = changed
            return state if changed == state else changed

        self.journal.change_table(path, moved)


def _moved(marks: BucketMarks, log: BucketBounds | None) -> BucketMarks:
    """The marks with the log's bounds as they are now. Rows that are gone before the lake has them stay part
    of what it lacks."""
    if log is None:
        return marks
    start = max(marks.start, min(log.earliest, marks.tiered or 0))
    return replace(marks, start=start, end=max(marks.end, log.latest))
