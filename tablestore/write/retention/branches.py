"""Making, removing and fast-forwarding branches (FORMAT.md 20.2).

A branch starts empty or at a tag: it gets copies of the schemas, of the tag and of its snapshot, `schema-0`
last, so that it exists wholly or not at all. Fast-forward makes the branch's snapshots, schemas and tags
those of the table: the table is rolled back to where the branch begins and then gets its snapshots one by
one, so at every moment it is at a snapshot of its own or of the branch; after a kill the same call completes
it.
"""

from __future__ import annotations

import logging

from tablestore.core.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    NotFound,
    TablestoreError,
    Unavailable,
)
from tablestore.format.snapshot import Snapshot, to_json
from tablestore.io import outcomes
from tablestore.io.fileio import Sync
from tablestore.io.paths import TablePaths
from tablestore.meta import changelogs, compaction_history, positions, refs
from tablestore.meta.entries import concatenated
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.write.commit import synced
from tablestore.write.retention import reachable
from tablestore.write.retention.expire import remove
from tablestore.write.retention.reachable import Files
from tablestore.write.retention.rollback import remove_later
from tablestore.write.retention.tags import Removed

log = logging.getLogger(__name__)


def create(store: Store, name: str, *, tag: str | None = None) -> None:
    """Make a branch, at a tag or empty. Raises AlreadyExists, or NotFound for an unknown tag."""
    paths = refs.branch_paths(store, refs.new_branch_name(name))
    if name in refs.branches(store):
        raise AlreadyExists(f"branch {name!r} exists")
    kept = None if tag is None else refs.tagged(store, tag)
    last = store.schemas.ids()[-1] if kept is None else kept.schema_id
    after = Sync(
        store.paths.root
    )  # whatever the durability: a branch with an empty schema could not be opened
    if name in refs.branch_directories(store):  # left by a kill, and not a branch yet
        store.io.delete_tree(paths.refs_dir)
    if kept is not None and tag is not None:
        outcomes.put(store.io, paths.tag(tag), refs.tag_file(store, tag), after=after)
        data = _snapshot_file(store, kept.id) or to_json(kept)
        outcomes.put(store.io, paths.snapshot(kept.id), data, after=after)
        _require_kept(store, paths, kept, tag)
    for schema_id in reversed([i for i in store.schemas.ids() if i <= last]):
        data = store.io.read(store.paths.schema(schema_id))
        outcomes.put(store.io, paths.schema(schema_id), data, after=after)
    log.info("made branch %s of %s%s", name, store.paths.root, f" at tag {tag}" if tag else "")


def _require_kept(store: Store, paths: TablePaths, kept: Snapshot, tag: str) -> None:
    """Raise NotFound, and leave nothing of the branch, if the tag was deleted while its copy was made: what
    deletes it looks for new branches after that."""
    if not refs.is_kept(store, kept.id, without_tag=""):
        store.io.delete_tree(paths.refs_dir)
        raise NotFound(f"tag {tag!r} was deleted while the branch was made")


def _snapshot_file(store: Store, snapshot_id: int) -> bytes | None:
    try:
        return store.io.read(store.paths.snapshot(snapshot_id))
    except FileNotFoundError:
        return None


def delete(store: Store, name: str) -> Removed:
    """Remove a branch, and the files that only it needed; they stay for `remove_orphans` where damage hides
    which they are. Raises NotFound naming the nearest."""
    if name not in refs.branch_directories(store):
        raise NotFound.among("branch", name, refs.branches(store))
    _require_free(store, name)
    branch = refs.on_branch(store, name)
    ids = set[int]()
    try:
        gone = reachable.looked_at(store, lambda: _only_needed_by(store, branch))
        ids = {*branch.snapshots.ids(), *(t.id for t in refs.tags(branch).values())}
    except Corrupt as e:
        log.warning("files of branch %s stay for remove_orphans(), since not all is readable: %s", name, e)
        gone = Files()
    synced.keep_one(store, 0)
    outcomes.remove(store.io, branch.paths.schema(0), after=store.after)  # from here on it is no branch
    try:
        store.io.delete_tree(branch.paths.refs_dir)
    except Unavailable as e:
        log.warning("branch %s is deleted; its directory is not: %s", name, e)
    gone = remove(store, gone, ids.__contains__)
    log.info("deleted branch %s of %s: %d files", name, store.paths.root, len(gone.paths))
    return Removed(name, gone.paths, gone.bytes)


def rename(store: Store, name: str, to: str) -> None:
    """Give a branch another name. Raises NotFound naming the nearest, AlreadyExists, InvalidRequest for a
    branch that an option names."""
    if name not in refs.branches(store):
        raise NotFound.among("branch", name, refs.branches(store))
    target = refs.branch_paths(store, refs.new_branch_name(to))
    if to in refs.branch_directories(store):
        raise AlreadyExists(f"branch {to!r} exists")
    _require_free(store, name)
    outcomes.move(store.io, refs.branch_paths(store, name).refs_dir, target.refs_dir)
    log.info("renamed branch %s of %s to %s", name, store.paths.root, to)


def _require_free(store: Store, name: str) -> None:
    """Raise InvalidRequest for the branch that this is, and one that an option names."""
    if store.paths.branch == name:
        raise InvalidRequest(f"this is branch {name!r} itself; ask the table for it")
    for key in (refs.FALLBACK, refs.PRIMARY):
        if store.schema.options.get(key) == name:
            raise InvalidRequest(f"branch {name!r} is the table's {key}; reset that option first")


def _named_by(store: Store, branch: Store) -> Files:
    """The files that a branch's snapshots, tags and changelogs name. Raises Corrupt."""
    histories = [branch.snapshots.all(), *([t] for t in refs.tags(branch).values())]
    named = Files()
    for history in (h for h in histories if h):
        named.add(reachable.candidates(store, history[:1], states=True))
        named.add(reachable.candidates(store, history[1:]))
    named.add(reachable.candidates(store, changelogs.all_of(branch)))
    return named


def _only_needed_by(store: Store, branch: Store) -> Files:
    """The files that only that branch needs."""
    gone = _named_by(store, branch)
    return gone.without(_needed_without(store, branch.paths.branch, gone)).with_checksums(store)


def _needed_without(store: Store, name: str, among: Files) -> Files:
    """The files that all others but that branch need."""
    kept = [store, *(b for b in refs.other_branches(store) if b.paths.branch != name)]
    histories = [h for b in kept for h in (b.snapshots.all(), *([t] for t in refs.tags(b).values())) if h]
    outlived = [c for b in kept for c in changelogs.all_of(b)]
    return reachable.used(store, histories, among=among, changelogs=outlived)


def fast_forward(store: Store, name: str) -> Removed:
    """Make the branch's state and history those of the table; the branch stays. Only called on the main
    branch.

    Raises InvalidRequest for a branch without snapshots. Snapshots that the table made since the branch began
    are removed, with the files that only they needed; all of them where the branch's first snapshot was not
    made of the table's, since later ones of the branch have expired: each must follow from the one before.
    """
    if store.paths.branch != refs.MAIN:
        raise InvalidRequest("fast_forward is called on the table itself, not on a branch of it")
    if name not in refs.branches(store):
        raise NotFound.among("branch", name, refs.branches(store))
    branch = refs.on_branch(store, name)
    ids = branch.snapshots.ids()
    if not ids:
        raise InvalidRequest(f"branch {name!r} has no snapshot to go to: write to it first")
    follows = reachable.looked_at(store, lambda: _follows(store, branch.snapshots.get(ids[0])))
    start = ids[0] if follows else 0
    gone = reachable.looked_at(store, lambda: _replaced(store, ids[0], start))
    _put(store, store.paths.snapshot(ids[0]), branch.io.read(branch.paths.snapshot(ids[0])), keep=True)
    synced.put(store, store.snapshots.get(ids[0]))
    try:
        _replace(store, branch, ids, start)
    except (TablestoreError, OSError) as e:
        text = f"fast_forward({name!r}) failed after it had begun: {e}; the same call completes it"
        raise CommitUnknown(text) from e
    gone = remove(store, gone, lambda i: i >= start)
    log.info("fast-forwarded %s to branch %s, snapshot %d", store.paths.root, name, ids[-1])
    return Removed(name, gone.paths, gone.bytes)


def _follows(store: Store, first: Snapshot) -> bool:
    """Whether a branch's first snapshot follows from what the table has below it."""
    before = store.snapshots.find(first.id - 1)
    if before is None:  # below it are at most long-lived changelogs
        return _snapshot_of(store, first.id) == first
    both = [store.manifests.live_entries(before).table, store.manifests.delta_entries(first).table]
    expected = {e.identity for e in concatenated(both).live()}
    return expected == {e.identity for e in store.manifests.live_entries(first)}


def _snapshot_of(store: Store, snapshot_id: int) -> Snapshot | None:
    """The table's own snapshot of an id, as its changelog if that is there: a fast-forward that was killed
    has put the branch's beside it."""
    try:
        return changelogs.get(store, snapshot_id)
    except NotFound:
        return store.snapshots.find(snapshot_id)


def _replace(store: Store, branch: Store, ids: list[int], start: int) -> None:
    """Put the branch's snapshots `ids`, its schemas and tags in the place of the table's; of these the
    snapshots and changelogs from `start` on are removed."""
    remove_later(store, ids[0])
    for snapshot_id in (i for i in store.snapshots.ids() if start <= i < ids[0]):
        store.snapshots.delete(snapshot_id)
    _copy_schemas(store, branch.paths)
    for snapshot_id in ids:  # in order: each moment shows a snapshot of the branch
        _put(store, store.paths.snapshot(snapshot_id), branch.io.read(branch.paths.snapshot(snapshot_id)))
    compaction_history.adopt(store, branch)
    store.snapshots.hint_latest(ids[-1])
    store.snapshots.hint_earliest(store.snapshots.ids()[0])
    positions.keep_again(store, store.snapshots.latest())
    _copy_tags(store, branch, ids[0])
    _remove_changelogs(store, start)
    synced.put(store, store.snapshots.get(ids[-1]))
    store.sync(store.paths.snapshot_dir, store.paths.schema_dir, store.paths.tag_dir)


def _replaced(store: Store, first: int, start: int) -> Files:
    """The files that only the snapshots and changelogs from `start` on and the tags from `first` on need."""
    late = [s for s in store.snapshots.all() if s.id >= start]
    tags = [t.snapshot for t in refs.all_tags(store) if t.snapshot.id >= first]
    late_changelogs = [c for c in changelogs.all_of(store) if c.id >= start]
    gone = reachable.candidates(store, [*late, *late_changelogs])
    gone.add(reachable.candidates(store, [*tags, *(late[:1] if start < first else ())], states=True))
    early = [s for s in store.snapshots.all() if s.id < start]
    early_tags = [[t.snapshot] for t in refs.all_tags(store) if t.snapshot.id < first]
    histories = [early, *early_tags, *refs.histories_elsewhere(store)]
    outlived = [c for c in changelogs.all_of(store) if c.id < start] + refs.changelogs_elsewhere(store)
    needed = reachable.used(store, [h for h in histories if h], among=gone, changelogs=outlived)
    return gone.without(needed).with_checksums(store)


def _copy_schemas(store: Store, source: TablePaths) -> None:
    """Replace the table's schemas by the branch's; newer ones of the table are removed."""
    wanted = SchemaStore(store.io, source).ids()
    for schema_id in wanted:
        _put(store, store.paths.schema(schema_id), store.io.read(source.schema(schema_id)))
    for schema_id in reversed(store.schemas.ids()):
        if schema_id > wanted[-1]:
            store.io.delete(store.paths.schema(schema_id))


def _copy_tags(store: Store, branch: Store, start: int) -> None:
    kept = set(refs.tag_names(branch))
    for tag in refs.all_tags(store):
        if tag.snapshot.id >= start and tag.name not in kept:
            store.io.delete(store.paths.tag(tag.name))
    for name in sorted(kept):
        _put(store, store.paths.tag(name), store.io.read(branch.paths.tag(name)))


def _remove_changelogs(store: Store, start: int) -> None:
    for snapshot_id in changelogs.ids(store):
        if snapshot_id >= start:
            changelogs.delete(store, snapshot_id)
    ids = changelogs.ids(store)
    if ids:
        changelogs.hint(store, earliest=ids[0], latest=ids[-1])


def _put(store: Store, path: str, data: bytes, *, keep: bool = False) -> None:
    """Write `data` to the file; with `keep` a file that is there stays."""
    try:
        before = store.io.read(path)
    except FileNotFoundError:
        before = None
    if before is None or (before != data and not keep):
        outcomes.put(store.io, path, data, after=store.after)
