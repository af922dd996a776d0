"""When a write compacts fully."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound, SnapshotExpired
from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.meta.manifests import ManifestStore
from tablestore.write import full_compaction
from tests.lsm.trees import data_file

OLDEST = 5
"""The oldest level of a table with `num-levels` 6."""


def history(text: str) -> Any:
    """A store with these snapshots, from 1 on. `A`: an append; `+5`, `-5`: a compaction that adds or removes
    a file of bucket 0 at level 5; `+5@1`: one of bucket 1. `reads` has the ids that are asked for."""
    snapshots: dict[int, Snapshot] = {}
    entries: dict[int, list[ManifestEntry]] = {}
    for number, word in enumerate(text.split(), 1):
        if word == "expired":
            continue
        kind = "APPEND" if word == "A" else COMPACT
        snapshots[number] = Snapshot(number, 0, "", "", "user", number, kind, 0)
        if kind == COMPACT:
            level, _, bucket = word[1:].partition("@")
            file = data_file("f", 0, 9, level=int(level))
            change = ADD if word[0] == "+" else DELETE
            entries[number] = [ManifestEntry(change, b"", int(bucket or 0), 2, file)]
    reads: list[int] = []

    def get(number: int) -> Snapshot:
        reads.append(number)
        if number not in snapshots:
            raise NotFound(f"no snapshot {number}")
        return snapshots[number]

    return SimpleNamespace(
        options=TableOptions.parse({"num-levels": str(OLDEST + 1)}),
        snapshots=SimpleNamespace(get=get),
        manifests=SimpleNamespace(delta_entries=lambda snapshot: entries[snapshot.id]),
        latest=snapshots[max(snapshots)] if snapshots else None,
        reads=reads,
    )


@pytest.mark.parametrize(
    ("text", "every", "is_due", "reads"),
    [
        ("", 1, True, []),  # the first commit is the one to come
        ("", 2, False, []),
        ("A", 2, True, []),
        ("A A", 4, False, [1]),  # a table that has had fewer commits than that
        ("A A A", 4, True, [2, 1]),
        ("A A A A A", 3, True, [4, 3]),  # counted no further back than the option says
        ("A +5 A A", 4, False, [3, 2, 1]),
        ("A +5 A A A", 4, True, [4, 3, 2]),
        ("A +5 A +5 A", 3, False, [4, 3, 2]),  # the newest full compaction counts
        ("+5 A A", 3, True, [2, 1]),
        ("A A A +4", 4, True, [3, 2, 1]),  # a compaction to another level counts neither way
        ("A A A -5", 4, True, [3, 2, 1]),  # nor does a file that leaves the oldest one
        ("A A A +6", 4, False, [3, 2, 1]),  # a level from before `num-levels` was lowered
        ("A A A +5@1", 4, True, [3, 2, 1]),  # nor one of another bucket
        ("expired A A", 4, True, [2, 1]),  # unknown, so it is due
        ("expired A +5 A", 4, False, [3, 2, 1]),
    ],
)
def test_commits_since_a_bucket_was_brought_to_the_oldest_level(
    text: str, every: int, is_due: bool, reads: list[int]
) -> None:
    store = history(text)
    assert full_compaction.due(store, store.latest, every)((b"", 0)) is is_due
    assert store.reads == reads


@pytest.mark.parametrize(
    ("options", "every"),
    [
        ({}, None),
        ({"changelog-producer": "full-compaction"}, 1),
        ({"changelog-producer": "lookup"}, None),
        ({"full-compaction.delta-commits": "3"}, 3),
        ({"full-compaction.delta-commits": "3", "changelog-producer": "full-compaction"}, 3),
        ({"full-compaction.delta-commits": "0"}, 1),
    ],
)
def test_commits_between_full_compactions(options: dict[str, str], every: int | None) -> None:
    assert full_compaction.interval(TableOptions.parse(options)) == every


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
