"""What snapshots of a lake table say of the cluster whose rows they have: properties that rounds of tiering
set.

`fluss-offsets` is what Fluss's own service writes: up to 0.8 a JSON list of offsets, one object a bucket,
from 0.9 on the path of a file in the cluster. Properties of ours are the list beside such a path, the id of
the table in the cluster and what the last batch of each bucket was, as `tiering/lake_offsets.py` says. Every
commit of this engine carries them forward; a reader walks back over snapshots of other engines.
"""

from __future__ import annotations

from tablestore.core.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.meta import positions
from tablestore.meta.snapshots import SnapshotStore

OFFSETS, TABLE_ID = "fluss-offsets", "tablestore.fluss-table-id"
OWN_OFFSETS, BATCHES = "tablestore.fluss-offsets", "tablestore.fluss-batches"


def newest(snapshots: SnapshotStore, latest: Snapshot | None) -> Snapshot | None:
    """The newest snapshot up to `latest` that has offsets; None for a table without tiering, or if it has
    expired."""
    at = latest
    while at is not None and OFFSETS not in (at.properties or {}):
        if positions.is_ours(at) or at.id <= 1:
            return None
        try:
            at = snapshots.get(at.id - 1)
        except NotFound:
            return None
    return at


def table_id(snapshots: SnapshotStore) -> int | None:
    """The id of the table in the cluster whose rows the newest snapshot has, None if nothing says so."""
    tiered = newest(snapshots, snapshots.latest())
    text = None if tiered is None else (tiered.properties or {}).get(TABLE_ID)
    return None if text is None else int(text)


def carried(snapshots: SnapshotStore, latest: Snapshot | None) -> dict[str, str]:
    """The properties that the snapshot after `latest` repeats."""
    tiered = newest(snapshots, latest)
    properties = {} if tiered is None else tiered.properties or {}
    return {key: properties[key] for key in (OFFSETS, OWN_OFFSETS, TABLE_ID, BATCHES) if key in properties}
