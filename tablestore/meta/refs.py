"""Tags and branches: other names under which snapshots of a table stay readable (format facts section 20)."""

from __future__ import annotations

import re
from dataclasses import replace

from tablestore.errors import NotFound
from tablestore.format import snapshot as snapshot_format
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import checked_name, join
from tablestore.meta.snapshots import SnapshotStore
from tablestore.meta.store import Store

_TAG, _BRANCH = re.compile(r"tag-(.+)"), re.compile(r"branch-(.+)")


def tag_names(store: Store) -> list[str]:
    """Names of all tags, sorted."""
    listed = store.io.list(store.paths.tag_dir)
    return [m[1] for s in listed if not s.is_dir and (m := _TAG.fullmatch(s.name))]


def tagged(store: Store, name: str) -> Snapshot:
    """The snapshot a tag keeps; it may have expired otherwise. Raises NotFound naming the nearest tags."""
    path = join(store.paths.tag_dir, f"tag-{checked_name(name, 'tag')}")
    try:
        return snapshot_format.from_json(store.io.read(path), path)
    except FileNotFoundError:
        raise NotFound.among("tag", name, tag_names(store)) from None


def tags(store: Store) -> dict[str, Snapshot]:
    """Every tag with the snapshot it keeps, by name."""
    return {name: tagged(store, name) for name in tag_names(store)}


def branches(store: Store) -> dict[str, int]:
    """Names of all branches with the time their directory last changed, in epoch milliseconds."""
    listed = store.io.list(join(store.paths.root, "branch"))
    return {m[1]: s.modified_ms for s in listed if (m := _BRANCH.fullmatch(s.name))}


def pinned(store: Store) -> list[Snapshot]:
    """Snapshots that must stay readable besides this branch's own: its tags, and all of other branches."""
    found = list(tags(store).values())
    for name in {"main", *branches(store)} - {store.paths.branch}:
        paths = replace(store.paths, branch=name)
        snapshots = SnapshotStore(store.io, paths)
        found += snapshots.all()
        found += tags(replace(store, paths=paths, snapshots=snapshots)).values()
    return found
