"""How far the lake is behind between rounds: the ends of logs, asked for while no round looks at them.

A thread of its own: a server that does not answer must not hold back heartbeats. Tables are those of which a
round was planned, a few at each look in turn; partitions that are newer wait for their round.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tablestore.core.errors import TablestoreError
from tablestore.tiering.cluster import ClusterTable, TieringCluster
from tablestore.tiering.committer import RoundPlan
from tablestore.tiering.journal import TieringJournal
from tablestore.tiering.policy import LogPolicy
from tablestore.tiering.report import BucketMarks, TableState
from tablestore.tiering.split_generator import LogBounds

log = logging.getLogger(__name__)
_SECONDS, _TABLES = 0.25, 16


@dataclass(slots=True)
class TieringMarks:
    """Keeps the marks of `journal` up to date, and its files. Safe to share between threads."""

    cluster: TieringCluster
    journal: TieringJournal
    _planned: dict[str, tuple[ClusterTable, tuple[tuple[int, str], ...]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def planned(self, plan: RoundPlan) -> None:
        """A round of this table begins: it is written down, and the table is the last to be looked at."""
        with self._lock:
            self._planned.pop(plan.table.path, None)
            self._planned[plan.table.path] = plan.table, plan.partitions
        self.journal.write(now=True)

    def run(self, ended: threading.Event) -> None:
        """Look until it has ended."""
        while not ended.wait(_SECONDS):
            self.look()
            self.journal.write()

    def look(self) -> None:
        """Look at the next tables; one that cannot be asked stays as it was."""
        with self._lock:
            found = list(self._planned.items())[:_TABLES]
            for path, known in found:
                del self._planned[path]
                self._planned[path] = known
        for path, (table, partitions) in found:
            try:
                self._look(path, table, dict(partitions))
            except (TablestoreError, OSError) as e:
                log.debug("%s: where its log ends is not known: %s", path, e)

    def _look(self, path: str, table: ClusterTable, partitions: Mapping[int, str]) -> None:
        ids: list[int | None] = [*partitions] if table.partition_keys else [None]
        found = self.cluster.bounds(table, ids)
        logs = {
            (None if one.partition_id is None else partitions[one.partition_id], one.bucket): bounds
            for one, bounds in found.items()
        }

        def moved(state: TableState) -> TableState:
            if state.table_id != table.table_id:
                return state
            marks = tuple(_moved(one, logs.get((one.partition, one.bucket))) for one in state.marks)
            lag = sum(one.lag_rows for one in marks)
            policy, now = LogPolicy.of(table.options), self.journal.env.now_ms() / 1000
            warning = policy.warning(lag_rows=lag, tiered_at=state.tiered_at, now=now)
            if warning and not state.warning:
                log.warning("%s: %s", path, warning)
            changed = replace(state, marks=marks, lag_rows=lag, warning=warning)
            return state if changed == state else changed

        self.journal.change_table(path, moved)


def _moved(one: BucketMarks, log: LogBounds | None) -> BucketMarks:
    """The marks with the log's bounds as they are now. Rows that are gone before the lake has them stay part
    of what it lacks."""
    if log is None:
        return one
    start = max(one.start, min(log.earliest, one.tiered or 0))
    return replace(one, start=start, end=max(one.end, log.latest))
