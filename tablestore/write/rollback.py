"""Rolling a table back to one of its snapshots, or to a tag: what came later is gone for good.

Removed, newest first: later snapshots, later long-lived changelogs, tags of later snapshots; then the files
nothing else needs. A kill in between leaves the table at some snapshot on the way, and the same call ends
what was begun. Rolling back to a tag whose snapshot has expired puts that snapshot back first. Ids are used
again afterwards. Writers should be still: a commit that races with this one is lost.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tablestore.errors import NotFound
from tablestore.format.snapshot import Snapshot, to_json
from tablestore.lsm import quantities
from tablestore.meta import changelogs, refs
from tablestore.meta.store import Store
from tablestore.write import reachable
from tablestore.write.expire import remove
from tablestore.write.reachable import Files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback removed: the table is at `snapshot` now."""

    snapshot: int
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0

    def __repr__(self) -> str:
        tags = f", tags {', '.join(self.tags)}" if self.tags else ""
        files = f"{quantities.many(len(self.files), 'file')}, {quantities.size(self.bytes)}"
        gone = f"{quantities.many(len(self.snapshots), 'snapshot')}{tags}, {files}"
        return f"Rollback(to snapshot {self.snapshot}: removed {gone})"


def rollback(store: Store, target: Snapshot) -> Rollback:
    """Make `target`, a snapshot of this branch or what one of its tags keeps, the newest."""
    late = [s for s in store.snapshots.all() if s.id > target.id]
    late_tags = [t for t in refs.all_tags(store) if t.snapshot.id > target.id]
    late_changelogs = [c for c in changelogs.all_of(store) if c.id > target.id]
    gone = _unneeded(store, target, late, late_tags, late_changelogs)
    if not store.snapshots.exists(target.id):
        store.io.write_new(store.paths.snapshot(target.id), to_json(target))
        store.snapshots.hint_earliest(target.id)
    remove_later(store, target.id)
    for changelog in reversed(late_changelogs):
        changelogs.delete(store, changelog.id)
    if late_changelogs:
        known = changelogs.ids(store)
        changelogs.hint(store, earliest=known[0] if known else -1, latest=known[-1] if known else -1)
    for tag in late_tags:
        store.io.delete(store.paths.tag(tag.name))
    remove(store, gone)
    log.info("rolled back %s to snapshot %d: %d snapshots gone", store.paths.root, target.id, len(late))
    names = tuple(t.name for t in late_tags)
    return Rollback(target.id, tuple(s.id for s in late), names, gone.paths, gone.bytes)


def remove_later(store: Store, target: int) -> None:
    """Remove snapshots above `target`, newest first, until none is left; commits meanwhile included."""
    store.snapshots.hint_rolled_back(target)
    while True:
        later = [i for i in store.snapshots.ids() if i > target]
        if not later:
            break
        for snapshot_id in reversed(later):
            store.snapshots.delete(snapshot_id)
    store.snapshots.hint_rolled_back(target)


def _unneeded(
    store: Store,
    target: Snapshot,
    late: list[Snapshot],
    late_tags: list[refs.Tag],
    late_changelogs: list[Snapshot],
) -> Files:
    """Files of what is removed that `target`, older snapshots, tags, changelogs and branches do not need.

    Of older snapshots none needs a data file added later, but those that `target` reads too.
    """
    gone = reachable.candidates(store, [*late, *late_changelogs])
    there = {s.id for s in late}
    expired = [t.snapshot for t in late_tags if t.snapshot.id not in there]
    gone.add(reachable.candidates(store, expired, states=True))
    early_tags = [[t.snapshot] for t in refs.all_tags(store) if t.snapshot.id <= target.id]
    outlived = [c for c in changelogs.all_of(store) if c.id <= target.id]
    outlived += refs.changelogs_elsewhere(store)
    earlier = [s for s in store.snapshots.all() if s.id < target.id]
    histories = [earlier, [target], *early_tags, *refs.histories_elsewhere(store)]
    return gone.without(reachable.used(store, [h for h in histories if h], among=gone, changelogs=outlived))


def target_of(
    store: Store, *, snapshot: int | None = None, tag: str | None = None, timestamp: int | None = None
) -> Snapshot:
    """The snapshot meant; one that has expired is looked for among the tags, as Paimon does."""
    if tag is not None:
        return refs.tagged(store, tag)
    if snapshot is not None:
        try:
            return store.snapshots.get(snapshot)
        except NotFound:
            for found in refs.tags(store).values():
                if found.id == snapshot:
                    return found
            raise
    assert timestamp is not None
    earlier = [s for s in store.snapshots.all() if s.time_millis <= timestamp]
    if not earlier:
        raise NotFound(f"no snapshot at or before {timestamp} ms; there are {store.snapshots.ids()}")
    return earlier[-1]
