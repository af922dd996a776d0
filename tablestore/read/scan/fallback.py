"""Batch reads over two branches: `scan.fallback-branch` and `scan.primary-branch`.

A partition that the first branch has is read from it alone, whatever its rows are; the others come from the
second. With a fallback branch the current branch is first, with a primary one the other. Writes, deletes,
streams, differences and lookup joins know the current branch only, as in Paimon. Each branch is read under
its own schemas, keys and buckets; both must have the same columns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import pyarrow as pa

from tablestore.core.errors import InvalidOption, NotFound
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.meta import refs
from tablestore.meta.refs import FALLBACK, PRIMARY
from tablestore.meta.store import Store
from tablestore.read.scan import scan_mode, time_travel
from tablestore.read.scan.plan import Plan, visible_partitions
from tablestore.read.scan.split import DataSplit
from tablestore.read.scan.split_read import read_split

log = logging.getLogger(__name__)
Planner = Callable[..., Plan]


@dataclass(frozen=True, slots=True)
class BranchSplit(DataSplit):
    """A split of another branch, to be read under a schema of that branch."""

    branch: str = ""
    schema_id: int = 0

    @property
    def plain(self) -> bool:
        """Never: other readers would take the file for one of the current branch."""
        return False


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """The branch that is read beside the current one, at the snapshot that belongs to the read; `first`:
    whether its partitions win."""

    store: Store
    snapshot: Snapshot | None
    first: bool

    @property
    def name(self) -> str:
        """Name of the branch."""
        return self.store.paths.branch


def newest(store: Store) -> OtherBranch | None:
    """The other branch at its newest snapshot, whatever the scan options say; None if there is none.

    A branch that was removed since is passed over with a warning, as in Paimon. Raises InvalidOption where
    the branches have not the same columns.
    """
    found = refs.branch_beside(store)
    other = None if found is None else _opened(store, found[0])
    if found is None or other is None:
        return None
    _require_same_columns(store, other)
    return OtherBranch(other, other.snapshots.latest(), found[1])


def as_of(store: Store, snapshot: Snapshot) -> OtherBranch | None:
    """The other branch as it was when `snapshot` of the current one was made; its first snapshot if it began
    later."""
    found = newest(store)
    return None if found is None else _travelled(found, _then(found.store, snapshot.time_millis))


def of_options(store: Store) -> OtherBranch | None:
    """The other branch where the scan options make a read of it begin: ids of snapshots count by their time,
    everything else is asked of each branch. None also where changes are read, not a state."""
    found = newest(store)
    if found is None:
        return None
    given = {
        k: v
        for k, v in store.schema.options.items()
        if k.startswith("scan.") and k not in (FALLBACK, PRIMARY)
    }
    if store.options.scan_snapshot_id is not None:
        here = time_travel.resolve(store, snapshot=store.options.scan_snapshot_id)
        assert here is not None
        return _travelled(found, _then(found.store, here.time_millis))
    asked = found.store.with_schema(found.store.schema.with_options(given))
    try:
        start = scan_mode.batch(asked)
    except NotFound:
        if store.options.scan_tag_name is not None or store.options.scan_version is not None:
            raise
        return replace(found, snapshot=None)
    if not isinstance(start, scan_mode.State):
        return None
    return _travelled(found, start.snapshot) if start.travelled else replace(found, snapshot=start.snapshot)


def _then(store: Store, millis: int) -> Snapshot | None:
    try:
        return time_travel.at_or_before(store, millis)
    except NotFound:
        return store.snapshots.get(1) if store.snapshots.exists(1) else None


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
    planner: Planner,
    store: Store,
    snapshot: Snapshot | None,
    where: Predicate | None,
    other: OtherBranch,
    *,
    columns: Sequence[str] | None,
    complete: bool,
) -> Plan:
    """The plan of both branches: of the second only the partitions that the first has not."""
    here = partial(planner, store, snapshot, where, columns=columns, complete=complete)
    there = partial(planner, other.store, other.snapshot, where, columns=columns, complete=complete)
    if other.first:
        known = visible_partitions(other.store, other.snapshot)
        own, beside = here(partition=lambda p: p not in known), there()
    else:
        known = visible_partitions(store, snapshot)
        own, beside = here(), there(partition=lambda p: p not in known)
    named = {"branch": other.name, "schema_id": other.store.schema.id}
    taken = tuple(
        BranchSplit(**{f.name: getattr(s, f.name) for f in fields(DataSplit)}, **named) for s in beside.splits
    )
    return replace(own, splits=(*own.splits, *taken), beside=replace(beside, splits=taken))


def read_branch_split(
    store: Store, split: BranchSplit, columns: Sequence[str], where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of one split of the other branch; `store` is the current one."""
    opened = Store.open(store.paths.root, io=store.io, env=store.env, branch=split.branch)
    then = replace(opened.schema_of(split.schema_id), options=opened.schema.options)
    return read_split(opened.with_schema(then), split, columns, where)
