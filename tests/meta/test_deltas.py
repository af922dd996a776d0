"""What many snapshots changed, as one table: as each says alone; and expiry reads little of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.meta import compaction_history, manifest_cache
from tablestore.meta import deltas as many
from tablestore.meta.compaction_history import Counts, SnapshotRecord
from tablestore.meta.deltas import changelog_list, deltas
from tablestore.meta.store import Store
from tablestore.write.retention import expire, reachable
from tests.faults import FaultyIO, SimEnv


def lived(folder: Path, rng: Random, **options: str) -> ts.Table:
    """Writes, deletions, compactions and upgrades; nothing expires."""
    kept = {"bucket": "2", "snapshot.num-retained.min": "1000", "num-sorted-run.compaction-trigger": "3"}
    table = ts.connect(folder, env=SimEnv()).create_table(
        "d.t", schema={"k": ts.BIGINT, "v": ts.BIGINT}, primary_key=["k"], options=kept | options
    )
    for _ in range(rng.randrange(8, 14)):
        keys = rng.sample(range(20), rng.randrange(1, 5))
        table.write(pa.table({"k": keys, "v": [rng.randrange(9) for _ in keys]}))
    table.compact(full=True)
    return table


def alone(table: ts.Table, snapshot: Snapshot) -> Counts:
    """What a snapshot did, by its entries one after another."""
    read = table.store.manifests
    entries = read.delta_entries(snapshot)
    names = [{e.file.file_name for e in entries if (e.kind == ADD) == adds} for adds in (True, False)]
    moved = names[0] & names[1]
    numbers: list[int] = []
    for adds in (True, False):
        some = [e.file for e in entries if (e.kind == ADD) == adds and e.file.file_name not in moved]
        numbers += [len(some), sum(f.file_size for f in some), sum(f.row_count for f in some)]
    upgraded = [e.file for e in entries if e.kind == ADD and e.file.file_name in moved]
    changes = read.changelog_entries(snapshot)
    return Counts(
        *numbers,
        len(upgraded),
        sum(f.file_size for f in upgraded),
        sum(e.file.file_size for e in changes),
    )


def deleted_by(store: Store, snapshots: list[Snapshot]) -> list[ManifestEntry]:
    pairs = list(reachable.deleted_by(store, snapshots, deltas(store.manifests, snapshots)))
    ids = [snapshot.id for snapshot, _ in pairs]
    assert ids == sorted(ids)
    return [e for _, e in pairs]


def records(store: Store, snapshots: list[Snapshot]) -> list[SnapshotRecord]:
    read = many.read_both(store.manifests, snapshots)
    return list(compaction_history._records_of(store, snapshots, *read, compaction_history.as_recorded))


def test_sums_of_many_snapshots_are_those_of_each(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        rng = Random(seed)
        producer = rng.choice(["none", "input", "full-compaction"])
        table = lived(tmp_path / str(seed), rng, **{"changelog-producer": producer})
        store, snapshots = table.store, table.store.snapshots.all()
        read, logged = deltas(store.manifests, snapshots), deltas(store.manifests, snapshots, changelog_list)
        assert read is not None
        assert logged is not None
        counts = compaction_history._counts(read, logged)
        assert counts == [alone(table, s) for s in snapshots]
        assert sum(c.moved_files + c.deleted_files for c in counts) > 0
        entries = [store.manifests.delta_entries(s) for s in snapshots]
        assert [read.of(i) for i in range(len(snapshots))] == entries
        deleted = [e for s in snapshots for e in reachable.deleted_files(store, s)]
        assert deleted_by(store, snapshots) == deleted
        store.io.delete(store.paths.manifest(snapshots[2].delta_manifest_list))
        manifest_cache.LOCAL.clear()
        assert deltas(store.manifests, snapshots) is None
        others = [s for s in snapshots if s is not snapshots[2]]
        deleted = [e for s in others for e in reachable.deleted_files(store, s)]
        assert deleted_by(store, snapshots) == deleted


def test_snapshots_with_too_many_entries_are_looked_at_alone(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    table = lived(tmp_path, Random(seeds[0]))
    store, snapshots = table.store, table.store.snapshots.all()
    expected, deleted = records(store, snapshots), deleted_by(store, snapshots)
    monkeypatch.setattr(many, "_MOST_ENTRIES", 3)
    assert deltas(store.manifests, snapshots) is None
    assert deltas(store.manifests, snapshots[-1:]) is not None
    assert records(store, snapshots) == expected
    assert deleted_by(store, snapshots) == deleted


def test_expiry_reads_snapshots_and_lists_once(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        rng = Random(seed)
        table = lived(tmp_path / str(seed), rng, **{"changelog-producer": rng.choice(["none", "input"])})
        manifest_cache.LOCAL.clear()
        io = FaultyIO()
        store = Store.open(table.location, io=io, env=SimEnv())
        end = store.snapshots.latest_id()
        assert end is not None
        policy = expire.ExpirePolicy(keep_min=1, keep_max=1, age_ms=0, limit=1_000)
        done = expire.expire(store, policy)
        assert done.snapshots == tuple(range(1, end))
        reads = Counter(line.split()[-1].rpartition("/")[2] for line in io.log if line.split()[0] == "read")
        assert {reads[f"snapshot-{i}"] for i in range(1, end)} == {1}
        assert max(n for name, n in reads.items() if name.startswith("manifest-list-")) == 1
        assert max(n for name, n in reads.items() if name.startswith("manifest-")) <= 2  # the sync is apart
        assert table.refresh().check() == []
