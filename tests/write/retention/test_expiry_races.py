"""Expiry beside commits, kills in the middle of it, and refs that must stay readable."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unavailable
from tablestore.meta.snapshots import SnapshotStore
from tablestore.write.commit import committer
from tablestore.write.retention import expire
from tests.faults import FaultyIO, Killed
from tests.tables import KEYED, keys


def row(k: int, v: str = "x") -> pa.Table:
    return pa.table({"k": [k], "v": [v]})


@pytest.mark.parametrize("before", [1, 0], ids=["after others", "as the first"])
@pytest.mark.parametrize("beside", [False, True], ids=["", "and expires at once"])
@pytest.mark.parametrize("others", [(2, 3, 4), (2, 3)], ids=["far below", "just below"])
def test_a_commit_that_stood_still_through_an_expiry_hides_nobody(
    before: int, others: tuple[int, ...], beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes an id that others have freed, where everybody sees it for a moment."""
    t = KEYED.create(tmp_path, {"write-only": True, "changelog-producer": "input"})
    for k in range(before):
        t.write(row(k))
    publish = SnapshotStore.publish
    stalled = []

    def stall(self: SnapshotStore, snapshot: object) -> bool:
        slow = not stalled and snapshot.commit_user == "slow"
        if slow:
            stalled.append(snapshot.id)
            other = ts.open(t.location)
            for k in others:
                other.write(row(k))
            other.expire_snapshots(keep=1)
        published = publish(self, snapshot)
        if slow and beside:
            other.write(row(5))
            other.expire_snapshots(keep=1)
        return published

    monkeypatch.setattr(SnapshotStore, "publish", stall)
    created = t.write(row(9), user="slow", identifier=1)
    assert stalled == [before + 1]
    assert keys(t) == sorted([*range(before), *others, *([5] if beside else []), 9])
    assert created.snapshots == (before + len(others) + 1 + beside,)
    assert ts.open(t.location).check() == []


def test_a_late_commit_that_died_just_below_the_oldest_snapshot_is_none_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = KEYED.create(tmp_path, {"write-only": True, "changelog-producer": "input"})
    t.write(row(0))
    publish = SnapshotStore.publish

    def late(self: SnapshotStore, snapshot: object) -> bool:
        if snapshot.commit_user != "slow":
            return publish(self, snapshot)
        other = ts.open(t.location)
        for k in (1, 2):
            other.write(row(k))
        other.expire_snapshots(keep=1)
        publish(self, snapshot)
        raise Killed

    monkeypatch.setattr(SnapshotStore, "publish", late)
    with pytest.raises(Killed):
        t.write(row(9), user="slow", identifier=1)
    again = ts.open(t.location)
    assert again.store.snapshots.ids() == [2, 3]
    again.write(row(3))
    assert again.expire_snapshots(keep=2).remaining == (3, 4)
    assert again.store.snapshots.ids() == [3, 4]
    assert keys(again) == [0, 1, 2, 3]
    assert again.check() == []


def test_an_expiry_goes_on_as_long_as_others_expire_what_it_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = KEYED.create(tmp_path, {"write-only": True})
    for k in range(12):
        t.write(row(k))
    to_keep, unneeded = iter(range(11, 3, -1)), expire._unneeded

    def others_first(*args: Any, **named: Any) -> Any:
        actual = unneeded(*args, **named)
        with monkeypatch.context() as undone:
            undone.setattr(expire, "_unneeded", unneeded)
            for keep in itertools.islice(to_keep, 1):
                ts.open(t.location).expire_snapshots(keep=keep)
        return actual

    monkeypatch.setattr(expire, "_unneeded", others_first)
    done = t.expire_snapshots(keep=1)
    assert list(to_keep) == [], "eight times something was gone"
    assert (done.snapshots, done.remaining) == ((9, 10, 11), (12, 12))
    assert keys(t) == list(range(12))
    assert ts.open(t.location).check() == []


def test_an_expiry_whose_snapshots_others_have_all_expired_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = KEYED.create(tmp_path, {"write-only": True})
    for k in range(6):
        t.write(row(k))
    extent = expire._extent

    def others_first(*args: Any, **named: Any) -> Any:
        actual = extent(*args, **named)
        monkeypatch.setattr(expire, "_extent", extent)
        assert ts.open(t.location).expire_snapshots(keep=2).snapshots == (1, 2, 3, 4)
        return actual

    monkeypatch.setattr(expire, "_extent", others_first)
    done = t.expire_snapshots(keep=2)
    assert (done.snapshots, done.remaining, done.files) == ((), (5, 6), ())
    assert keys(t) == list(range(6))
    assert ts.open(t.location).check() == []


def others(location: str) -> None:
    """Compact, write two rows and leave no snapshot before them."""
    other = ts.open(location)
    other.compact(full=True)
    for k in (3, 4):
        other.write(row(k))
    other.expire_snapshots(keep=1)


def test_a_snapshot_that_expires_after_a_writer_saw_it_is_a_lost_race(tmp_path: Path) -> None:
    """It is not looked for again before the commit, which takes an id that others have freed."""
    t = KEYED.create(tmp_path, {"write-only": True})
    t.write(row(1))
    t.write(row(2))
    late = t.writer()
    late.write(row(9))
    others(t.location)
    late.__exit__(None, None, None)
    assert keys(t) == [1, 2, 3, 4, 9]
    assert ts.open(t.location).check() == []


def test_a_snapshot_that_expires_while_a_commit_reads_it_is_a_lost_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_FRESH_SECONDS", -1)  # as if the writer had been opened long ago
    t = KEYED.create(tmp_path, {"write-only": True})
    t.write(row(1))
    t.write(row(2))
    latest = SnapshotStore.latest
    seen = []

    def slow(self: SnapshotStore, *, near: int | None = None) -> object:
        actual = latest(self, near=near)
        if len(seen) == 0 and self is t.store.snapshots:
            seen.append(actual.id)
            others(t.location)
        return actual

    late = t.writer()
    late.write(row(9))
    monkeypatch.setattr(SnapshotStore, "latest", slow)
    late.__exit__(None, None, None)
    assert seen
    assert keys(t) == [1, 2, 3, 4, 9]
    assert ts.open(t.location).check() == []


def test_a_kill_during_expiry_is_healed_by_the_next_one(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path, {"write-only": True})
    for k in range(5):
        t.write(row(k))
    counting = FaultyIO()
    ts.open(t.location, io=counting).expire_snapshots(keep=2, dry_run=True)
    io = FaultyIO(counting.count + 1, "kill before")
    with contextlib.suppress(Killed):
        ts.open(t.location, io=io).expire_snapshots(keep=2)
    t = ts.open(t.location)
    t.compact(full=True)
    t.write(row(7))
    t.expire_snapshots(keep=1)
    assert len(t.store.snapshots.ids()) == 1
    assert t.check() == []
    assert keys(t) == [0, 1, 2, 3, 4, 7]


def test_a_writer_whose_flush_failed_commits_nothing(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write(row(1))
    counting = FaultyIO()
    ts.open(t.location, io=counting)
    io = FaultyIO(None, "error before")
    broken = ts.open(t.location, io=io).with_options({"write-buffer-size": "1 kb"})
    data = pa.table({"k": list(range(3000)), "v": ["y" * 20] * 3000})

    def write() -> None:
        with broken.writer() as w:
            io.fail_at = io.count
            for _ in range(2):
                with contextlib.suppress(Unavailable):
                    w.write(data)

    with pytest.raises(Unavailable, match="lost its rows"):
        write()
    assert keys(t) == [1]
    assert t.check() == []


def test_an_engine_writer_goes_on_after_prepare(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    w = t.open_writer()
    w.write(row(1, "old"))
    messages = w.prepare()
    w.write(row(1, "new"))
    messages += w.prepare()
    t.commit(messages, user="u", identifier=1)
    assert t.get({"k": 1}) == {"k": 1, "v": "new"}
    assert t.check() == []


def test_a_late_commit_never_moves_a_position_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = KEYED.create(tmp_path, {"write-only": True})
    publish = SnapshotStore.publish
    raced = []

    def race(self: SnapshotStore, snapshot: object) -> bool:
        if not raced:
            raced.append(True)
            for i in range(2):
                ts.open(t.location).write(row(i), user="s", identifier=i, position=f"p{i}")
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", race)
    again = t.write(row(0, "late"), user="s", identifier=0, position="p0")
    assert again.replayed
    assert t.position("s") == (1, "p1")
    assert keys(t) == [0, 1]


def test_layout_is_not_an_option_for_one_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"'bucket' is stored.*cannot be set for one use"):
        KEYED.create(tmp_path).with_options({"bucket": 4})


@pytest.mark.parametrize("name", ["d.t$branch_dev", "d.t$snapshots"])
def test_dropping_what_is_no_table_leaves_the_table(tmp_path: Path, name: str) -> None:
    t = KEYED.create(tmp_path)
    t.write(row(1))
    lake = ts.connect(str(tmp_path))
    with pytest.raises(InvalidRequest, match="plain names"):
        lake.drop_table(name)
    assert keys(t) == [1]


def test_a_directory_among_tags_does_not_fail_a_commit(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path, {"snapshot.num-retained.min": 1, "snapshot.time-retained": "1 ms"})
    Path(t.location, "tag", "tag-success-file").mkdir(parents=True)
    for k in range(4):
        t.write(row(k))
    assert keys(t) == [0, 1, 2, 3]
