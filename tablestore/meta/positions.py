"""Stream positions in snapshots: how a commit identifier is recognised as a replay (I11).

Snapshot properties `tablestore.position.<commit user>` = {"identifier": n, "position": any text or null}.
Every commit of ours carries all of them forward, so the newest snapshot of ours knows every stream; a reader
walks back over snapshots of foreign writers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tablestore.errors import NotFound
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.meta.snapshots import SnapshotStore

PREFIX = "tablestore.position."
WRITER = "tablestore-1"

Position = tuple[int, str | None]


def of(snapshot: Snapshot) -> dict[str, Position]:
    """The positions a snapshot of ours holds, by commit user."""
    found: dict[str, Position] = {}
    for key, text in (snapshot.properties or {}).items():
        if key.startswith(PREFIX):
            value = json.loads(text)
            found[key.removeprefix(PREFIX)] = (int(value["identifier"]), value.get("position"))
    return found


def as_properties(positions: Mapping[str, Position]) -> dict[str, str]:
    """The property form of positions."""
    return {PREFIX + u: json.dumps({"identifier": i, "position": p}) for u, (i, p) in positions.items()}


def is_ours(snapshot: Snapshot) -> bool:
    """Whether this engine wrote the snapshot."""
    return (snapshot.writer_version or "").startswith("tablestore")


def known(snapshots: SnapshotStore, latest: Snapshot | None) -> dict[str, Position]:
    """Positions of all streams at `latest`: the newest snapshot of ours, and identifiers of foreign commits
    after it."""
    found: dict[str, Position] = {}
    at = latest
    while at is not None:
        if is_ours(at):
            for user, position in of(at).items():
                found.setdefault(user, position)
            return found
        if at.commit_identifier != BATCH_IDENTIFIER:
            found.setdefault(at.commit_user, (at.commit_identifier, None))
        at = _before(snapshots, at)
    return found


def _before(snapshots: SnapshotStore, snapshot: Snapshot) -> Snapshot | None:
    try:
        return snapshots.get(snapshot.id - 1) if snapshot.id > 1 else None
    except NotFound:
        return None


def holder(snapshots: SnapshotStore, latest: Snapshot | None) -> int | None:
    """Id of the newest snapshot that holds a position: expiry keeps it."""
    at = latest
    while at is not None:
        if is_ours(at):
            return at.id if of(at) else None
        at = _before(snapshots, at)
    return None
