"""Making, renaming, removing and expiring tags (FORMAT.md 20.1).

A tag is one file, written if absent. When a tag is removed whose snapshot has expired, the files that only it
kept are removed after the tag's file: a kill in between leaves orphans, never a tag with holes.
"""

from __future__ import annotations

import json
import logging
import zlib
from contextlib import suppress
from dataclasses import dataclass

from tablestore.core import quantities
from tablestore.core.errors import AlreadyExists, CommitUnknown, NotFound, TablestoreError
from tablestore.format.snapshot import Snapshot
from tablestore.io import outcomes
from tablestore.io.paths import checked_name
from tablestore.meta import changelogs, refs
from tablestore.meta.refs import Tag
from tablestore.meta.store import Store
from tablestore.write.commit import synced
from tablestore.write.retention import reachable
from tablestore.write.retention.expire import remove
from tablestore.write.retention.reachable import Files

log = logging.getLogger(__name__)
_REPLACING_MS = 3_600_000  # how long a tag that replaces another one may take


def create(
    store: Store,
    name: str,
    *,
    snapshot: int | None = None,
    retained_ms: int | None = None,
    replace: bool = False,
) -> Tag:
    """Tag a snapshot (None: the newest). Raises AlreadyExists, or NotFound for a snapshot that nothing keeps,
    also where it expires meanwhile; tags are then as before."""
    checked_name(name, "tag")
    asked = store, name, snapshot, retained_ms
    tag = _replace(*asked) if replace else _make(*asked)[0]
    _succeed(store, name)
    log.info("tagged %s snapshot %d as %s", store.paths.root, tag.snapshot.id, name)
    return tag


def _make(store: Store, name: str, snapshot: int | None, retained_ms: int | None) -> tuple[Tag, bytes]:
    """A new tag whose files stay, and the bytes of its snapshot."""
    while True:
        data = _snapshot_bytes(store, snapshot)
        tag, content = _content(store, name, data, retained_ms)
        if not outcomes.put_new(store.io, store.paths.tag(name), content, unique=False, after=store.after):
            raise AlreadyExists(f"tag {name!r} exists, of snapshot {refs.tagged(store, name).id}")
        if _stays(store, tag):
            return tag, data
        if snapshot is not None:
            raise store.snapshots.absent(snapshot)


def _replace(store: Store, name: str, snapshot: int | None, retained_ms: int | None) -> Tag:
    """Such a tag in the place of a tag that may be there. A tag beside it keeps the snapshot meanwhile; if a
    kill leaves that, it goes with the next call, or after an hour."""
    beside = f"replacing-{zlib.crc32(name.encode()):08x}"
    outcomes.remove(store.io, store.paths.tag(beside), after=store.after)
    _, data = _make(store, beside, snapshot, _REPLACING_MS)
    tag, content = _content(store, name, data, retained_ms)
    failure: Exception | None = None
    try:
        outcomes.put(store.io, store.paths.tag(name), content, after=store.after)
    except (TablestoreError, OSError) as e:
        failure = e
    try:
        outcomes.remove(store.io, store.paths.tag(beside), after=store.after)
    except (TablestoreError, OSError) as e:
        text = f"tag {name!r} may be replaced, and tag {beside!r} may be there: {failure or e}"
        raise CommitUnknown(f"{text}; the same call completes it") from e
    if failure is not None:
        raise failure
    return tag


def _content(store: Store, name: str, snapshot: bytes, retained_ms: int | None) -> tuple[Tag, bytes]:
    """A tag of a snapshot of these bytes, and the bytes of its file."""
    content = refs.tag_bytes(snapshot, created_ms=store.env.local_now_ms(), retained_ms=retained_ms)
    return refs.tag_of(content, store.paths.tag(name), name), content


def _stays(store: Store, tag: Tag) -> bool:
    """Whether the files of a new tag stay; one whose snapshot expired meanwhile is taken back. What removes
    snapshots looks for new tags after that, before it removes their files (`expire.remove`): a tag that is
    there before its snapshot goes is seen."""
    try:
        stays, failure = refs.is_kept(store, tag.snapshot.id, without_tag=tag.name), None
    except (TablestoreError, OSError) as e:
        stays, failure = False, e
    if not stays:
        try:
            outcomes.remove(store.io, store.paths.tag(tag.name), after=store.after)
        except (TablestoreError, OSError) as e:
            text = f"tag {tag.name!r} may be there, of a snapshot that may have expired meanwhile: {e}"
            raise CommitUnknown(f"{text}; delete it") from e
    if failure is not None:
        raise failure
    return stays


def _snapshot_bytes(store: Store, snapshot: int | None) -> bytes:
    """The bytes of a snapshot's file, or of a tag that keeps it."""
    wanted = store.snapshots.latest_id() if snapshot is None else snapshot
    if wanted is None:
        raise NotFound("the table has no snapshot to tag yet")
    try:
        store.snapshots.get(wanted)
        return store.io.read(store.paths.snapshot(wanted))
    except (NotFound, FileNotFoundError):
        for tag in refs.all_tags(store):
            if tag.snapshot.id == wanted and tag.retained_seconds is None:
                with suppress(NotFound):  # deleted meanwhile
                    return refs.tag_file(store, tag.name)
        if snapshot is None and store.snapshots.latest_id() not in (None, wanted):
            return _snapshot_bytes(store, None)  # the newest expired meanwhile
        raise store.snapshots.absent(wanted) from None


def rename(store: Store, name: str, target: str) -> Tag:
    """Give a tag another name; the new one exists before the old one is removed."""
    checked_name(target, "tag")
    refs.tag(store, name)
    data = refs.tag_file(store, name)
    if not outcomes.put_new(store.io, store.paths.tag(target), data, unique=False, after=store.after):
        raise AlreadyExists(f"tag {target!r} exists")
    tag = refs.tag_of(data, store.paths.tag(target), target)
    if not _stays(store, tag):
        raise NotFound.among("tag", name, refs.tag_names(store))
    _succeed(store, target)
    try:
        _remove_file(store, name)
    except CommitUnknown:
        raise
    except (TablestoreError, OSError) as e:
        _take_back(store, name, target, e)
        raise
    return tag


def _take_back(store: Store, name: str, target: str, why: Exception) -> None:
    """Remove the new name of a tag whose old one could not be removed; raises CommitUnknown if it stays."""
    try:
        _remove_file(store, target)
    except (TablestoreError, OSError) as e:
        text = f"the tag is there as {name!r} and, it may be, as {target!r}: {why}; delete one of them"
        raise CommitUnknown(text) from e


def _succeed(store: Store, name: str) -> None:
    """Write the success file of a new tag, if the table's options ask for one; its creation time stays."""
    if not store.options.tag_success_file:
        return
    path, now = store.paths.tag_success(name), store.env.now_ms()
    created = now
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        created = int(json.loads(store.io.read(path))["creationTime"])
    times = {"creationTime": created, "modificationTime": now}
    try:
        store.io.replace(path, json.dumps(times, indent=2).encode())
    except (OSError, TablestoreError) as e:  # the tag is there all the same
        log.warning("could not write %s: %s", path, e)


def _remove_file(store: Store, name: str) -> None:
    """Remove the success file of a tag, then its own."""
    if store.options.tag_success_file:
        store.io.delete(store.paths.tag_success(name))
    outcomes.remove(store.io, store.paths.tag(name), after=store.after)


@dataclass(frozen=True, slots=True)
class Removed:
    """The files that were removed with a tag or branch: those that nothing else needs."""

    name: str
    files: tuple[str, ...] = ()
    bytes: int = 0

    def __repr__(self) -> str:
        return (
            f"Removed({self.name}: {quantities.many(len(self.files), 'file')}, {quantities.size(self.bytes)})"
        )


def delete(store: Store, name: str) -> Removed:
    """Remove a tag, and the files that only it kept."""
    tag = refs.tag(store, name)
    gone = Files()
    if not store.snapshots.exists(tag.snapshot.id):
        gone = reachable.looked_at(store, lambda: only_needed_by(store, [tag.snapshot], without_tag=name))
        synced.keep_one(store, 0)
    _remove_file(store, name)
    gone = remove(store, gone, lambda i: i == tag.snapshot.id)
    log.info("deleted tag %s of %s: %d files", name, store.paths.root, len(gone.paths))
    return Removed(name, gone.paths, gone.bytes)


def only_needed_by(store: Store, states: list[Snapshot], *, without_tag: str | None = None) -> Files:
    """The files of these states that no snapshot, changelog, other tag or other branch needs."""
    gone = reachable.candidates(store, states, states=True)
    others = [[t.snapshot] for t in refs.all_tags(store) if t.name != without_tag]
    histories = [store.snapshots.all(), *others, *refs.histories_elsewhere(store)]
    outlived = [*changelogs.all_of(store), *refs.changelogs_elsewhere(store)]
    needed = reachable.used(store, [h for h in histories if h], among=gone, changelogs=outlived)
    return gone.without(needed).with_checksums(store)


def expire(store: Store) -> list[str]:
    """Remove the tags that are older than their time to live; their names."""
    now = store.env.local_now_ms()
    over = [t.name for t in refs.all_tags(store) if t.ends_ms is not None and t.ends_ms < now]
    if not over:
        return []
    with outcomes.unfinished("expiry of tags", lambda: refs.tag_names(store)):
        for name in over:
            delete(store, name)
    return over
