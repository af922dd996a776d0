"""`Table.changes`: what lies between two snapshots, two tags or two moments, as rows with their kinds."""

from __future__ import annotations

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.snapshot import Snapshot
from tablestore.meta import refs
from tablestore.meta.store import Store
from tablestore.read.changes.diff import StateDiff, by_key
from tablestore.read.changes.incremental import DIFF, MODES, change_schema, changes

End = int | str


def between(store: Store, since: End, until: End | None, *, mode: str) -> pa.Table:
    """Changes after `since` up to `until`, or the difference of the two states. Snapshot ids or tag names."""
    if mode not in MODES:
        raise InvalidRequest(f"mode {mode!r} must be one of {', '.join(MODES)}")
    since, until = unwrapped(since), unwrapped(until)
    for name, value in (("since", since), ("until", until)):
        known = value is None and name == "until"
        if not known and (isinstance(value, bool) or not isinstance(value, int | str)):
            raise InvalidRequest(f"{name} {value!r} must be a snapshot id or the name of a tag")
    if isinstance(since, str) or isinstance(until, str) or mode == DIFF:
        return difference(store, _diff(store, since, until))
    return changes(store, since=since, until=until, mode=mode)


def _diff(store: Store, since: End, until: End | None) -> StateDiff:
    start, end = (_state(store, name) for name in (since, until))
    if end.id < start.id:
        raise InvalidRequest(f"changes go forward: snapshot {start.id} comes after {end.id}")
    return StateDiff(start, end)


def _state(store: Store, name: End | None) -> Snapshot:
    if isinstance(name, str):
        return refs.tagged(store, name)
    found = store.snapshots.latest() if name is None else store.snapshots.get(name)
    if found is None:
        raise NotFound("the table has no snapshot yet")
    return found


def difference(store: Store, wanted: StateDiff) -> pa.Table:
    """A difference in memory, `rowkind` first."""
    found = wanted.plan(store)
    names = store.schema.shown.names
    rows = (b for s in found.splits for b in s.read(store, names, with_kinds=True))
    return by_key(store, pa.Table.from_batches(rows, change_schema(store, names)))
