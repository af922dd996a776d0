"""Strict commits: `commit.strict-mode.last-safe-snapshot` is the last snapshot that a user has looked at
(FORMAT.md 17.3).

A commit is refused if others have changed its partitions since then: by a COMPACT or an OVERWRITE always, by
an APPEND if the commit overwrites. Reads manifests of later snapshots only, changes nothing. Called by
`commit`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tablestore.core.errors import CommitConflict, NotFound
from tablestore.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from tablestore.meta.store import Store

OPTION = "commit.strict-mode.last-safe-snapshot"


def require_no_other_user(
    store: Store, since: Iterable[int], user: str, partitions: frozenset[bytes], *, overwrites: bool
) -> None:
    """Raise CommitConflict if one of these snapshots, of another user, conflicts with a commit to these
    partitions. One that has expired does, since what it changed is unknown."""
    for snapshot_id in since:
        try:
            other = store.snapshots.get(snapshot_id)
            touched = _touched(store, other, overwrites) if other.commit_user != user else set()
        except NotFound as e:
            text = f"snapshot {snapshot_id}, which {OPTION!r} asks about, has expired; name a later one"
            raise CommitConflict(text, snapshot=snapshot_id) from e
        if not partitions.isdisjoint(touched):
            who = f"snapshot {other.id} ({other.commit_kind} by {other.commit_user})"
            text = f"{who} changed a partition of this commit, and {OPTION!r} is set; look at it first"
            raise CommitConflict(text, snapshot=other.id)


def _touched(store: Store, other: Snapshot, overwrites: bool) -> set[bytes]:
    """The partitions that nobody else may have written since."""
    if other.commit_kind not in ((APPEND, COMPACT, OVERWRITE) if overwrites else (COMPACT, OVERWRITE)):
        return set()
    appends = other.commit_kind == APPEND
    entries = store.manifests.delta_entries(other)
    partitions = {e.partition for e in entries if e.bucket >= 0 or not appends}
    if appends:
        return partitions
    return partitions | _indexed(store, other)


def _indexed(store: Store, other: Snapshot) -> set[bytes]:
    """The partitions whose index files, deletion vectors among them, a snapshot changed."""
    manifests, before = store.manifests, other.id - 1
    earlier = store.snapshots.find(before)
    if earlier is None:
        return {e.partition for e in manifests.index_entries(other)}
    if earlier.index_manifest == other.index_manifest:
        return set()
    old, new = ({(e.partition, e.file) for e in manifests.index_entries(s)} for s in (earlier, other))
    return {partition for partition, _ in old ^ new}
