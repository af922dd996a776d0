"""`inspect` of a simulation: the tables of a real table's `inspect` that pictures draw, from the journal.

The same columns and types; a flush is an APPEND snapshot, a compaction a COMPACT one, times are virtual. What
happened before the commits that are kept is in the sums only. Safe to read while the simulation goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format import binary_row
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import table_of
from tablestore.insight.inspect.amplification.ledger import VIEWS, level_rows, schema, state_of, whole_state
from tablestore.insight.inspect.columns import (
    COMMITS,
    LEVELS,
    SNAPSHOTS,
    SOURCES,
    compactions_table,
    key_text,
    levels_table,
)
from tablestore.insight.inspect.edits import EDITS, with_span
from tablestore.insight.simulator.journal import SimulatedCommit, SimulationJournal
from tablestore.insight.simulator.sim_bucket import KEY


class SimulatedInspect:
    """Metadata of a simulation as Arrow tables."""

    def __init__(self, journal: SimulationJournal) -> None:
        self._journal = journal

    def __repr__(self) -> str:
        first, last = self._journal.first, self._journal.last
        return f"SimulatedInspect(snapshots {first}..{last})" if last else "SimulatedInspect(no snapshot)"

    def snapshots(self) -> pa.Table:
        """Every commit that is kept, oldest first."""
        return table_of(SNAPSHOTS, (_snapshot_row(c) for c in self._commits()))

    def commits(self) -> pa.Table:
        """What each commit changed: rows, files and bytes added and removed, oldest first."""
        return table_of(COMMITS, (_commit_row(c) for c in self._commits()))

    def edits(self) -> pa.Table:
        """A row for each file, from the commit that `added` it to the one that `removed` it, as of a table;
        null is before the oldest commit that is kept, and not yet."""
        journal = self._journal
        with journal.lock:
            rows: list[list[Any]] = []
            at: dict[tuple[int, int, str], list[Any]] = {}

            def add(bucket: int, file: DataFileMeta, snapshot: int | None, *, flushed: bool) -> None:
                keys = [key_text(k, KEY) for k in (file.min_key, file.max_key)]
                source = None if file.file_source is None else SOURCES.get(file.file_source)
                row = [snapshot, None, "", bucket, file.level, file.file_name, file.row_count]
                row += [file.delete_count, file.file_size, *keys, file.min_sequence, file.max_sequence]
                row += [file.schema_id, file.creation_time_ms, source, snapshot if flushed else None, None]
                rows.append([*row, *map(_number, (file.min_key, file.max_key))])
                at[bucket, file.level, file.file_name] = rows[-1]

            commits = list(journal.commits)
            if commits:
                event = commits[0].event
                new = {f.file_name for f in event.flushed} | {f.file_name for f in event.after}
                for bucket, levels in journal.files(event.snapshot).items():
                    for file in levels.files:
                        fresh = bucket == event.bucket and file.file_name in new
                        add(bucket, file, event.snapshot if fresh else None, flushed=fresh and not file.level)
            for commit in commits[1:]:
                event = commit.event
                for file in event.before:
                    at.pop((event.bucket, file.level, file.file_name))[1] = event.snapshot
                for file in event.flushed:
                    add(event.bucket, file, event.snapshot, flushed=True)
                for file in event.after:
                    add(event.bucket, file, event.snapshot, flushed=False)
            axes = {f"/{b}": (_number(low), _number(high)) for b, (low, high) in journal.ends.items()}
            first, last = (journal.first, journal.last) if commits else (None, None)
            return with_span(table_of(EDITS, rows), first, last, axes=axes)

    def levels(
        self, snapshot: int | None = None, *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """Live files after a commit (None: the newest), newest run first. The key axis of a bucket is that of
        all its keys, so pictures of several snapshots share it. Raises NotFound."""
        journal = self._journal
        with journal.lock:
            files, origins = journal.files(snapshot), journal.origins()
            tables = [
                levels_table(
                    levels,
                    KEY,
                    bucket=number,
                    among=journal.ends[number],
                    origins={
                        f.file_name: origins[number, f.file_name]
                        for f in levels.level0
                        if (number, f.file_name) in origins
                    },
                )
                for number, levels in files.items()
                if bucket in (None, number) and partition in (None, "")
            ]
        return pa.concat_tables(tables) if tables else LEVELS.empty_table()

    def compactions(self, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """Every compaction that is kept, oldest first: the rule and its sum, files and bytes."""
        rows = [
            (c.event.snapshot, c.event.time_ms, record)
            for c in self._commits()
            for record in c.event.records
            if bucket in (None, c.event.bucket) and partition in (None, "")
        ]
        return compactions_table(rows)

    def amplification(
        self, per: str = "table", *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """Write, read and space amplification of all, or `per` "snapshot", "bucket" or "level", since the
        first flush. A `bucket` can be chosen of the views "bucket" and, if there is only that one, of the
        others."""
        if per not in VIEWS:
            raise InvalidRequest(f"per {per!r} must be one of {', '.join(VIEWS)}")
        with self._journal.lock:
            buckets = sorted(self._journal.accounts)
            chosen = [b for b in buckets if bucket in (None, b) and partition in (None, "")]
            if not chosen:
                return schema(per).empty_table()
            if per != "bucket" and chosen != buckets:
                raise InvalidRequest(
                    f"a simulation shows one of its {len(buckets)} buckets per 'bucket' only"
                )
            rows = {"table": self._whole, "snapshot": self._snapshots, "level": self._levels}
            table = self._buckets(chosen) if per == "bucket" else rows[per]()
            return table_of(schema(per), table)

    def _commits(self) -> list[SimulatedCommit]:
        with self._journal.lock:
            return list(self._journal.commits)

    def _whole(self) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        whole = whole_state(journal.accounts.values())
        yield (*journal.total.row(journal.total.ingested), *whole.row(), *journal.space(), 1)

    def _snapshots(self) -> Iterator[tuple[Any, ...]]:
        for c in self._commits():
            yield c.event.snapshot, c.event.kind, c.event.time_ms, *c.numbers, 1

    def _buckets(self, chosen: list[int]) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        for bucket in chosen:
            flow = journal.by_bucket[bucket]
            state = state_of(journal.accounts[bucket]).row()
            yield "", bucket, *flow.row(flow.ingested), *state, *journal.space(bucket), 1

    def _levels(self) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        return level_rows(journal.accounts.values(), journal.by_level, journal.total.ingested, 1)


def _number(key: bytes) -> float:
    """The key of a simulation as a number."""
    (value,) = binary_row.decode(key, KEY)
    assert isinstance(value, int), "keys of a simulation are BIGINT"
    return float(value)


def _snapshot_row(c: SimulatedCommit) -> tuple[Any, ...]:
    event = c.event
    delta = sum(f.row_count for f in c.added) - sum(f.row_count for f in event.before)
    columns = (event.snapshot, 0, event.user, event.identifier, event.kind, event.time_ms, "", "", None)
    return (*columns, c.live_rows, delta, None, None, None, None)


def _commit_row(c: SimulatedCommit) -> tuple[Any, ...]:
    event, sums = c.event, []
    for value in (lambda f: f.row_count, lambda f: 1, lambda f: f.file_size):
        sums += [sum(map(value, c.added)), sum(map(value, event.before))]
    return event.snapshot, event.kind, event.time_ms, *sums, None, None, event.user, event.identifier, "{}"
