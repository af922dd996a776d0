"""Batch reads over two branches: `scan.fallback-branch` and `scan.primary-branch` (FORMAT.md 20.2).

A partition that the first branch has is read from it alone; the others are read from the second. With a
fallback branch the current branch is first, with a primary one the other. Writes, deletes, streams,
differences and lookup joins know the current branch only, as in Paimon. Each branch is read under its own
schemas, keys and buckets; both must have the same columns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidOption, NotFound
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.meta import refs
from tablestore.meta.entries import PartitionFilter
from tablestore.meta.refs import FALLBACK, PRIMARY
from tablestore.meta.store import Store
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.plan import Plan, visible_partitions
from tablestore.read.scan.scan_mode import ScanTarget, SnapshotState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BranchSplit(DataSplit):
    """A split of another branch, to be read under a schema of that branch.

    `opened` is the branch as its planner opened it; it is not pickled, so workers open the branch themselves.
    """

    branch: str = ""
    schema_id: int = 0
    opened: Store | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[BranchSplit], tuple[object, ...]]:
        return BranchSplit, tuple(getattr(self, f.name) for f in fields(self) if f.name != "opened")

    @property
    def plain(self) -> bool:
        """False: other readers would take the files for those of the current branch."""
        return False

    def read(
        self,
        store: Store,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        with_kinds: bool = False,
        keep_retracts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Rows as `DataSplit.read` gives them; `store` is the current branch."""
        asked = {"with_kinds": with_kinds, "keep_retracts": keep_retracts}
        return DataSplit.read(self, self._branch_of(store), columns, where, **asked)

    def columns_to_count(self, store: Store, columns: Sequence[str]) -> tuple[str, ...]:
        """As `DataSplit.columns_to_count`; `store` is the current branch."""
        return DataSplit.columns_to_count(self, self._branch_of(store), columns)

    def _branch_of(self, store: Store) -> Store:
        """The split's branch of the table, under the schema of the plan."""
        if self.opened is not None:
            return self.opened
        branch = Store.open(store.paths.root, io=store.io, env=store.env, branch=self.branch)
        return branch.with_schema(replace(branch.schema_of(self.schema_id), options=branch.schema.options))


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """The branch that is read beside the current one, at the snapshot that belongs to the read; `first`:
    whether a partition of both is read from it."""

    store: Store
    snapshot: Snapshot | None
    first: bool

    @property
    def name(self) -> str:
        """Name of the branch."""
        return self.store.paths.branch


def newest(store: Store) -> OtherBranch | None:
    """The other branch at its newest snapshot, whatever the scan options say; None if there is none.

    A branch that was removed is left out with a warning, as in Paimon. Raises InvalidOption where the
    branches do not have the same columns.
    """
    beside = refs.branch_beside(store)
    other = None if beside is None else _opened(store, beside[0])
    if beside is None or other is None:
        return None
    _require_same_columns(store, other)
    return OtherBranch(other, other.snapshots.latest(), beside[1])


def as_of(store: Store, snapshot: Snapshot) -> OtherBranch | None:
    """The other branch as it was when `snapshot` of the current one was made; its first snapshot if it began
    later."""
    branch = newest(store)
    return None if branch is None else _travelled(branch, _then(branch.store, snapshot.time_millis))


def of_options(store: Store, target: ScanTarget) -> OtherBranch | None:
    """The other branch at the state that the scan options, which chose `target` of this one, mean there: a
    snapshot id by its time, everything else as in any branch. None also where changes are read, not a
    state."""
    branch = newest(store)
    if branch is None or not isinstance(target, SnapshotState):
        return None
    given = {
        k: v
        for k, v in store.schema.options.items()
        if k.startswith("scan.") and k not in (FALLBACK, PRIMARY)
    }
    if store.options.scan_snapshot_id is not None:
        here = time_travel.resolve(store, snapshot=store.options.scan_snapshot_id)
        assert here is not None
        return _travelled(branch, _then(branch.store, here.time_millis))
    asked = branch.store.with_schema(branch.store.schema.with_options(given))
    try:
        start = scan_mode.batch(asked)
    except NotFound:
        if store.options.scan_tag_name is not None or store.options.scan_version is not None:
            raise
        return replace(branch, snapshot=None)
    if not isinstance(start, SnapshotState):
        return None
    return _travelled(branch, start.snapshot) if start.travelled else replace(branch, snapshot=start.snapshot)


def _then(store: Store, millis: int) -> Snapshot | None:
    try:
        return time_travel.at_or_before(store, millis)
    except NotFound:
        return store.snapshots.find(1)


def _travelled(other: OtherBranch, snapshot: Snapshot | None) -> OtherBranch:
    return replace(other, store=time_travel.at(other.store, snapshot), snapshot=snapshot)


def _opened(store: Store, branch: str) -> Store | None:
    refs.existing_name(branch, "branch")
    try:
        return Store.open(store.paths.root, io=store.io, env=store.env, branch=branch)
    except NotFound:
        log.warning(
            "%s: branch %s is not there; only branch %s is read", store.paths.root, branch, store.paths.branch
        )
        return None


def _require_same_columns(store: Store, other: Store) -> None:
    """Raise InvalidOption unless both branches have the same columns in this order, of the same partitions;
    NOT NULL may differ."""
    ours, theirs = (
        (
            [(f.name, f.type.as_nullable()) for f in s.schema.fields],
            s.schema.partition_keys,
            s.schema.row_count_field,
        )
        for s in (store, other)
    )
    if ours != theirs:
        wrong = [f"{name} {kind}" for name, kind in {*ours[0]} ^ {*theirs[0]}]
        what = (
            f"columns ({', '.join(sorted(wrong))})"
            if wrong
            else "order of columns, partitions or kind of table"
        )
        raise InvalidOption(
            f"branch {other.paths.branch!r}, read beside branch {store.paths.branch!r}, has other {what}: "
            f"alter one of them, or reset {FALLBACK!r} or {PRIMARY!r}"
        )


def plan(
    store: Store,
    state: SnapshotState,
    where: Predicate | None,
    other: OtherBranch,
    *,
    columns: Sequence[str] | None,
    complete: bool,
) -> Plan:
    """The plan of both branches: of the second one only the partitions that the first does not have."""
    ours, theirs = _partitions(store, state, other)
    asked: dict[str, Any] = {"columns": columns, "complete": complete}
    own = state.plan(store, where, **asked, partition=ours)
    other_plan = _at(state, other).plan(other.store, where, **asked, partition=theirs)
    taken = _taken(other_plan, other)
    return replace(own, splits=(*own.splits, *taken), other_branch=replace(other_plan, splits=taken))


def plan_parts(
    store: Store,
    state: SnapshotState,
    where: Predicate | None,
    other: OtherBranch,
    *,
    columns: Sequence[str] | None,
) -> Iterator[Plan]:
    """The same in parts, those of this branch first; each is a plan of one branch alone. What cannot be read
    of either is refused with the first part.

    Memory: that of `plan.plan_parts`, and the partitions of the branch that is first.
    """
    ours, theirs = _partitions(store, state, other)
    own = state.plan_parts(store, where, columns=columns, partition=ours)
    beside = _at(state, other).plan_parts(other.store, where, columns=columns, partition=theirs)
    begun = [next(parts, None) for parts in (own, beside)]
    yield from chain(filter(None, begun[:1]), own)
    for part in chain(filter(None, begun[1:]), beside):
        yield replace(part, splits=_taken(part, other))


def _partitions(
    store: Store, state: SnapshotState, other: OtherBranch
) -> tuple[PartitionFilter | None, PartitionFilter | None]:
    """Which partitions are read of this branch, and which of the other; None: all."""
    if other.first:
        visible = visible_partitions(other.store, other.snapshot)
        return (lambda p: p not in visible), None
    visible = visible_partitions(store, state.snapshot)
    return None, lambda p: p not in visible


def _at(state: SnapshotState, other: OtherBranch) -> SnapshotState:
    """The state of the other branch that is read where `state` is read of this one."""
    return replace(state, snapshot=other.snapshot)


def _taken(planned: Plan, other: OtherBranch) -> tuple[BranchSplit, ...]:
    """The splits of a plan of the other branch as splits that know their branch."""
    named: dict[str, Any] = {"branch": other.name, "schema_id": other.store.schema.id, "opened": other.store}
    return tuple(
        BranchSplit(**{f.name: getattr(s, f.name) for f in fields(DataSplit)}, **named)
        for s in planned.splits
    )
