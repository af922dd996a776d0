"""When a write compacts fully."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.meta.expired import SnapshotExpired
from tablestore.meta.manifests import ManifestStore


def test_a_snapshot_that_expires_while_commits_are_counted_is_one_that_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process expires the compaction whose files are looked for: the bucket is due."""
    options = {"bucket": 1, "changelog-producer": "full-compaction", "full-compaction.delta-commits": 4}
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options)
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())})
    table.write(rows)
    table.compact(full=True)
    table.write(rows)
    read, named = ManifestStore.delta_entries, []

    def expiring(self: ManifestStore, snapshot: Snapshot) -> list[ManifestEntry]:
        if snapshot.commit_kind == COMPACT and not named:
            named.append(snapshot.id)
            raise SnapshotExpired(f"snapshot {snapshot.id} expired while it was read; read again")
        return read(self, snapshot)

    monkeypatch.setattr(ManifestStore, "delta_entries", expiring)
    done = table.write(rows)
    monkeypatch.undo()
    assert named == [2]
    assert [table.store.snapshots.get(each).commit_kind for each in done.snapshots] == ["APPEND", COMPACT]
    assert table.scan().to_arrow().num_rows == 1
    assert table.check() == []
