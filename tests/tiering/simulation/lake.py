"""A lake in memory: tables as lists of states, commits on top of one state or not at all.

After every commit the rows of its buckets are compared with the log up to the offsets of the commit: the lake
is always a prefix of the log. Files are counted, so that none is left behind by what ended in words.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import CommitConflict
from tablestore.format import rowkind
from tablestore.tiering.cluster import ClusterTable, LakeCommit, LakeState, RowBatch
from tablestore.tiering.splits import TieredBucket, TieringSplit
from tests.tiering.simulation.cluster import SimCluster, SimLog


class Wrong(AssertionError):
    """The lake is not what the log says."""


@dataclass(frozen=True)
class WrittenRows:
    """What one writer wrote: kind, key and value of each row, in order."""

    file: int
    place: TieredBucket
    rows: tuple[tuple[int, int, int], ...]


@dataclass
class SimLakeTable:
    """The newest state of a table and its rows by bucket; `reached`: offsets, also those that the state has
    forgotten."""

    state: LakeState = field(default_factory=LakeState)
    rows: dict[TieredBucket, list[tuple[int, int, int]]] = field(default_factory=dict)
    commits: int = 0
    dropped: set[int] = field(default_factory=set)
    reached: dict[TieredBucket, int] = field(default_factory=dict)


class SimLake:
    """Every table of the lake. `conditional`: whether commits look at what they stand on, which they must."""

    def __init__(self, cluster: SimCluster, *, conditional: bool = True) -> None:
        self.cluster, self._conditional = cluster, conditional
        self.tables: dict[str, SimLakeTable] = {}
        self.staged: set[int] = set()
        self.files = itertools.count()

    def table(self, path: str) -> SimLakeTable:
        return self.tables.setdefault(path, SimLakeTable())

    def commit(self, path: str, written: Sequence[WrittenRows], commit: LakeCommit) -> int:
        """The commit at one moment."""
        table = self.table(path)
        if self._conditional and table.state.snapshot_id != commit.basis.snapshot_id:
            self.discard(written)
            raise CommitConflict(
                f"{path}: based on {commit.basis.snapshot_id}, now {table.state.snapshot_id}"
            )
        if commit.replaces:
            table.rows.clear()
            table.dropped.clear()
            table.reached.clear()
        names = self.cluster.history[commit.table_id].names
        tiered = {place.partition_id for place in table.reached}
        for id in [id for id, name in names.items() if name in commit.drops and id in tiered]:
            table.dropped.add(id)  # all rows of the name go, whoever wrote them
            for place in [place for place in table.rows if place.partition_id == id]:
                del table.rows[place]
        for result in written:
            if result.file not in self.staged:
                raise Wrong(f"{path}: file {result.file} is committed twice, or was deleted")
            table.rows.setdefault(result.place, []).extend(result.rows)
            self.staged.discard(result.file)
        number = (table.state.snapshot_id or 0) + 1
        table.state = LakeState(number, commit.table_id, dict(commit.offsets), dict(commit.partition_names))
        table.reached.update(commit.offsets)
        table.commits += 1
        self.check(path)
        return number

    def discard(self, written: Sequence[WrittenRows]) -> None:
        self.staged.difference_update(result.file for result in written)

    def check(self, path: str) -> None:
        """Raise Wrong unless the rows of a table are those of the log up to the offsets of its state."""
        table = self.table(path)
        if table.state.table_id is None:
            return
        source = self.cluster.history[table.state.table_id]
        for place in {*table.rows, *table.reached}:
            offset, log = table.reached.get(place, 0), source.logs.get(place, SimLog())
            forgotten = place in table.reached and place not in table.state.offsets
            if forgotten and place.partition_id in source.partitions:
                raise Wrong(f"{path} {place}: the offset of a partition that is there was forgotten")
            if place.partition_id in table.dropped:
                if place.partition_id in source.partitions:
                    raise Wrong(f"{path} {place}: rows were dropped of a partition that is there")
                continue
            rows = table.rows.get(place, [])
            if source.keyed:
                there, expected = _folded(rows), log.state(offset)
            else:
                there, expected = [row[2] for row in rows], [r[3] for r in log.rows if r[0] < offset]
            if there != expected:
                raise Wrong(f"{path} {place} up to {offset}: the lake has {there}, the log {expected}")


def _folded(rows: list[tuple[int, int, int]]) -> dict[int, int]:
    collected: dict[int, int] = {}
    for kind, key, value in rows:
        collected.pop(key, None)
        if kind not in (rowkind.DELETE, rowkind.UPDATE_BEFORE):
            collected[key] = value
    return collected


@dataclass
class SimWriter:
    """Writes the rows of one split into a file."""

    lake: SimLake
    split: TieringSplit
    rows: list[tuple[int, int, int]] = field(default_factory=list)

    def write(self, batch: RowBatch) -> None:
        kinds = [0] * batch.rows.num_rows if batch.kinds is None else batch.kinds.to_pylist()
        keys, values = (batch.rows.column(name).to_pylist() for name in ("k", "v"))
        self.rows += zip(kinds, keys, values, strict=True)

    def complete(self) -> WrittenRows:
        written = WrittenRows(next(self.lake.files), self.split.table_bucket, tuple(self.rows))
        self.lake.staged.add(written.file)
        return written

    def abort(self) -> None:
        self.rows.clear()


@dataclass
class SimCommitter:
    """The committer of one table, whose calls `call` carries out, now or later or never."""

    lake: SimLake
    table: ClusterTable
    call: Any

    def state(self) -> LakeState:
        return self.call("state", lambda: self.lake.table(self.table.path).state)

    def to_committable(self, results: Sequence[WrittenRows]) -> tuple[WrittenRows, ...]:
        return tuple(results)

    def commit(self, committable: tuple[WrittenRows, ...], commit: LakeCommit) -> int:
        return self.call("commit", lambda: self.lake.commit(self.table.path, committable, commit))

    def abort(self, committable: tuple[WrittenRows, ...]) -> None:
        self.lake.discard(committable)


@dataclass
class SimFactory:
    """Writers and committers of the lake."""

    lake: SimLake
    call: Any

    def create_writer(self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False) -> SimWriter:
        return SimWriter(self.lake, split)

    def create_committer(self, table: ClusterTable) -> SimCommitter:
        return SimCommitter(self.lake, table, self.call)
