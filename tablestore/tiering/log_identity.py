"""LogIdentity: whether the logs of a cluster still are those whose rows the lake has.

A server that is killed may lose rows that it had acknowledged: Fluss keeps how far the replicas of a bucket
are only now and then, and a leader without other replicas cuts its log to there. Their offsets are given to
other rows. Where the log has grown past the lake's offset again before anybody looks, the offsets alone say
nothing. So the lake keeps, with each offset, which batch of the log holds the row before it, and before a
round goes on behind it the batch is compared: once after a start of the service, and after each change of the
bucket's leader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tablestore.tiering.cluster import ClusterTable, TieringCluster
from tablestore.tiering.factory import LakeState
from tablestore.tiering.splits import TieredBucket


class RewrittenLog(NamedTuple):
    """A bucket whose log was cut below the lake's `offset` and has other rows there now."""

    table_bucket: TieredBucket
    offset: int

    def __str__(self) -> str:
        return (
            f"{self.table_bucket}: the log was cut below offset {self.offset}, up to which the lake has its "
            "rows, and has others there now"
        )


@dataclass(slots=True)
class LogIdentity:
    """The logs that were compared, with the epochs of their leaders. Safe to share between threads."""

    _epochs: dict[tuple[int, TieredBucket], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rewritten(
        self,
        cluster: TieringCluster,
        table: ClusterTable,
        lake: LakeState,
        places: Iterable[TieredBucket],
        *,
        once: bool = False,
    ) -> list[RewrittenLog]:
        """Those of these buckets whose logs are others than the lake's; each time anew or, for who passes
        over it, `once`."""
        marked = [place for place in places if place in lake.marks]
        if not marked:
            return []
        epochs = cluster.leader_epochs(table, marked)
        with self._lock:
            compared = {place: self._epochs.get((table.table_id, place)) for place in marked}
        due = {p: lake.offsets[p] for p in marked if p not in epochs or compared[p] != epochs[p]}
        if not due:
            return []
        batches = cluster.batches_before(table, due)
        others = [
            RewrittenLog(place, at) for place, at in due.items() if batches.get(place) != lake.marks[place]
        ]
        done = set(due) if once else set(due) - {other.table_bucket for other in others}
        with self._lock:
            self._epochs.update({(table.table_id, p): epochs[p] for p in done if p in epochs})
        return others
