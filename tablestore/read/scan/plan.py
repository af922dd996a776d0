"""Planning a scan: snapshot and filter → splits, with a verdict on every file that was looked at.

Manifests whose partitions lie outside the filter are not opened, unless `complete` asks for a verdict on
every live file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tablestore.core import quantities
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain import scan_decisions as decisions
from tablestore.insight.explain.row_groups import row_group_plan
from tablestore.insight.explain.scan_decisions import Asked
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.entries import Entries, PartitionFilter
from tablestore.meta.store import Store
from tablestore.read.scan import pruning
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.pruning import FileVerdict, Filters, Pruner
from tablestore.read.scan.split_generator import splits
from tablestore.read.scan.time_travel import expiring
from tablestore.read.support import require_readable, require_readable_files

log = logging.getLogger(__name__)
_SHOWN = 20


@dataclass(frozen=True)
class Plan:
    """What a scan will read. `store` has its schema, `where` is bound to it. No `snapshot`: no rows of this
    branch. The splits of `beside` are among `splits`."""

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
    beside: Plan | None = None  # of another branch, for partitions of its own (`read/scan/fallback.py`)

    @cached_property
    def verdicts(self) -> tuple[FileVerdict, ...]:
        """Every file that was looked at, whether it is read and why not; made when they are asked for."""
        return self.own if self.beside is None else (*self.own, *self.beside.verdicts)

    @cached_property
    def own(self) -> tuple[FileVerdict, ...]:
        """The verdicts on files of this branch."""
        if self.decided is not None:
            return self.decided
        if self.pruner is None or self.looked_at is None:
            return ()
        return tuple(self.pruner.prune(self.looked_at, min_level=self.min_level))

    @property
    def branches(self) -> tuple[Plan, ...]:
        """This plan and the one beside it, each with the files and splits of one branch."""
        if self.beside is None:
            return (self,)
        splits = self.splits[: len(self.splits) - len(self.beside.splits)]
        return replace(self, splits=splits, beside=None), self.beside

    def explain(self) -> Explanation:
        """Why each file is read or skipped, for people and as a table."""
        return Explanation(self)


def plan(
    store: Store,
    snapshot: Snapshot | None,
    where: Predicate | None = None,
    *,
    columns: Sequence[str] | None = None,
    min_level: int = 0,
    made_since: int | None = None,
    complete: bool = False,
    partition: PartitionFilter | None = None,
) -> Plan:
    """The plan of a batch read of `snapshot` under the schema of `store`; `where` may be unbound.

    Raises Unsupported, naming the feature, before a byte of data is read. `columns` are those that will be
    asked for (None: all); `made_since` (local wall clock, ms) leaves out files made before, `partition` those
    of other partitions.
    """
    where = None if where is None else predicate.bind(where, store.schema)
    wanted = None if columns is None else (*columns, *(where.columns if where is not None else ()))
    require_readable(store.schema, store.options, wanted)
    if snapshot is None:
        return Plan(store, None, where, ())
    filters = Filters.of(where, store.schema)
    with expiring(store, snapshot.id):
        manifests = store.manifests.manifests(snapshot)
        buckets = _buckets(store, filters)
        chosen = (
            manifests
            if complete
            else pruning.matching_manifests(manifests, filters.partition, store.schema, buckets)
        )
        entries = store.manifests.read_manifests(chosen).live()
        deletions = deletion_files(store, snapshot) if store.options.deletion_vectors else {}
    if partition is not None:
        entries = entries.of_partitions(partition)
    if made_since is not None:
        entries = entries.filter(entries.numbers("creation_time_ms") >= made_since)
    pruner = Pruner(store.schema, store.options, filters, store.partition_values, store.schema_of)
    with store.manifests.naming_rows():
        decided = tuple(pruner.prune(entries, min_level=min_level)) if complete else None
        keep = pruner.keep(entries, min_level=min_level) if decided is None else _kept(decided)
        kept = entries.filter(keep)
        require_readable_files(kept, store.schema_of)
        made = splits(
            kept, snapshot_id=snapshot.id, schema=store.schema, options=store.options, deletions=deletions
        )
    skipped = len(manifests) - len(chosen)
    looked_at = (entries, pruner, min_level, len(manifests), skipped, decided)
    found = Plan(store, snapshot, where, made, *looked_at)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("plan of snapshot %d: %s", snapshot.id, found.explain().summary)
    return found


def visible_partitions(store: Store, snapshot: Snapshot | None) -> frozenset[bytes]:
    """The partitions that a scan of the snapshot finds files of, whatever its filter."""
    if snapshot is None:
        return frozenset()
    live = store.manifests.live_entries(snapshot)
    everything = Filters.of(None, store.schema)
    pruner = Pruner(store.schema, store.options, everything, store.partition_values, store.schema_of)
    return frozenset(live.filter(pruner.keep(live)).partitions()[0]) if len(live) else frozenset()


def _kept(decided: Sequence[FileVerdict]) -> np.ndarray:
    return np.array([v.kept for v in decided], dtype=bool)


def _buckets(store: Store, filters: Filters) -> frozenset[int] | None:
    """The buckets that rows of the filter can be in, where all files were written under one bucket count."""
    if filters.rows == pruning.TRUE or store.rescaled:
        return None
    return pruning.buckets_of(filters.whole, store.schema, store.options)(store.options.bucket)


@dataclass(frozen=True, repr=False)
class Explanation:
    """A plan in words: `repr` for a terminal, `to_arrow()` one row a file."""

    plan: Plan

    @property
    def summary(self) -> str:
        """`skipped 214 of 230 files: 180 by partition, 30 by bucket, 4 by key range`."""
        verdicts = self.plan.verdicts
        skipped = pruning.counts(verdicts)
        if not skipped:
            return f"skipped none of {_count(len(verdicts), 'file')}"
        by = ", ".join(f"{n:,} {'as' if rule == 'invisible' else 'by'} {rule}" for rule, n in skipped.items())
        return f"skipped {sum(skipped.values()):,} of {_count(len(verdicts), 'file')}: {by}"

    def to_arrow(self) -> pa.Table:
        """One row a live file: where it is, its size, whether it is read, how, and why not."""
        split_of = {
            (s.partition, s.bucket, f.level, f.file_name): i
            for i, s in enumerate(self.plan.splits)
            for f in s.files
        }
        rows = []
        for v in self.plan.verdicts:  # branches have the same partition columns
            e, f = v.entry, v.entry.file
            i = split_of.get((e.partition, e.bucket, f.level, f.file_name))
            how = None if i is None else "raw" if self.plan.splits[i].raw else "merge"
            where = self.plan.store.partition_text(e.partition)
            rows.append(
                (
                    where,
                    e.bucket,
                    f.level,
                    f.file_name,
                    f.row_count,
                    f.file_size,
                    v.kept,
                    i,
                    how,
                    v.rule or None,
                    v.text or None,
                )
            )
        columns = list(zip(*rows, strict=True)) or [()] * len(_EXPLAIN_SCHEMA)
        return pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, _EXPLAIN_SCHEMA, strict=True)],
            schema=_EXPLAIN_SCHEMA,
        )

    def decisions(self) -> pa.Table:
        """One row a live file: whether it is read, the rule that left it out, the numbers compared, and of
        files that are kept for others' sake a `note`."""
        return pa.concat_tables(decisions.decisions(p.store, p.own) for p in self.plan.branches)

    def steps(self) -> pa.Table:
        """Files and bytes left after each rule, from all live files to those that are read."""
        return decisions.steps(self.plan.store, self.plan.where, self.plan.verdicts)

    def row_groups(self, *, files: Collection[str] | None = None, limit: int | None = None) -> pa.Table:
        """One row a row group of the files that are read (of those named, of `limit` at most), with the rule
        that leaves it out. Opens their footers."""
        found = (
            row_group_plan(p.store, p.splits, p.where, files=files, limit=limit) for p in self.plan.branches
        )
        return pa.concat_tables(found)

    def asked_keys(self, partition: str, bucket: int) -> Asked | None:
        """Where the keys asked for lie on the key axis of a bucket, as `inspect.levels` has it; None where
        no part of it is asked for. `partition` is a text such as "l_year=1995"."""
        store = self.plan.store
        here = (v.entry for v in self.plan.own if v.entry.bucket == bucket)
        entries = [e for e in here if store.partition_text(e.partition) == partition]
        return decisions.asked_keys(store, self.plan.where, entries)

    def __repr__(self) -> str:
        p = self.plan
        if p.snapshot is None and p.beside is None:
            return "the table has no snapshot: nothing to read"
        where = "every row" if p.where is None else f"where {p.where!r}"
        lines = [f"{_state(p)}, {where}", self.summary]
        if p.beside is not None:
            places = len({s.partition for s in p.beside.splits})
            branch = p.beside.store.paths.branch
            lines[0] = f"{_state(p)} and of branch {branch} {_state(p.beside)}, {where}"
            lines.append(f"{_count(places, 'partition')} read from branch {branch}")
        if p.manifests_skipped:
            lines[1] += f"; {p.manifests_skipped} of {_count(p.manifests, 'manifest')} not opened"
        raw = sum(s.raw for s in p.splits)
        files, rows = sum(len(s.files) for s in p.splits), sum(s.rows for s in p.splits)
        size = quantities.size(sum(s.size for s in p.splits))
        lines.append(
            f"reads {_count(files, 'file')} ({size}, {_count(rows, 'row')}) in"
            f" {_count(len(p.splits), 'split')}: {raw:,} as the files are, {len(p.splits) - raw:,} merged"
        )
        skipped = [v for v in p.verdicts if not v.kept]
        for v in skipped[:_SHOWN]:
            place = "/".join(
                t for t in (p.store.partition_text(v.entry.partition), f"bucket-{v.entry.bucket}") if t
            )
            lines.append(f"  {place}/{v.entry.file.file_name} skipped by {v.rule}: {v.text}")
        if len(skipped) > _SHOWN:
            lines.append(f"  … and {len(skipped) - _SHOWN:,} more; to_arrow() has them all")
        return "\n".join(lines)


_EXPLAIN_SCHEMA = pa.schema(
    {
        "partition": pa.string(),
        "bucket": pa.int32(),
        "level": pa.int32(),
        "file_name": pa.string(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "kept": pa.bool_(),
        "split": pa.int32(),
        "read": pa.string(),
        "rule": pa.string(),
        "reason": pa.string(),
    }
)


def _state(plan: Plan) -> str:
    found = plan.snapshot
    return "no snapshot" if found is None else f"snapshot {found.id} ({found.commit_kind})"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
