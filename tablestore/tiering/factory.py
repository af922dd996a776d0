"""What a lake must give so that rounds can write to it: a writer for each split, a committer for each table,
and both of their results as bytes.

The lake is the truth of what it holds: each of its snapshots names the offsets up to which it has the rows of
each bucket. `LakeCommitter.commit` puts rows on top of the state from which their round was planned, and no
other: the condition is part of the lake's own commit, so that of two services one is refused.

`tiering.paimon` are tables of this engine, `tiering.iceberg` those of Iceberg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tablestore.tiering.cluster import ClusterTable, RowBatch
from tablestore.tiering.splits import Marks, Offsets, TieringSplit

COMMIT_USER = "__fluss_lake_tiering"
"""The user under which rounds commit to the lake, as Fluss's own service does."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LakeState:
    """What the lake holds of a table of the cluster: the snapshot of the newest round, None before the first,
    the id of the table whose rows it has, and its offsets, with `marks` of the batches before them. `basis`
    is what the lake's committer needs to see whether it has changed since. `offsets_path`: Fluss's own
    service made that snapshot, and the offsets are in this file of the cluster."""

    snapshot_id: int | None = None
    table_id: int | None = None
    offsets: Offsets = field(default_factory=dict)
    partition_names: Mapping[int, str] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict, compare=False)
    basis: Any = field(default=None, compare=False)
    offsets_path: str | None = None


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """What a round commits: on top of which state, of which table, with the offsets of all buckets and the
    `marks` of the batches before them. `replaces`: the rows that are there are those of a former table of
    this name, and go; a tag keeps them, if `keeps` and the lake has tags. `drops`: names of partitions whose
    rows go. `passed`: where the log goes on in buckets of which rows are lost. `prepared`: the file in which
    a cluster of 0.9 keeps the offsets."""

    basis: LakeState
    table_id: int
    offsets: Offsets
    partition_names: Mapping[int, str]
    replaces: bool = False
    marks: Marks = field(default_factory=dict)
    keeps: bool = True
    drops: tuple[str, ...] = ()
    passed: Offsets = field(default_factory=dict)
    prepared: str | None = None


class LakeWriter(Protocol):
    """Writes the rows of one split. Nothing is visible before the commit. Belongs to one thread."""

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""

    def complete(self) -> Any:
        """The write result: what was written. Picklable."""

    def abort(self) -> None:
        """Delete what was written and not completed."""


class LakeCommitter(Protocol):
    """Commits rounds of one table of the lake."""

    def state(self) -> LakeState:
        """What the lake holds now."""

    def to_committable(self, results: Sequence[Any]) -> Any:
        """The results of all writers of a round as one."""

    def commit(self, committable: Any, commit: LakeCommit) -> int:
        """Put the rows into the lake; the id of the snapshot. Raises CommitConflict if the lake is not in the
        state of `commit.basis`: then nothing is there, and what was written is deleted. CommitUnknown and
        Unavailable say that the rows may be there."""

    def abort(self, committable: Any) -> None:
        """Delete what was written."""

    def readable(self, tiered: Offsets) -> Offsets | None:
        """The offsets up to which readers of the lake see rows, where that may be less than what is `tiered`;
        None if they see all."""


class LakeTieringFactory(Protocol):
    """A lake. Picklable, so that tasks of an engine can make writers."""

    def prepare(self, table: ClusterTable) -> None:
        """Make the table in the lake if it is not there; raises Unsupported, with the reason, for a table
        that this lake cannot hold, SchemaMismatch where the one that is there has other columns or keys."""

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> LakeWriter:
        """The writer of one split; `replaces` as in `LakeCommit`."""

    def create_committer(self, table: ClusterTable) -> LakeCommitter:
        """The committer of one table."""
