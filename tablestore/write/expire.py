"""Snapshot expiry (format facts section 19): which snapshots go, and which files nothing needs any more.

Expired is a prefix of the snapshots. A file goes when a delta of (first, end] deleted it and no tag or
branch reads it. Snapshot files are
removed before the files they name, so a kill in the middle leaves orphans, never a snapshot with holes (I2).
Consumers, tags,
branches and stream positions protect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tablestore.errors import NotFound
from tablestore.format.manifest import ADD, ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import join
from tablestore.meta import consumers, refs
from tablestore.meta.store import Store
from tablestore.write import positions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry removes (or would remove): snapshot ids, file paths, bytes of data files, and who
    limits it."""

    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    protected_by: tuple[str, ...] = ()

    def __repr__(self) -> str:
        kept = f"; kept for {', '.join(self.protected_by)}" if self.protected_by else ""
        ids = f"{self.snapshots[0]}..{self.snapshots[-1]}" if self.snapshots else "none"
        return f"Expiry(snapshots {ids}, {len(self.files)} files, {self.bytes / 1e6:.1f} MB{kept})"


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """How many snapshots stay and for how long: `keep_min` newest always, at most `keep_max`, others while
    younger than `age_ms`."""

    keep_min: int
    keep_max: int
    age_ms: int
    limit: int

    @classmethod
    def of(cls, store: Store) -> ExpirePolicy:
        """The policy of the table's options."""
        o = store.options
        return cls(
            o.snapshot_min_retained,
            o.snapshot_max_retained,
            o.snapshot_time_retained_ms,
            o.snapshot_expire_limit,
        )


def expire(store: Store, policy: ExpirePolicy, *, dry_run: bool = False) -> Expiry:
    """Remove what the policy lets go; with `dry_run` only tell."""
    latest, earliest = store.snapshots.latest_id(), store.snapshots.earliest_id()
    if latest is None or earliest is None or latest - earliest + 1 <= policy.keep_min:
        if not dry_run and earliest is not None:
            _hint(store, earliest)
        return Expiry()
    end, protected = _end(store, policy, earliest, latest)
    if end <= earliest:
        if not dry_run:
            _hint(store, earliest)
        return Expiry(protected_by=protected)
    ids = [i for i in range(earliest, end) if store.snapshots.exists(i)]
    try:
        data, metadata = _unneeded(store, ids, end)
    except NotFound:  # another process expired the same range meanwhile
        return Expiry(protected_by=protected)
    size = sum(data.values())
    if not dry_run:
        _remove(store, ids, end, [*data, *metadata])
        log.info(
            "expired %s snapshots %d..%d: %d files, %d bytes",
            store.paths.root,
            earliest,
            end - 1,
            len(data),
            size,
        )
    return Expiry(tuple(ids), (*data, *metadata), size, protected)


def _hint(store: Store, earliest: int) -> None:
    if not store.io.exists(join(store.paths.snapshot_dir, "EARLIEST")):
        store.snapshots.hint_earliest(earliest)


def _end(store: Store, policy: ExpirePolicy, earliest: int, latest: int) -> tuple[int, tuple[str, ...]]:
    """First id that stays, and the names of who stopped it from being higher."""
    start = max(latest - policy.keep_max + 1, earliest)
    end = min(latest - policy.keep_min + 1, earliest + policy.limit)
    protected = []
    for name, next_snapshot in consumers.all_next(store).items():
        if next_snapshot < end:
            protected.append(f"consumer {name} (next snapshot {next_snapshot})")
            end = next_snapshot
    holder = positions.holder(store.snapshots, store.snapshots.get(latest))
    if holder is not None and holder < end:
        protected.append(f"stream positions in snapshot {holder}")
        end = holder
    now = store.env.now_ms()
    for snapshot_id in range(min(start, end), end):
        successor = store.snapshots.get(snapshot_id + 1)
        if now - successor.time_millis < policy.age_ms:
            return max(snapshot_id, earliest), tuple(protected)
    return end, tuple(protected)


def _unneeded(store: Store, ids: list[int], end: int) -> tuple[dict[str, int], list[str]]:
    """(data file path → bytes, paths of manifests and lists) that only snapshots below `end` need."""
    expired = [store.snapshots.get(i) for i in ids]
    kept = [store.snapshots.get(end), *refs.pinned(store)]
    data: dict[str, int] = {}
    for snapshot in [*expired[1:], kept[0]]:
        data |= _deleted(store, snapshot)
    for snapshot in expired:
        for e in store.manifests.changelog_entries(snapshot):
            data[store.file_path(e.partition, e.bucket, e.file)] = e.file.file_size
    for snapshot in kept[1:]:
        for e in store.manifests.live_entries(snapshot):
            data.pop(store.file_path(e.partition, e.bucket, e.file), None)
    names = _metadata(store, expired) - _metadata(store, kept)
    return data, [store.paths.manifest(n) for n in sorted(names)]


def _deleted(store: Store, snapshot: Snapshot) -> dict[str, int]:
    """Files this delta deletes for good: an upgrade deletes and adds the same name."""
    gone: dict[str, int] = {}
    entries = store.manifests.delta_entries(snapshot)
    again = {_place(e) for e in entries if e.kind == ADD}
    for e in entries:
        if e.kind != ADD and _place(e) not in again:
            gone[store.file_path(e.partition, e.bucket, e.file)] = e.file.file_size
    return gone


def _place(e: ManifestEntry) -> tuple[bytes, int, str]:
    return e.partition, e.bucket, e.file.file_name


def _metadata(store: Store, snapshots: Iterable[Snapshot]) -> set[str]:
    names: set[str] = set()
    for s in snapshots:
        lists = [s.base_manifest_list, s.delta_manifest_list]
        if s.changelog_manifest_list:
            lists.append(s.changelog_manifest_list)
        for name in lists:
            names.add(name)
            names.update(m.file_name for m in store.manifests.read_list(name))
        if s.index_manifest:
            names.add(s.index_manifest)
    return names


def _remove(store: Store, ids: list[int], end: int, paths: list[str]) -> None:
    for snapshot_id in ids:
        store.snapshots.delete(snapshot_id)
    store.snapshots.hint_earliest(end)  # last: a stale hint is probed, a hasty one would hide what is left
    for path in paths:
        store.io.delete(path)
