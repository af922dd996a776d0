"""`inspect.references()`: the names that keep snapshots, tags and branches, each with its snapshot.

A branch begins at the oldest snapshot it has; whoever draws a timeline bends it off there if the snapshot is
also this branch's own (same user, identifier and time, since ids count anew in each branch).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.columns import made, required
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.read.scan.time_travel import local_ms

TAG, BRANCH = "tag", "branch"
REFERENCES = required(
    pa.schema(
        {
            "kind": pa.string(),
            "name": pa.string(),
            "snapshot_id": pa.int64(),
            "commit_kind": pa.string(),
            "commit_time": pa.timestamp("ms"),
            "record_count": pa.int64(),
            "in_history": pa.bool_(),
        }
    ),
    "kind name in_history",
)


def references(store: Store) -> pa.Table:
    """Rows of REFERENCES, tags first, each kind by name."""
    return made(REFERENCES, [*_tags(store), *_branches(store)])


def _tags(store: Store) -> Iterator[tuple[Any, ...]]:
    for tag in refs.all_tags(store):
        yield _row(TAG, tag.name, tag.snapshot, _in_history(store, tag.snapshot))


def _branches(store: Store) -> Iterator[tuple[Any, ...]]:
    for name in sorted(refs.branches(store)):
        if name == store.paths.branch:
            continue
        there = refs.on_branch(store, name)
        ids = there.snapshots.ids()
        first = there.snapshots.get(ids[0]) if ids else None
        yield _row(BRANCH, name, first, first is not None and _in_history(store, first))


def _row(kind: str, name: str, snapshot: Snapshot | None, shared: bool) -> tuple[Any, ...]:
    if snapshot is None:
        return kind, name, None, None, None, None, False
    when = local_ms(snapshot.time_millis)
    return kind, name, snapshot.id, snapshot.commit_kind, when, snapshot.total_record_count, shared


def _in_history(store: Store, snapshot: Snapshot) -> bool:
    """Whether this branch still has the very same snapshot."""
    try:
        own = store.snapshots.get(snapshot.id)
    except NotFound:
        return False
    one, other = ((s.commit_user, s.commit_identifier, s.time_millis) for s in (own, snapshot))
    return one == other
