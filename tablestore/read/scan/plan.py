"""Planning a scan: snapshot and filter → splits, with a verdict on every file whose entry was read.

Manifests whose partitions lie outside the filter are not opened, unless `complete` asks for a verdict on
every live file. A plan of all files of a large table comes in parts (`plan_parts`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tablestore.core import quantities, rich
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ManifestEntry, ManifestFileMeta
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.meta import partition_sweep
from tablestore.meta.deletion_files import Place, deletion_files
from tablestore.meta.entries import Entries, PartitionFilter, concatenated
from tablestore.meta.store import Store
from tablestore.read.scan import pruning
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.pruning import FileVerdict, Filters, Pruner
from tablestore.read.scan.split_generator import splits
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import readable_condition, require_readable_files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What a scan reads. `store` has its schema, `where` is bound to it. Without a `snapshot` this branch has
    no rows. The splits of `other_branch` are among `splits`."""

    store: Store
    snapshot: Snapshot | None
    where: Predicate | None
    splits: tuple[DataSplit, ...]
    looked_at: Entries | None = None
    pruner: Pruner | None = None
    min_level: int = 0
    manifests: int = 0
    manifests_skipped: int = 0
    decided: tuple[FileVerdict, ...] | None = None  # what the splits were chosen by, where it was kept
    partitions: int | None = None  # whose files alone were looked at, None: all
    other_branch: Plan | None = None  # of another branch, for partitions of its own (`read/scan/fallback.py`)

    @cached_property
    def verdicts(self) -> tuple[FileVerdict, ...]:
        """Every file whose entry was read, with whether it is scanned and why not; made on first use."""
        return (
            self.own_verdicts
            if self.other_branch is None
            else (*self.own_verdicts, *self.other_branch.verdicts)
        )

    @cached_property
    def own_verdicts(self) -> tuple[FileVerdict, ...]:
        """The verdicts on files of this branch."""
        if self.decided is not None:
            return self.decided
        if self.pruner is None or self.looked_at is None:
            return ()
        return tuple(self.pruner.prune(self.looked_at, min_level=self.min_level))

    @property
    def branches(self) -> tuple[Plan, ...]:
        """This plan and that of the other branch, each with the files and splits of one branch."""
        if self.other_branch is None:
            return (self,)
        splits = self.splits[: len(self.splits) - len(self.other_branch.splits)]
        return replace(self, splits=splits, other_branch=None), self.other_branch

    @property
    def summary(self) -> str:
        """`skipped 214 of 230 files: 180 by partition, 30 by bucket, 4 by key range`. Where the condition
        names partitions, their files alone are counted: `skipped none of 20 files of 1 partition`."""
        counts = PlanCounts()
        counts.add(self)
        return str(counts)

    def _repr_html_(self) -> str | None:
        return rich.card("plan", self)


@dataclass
class PlanCounts:
    """The files that the parts of a plan looked at, and those that they skip, by rule; counted as parts
    come. Manifests are those of all branches: each part says how many its branch has."""

    files: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    partitions: int | None = None
    manifests: int = 0
    manifests_skipped: int = 0
    _branches: set[str] = field(default_factory=set)

    def add(self, part: Plan) -> None:
        """Count the files of a part."""
        for plan in part.branches:
            if plan.store.paths.branch not in self._branches:
                self._branches.add(plan.store.paths.branch)
                self.manifests += plan.manifests
                self.manifests_skipped += plan.manifests_skipped
        self.files += len(part.verdicts)
        self.skipped.update(v.rule for v in part.verdicts if not v.kept)
        self.partitions = part.partitions if self.partitions is None else self.partitions

    def __str__(self) -> str:
        files = quantities.many(self.files, "file")
        if self.partitions is not None:
            files += f" of {quantities.many(self.partitions, 'partition')}"
        if not self.skipped:
            return f"skipped none of {files}"
        rules = [rule for rule in pruning.RULES if rule in self.skipped]
        by = ", ".join(f"{self.skipped[r]:,} {'as' if r == 'invisible' else 'by'} {r}" for r in rules)
        return f"skipped {self.skipped.total():,} of {files}: {by}"


@dataclass(frozen=True, slots=True)
class FileChoice:
    """The live files that a plan looks at: those of one `bucket`, of the partitions of a filter, made at
    `made_since` (local wall clock, ms) or later; None: of all. Those below `min_level` are invisible."""

    bucket: int | None = None
    partition: PartitionFilter | None = None
    made_since: int | None = None
    min_level: int = 0

    def of(self, entries: Entries) -> Entries:
        """The entries of such files, those of invisible ones included."""
        if self.bucket is not None:
            entries = entries.of_buckets(lambda number, total: number == self.bucket)
        if self.partition is not None:
            entries = entries.of_partitions(self.partition)
        if self.made_since is not None:
            entries = entries.filter(entries.numbers("creation_time_ms") >= self.made_since)
        return entries


ALL_FILES = FileChoice()


def plan(
    store: Store,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    *,
    columns: Sequence[str] | None = None,
    files: FileChoice = ALL_FILES,
    complete: bool = False,
    behind: Sequence[ManifestEntry] | None = None,
) -> Plan:
    """The plan of a batch read of `snapshot` under the schema of `store`; `where` may be unbound.

    Raises Unsupported, naming the feature, before a byte of data is read. `columns` are those that will be
    asked for (None: all). `behind`: level-0 files with rows newer than the snapshot, merged with all of its
    files, level 0 included.
    """
    where = readable_condition(store, where, columns)
    if snapshot is None and not behind:
        return Plan(store, None, where, ())
    filters = Filters.of(where, store.schema)
    with expiring(store, snapshot.id if snapshot else 0):
        manifests = store.manifests.manifests(snapshot) if snapshot else []
        chosen = manifests if complete else _matching(store, filters, manifests)
        points = None if complete else pruning.partitions_of(filters.partition, store.schema)
        if points is None:
            entries = store.manifests.read_manifests(chosen).live()
        else:
            parts = store.manifests.read_partitions(chosen, points)
            entries = concatenated([p.table for p in parts]).live()
        deletions = deletion_files(store, snapshot) if store.options.deletion_vectors else {}
    if behind:
        entries = concatenated([entries.table, Entries.of(behind).table])
    entries = files.of(entries)
    pruner = pruner_of(store, filters, all_levels=behind is not None)
    planned = Plan(
        store,
        snapshot,
        where,
        (),
        entries,
        pruner,
        files.min_level,
        len(manifests),
        len(manifests) - len(chosen),
        partitions=None if points is None else len(points),
    )
    return _with_splits(planned, entries, deletions, complete=complete)


def plan_parts(
    store: Store,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    *,
    columns: Sequence[str] | None = None,
    files: FileChoice = ALL_FILES,
) -> Iterator[Plan]:
    """The plan of a batch read in parts, none of which holds all files of a large table. No partition is in
    two parts, and they come in the order of partitions; a table of few files, or a filter that names few
    partitions, has one part. All parts say how many manifests there are. Arguments and errors are those of
    `plan`; what cannot be read may be met after other parts were given.

    Memory: that of `meta/partition_sweep.py`.
    """
    bound = readable_condition(store, where, columns)
    filters = Filters.of(bound, store.schema)
    named = pruning.partitions_of(filters.partition, store.schema) is not None
    with expiring(store, snapshot.id if snapshot else 0):
        manifests = store.manifests.manifests(snapshot) if snapshot else []
        chosen = _matching(store, filters, manifests)
        if named or sum(m.num_added + m.num_deleted for m in chosen) <= partition_sweep.PART_ENTRIES:
            yield plan(store, snapshot, where, columns=columns, files=files)
            return
        deletions = deletion_files(store, snapshot) if store.options.deletion_vectors else {}
        pruner, skipped = pruner_of(store, filters), len(manifests) - len(chosen)
        for part in partition_sweep.live_parts(store.manifests, chosen, store.partition_types):
            entries = files.of(part)
            planned = Plan(
                store, snapshot, bound, (), entries, pruner, files.min_level, len(manifests), skipped
            )
            yield _with_splits(planned, entries, deletions)


def _matching(
    store: Store, filters: Filters, manifests: Sequence[ManifestFileMeta]
) -> Sequence[ManifestFileMeta]:
    """The manifests that may hold files of the filter."""
    return pruning.matching_manifests(manifests, filters.partition, store.schema, _buckets(store, filters))


def pruner_of(
    store: Store, filters: Filters, *, independent: bool = False, all_levels: bool = False
) -> Pruner:
    """The pruner of a table under the schema of `store`."""
    decode, schema_of = store.partition_values, store.schema_of
    return Pruner(store.schema, store.options, filters, decode, schema_of, independent, all_levels)


def splits_of(store: Store, entries: Entries, snapshot: Snapshot) -> tuple[DataSplit, ...]:
    """The splits of live files as they are at a snapshot."""
    gone = deletion_files(store, snapshot) if store.options.deletion_vectors else {}
    number, options = snapshot.id, store.options
    return splits(entries, snapshot_id=number, schema=store.schema, options=options, deletions=gone)


def _with_splits(
    planned: Plan,
    entries: Entries,
    deletions: Mapping[Place, Mapping[str, DeletionFile]],
    *,
    complete: bool = False,
) -> Plan:
    """The plan with the splits of these entries that its pruner keeps; with `complete` its verdicts stay."""
    store, pruner, level = planned.store, planned.pruner, planned.min_level
    assert pruner is not None, "a plan of a snapshot has a pruner"
    snapshot_id = planned.snapshot.id if planned.snapshot else 0
    with store.manifests.naming_rows():
        decided = tuple(pruner.prune(entries, min_level=level)) if complete else None
        keep = pruner.keep(entries, min_level=level) if decided is None else _kept(decided)
        kept = entries.filter(keep)
        require_readable_files(kept, store.schema_of)
        data_splits = splits(
            kept, snapshot_id=snapshot_id, schema=store.schema, options=store.options, deletions=deletions
        )
    planned = replace(planned, splits=data_splits, decided=decided)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("plan of snapshot %d: %s", snapshot_id, planned.summary)
    return planned


def visible_partitions(store: Store, snapshot: Snapshot | None) -> frozenset[bytes]:
    """The partitions that a scan of the snapshot without a filter finds files of. Memory: theirs, and that of
    `plan_parts`."""
    if snapshot is None:
        return frozenset()
    pruner, visible = pruner_of(store, Filters.of(None, store.schema)), set[bytes]()
    with store.manifests.expiring(snapshot):
        manifests = store.manifests.manifests(snapshot)
        for live in partition_sweep.live_parts(store.manifests, manifests, store.partition_types):
            if len(live):
                visible.update(live.filter(pruner.keep(live)).partitions()[0])
    return frozenset(visible)


def _kept(decided: Sequence[FileVerdict]) -> np.ndarray:
    return np.array([v.kept for v in decided], dtype=bool)


def _buckets(store: Store, filters: Filters) -> frozenset[int] | None:
    """The buckets that rows of the filter can be in, where all files were written under one bucket count."""
    if filters.rows == pruning.TRUE or store.rescaled:
        return None
    return pruning.buckets_of(filters.whole, store.schema, store.options)(store.options.bucket)
