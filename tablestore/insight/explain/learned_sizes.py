"""What a table tells of the sizes of its next merges: its newest compactions, live files, and sampled keys.

Reads delta manifests, live entries, and a sample of keys (`read_keys`). The model is kept until the newest
snapshot, the schema or the target size of files changes, so that all views and dry runs of now
estimate alike.
"""

from __future__ import annotations

from itertools import islice
from weakref import WeakKeyDictionary

import numpy as np

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.merge_size import UNKNOWN, Merge, SizeModel
from tablestore.insight.explain.read_keys import key_samples
from tablestore.meta.entries import Entries
from tablestore.meta.manifests import ManifestStore
from tablestore.meta.store import Store

_SNAPSHOTS_READ = 64  # in which compactions to learn from are looked for
_MERGES_LEARNED, _FILES_LEARNED = 64, 256
_State = tuple[Snapshot, int, int]  # newest snapshot, schema, target size of files
_KEPT: WeakKeyDictionary[ManifestStore, tuple[_State, SizeModel]] = WeakKeyDictionary()


def learned_sizes(store: Store, at: Snapshot | None = None) -> SizeModel:
    """The model of the table as it is now, or as it was `at` a snapshot. UNKNOWN where it has no snapshot or
    no primary key."""
    if at is not None and store.schema.primary_keys:
        return _learned(store, at)
    latest = store.snapshots.latest()
    if latest is None or not store.schema.primary_keys:
        return UNKNOWN
    state = latest, store.schema.id, store.options.target_bytes(keyed=True)
    kept = _KEPT.get(store.manifests)
    if kept is None or kept[0] != state:
        kept = _KEPT[store.manifests] = state, _learned(store, latest)
    return kept[1]


def _learned(store: Store, latest: Snapshot) -> SizeModel:
    live = store.manifests.live_entries(latest)
    some = live.take(np.arange(len(live))[-_FILES_LEARNED:]).objects
    return SizeModel.learned(
        newest_merges(store, latest),
        store.key_types,
        [e.file for e in some],
        samples=key_samples(store, live),
        target_bytes=store.options.target_bytes(keyed=True),
    )


def newest_merges(store: Store, latest: Snapshot) -> list[Merge]:
    """What the newest compactions up to a snapshot read and wrote, without going through all of them."""
    merges: list[Merge] = []
    for snapshot_id in range(latest.id, max(0, latest.id - _SNAPSHOTS_READ), -1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
            if snapshot.commit_kind == COMPACT:
                merges += _merges(store.manifests.delta_entries(snapshot))
        except NotFound:  # expired, maybe just now
            break
        if len(merges) >= _MERGES_LEARNED:
            break
    return merges


def _merges(entries: Entries) -> list[Merge]:
    """The first merges of a commit: files read and written, by bucket."""
    by_bucket: dict[tuple[bytes, int], tuple[list[DataFileMeta], list[DataFileMeta]]] = {}
    for e in entries:
        read, written = by_bucket.setdefault((e.partition, e.bucket), ([], []))
        (written if e.kind == ADD else read).append(e.file)
    pairs: list[Merge] = []
    for read, written in islice(by_bucket.values(), _MERGES_LEARNED):
        moved = {f.file_name for f in read} & {f.file_name for f in written}
        files = [[f for f in some if f.file_name not in moved] for some in (read, written)]
        if files[0] and files[1]:
            pairs.append((files[0], files[1]))
    return pairs
