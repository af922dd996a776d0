"""`inspect.compactions()`: every compaction that the table has had, with its reason and its bytes.

Rows come from live snapshots and from `meta.compaction_history`, which keeps what expired ones did; they
are made once, so that a refresh costs the new snapshots. Rows of other engines have no strategy, rule or
duration; their explanation is what our rules say of the same files. The schema's metadata names under
`missing` the snapshots that left no trace. Memory: the rows. Not thread-safe. Used by `Inspect`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain import foreign_compactions as foreign
from tablestore.insight.inspect.columns import compactions_table
from tablestore.insight.inspect.snapshot_cache import SnapshotCache, SnapshotRows
from tablestore.meta import compaction_history
from tablestore.meta.store import Store


class CompactionRows:
    """A row for each compaction of one table."""

    def __init__(self, store: Store, snapshots: SnapshotCache) -> None:
        self._store, self._snapshots = store, snapshots
        self._live = SnapshotRows(self._rows)
        self._expired: tuple[object, pa.Table, str] | None = None

    def table(self, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """The oldest first, of all buckets or of one partition (text) or bucket."""
        snapshots = self._snapshots.all()  # before the expired ones: one that expires now is in both
        gone, missing = self._gone()
        if snapshots:
            gone = gone.filter(pc.less(gone["snapshot_id"], snapshots[0].id))
        rows = pa.concat_tables([gone, self._live.of(snapshots)])
        for name, wanted in (("partition", partition), ("bucket", bucket)):
            rows = rows if wanted is None else rows.filter(pc.equal(rows[name], wanted))
        rows = rows.combine_chunks()
        return rows.replace_schema_metadata({"missing": missing}) if missing else rows

    def _gone(self) -> tuple[pa.Table, str]:
        """The rows of expired snapshots, and the ranges of those that left none."""
        store = self._store
        there = store.snapshots.earliest_id(), compaction_history.names(store)
        if self._expired is None or self._expired[0] != there:
            done = compaction_history.expired(store)
            rows = compactions_table((d.snapshot, d.time_ms, r) for d in done for r in d.compactions)
            ranges = compaction_history.missing(store, done)
            text = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in ranges)
            self._expired = there, rows, text
        return self._expired[1:]

    def _rows(self, snapshots: Sequence[Snapshot]) -> pa.Table:
        return compactions_table(compaction_history.of_live(self._store, snapshots, foreign.explained))
