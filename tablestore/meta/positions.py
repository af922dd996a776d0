"""What each commit repeats in the properties of its snapshot: stream positions, by which a replayed commit
identifier is recognised (I11, FORMAT.md 25.5), and the cluster whose rows a tiered table has.

Positions are properties `tablestore.position.<commit user>` = {"identifier": n, "position": any text or
null}. Every commit of this engine carries all of them forward, so its newest snapshot has those of every
stream; a reader walks back over snapshots of other engines. These may expire the snapshot that it looks for,
so after publication the positions are also written to `tablestore/positions/positions-<snapshot id>`, with
the snapshot's uuid. That file is read only where the snapshot is gone; where the id belongs to another
snapshot, the table was rolled back and the file is ignored.

`fluss-offsets` is what Fluss's own service writes: up to 0.8 a JSON list of offsets, one object a bucket,
from 0.9 on the path of a file in the cluster. Properties of ours are the list beside such a path, the id of
the table in the cluster and what the last batch of each bucket was, as `tiering/lake_offsets.py` says.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping

from tablestore.core.errors import Corrupt, NotFound, TablestoreError, brief
from tablestore.format import checksums
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.io.paths import join
from tablestore.meta.snapshots import SnapshotStore
from tablestore.meta.store import Store

OFFSETS, TABLE_ID = "fluss-offsets", "tablestore.fluss-table-id"
OWN_OFFSETS, BATCHES = "tablestore.fluss-offsets", "tablestore.fluss-batches"
log = logging.getLogger(__name__)
PREFIX = "tablestore.position."
WRITER = "tablestore-1"
_FILE = re.compile(r"positions-(\d+)")

Position = tuple[int, str | None]


def of(snapshot: Snapshot) -> dict[str, Position]:
    """The positions in a snapshot of this engine, by commit user."""
    positions: dict[str, Position] = {}
    for key, text in (snapshot.properties or {}).items():
        if key.startswith(PREFIX):
            value = json.loads(text)
            positions[key.removeprefix(PREFIX)] = (int(value["identifier"]), value.get("position"))
    return positions


def as_properties(positions: Mapping[str, Position]) -> dict[str, str]:
    """Positions as snapshot properties."""
    return {PREFIX + u: json.dumps({"identifier": i, "position": p}) for u, (i, p) in positions.items()}


def is_ours(snapshot: Snapshot) -> bool:
    """Whether this engine wrote the snapshot."""
    return (snapshot.writer_version or "").startswith("tablestore")


def known(store: Store, latest: Snapshot | None) -> dict[str, Position]:
    """Positions of all streams at `latest`: those of this engine's newest snapshot, even if it has expired,
    and the identifiers of other engines' commits after it."""
    positions: dict[str, Position] = {}
    at = latest
    while at is not None and not is_ours(at):
        if at.commit_identifier != BATCH_IDENTIFIER:
            positions.setdefault(at.commit_user, (at.commit_identifier, None))
        before = store.snapshots.find(at.id - 1)
        if before is None:
            return _kept(store, at.id - 1) | positions
        at = before
    return (of(at) if at is not None else {}) | positions


def keep(store: Store, snapshot: Snapshot) -> None:
    """Write the positions of a snapshot that was just published to a file that outlives it. Errors are
    logged: the next commit writes them again."""
    recorded = of(snapshot)
    if not recorded:
        return
    values = {u: {"identifier": i, "position": p} for u, (i, p) in recorded.items()}
    text = json.dumps({"snapshot": snapshot.id, "uuid": snapshot.uuid, "positions": values})
    try:
        store.io.replace(_path(store, snapshot.id), checksums.sealed(text.encode()))
        for other in _ids(store):
            if other < snapshot.id or (other > snapshot.id and not _live(store, other)):
                store.io.delete(_path(store, other))
    except (TablestoreError, OSError) as e:
        log.warning("%s: stream positions are in snapshot %d only: %s", store.paths.root, snapshot.id, e)


def keep_again(store: Store, latest: Snapshot | None) -> None:
    """`keep` for this engine's newest snapshot, unless its file exists."""
    try:
        at = _newest_of_ours(store.snapshots, latest)
        if at is not None and of(at) and not _live(store, at.id):  # absent, or emptied by a loss of power
            keep(store, at)
    except (TablestoreError, OSError) as e:
        log.warning("%s: stream positions were not written again: %s", store.paths.root, e)


def forget_after(store: Store, snapshot_id: int) -> None:
    """Remove the positions files of later snapshots, which a rollback is about to remove."""
    for path in paths_after(store, snapshot_id):
        store.io.delete(path)


def paths_after(store: Store, snapshot_id: int) -> list[str]:
    """Paths of the positions files of later snapshots."""
    return [_path(store, later) for later in _ids(store) if later > snapshot_id]


def _kept(store: Store, newest: int) -> dict[str, Position]:
    """Positions from the newest file up to that id whose snapshot is gone; empty without such a file."""
    for snapshot_id in sorted((i for i in _ids(store) if i <= newest), reverse=True):
        path = _path(store, snapshot_id)
        try:
            read = json.loads(checksums.require_intact(store.io.read(path), path))
            recorded = {u: (int(p["identifier"]), p["position"]) for u, p in read["positions"].items()}
            same = _uuid(store, snapshot_id) in (None, read["uuid"])
        except FileNotFoundError:  # another commit has written a newer file
            continue
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise Corrupt(path, f"no stream positions: {brief(e)}; delete it if no stream writes here") from e
        if same:
            return recorded
    return {}


def _live(store: Store, snapshot_id: int) -> bool:
    """Whether the snapshot exists with the uuid that the file has."""
    try:
        read = json.loads(store.io.read(_path(store, snapshot_id)))
        return isinstance(read, dict) and read.get("uuid") == _uuid(store, snapshot_id) is not None
    except (FileNotFoundError, ValueError, RecursionError):
        return False


def _uuid(store: Store, snapshot_id: int) -> str | None:
    """The uuid of a snapshot ("" where another engine gave none), None if it is gone."""
    snapshot = store.snapshots.find(snapshot_id)
    return None if snapshot is None else snapshot.uuid or ""


def _ids(store: Store) -> list[int]:
    names = (_FILE.fullmatch(s.name) for s in store.io.list(store.paths.positions_dir))
    return [int(m[1]) for m in names if m]


def _path(store: Store, snapshot_id: int) -> str:
    return join(store.paths.positions_dir, f"positions-{snapshot_id}")


def holder(snapshots: SnapshotStore, latest: Snapshot | None) -> int | None:
    """Id of the newest snapshot that holds a position: expiry keeps it."""
    at = _newest_of_ours(snapshots, latest)
    return None if at is None or not of(at) else at.id


def _newest_of_ours(snapshots: SnapshotStore, latest: Snapshot | None) -> Snapshot | None:
    at = latest
    while at is not None and not is_ours(at):
        at = snapshots.find(at.id - 1)
    return at


def newest_tiered(snapshots: SnapshotStore, latest: Snapshot | None) -> Snapshot | None:
    """The newest snapshot up to `latest` that has offsets; None for a table without tiering, or if it has
    expired."""
    at = latest
    while at is not None and OFFSETS not in (at.properties or {}):
        if is_ours(at) or at.id <= 1:
            return None
        try:
            at = snapshots.get(at.id - 1)
        except NotFound:
            return None
    return at


def table_id(snapshots: SnapshotStore) -> int | None:
    """The id of the table in the cluster whose rows the newest snapshot has, None if nothing says so."""
    tiered = newest_tiered(snapshots, snapshots.latest())
    text = None if tiered is None else (tiered.properties or {}).get(TABLE_ID)
    return None if text is None else int(text)


def carried_offsets(snapshots: SnapshotStore, latest: Snapshot | None) -> dict[str, str]:
    """The properties that the snapshot after `latest` repeats."""
    tiered = newest_tiered(snapshots, latest)
    properties = {} if tiered is None else tiered.properties or {}
    return {key: properties[key] for key in (OFFSETS, OWN_OFFSETS, TABLE_ID, BATCHES) if key in properties}
