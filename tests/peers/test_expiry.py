"""Expiry as we foretell it is the expiry that Java Paimon carries out on the same table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from tablestore.meta import refs
from tablestore.write.retention import reachable
from tests.peers.java_paimon import JavaPaimon
from tests.write.lives import lived, on_disk

OURS = ("snapshot/EARLIEST", "tablestore/")  # what each engine writes by itself


def test_java_removes_the_files_that_our_preview_names(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[:3]:
        life = lived(tmp_path / f"{seed}", seed, never=("branch",))  # Java's expiry knows no branches
        t = life.table
        if t.store.options.changelog_decoupled or t.store.snapshots.latest_id() is None:
            continue
        kept = life.rng.randrange(1, 4)
        t.alter(ts.set_options({"snapshot.expire.limit": 1000}))
        copy = tmp_path / f"{seed}-java"
        shutil.copytree(t.location, copy)
        asked = t.refresh().expire_snapshots(keep=kept, dry_run=True)
        before, tag_changes = on_disk(t), changes_of_tags(t)
        java.expire(str(copy), max=kept, min=kept)
        left = on_disk(ts.open(str(copy)))
        gone = {p: n for p, n in before.items() if p not in left and not p.startswith(OURS)}
        local = {p.removeprefix(f"{t.location}/") for p in asked.files}
        assert local <= set(gone), seed
        assert set(gone) - local <= tag_changes, seed
        assert sum(n for p, n in gone.items() if p not in tag_changes) == asked.bytes, seed


def changes_of_tags(t: ts.Table) -> set[str]:
    """Changelog files of tagged snapshots, with manifests: tags of ours keep them, those of Java do not."""
    collected: set[str] = set()
    for snapshot in refs.tags(t.store).values():
        files = reachable.changelog_files(t.store, snapshot)
        collected |= {p.removeprefix(f"{t.location}/") for p in files.paths}
    return collected


def test_a_position_of_ours_outlives_its_snapshot_that_java_expires(java: JavaPaimon, tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    t.write([{"k": 1, "v": 1}], user="stream", identifier=7, position="p7")
    for i in range(4):
        java.write(t.location, pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([i], pa.int32())}))
    java.expire(t.location, max=1, min=1)
    ours = [s for s in t.store.snapshots.all() if s.writer_version == "tablestore-1"]
    assert ours == []
    assert java.clean_orphans(t.location, older_than_ms=0, dry_run=False) == 0, "Java leaves our files alone"
    assert t.position("stream") == (7, "p7")
    assert t.write([{"k": 1, "v": 1}], user="stream", identifier=7).replayed
    assert t.scan().to_arrow().to_pylist() == [{"k": 1, "v": 3}], "newer rows are not overwritten"
    assert not t.write([{"k": 1, "v": 8}], user="stream", identifier=8).replayed
    assert t.check() == []


def test_expiry_goes_by_the_snapshots_where_java_leaves_earliest_too_high(
    java: JavaPaimon, tmp_path: Path
) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT}, primary_key=["k"])
    for k in range(3):
        t.write([{"k": k}])
    java.create_tag(t.location, "x", snapshot=3)
    java.create_branch(t.location, "b", tag="x")
    for k in range(3):
        t.branch("b").write([{"k": 10 + k}])
    java.fast_forward(t.location, "b")
    t = t.refresh()
    assert (Path(t.location) / "snapshot" / "EARLIEST").read_text() == "3"
    assert t.store.snapshots.ids()[0] == t.store.snapshots.earliest_id() == 1
    t.expire_snapshots(keep=2)
    assert len(t.store.snapshots.ids()) == 2
    assert t.check() == []
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 10, 11, 12]
