"""Expiry: changelogs that outlive snapshots, consumers that hold those only, empty directories, kills."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound, TablestoreError
from tablestore.meta import changelogs
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tables import WRITE_ONLY, TableSpec
from tests.write.lives import on_disk

CHANGELOGS = TableSpec(
    {"k": ts.BIGINT, "p": ts.INT},
    primary_key=("k", "p"),
    partition_by=("p",),
    options=WRITE_ONLY
    | {
        "snapshot.num-retained.min": 1,
        "changelog.num-retained.min": 5,
        "changelog.num-retained.max": 5,
    },
    new_env=SimEnv,
)


def row(k: int, p: int = 0) -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64()), "p": pa.array([p], pa.int32())})


def changed_keys(t: ts.Table, since: int) -> list[int]:
    return ts.open(t.location).changes(since=since)["k"].to_pylist()


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_can_be_read_until_the_changelog_expires(tmp_path: Path, producer: str) -> None:
    t = CHANGELOGS.create(tmp_path, {"changelog-producer": producer})
    for k in range(4):
        t.write(row(k))
    t.compact(full=True)
    expired = t.expire_snapshots(keep=1)
    assert (expired.snapshots, expired.changelogs) == ((1, 2, 3, 4), ())
    assert changelogs.ids(t.store) == [1, 2, 3, 4]
    assert changed_keys(t, 0) == [0, 1, 2, 3]
    assert t.check() == []
    assert t.remove_orphans("0 ms", force=True).files == ()
    for k in range(4, 7):
        t.write(row(k))
    expired = t.expire_snapshots(keep=1)
    assert expired.changelogs == (1, 2, 3)
    assert "changelogs 1..3" in repr(expired)
    assert changed_keys(t, 3) == [3, 4, 5, 6]
    with pytest.raises(NotFound, match="the oldest is 4"):
        changed_keys(t, 1)
    assert [c.snapshot for c in t.stream(start="earliest", follow=False)] == [4, 6, 7, 8]
    assert t.remove_orphans("0 ms", force=True).files == ()
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == list(range(7))


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    t = CHANGELOGS.create(tmp_path)
    for k in range(8):
        t.write(row(k))
    expired = t.expire_snapshots(keep=1, dry_run=True)
    assert expired.snapshots == tuple(range(1, 8))
    assert t.store.snapshots.ids() == list(range(1, 9))
    assert changelogs.ids(t.store) == []


def test_a_consumer_may_hold_changelogs_only(tmp_path: Path) -> None:
    t = CHANGELOGS.create(tmp_path, {"consumer.changelog-only": True})
    for k in range(4):
        t.write(row(k))
    t.consumers.reset("slow", 2)
    assert t.expire_snapshots(keep=1).snapshots == (1, 2, 3)
    for k in range(9):
        t.write(row(10 + k))
    t.expire_snapshots(keep=1)
    assert changelogs.ids(t.store)[0] == 2
    assert [c.snapshot for c in t.stream(consumer="slow", follow=False, normalize=False)] == list(
        range(2, 14)
    )


def test_age_lets_changelogs_go_later_than_snapshots(tmp_path: Path) -> None:
    env = SimEnv()
    times = {"snapshot.time-retained": "1 h", "changelog.time-retained": "1 d"}
    counts = {"changelog.num-retained.min": 1, "changelog.num-retained.max": 100}
    t = CHANGELOGS.create(
        tmp_path, {"write-only": False, "num-sorted-run.compaction-trigger": 50} | times | counts, env=env
    )
    for k in range(3):
        t.write(row(k))
    env.sleep(4000)
    for k in range(3, 5):
        t.write(row(k))
        env.sleep(4000)
    assert t.store.snapshots.ids() == [4, 5]
    assert changed_keys(t, 0) == [0, 1, 2, 3, 4]
    env.sleep(86_400)
    t.write(row(9))
    assert t.store.snapshots.ids()[-1] == 6
    assert changed_keys(t, changelogs.earliest_id(t.store) - 1)[-1] == 9
    assert changelogs.ids(t.store) == [4]
    assert t.remove_orphans("0 ms", force=True).files == ()


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.sample(1)
def test_expiry_of_changelogs_survives_any_failure(tmp_path: Path, producer: str) -> None:
    t = CHANGELOGS.create(tmp_path / "lake", {"changelog-producer": producer})
    for k in range(4):
        t.write(row(k))
    t.expire_snapshots(keep=1)
    for k in range(4, 8):
        t.write(row(k))
    t.compact(full=True)
    counting = FaultyIO()
    shutil.copytree(tmp_path / "lake", tmp_path / "count")
    ts.connect(str(tmp_path / "count"), io=counting).table("d.t").expire_snapshots(keep=1)
    wanted = changelogs.ids(ts.connect(str(tmp_path / "count")).table("d.t").store)
    changing = ("put", "write", "replace", "delete", "rmdir")
    steps = [i for i, entry in enumerate(counting.log) if entry.startswith(changing)]
    assert len(steps) > 15
    for fail_at in steps:
        for mode in ("error before",) if fail_at % 3 == 0 else ("kill before",):
            shutil.copytree(tmp_path / "lake", tmp_path / "try")
            io = FaultyIO(fail_at, mode)
            with contextlib.suppress(TablestoreError, Killed):
                ts.connect(str(tmp_path / "try"), io=io).table("d.t").expire_snapshots(keep=1)
            place = f"{mode} operation {fail_at}: {io.log[fail_at] if fail_at < len(io.log) else ''}"
            fresh = ts.connect(str(tmp_path / "try")).table("d.t")
            assert fresh.check() == [], place
            oldest = changelogs.earliest_id(fresh.store)
            assert oldest is not None
            assert changed_keys(fresh, oldest - 1)[-1] == 7, place
            fresh.write(row(50))
            fresh.rollback(snapshot=9)
            fresh.expire_snapshots(keep=1)
            assert changelogs.ids(fresh.store) == wanted, place
            assert sorted(fresh.scan().to_arrow()["k"].to_pylist()) == list(range(8)), place
            shutil.rmtree(tmp_path / "try")


@pytest.mark.parametrize("clean", [True, False])
def test_directories_left_empty_go_if_asked_for(tmp_path: Path, clean: bool) -> None:
    kept = {"changelog.num-retained.min": 1, "changelog.num-retained.max": 1}
    t = CHANGELOGS.create(tmp_path, {"snapshot.clean-empty-directories": clean, **kept})
    for p in range(3):
        t.write(row(p, p))
    t.truncate(partition={"p": 1})
    t.expire_snapshots(keep=1)
    assert Path(t.location, "p=1").exists() is not clean
    assert Path(t.location, "p=0", "bucket-0").exists()
    assert t.scan().count() == 2


def test_a_rollback_takes_later_changelogs_along(tmp_path: Path) -> None:
    t = CHANGELOGS.create(tmp_path)
    t.write(row(0))
    t.tags.create("one")
    for k in range(1, 4):
        t.write(row(k))
    t.expire_snapshots(keep=1)
    assert changelogs.ids(t.store) == [1, 2, 3]
    t.rollback(tag="one")
    assert changelogs.ids(t.store) == [1]
    t.write(row(7))
    assert changed_keys(t, 1) == [7]
    assert t.check() == []
    assert t.remove_orphans("0 ms", force=True).files == ()


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("outlive", [2, 5])
@pytest.mark.sample(1)
def test_the_next_expiry_deletes_what_the_preview_lists_and_nothing_else(
    tmp_path: Path, producer: str, outlive: int
) -> None:
    env = SimEnv()
    lasting = {"changelog.num-retained.min": outlive, "changelog.num-retained.max": 2**31 - 1}
    t = CHANGELOGS.create(
        tmp_path, lasting | {"changelog-producer": producer, "changelog.time-retained": "20 s"}, env=env
    )
    t = t.alter(ts.set_options({"snapshot.time-retained": "10 s"}))
    for k in range(12):
        t.write(row(k % 3))
        if k % 4 == 1:
            t.with_options({"write-only": False}).compact(full=True)
        env.sleep(7)
        stored, before = t.refresh().inspect.storage(), on_disk(t)
        asked = t.expire_snapshots(dry_run=True)
        done = t.expire_snapshots()
        gone = {path: size for path, size in before.items() if path not in on_disk(t)}
        assert {f.removeprefix(f"{t.location}/") for f in asked.files} == set(gone), k
        assert (asked.bytes, done.bytes, done.files) == (sum(gone.values()), asked.bytes, asked.files), k
        assert stored.released()[0] == asked.bytes, k
    assert changelogs.ids(t.store), "some outlived their snapshots"
    assert t.check() == []
