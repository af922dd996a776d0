"""Rolling a table back to one of its snapshots, or to a tag; what came later is removed (FORMAT.md 20.6).

Removed, newest first: later snapshots, later long-lived changelogs, tags of later snapshots; then the files
that nothing else needs. A kill in between leaves the table at a snapshot in between, and the same call
completes the rollback. Rolling back to a tag whose snapshot has expired puts that snapshot back first. Ids
are used again afterwards. No writer should be running: a commit at the same time is lost.

Later snapshots, tags and changelogs that are damaged are removed unread. Where damage hides which files are
needed, and where only damaged metadata named them, files stay for `remove_orphans`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tablestore.core import quantities
from tablestore.core.errors import CommitUnknown, Corrupt, NotFound, TablestoreError
from tablestore.format.snapshot import Snapshot, to_json
from tablestore.meta import changelogs, positions, refs
from tablestore.meta.store import Store
from tablestore.write.commit import synced
from tablestore.write.retention import reachable
from tablestore.write.retention.expire import remove
from tablestore.write.retention.reachable import Files

log = logging.getLogger(__name__)
T = TypeVar("T")
N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback removed: the table is at `snapshot` now."""

    snapshot: int
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tags = f", tags {', '.join(self.tags)}" if self.tags else ""
        files = f"{quantities.many(len(self.files), 'file')}, {quantities.size(self.bytes)}"
        gone = f"{quantities.many(len(self.snapshots), 'snapshot')}{tags}, {files}"
        failed = f"; {'; '.join(self.problems)}" if self.problems else ""
        return f"Rollback(to snapshot {self.snapshot}: removed {gone}{failed})"


@dataclass(frozen=True, slots=True)
class _Late:
    """What came after the target, in ascending order: all ids and names, and the snapshots of those that can
    be read."""

    ids: tuple[int, ...]
    changelog_ids: tuple[int, ...]
    tags: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    changelogs: tuple[Snapshot, ...]
    tagged: tuple[Snapshot, ...]
    damaged: tuple[str, ...]


def rollback(store: Store, target: Snapshot) -> Rollback:
    """Make `target`, a snapshot of this branch or of one of its tags, the newest.

    Raises Corrupt, before anything is removed, for a target that cannot be read itself, and CommitUnknown
    where it fails after something is: the same call completes it.
    """
    needed = reachable.used(store, [[target]])
    late = _late(store, target.id)
    gone, problems = _unneeded(store, target, late, needed)
    expired = not store.snapshots.exists(target.id)
    try:
        if expired:
            store.io.write_new(store.paths.snapshot(target.id), to_json(target))
            store.snapshots.hint_earliest(target.id)
        synced.put(store, target)
        _remove_late(store, target, late)
    except (TablestoreError, OSError) as e:
        if _is_untouched(store, late, without=target.id if expired else None):
            raise
        text = (
            f"the rollback to snapshot {target.id} failed after it had begun: {e}; the same call completes it"
        )
        raise CommitUnknown(text) from e
    try:
        gone = remove(store, gone, lambda i: i > target.id)
    except (TablestoreError, OSError) as e:
        problems = (*problems, f"files that nothing needs are left to remove_orphans(): {e}")
    log.info("rolled back %s to snapshot %d: %d snapshots gone", store.paths.root, target.id, len(late.ids))
    for text in problems:
        log.warning("%s: %s", store.paths.root, text)
    return Rollback(target.id, late.ids, late.tags, gone.paths, gone.bytes, problems)


def _remove_late(store: Store, target: Snapshot, late: _Late) -> None:
    """Remove the snapshots, changelogs and tags that came later."""
    remove_later(store, target.id)
    positions.keep_again(store, target)
    for snapshot_id in reversed(late.changelog_ids):
        changelogs.delete(store, snapshot_id)
    if late.changelog_ids:
        ids = changelogs.ids(store)
        changelogs.hint(store, earliest=ids[0] if ids else -1, latest=ids[-1] if ids else -1)
    for name in late.tags:
        store.io.delete(store.paths.tag(name))
    store.sync(store.paths.snapshot_dir, store.paths.changelog_dir, store.paths.tag_dir)


def _is_untouched(store: Store, late: _Late, *, without: int | None) -> bool:
    """Whether all that came later is there still, and the snapshot `without`, which had expired, is not;
    False where that cannot be found out."""
    try:
        ids = set(store.snapshots.ids())
        there = ids.issuperset(late.ids) and without not in ids
        there = there and set(changelogs.ids(store)).issuperset(late.changelog_ids)
        return there and set(refs.tag_names(store)).issuperset(late.tags)
    except (TablestoreError, OSError):
        return False


def _late(store: Store, target: int) -> _Late:
    """What came after snapshot `target`; a damaged tag stays, since it is unknown what it keeps."""
    damaged: list[str] = []
    ids = tuple(i for i in store.snapshots.ids() if i > target)
    changelog_ids = tuple(i for i in changelogs.ids(store) if i > target)
    snapshots = _readable(damaged, ids, store.snapshots.get)
    kept = _readable(damaged, changelog_ids, lambda i: changelogs.get(store, i))
    names = refs.tag_names(store)
    tags = [t for t in _readable(damaged, names, lambda n: refs.tag(store, n)) if t.snapshot.id > target]
    late_tags = tuple(t.name for t in tags)
    return _Late(
        ids, changelog_ids, late_tags, snapshots, kept, tuple(t.snapshot for t in tags), tuple(damaged)
    )


def _readable(damaged: list[str], names: Iterable[N], read: Callable[[N], T]) -> tuple[T, ...]:
    """The snapshots of those names that can be read; damaged ones are noted, those that are gone are not."""
    snapshots = []
    for name in names:
        try:
            snapshots.append(read(name))
        except NotFound:
            continue
        except Corrupt as e:
            damaged.append(e.path)
    return tuple(snapshots)


def remove_later(store: Store, target: int) -> None:
    """Remove snapshots above `target`, newest first, until none is left; commits meanwhile included."""
    positions.forget_after(store, target)
    store.snapshots.hint_latest(target)
    while True:
        later = [i for i in store.snapshots.ids() if i > target]
        if not later:
            break
        for snapshot_id in reversed(later):
            store.snapshots.delete(snapshot_id)
    store.snapshots.hint_latest(target)


def _unneeded(store: Store, target: Snapshot, late: _Late, needed: Files) -> tuple[Files, tuple[str, ...]]:
    """(files of what is removed that `target`, older snapshots, tags, changelogs and branches do not need,
    problems that damage makes).

    Older snapshots need no data file added later that `target` does not read, too. Where it is not known what
    they need, nothing is deleted.
    """
    gone, damaged = Files(), list(late.damaged)
    there = {s.id for s in late.snapshots}
    added = [([s], False) for s in (*late.snapshots, *late.changelogs)]
    for some, states in [*added, *(([s], True) for s in late.tagged if s.id not in there)]:
        try:
            gone.add(reachable.candidates(store, some, states=states))
        except Corrupt as e:
            damaged.append(e.path)
    try:
        besides = reachable.looked_at(store, lambda: _needed_besides(store, target, gone))
        gone = gone.without(needed).without(besides).with_checksums(store)
    except Corrupt as e:
        text = f"{e.path} is damaged, so it is not known what else is needed and no file was deleted"
        return Files(), (f"{text}: mend() the table, then remove_orphans()",)
    if not damaged:
        return gone, ()
    names = ", ".join(path.rpartition("/")[2] for path in dict.fromkeys(damaged))
    return gone, (f"files that only damaged ones named ({names}) are left to remove_orphans()",)


def _needed_besides(store: Store, target: Snapshot, gone: Files) -> Files:
    early_tags = [[t.snapshot] for t in refs.all_tags(store) if t.snapshot.id <= target.id]
    outlived = [c for c in changelogs.all_of(store) if c.id <= target.id]
    outlived += refs.changelogs_elsewhere(store)
    earlier = [s for s in store.snapshots.all() if s.id < target.id]
    histories = [earlier, *early_tags, *refs.histories_elsewhere(store)]
    return reachable.used(store, [h for h in histories if h], among=gone, changelogs=outlived)


def target_of(store: Store, *, snapshot: int | None = None, tag: str | None = None) -> Snapshot:
    """The snapshot to roll back to; one that has expired is looked for among the tags, as Paimon does."""
    if tag is not None:
        return refs.tagged(store, tag)
    assert snapshot is not None
    try:
        return store.snapshots.get(snapshot)
    except NotFound:
        for tagged in refs.tags(store).values():
            if tagged.id == snapshot:
                return tagged
        raise
