"""A commit so slow that the snapshot it follows expires, and the id that it takes: it looks and takes the
next one, and where it is killed before, expiry removes what it left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.io.fileio import Sync
from tablestore.write.retention import branches
from tests.faults import FaultyIO, Killed
from tests.tables import keys

OPTIONS = {
    "bucket": 1,
    "num-sorted-run.compaction-trigger": 3,
    "snapshot.num-retained.min": 3,
    "snapshot.num-retained.max": 5,
}


class SlowIO(FaultyIO):
    """Local files; just before a snapshot is published for the first time, others act."""

    def __init__(self, meanwhile: Callable[[], object], *, killed: bool) -> None:
        super().__init__()
        self._meanwhile: Callable[[], object] | None = meanwhile
        self._killed = killed

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        if self._meanwhile is None or "/snapshot-" not in path:
            return super().write_new(path, data, after=after)
        act, self._meanwhile = self._meanwhile, None
        act()
        done = super().write_new(path, data, after=after)
        assert done, "the id is free again"
        if self._killed:
            self.dead = True
            raise Killed(path)
        return done


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": keys})


def made(path: Path, **options: Any) -> ts.Table:
    """A table of three snapshots or more."""
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    lake = ts.connect(str(path))
    t = lake.create_table("d.t", schema=schema, primary_key=["k"], options=OPTIONS | options)
    for k in range(3):
        t.write(rows(k))
    return t


def slow(path: Path, t: ts.Table, *, killed: bool) -> ts.Table:
    """The same table for a commit that takes so long that all snapshots of before expire."""

    def others() -> None:
        for k in range(10, 20):
            t.write(rows(k))

    return ts.connect(str(path), io=SlowIO(others, killed=killed)).table("d.t")


ALL = [0, 1, 2, *range(10, 20)]


def test_a_slow_commit_takes_the_next_id(tmp_path: Path) -> None:
    t = made(tmp_path)
    slow(tmp_path, t, killed=False).write(rows(99))
    assert keys(t) == [*ALL, 99]
    assert t.check() == []


def killed(path: Path) -> tuple[ts.Table, int]:
    """A table with the snapshot of a killed commit, and its id."""
    t = made(path)
    with pytest.raises(Killed):
        slow(path, t, killed=True).write(rows(99))
    first, second, *_ = t.store.snapshots.ids()
    assert second > first + 1
    return t, first


@pytest.mark.parametrize("way", ["by hand", "after a commit"])
def test_what_a_killed_one_leaves_goes_with_the_next_expiry(tmp_path: Path, way: str) -> None:
    t, left = killed(tmp_path)
    (actual,) = t.check()
    assert actual.where.endswith(f"snapshot-{left}")
    assert "its commit was killed after this id had expired" in actual.text
    assert t.expire_snapshots(dry_run=True).snapshots == ()
    assert t.store.snapshots.ids()[0] == left
    if way == "by hand":
        t.expire_snapshots()
    else:
        t.write(rows(20))
    assert left not in t.store.snapshots.ids()
    assert keys(t) == [*ALL, *([20] if way != "by hand" else [])]
    assert t.check() == []
    orphans = t.remove_orphans(older_than="0 s", force=True, dry_run=False).files
    assert any("/bucket-0/data-" in path for path, _ in orphans), "the file with row 99"
    t.write(rows(99))
    assert 99 in keys(t)
    assert t.check() == []


def test_a_rollback_in_the_middle_loses_its_snapshot_to_no_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = made(tmp_path)
    t.tags.create("early")
    early = t.store.snapshots.latest_id()
    for k in range(10, 20):
        t.write(rows(k))
    assert not t.store.snapshots.exists(early)
    hint = type(t.store.snapshots).hint_earliest

    def late(self: Any, snapshot_id: int) -> None:
        if snapshot_id == early:
            ts.open(t.location).expire_snapshots()
            assert t.store.snapshots.exists(early)
        hint(self, snapshot_id)

    monkeypatch.setattr(type(t.store.snapshots), "hint_earliest", late)
    t.rollback(tag="early")
    assert t.store.snapshots.ids() == [early]
    assert keys(t) == [0, 1, 2]
    assert t.check() == []


def test_a_fast_forward_in_the_middle_loses_no_snapshot_to_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = made(tmp_path)
    t.tags.create("early")
    t.branches.create("b", tag="early")
    t.tags.delete("early")
    for k in range(10, 20):
        t.write(rows(k))
    remove_later = branches.remove_later

    def late(store: Any, target: int) -> None:
        ts.open(t.location).expire_snapshots()
        assert store.snapshots.ids()[:2] == [target, store.snapshots.earliest_id()]
        remove_later(store, target)

    monkeypatch.setattr(branches, "remove_later", late)
    t.branches.fast_forward("b")
    assert keys(t) == [0, 1, 2]
    assert t.check() == []
