"""CommitConflict, not Corrupt, where the snapshot that a commit is made from expires meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from tablestore.core.errors import CommitConflict, Corrupt, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.meta.snapshots import is_missing
from tablestore.meta.store import Store


@contextmanager
def conflict_if_expired(store: Store, snapshot_id: int | None) -> Iterator[None]:
    """A context that raises CommitConflict where a file is missing because `snapshot_id`, which it is read
    from, expired.

    A damaged file is still Corrupt, a table that is gone still NotFound.
    """
    try:
        yield
    except (Corrupt, NotFound) as e:
        if isinstance(e, Corrupt) and not is_missing(store.io, e.path):
            raise
        if snapshot_id is None or not has_expired(store, snapshot_id):
            raise
        text = f"snapshot {snapshot_id}, which this commit was made from, expired meanwhile; do it again"
        raise CommitConflict(text, snapshot=snapshot_id) from e


def read_for_commit(
    store: Store, batches: Iterable[pa.RecordBatch], snapshot: Snapshot | None
) -> Iterator[pa.RecordBatch]:
    """The batches; CommitConflict where `snapshot`, which they are read from, expired meanwhile."""
    with conflict_if_expired(store, None if snapshot is None else snapshot.id):
        yield from batches


def has_expired(store: Store, snapshot_id: int) -> bool:
    """Whether a snapshot is gone while newer ones are there."""
    latest = store.snapshots.latest_id()
    return latest is not None and latest > snapshot_id and not store.snapshots.exists(snapshot_id)
