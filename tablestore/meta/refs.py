"""Tags and branches: other names under which snapshots of a table stay readable (FORMAT.md 20.1, 20.2).

A tag is a copy of a snapshot file under `tag/`, with its age limit if it has one. A branch has schemas,
snapshots, tags, changelogs and consumers of its own below `branch/branch-<name>`; it shares manifests and
data files with the table. A branch exists once its `schema-0` does: creation writes that last, removal
deletes it first. Names made by other engines are read as they are, even those that this one would refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tablestore.core.errors import Corrupt, InvalidOption, InvalidRequest, NotFound
from tablestore.format import checksums
from tablestore.format import snapshot as snapshot_format
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import TablePaths, checked_name, fits_a_file
from tablestore.meta import changelogs
from tablestore.meta.snapshots import SnapshotStore
from tablestore.meta.store import Store

MAIN = "main"
FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"
_TAG, _BRANCH = re.compile(r"tag-(.+)"), re.compile(r"branch-(.+)")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: the snapshot it keeps; when it was made (local wall clock) and its time limit, if it has one."""

    name: str
    snapshot: Snapshot
    created_ms: int | None = None
    retained_seconds: float | None = None

    def __repr__(self) -> str:
        limit = "" if self.retained_seconds is None else f", for {self.retained_seconds:g} s"
        return f"Tag({self.name!r} of snapshot {self.snapshot.id}{limit})"

    @property
    def ends_ms(self) -> int | None:
        """Local wall clock in ms at which it expires, None for a tag without limit."""
        if self.created_ms is None or self.retained_seconds is None:
            return None
        return self.created_ms + int(self.retained_seconds * 1000)


def tag_names(store: Store) -> list[str]:
    """Names of all tags, sorted."""
    listed = store.io.list(store.paths.tag_dir)
    return [m[1] for s in listed if not s.is_dir and (m := _TAG.fullmatch(s.name))]


def tag(store: Store, name: str) -> Tag:
    """One tag; raises NotFound naming the nearest ones, Corrupt for a damaged file."""
    path = store.paths.tag(existing_name(name, "tag"))
    decoded = tag_of(tag_file(store, name), path, name)
    snapshot_format.require_own(decoded.snapshot, store.uuid, path)
    return decoded


def tag_file(store: Store, name: str) -> bytes:
    """The bytes of a tag's file; raises NotFound naming the nearest tags."""
    try:
        return store.io.read(store.paths.tag(existing_name(name, "tag")))
    except FileNotFoundError:
        raise NotFound.among("tag", name, tag_names(store)) from None


def tagged(store: Store, name: str) -> Snapshot:
    """The snapshot of a tag; without the tag it may have expired."""
    return tag(store, name).snapshot


def all_tags(store: Store) -> list[Tag]:
    """Every tag, by name; one that is deleted meanwhile is left out, one that is renamed meanwhile is not."""
    live_tags: dict[str, Tag] = {}
    names = tag_names(store)
    while names:
        for name in names:
            with suppress(NotFound):
                live_tags[name] = tag(store, name)
        vanished = not live_tags.keys() >= set(names)
        names = [name for name in tag_names(store) if name not in live_tags] if vanished else []
    return [live_tags[name] for name in sorted(live_tags)]


def tags(store: Store) -> dict[str, Snapshot]:
    """Every tag with the snapshot it keeps, by name."""
    return {t.name: t.snapshot for t in all_tags(store)}


def tag_bytes(snapshot: bytes, *, created_ms: int | None, retained_ms: int | None) -> bytes:
    """The bytes of a tag's file: those of the snapshot, with the two times if the tag has a limit."""
    if retained_ms is None or created_ms is None:
        return snapshot
    body = json.loads(checksums.unsealed(snapshot))
    created = _EPOCH + timedelta(milliseconds=created_ms)
    body["tagCreateTime"] = [*created.timetuple()[:6], created.microsecond * 1000]
    text = json.dumps(body, indent=2, ensure_ascii=False).removesuffix("\n}")
    text += f',\n  "tagTimeRetained": {retained_ms // 1000}.{retained_ms % 1000:03d}000000\n}}'
    return checksums.sealed(text.encode())


def tag_of(data: bytes, path: str, name: str) -> Tag:
    """The tag that a file at `path` holds; raises Corrupt for a damaged one."""
    snapshot = snapshot_format.from_json(data, path)
    body: dict[str, Any] = json.loads(data)
    kept = body.get("tagTimeRetained")
    if kept is not None and (isinstance(kept, bool) or not isinstance(kept, int | float)):
        raise Corrupt(path, f"tagTimeRetained is {kept!r}")
    return Tag(name, snapshot, _java_time(body.get("tagCreateTime"), path), kept)


def _java_time(parts: Any, path: str) -> int | None:
    """Milliseconds of [year, month, day, hour, minute, second, nano], trailing zeros left out."""
    if parts is None:
        return None
    try:
        padded: list[Any] = [*parts, *[0] * (7 - len(parts))]
        year, month, day, hour, minute, second, nanos = padded
        since = datetime(year, month, day, hour, minute, second) - _EPOCH
    except (TypeError, ValueError) as e:
        raise Corrupt(path, f"tagCreateTime is {parts!r}: {e}") from e
    return (since.days * 86_400 + since.seconds) * 1000 + int(nanos) // 1_000_000


def existing_name(name: str, what: str) -> str:
    """The name of an existing tag or branch; raises InvalidRequest only where it would leave its
    directory."""
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or not fits_a_file(name):
        raise InvalidRequest(f"{what} name {name!r} cannot be the name of a file")
    return name


def new_branch_name(name: str) -> str:
    """The checked name of a new branch: as in Paimon not `main`, and not digits only."""
    checked_name(name, "branch")
    if name == MAIN or name.isdigit():
        raise InvalidRequest(f"branch name {name!r} cannot be used: not 'main', and not digits only")
    return name


def branches(store: Store) -> dict[str, int]:
    """Names of all branches with the time their directory last changed, in epoch milliseconds."""
    there = branch_directories(store)
    return {n: at for n, at in there.items() if store.io.exists(branch_paths(store, n).schema(0))}


def branch_directories(store: Store) -> dict[str, int]:
    """Every directory of a branch, also of one whose creation or removal was interrupted."""
    listed = store.io.list(store.paths.branch_dir)
    return {m[1]: s.modified_ms for s in listed if s.is_dir and (m := _BRANCH.fullmatch(s.name))}


def branch_paths(store: Store, name: str) -> TablePaths:
    """Locations of a branch of this table."""
    return replace(store.paths, branch=existing_name(name, "branch"))


def on_branch(store: Store, name: str) -> Store:
    """The store of another branch: its snapshots and tags, under the schema of this one."""
    paths = branch_paths(store, name)
    return replace(store, paths=paths, snapshots=SnapshotStore(store.io, paths, store.uuid))


def other_branches(store: Store) -> list[Store]:
    """Every other branch, `main` included, complete or not."""
    names = {MAIN, *branch_directories(store)} - {store.paths.branch}
    return [on_branch(store, name) for name in sorted(names)]


def pinned(store: Store, chosen: Callable[[int], bool] | None = None) -> list[list[Snapshot]]:
    """Snapshots that must stay readable besides this branch's own: its tags, and all of other branches;
    with `chosen` those of these ids."""
    own = [[t] for t in tags(store).values() if chosen is None or chosen(t.id)]
    return own + histories_elsewhere(store, chosen)


def is_kept(store: Store, snapshot_id: int, *, without_tag: str) -> bool:
    """Whether a snapshot is there, or another tag of it than one: its files stay."""
    if store.snapshots.exists(snapshot_id):
        return True
    return any(t.snapshot.id == snapshot_id for t in all_tags(store) if t.name != without_tag)


def histories_elsewhere(store: Store, chosen: Callable[[int], bool] | None = None) -> list[list[Snapshot]]:
    """Snapshots and tags of the other branches, `main` included; with `chosen` those of these ids.

    Each is a history: snapshots of one branch in order, each made on top of the one before.
    """
    while True:
        others, histories = other_branches(store), list[list[Snapshot]]()
        for other in others:
            histories.append(other.snapshots.all() if chosen is None else _chosen(other, chosen))
            histories += [[t] for t in tags(other).values() if chosen is None or chosen(t.id)]
        if not others or _names(others) == _names(other_branches(store)):  # none was renamed meanwhile
            return [history for history in histories if history]


def _chosen(store: Store, chosen: Callable[[int], bool]) -> list[Snapshot]:
    snapshots = (store.snapshots.find(i) for i in store.snapshots.ids() if chosen(i))
    return [snapshot for snapshot in snapshots if snapshot is not None]


def _names(branches: list[Store]) -> list[str]:
    return [branch.paths.branch for branch in branches]


def changelogs_elsewhere(store: Store) -> list[Snapshot]:
    """Long-lived changelogs of other branches, `main` included."""
    return [c for other in other_branches(store) for c in changelogs.all_of(other)]


def branch_beside(store: Store) -> tuple[str, bool] | None:
    """The branch that scans read beside the current one, and whether its partitions win; None if the options
    name none. Raises InvalidOption for both kinds at once."""
    fallback, primary = store.options.scan_fallback_branch, store.options.scan_primary_branch
    if fallback and primary:
        raise InvalidOption(f"options {FALLBACK!r} and {PRIMARY!r} exclude each other; leave one of them out")
    name = fallback or primary
    return (name, name == primary) if name and name != store.paths.branch else None


def require_branch_beside(store: Store) -> None:
    """Raise InvalidOption if the branch that scans are to read does not exist."""
    beside = branch_beside(store)
    if beside is not None and beside[0] != MAIN and beside[0] not in branches(store):
        there = ", ".join(sorted(branches(store))) or "none"
        key = PRIMARY if beside[1] else FALLBACK
        raise InvalidOption(
            f"option {key!r} names branch {beside[0]!r}, which does not exist; branches: {there}"
        )
