"""The result of a replay: the state of each bucket after each commit, with its levels and what they cost.

Commits of a bucket are numbered from 0, the same on both sides of a comparison, since both carry out the same
ones. Memory: a row a commit, and of the levels what changed, up to `MOST_REFERENCES` files; of longer
histories the newest levels are kept. Values of `insight.simulator`; nothing is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.result_tables import table_of
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.merge_size import UNKNOWN, SizeModel, merged
from tablestore.insight.explain.table_history import Place
from tablestore.insight.inspect.amplification.ledger import Account, Copies, Space, estimated, schema
from tablestore.insight.inspect.columns import levels_table
from tablestore.insight.simulator.replay_bucket import ExecutedDecision
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.levels.sorted_run import Levels

MOST_REFERENCES = 1 << 21  # files of levels that a bucket's steps hold on to
MOST_COPIES = 2_000  # compacted copies of a bucket that are estimated; the newest come first
_SHOWN = (
    "snapshot_id commit_kind commit_time compactions write_amplification live_bytes runs point_files "
    "compacted_bytes space_amplification space_min space_max space_exact why"
)
AMPLIFICATION = pa.schema([schema("snapshot").field(name) for name in _SHOWN.split()])


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """The state of a bucket after one commit; sums since the history begins."""

    snapshot: int
    time_ms: int
    partition: str
    bucket: int
    runs: int
    files: int
    live_bytes: int
    bytes_ingested: int
    bytes_compacted: int
    bytes_moved: int
    compactions: int
    stalls: int
    write_amplification: float | None
    point_files: float
    point_bytes: float
    range_bytes: float
    kind: str = "APPEND"
    compacted_bytes: int | None = None  # of a fully compacted copy, where it was measured
    space_exact: bool = False  # whether it was measured on all rows

    @classmethod
    def of(
        cls, account: Account, place: Place, *, snapshot: int, time_ms: int, stalls: int, **more: Any
    ) -> ReplayRow:
        """The row of a bucket's account as it is now; `more` are the fields that have a default."""
        reads = account.reads
        return cls(
            snapshot,
            time_ms,
            *place,
            runs=account.runs,
            files=account.live_files,
            live_bytes=account.live_bytes,
            bytes_ingested=account.ingested,
            bytes_compacted=account.compacted,
            bytes_moved=account.moved,
            compactions=account.compactions,
            stalls=stalls,
            write_amplification=account.write_amplification,
            point_files=reads.point_files,
            point_bytes=reads.point_bytes,
            range_bytes=reads.range_bytes,
            **more,
        )

    @property
    def place(self) -> Place:
        """The bucket: partition as text, number."""
        return self.partition, self.bucket


class Steps:
    """A bucket's levels after each of its commits; of those that memory cannot hold the newest. Grows."""

    def __init__(self, *, most: int = MOST_REFERENCES) -> None:
        self._most, self._held, self._count = most, 0, 0
        self._kept: deque[tuple[Levels, int]] = deque()
        self.origins: dict[str, int] = {}  # the snapshot in which a file came
        self.ends: set[bytes] = set()  # smallest and greatest keys of all files

    def __len__(self) -> int:
        return self._count

    @property
    def first_kept(self) -> int:
        """The oldest commit whose levels are there."""
        return self._count - len(self._kept)

    def add(self, snapshot: int, levels: Levels) -> None:
        """The levels after the next commit. What it shares with those before takes no room."""
        before = {id(f) for f in self._kept[-1][0].files} if self._kept else set()
        shared = {id(run.files) for run in self._kept[-1][0].upper} if self._kept else set()
        cost = len(levels.level0) + sum(len(r.files) for r in levels.upper if id(r.files) not in shared)
        for f in levels.files:
            if id(f) not in before:
                self.origins.setdefault(f.file_name, snapshot)
                self.ends |= {f.min_key, f.max_key}
        self._kept.append((levels, cost))
        self._held += cost
        self._count += 1
        while self._held > self._most and len(self._kept) > 1:
            self._held -= self._kept.popleft()[1]

    def at(self, commit: int) -> Levels:
        """The levels after that commit, from 0 on. Raises NotFound for those that are not kept."""
        if not self.first_kept <= commit < self._count:
            have = f"{self.first_kept}..{self._count - 1}" if self._kept else "none"
            raise NotFound(f"no levels after commit {commit} of the bucket; have {have}")
        return self._kept[commit - self.first_kept][0]


@dataclass(frozen=True, slots=True)
class Replay:
    """A history carried out under some options. `known` of its merges gave the table's own files, `estimated`
    ones are estimates. `done` are all compactions with their decisions, in the order of buckets; `steps` the
    levels after each commit of each bucket."""

    options: CompactionOptions
    rows: tuple[ReplayRow, ...]
    levels: dict[Place, Levels]
    done: tuple[tuple[int, Place, ExecutedDecision], ...]
    known: int
    estimated: int
    steps: dict[Place, Steps] = field(default_factory=dict)
    types: tuple[DataType, ...] = ()
    model: SizeModel = UNKNOWN

    def _last(self) -> list[ReplayRow]:
        return list({r.place: r for r in self.rows}.values())

    def total(self, name: str) -> int:
        """The sum of a number of rows over buckets, at the end."""
        return sum(getattr(r, name) for r in self._last())

    def mean(self, name: str) -> float:
        """The mean of a number over all commits: what a reader met on average."""
        return sum(getattr(r, name) for r in self.rows) / len(self.rows) if self.rows else 0.0

    @property
    def most_runs(self) -> int:
        """The most sorted runs that a commit left in a bucket."""
        return max((r.runs for r in self.rows), default=0)

    @property
    def write_amplification(self) -> float | None:
        """Bytes flushed and compacted for each byte flushed."""
        ingested = self.total("bytes_ingested")
        return (ingested + self.total("bytes_compacted")) / ingested if ingested else None

    def commits(self, place: Place) -> tuple[ReplayRow, ...]:
        """The rows of one bucket, in order."""
        return tuple(r for r in self.rows if r.place == place)

    def levels_table(
        self, place: Place, commit: int | None = None, *, among: Iterable[bytes] = ()
    ) -> pa.Table:
        """The files of a bucket after its commit of that number (None: the last), as `inspect.levels()` has
        them; `among` are further keys that lie on the axis."""
        steps = self.steps[place]
        levels = steps.at(len(steps) - 1 if commit is None else commit)
        partition, bucket = place
        return levels_table(
            levels, self.types, partition=partition, bucket=bucket, among=among, origins=steps.origins
        )

    def space(self, place: Place, commit: int) -> Space:
        """Live bytes after that commit beside those of a fully compacted copy, estimated from metadata."""
        return _space(self.steps[place].at(commit), self.types, self.model)

    def amplification(self, place: Place) -> pa.Table:
        """Write, read and space amplification after each commit of a bucket, as `inspect.amplification` by
        snapshot has them; space where it was measured, else estimated for the newest MOST_COPIES commits."""
        rows = self.commits(place)
        first = max(self.steps[place].first_kept, len(rows) - MOST_COPIES)
        commit_rows, before = [], 0
        for number, r in enumerate(rows):
            space = self._space_of(r, number if number >= first else None)
            head = (r.snapshot, r.kind, r.time_ms, r.compactions - before, r.write_amplification)
            commit_rows.append((*head, r.live_bytes, r.runs, r.point_files, *space))
            before = r.compactions
        return table_of(AMPLIFICATION, commit_rows)

    def _space_of(self, row: ReplayRow, commit: int | None) -> tuple[Any, ...]:
        if row.compacted_bytes is not None:
            ratio = row.live_bytes / row.compacted_bytes if row.compacted_bytes else None
            why = "each key that is left once" if row.space_exact else "the keys that were drawn, each once"
            return row.compacted_bytes, ratio, ratio, ratio, row.space_exact, why
        if self.model is UNKNOWN or commit is None:
            return *(None,) * 5, "not measured after this commit"
        return Copies.of({row.place: self.space(row.place, commit)}).row()


def _space(levels: Levels, types: Sequence[DataType], model: SizeModel) -> Space:
    """A bucket beside its fully compacted copy: one run without deletes is that itself."""
    files = levels.files
    live = sum(f.file_size for f in files)
    if not levels.level0 and levels.run_count <= 1 and not any(f.delete_count != 0 for f in files):
        return Space.known(live, live, "one sorted run without deletes")
    among = max((run.rows for run in levels.upper), default=0)
    estimate = merged(files, types, drop_deletes=True, model=model, among=among)
    return estimated(live, estimate)
