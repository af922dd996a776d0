"""Orphan files: found by who names what, guarded by age, never a file that anything needs."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.meta import manifest_cache
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tables import KEEP_ALL, TableSpec

OLD = time.time() - 7200


TABLE = TableSpec(
    {"k": ts.BIGINT, "p": ts.INT, "v": ts.STRING},
    primary_key=("k", "p"),
    partition_by=("p",),
    options=KEEP_ALL,
)


def rows(k: int) -> pa.Table:
    return pa.table({"k": [k, k], "p": pa.array([0, 1], pa.int32()), "v": ["x", "y"]})


def lay(t: ts.Table, name: str, *, old: bool = True) -> str:
    path = Path(t.location, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    if old:
        os.utime(path, (OLD, OLD))
    return str(path)


def age_all(t: ts.Table) -> None:
    for folder, _, names in os.walk(t.location):
        for name in names:
            os.utime(os.path.join(folder, name), (OLD, OLD))


def rich(path: Path) -> ts.Table:
    """A table with compactions, changelogs, tags of expired snapshots, branches and statistics."""
    t = TABLE.create(path, {"changelog-producer": "input", "num-sorted-run.compaction-trigger": 2})
    for k in range(4):
        t.write(rows(k))
    t.tags.create("kept", 2)
    t.branches.create("b", "kept")
    t.branch("b").write(rows(9))
    t.analyze()
    t.expire_snapshots(keep=2)
    age_all(t)
    return t


PLACES = [
    "p=0/bucket-0/data-none.parquet",
    "p=7/bucket-3/changelog-none.parquet",
    "bucket-0/.not-here",
    "manifest/manifest-none-0",
    "manifest/.manifest-x.1.tmp",
    "index/index-none-0",
    "statistics/stat-none-0",
    "snapshot/.snapshot-3.u.tmp",
    "branch/branch-b/snapshot/.snapshot-9.u.tmp",
    "tag/.tag-a.u.tmp",
]


def test_what_nothing_names_is_found_and_removed(tmp_path: Path) -> None:
    t = rich(tmp_path)
    assert t.remove_orphans("1 h").files == ()
    laid = sorted(lay(t, name) for name in PLACES if not name.startswith("bucket-0"))
    removed = t.remove_orphans("1 h")
    assert [p for p, _ in removed.files] == laid
    assert (removed.bytes, removed.removed) == (5 * len(laid), False)
    assert "would be removed: call again with dry_run=False" in repr(removed)
    assert all(os.path.exists(p) for p in laid)
    assert t.remove_orphans("1 h", dry_run=False).removed
    assert not any(os.path.exists(p) for p in laid)
    assert t.check() == []
    assert t.branch("b").check() == []
    assert t.branch("b").scan().count() == 6
    assert t.at(tag="kept").scan().count() == 4


def test_young_files_are_left_alone(tmp_path: Path) -> None:
    t = rich(tmp_path)
    young = lay(t, "p=0/bucket-0/data-young.parquet", old=False)
    assert t.remove_orphans("1 h", dry_run=False).files == ()
    assert os.path.exists(young)
    with pytest.raises(InvalidRequest, match="at least '1 min', or force=True"):
        t.remove_orphans("10 s")
    assert t.remove_orphans("0 ms", force=True, dry_run=False).files == () or not os.path.exists(young)


def test_files_of_a_writer_that_has_not_committed_are_left_alone(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    with t.writer() as w:
        w.write(rows(1))
        t.remove_orphans("1 min", dry_run=False)
    assert t.scan().count() == 2
    assert t.check() == []


def test_half_the_knowledge_removes_nothing(tmp_path: Path) -> None:
    t = rich(tmp_path)
    laid = lay(t, PLACES[0])
    lists = sorted(Path(t.location, "manifest").glob("manifest-list-*"))
    newest = t.store.snapshots.latest()
    assert newest is not None
    damaged = next(p for p in lists if p.name == newest.delta_manifest_list)
    damaged.write_bytes(b"Obj\x01 damaged")
    manifest_cache.LOCAL.clear()
    with pytest.raises(Corrupt, match=damaged.name):
        ts.open(t.location).remove_orphans("1 h", dry_run=False)
    assert os.path.exists(laid)


def test_removal_survives_any_failure(tmp_path: Path) -> None:
    t = rich(tmp_path)
    laid = [lay(t, name) for name in PLACES]
    counting = FaultyIO()
    ts.open(t.location, io=counting).remove_orphans("1 h")
    deletions = len(ts.open(t.location).remove_orphans("1 h").files)
    for n in range(deletions):
        io = FaultyIO(counting.count + n, "kill before")
        with pytest.raises(Killed):
            ts.open(t.location, io=io).remove_orphans("1 h", dry_run=False)
        assert ts.open(t.location).check() == []
        for path in laid:
            lay(t, os.path.relpath(path, t.location))
    ts.open(t.location).remove_orphans("1 h", dry_run=False)
    assert ts.open(t.location).branch("b").scan().count() == 6


@pytest.mark.large
def test_random_tables_lose_nothing(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        t = TABLE.create(tmp_path / str(seed), {"num-sorted-run.compaction-trigger": 3})
        for i in range(12):
            act = rng.choice(["write", "write", "write", "compact", "expire", "tag", "branch", "rollback"])
            if act == "write" or i < 2:
                t.write(rows(rng.randrange(6)))
            elif act == "compact":
                t.compact(full=True)
            elif act == "expire":
                t.expire_snapshots(keep=rng.randrange(1, 4))
            elif act == "tag":
                t.tags.create(f"t{i}", rng.choice(t.store.snapshots.ids()))
            elif act == "branch" and t.tags.names():
                t.branches.create(f"b{i}", rng.choice(t.tags.names()))
                t.branch(f"b{i}").write(rows(20 + i))
            elif act == "rollback":
                t.rollback(snapshot=rng.choice(t.store.snapshots.ids()))
            removed = t.remove_orphans("0 ms", force=True, dry_run=False)
            assert removed.files == (), f"seed {seed} step {i} {act}: it left files behind"
            assert t.check() == [], f"seed {seed} step {i} {act}"
            for name in t.branches.names():
                assert t.branch(name).check() == [], f"seed {seed} step {i} branch {name}"
            for name in t.tags.names():
                t.at(tag=name).scan().to_arrow()


def test_a_commit_whose_files_were_taken_as_orphans_is_refused(tmp_path: Path) -> None:
    env = SimEnv(now_ms=time.time_ns() // 1_000_000)
    lake = ts.connect(str(tmp_path), env=env)
    t = lake.create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1})
    t.write([{"k": 1}])
    writer = t.open_writer()
    writer.write(pa.table({"k": [2]}))
    messages = writer.prepare()
    env.move(2 * 86_400_000)
    assert len(lake.table("d.t").remove_orphans(dry_run=False).files) == 1
    with pytest.raises(ts.CommitConflict, match="write the rows again"):
        t.commit(messages, user="job", identifier=1)
    assert lake.table("d.t").scan().count() == 1
    assert lake.table("d.t").check() == []
    writer.write(pa.table({"k": [2]}))
    t.commit(writer.prepare(), user="job", identifier=1)
    assert lake.table("d.t").scan().count() == 2
    assert lake.table("d.t").check() == []
