"""Readable offsets: how far readers of a lake table see, where level 0 is hidden from them.

With deletion vectors and first-row, rows are read only once a compaction has taken them from level 0. A
bucket is readable up to the offset of the newest snapshot in which it has no file there.
"""

from __future__ import annotations

from tablestore.core.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.meta import tiered
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import hides_level_0
from tablestore.tiering.lake_offsets import parse_property
from tablestore.tiering.splits import Offsets, TableBucket

_SNAPSHOTS = 50  # looked at; a bucket that is hidden in all of them is not readable


def readable_offsets(store: Store, offsets: Offsets, names: dict[int, str]) -> dict[TableBucket, int] | None:
    """The readable offset of each bucket of `offsets`, without those of which readers see no row; None where
    readers see all. `names` are those of partitions."""
    if not store.schema.primary_keys or not hides_level_0(store):
        return None
    found: dict[TableBucket, int] = {}
    snapshot, left = store.snapshots.latest(), set(offsets)
    for _ in range(_SNAPSHOTS):
        if snapshot is None or not left:
            break
        hidden = _hidden(store, snapshot, names)
        reached = _offsets(store, snapshot)
        for place in left - hidden:
            if place in reached:
                found[place] = reached[place]
        left &= hidden
        try:
            snapshot = store.snapshots.get(snapshot.id - 1) if snapshot.id > 1 else None
        except NotFound:
            break
    return found


def _hidden(store: Store, snapshot: Snapshot, names: dict[int, str]) -> set[TableBucket]:
    """The buckets with files at level 0."""
    ids: dict[str, int | None] = {name: id for id, name in names.items()}
    if not store.schema.partition_keys:
        ids = {"": None}
    places = {(e.partition, e.bucket) for e in store.manifests.live_entries(snapshot) if e.file.level == 0}
    found = set()
    for partition, bucket in places:
        name = name_of(store, partition)
        if name in ids:
            found.add(TableBucket(ids[name], bucket))
    return found


def name_of(store: Store, partition: bytes) -> str:
    """The name that a partition has in the cluster; empty for a table without."""
    return "$".join(str(value) for value in store.partition_values(partition))


def _offsets(store: Store, snapshot: Snapshot) -> dict[TableBucket, int]:
    at = tiered.newest(store.snapshots, snapshot)
    if at is None:
        return {}
    text = (at.properties or {})[tiered.OFFSETS]
    return parse_property(text, store.schema.partition_keys, f"snapshot-{at.id}")[0]
