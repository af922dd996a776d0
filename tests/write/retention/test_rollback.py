"""Rolling back, branches: what goes, what stays readable."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import (
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    NotFound,
    TablestoreError,
    Unavailable,
)
from tablestore.format.snapshot import Snapshot
from tablestore.meta import manifest_cache
from tablestore.meta.snapshots import SnapshotStore
from tests.faults import Cases, FaultyIO, failed_calls
from tests.tables import KEEP_ALL, KEYED, WRITE_ONLY, keys

UNCOMPACTED = KEYED.with_options(WRITE_ONLY | KEEP_ALL)


def row(k: int, v: str = "x") -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64()), "v": [v]})


def written(warehouse: Path, numbers: Iterable[int]) -> ts.Table:
    """A table after a commit for each of these keys."""
    table = UNCOMPACTED.create(warehouse)
    for k in numbers:
        table.write(row(k))
    return table


def data_files(t: ts.Table) -> set[str]:
    return {f for folder, _, names in os.walk(t.location) for f in names if f.startswith("data-")}


def named_files(t: ts.Table) -> set[str]:
    """Data files that the newest snapshot and its history name."""
    store = ts.open(t.location).store
    entries = (e for s in store.snapshots.all() for e in store.manifests.delta_entries(s))
    return {e.file.file_name for e in entries if e.kind == 0}


def test_later_snapshots_tags_and_files_go(tmp_path: Path) -> None:
    t = written(tmp_path, range(3))
    t.tags.create("early", 2)
    before = data_files(t)
    t.write(row(3))
    t.compact(full=True)
    t.tags.create("late")
    rolled = t.rollback(snapshot=3)
    assert (rolled.snapshot, rolled.snapshots, rolled.tags) == (3, (4, 5), ("late",))
    assert keys(t) == [0, 1, 2]
    assert data_files(t) == before
    assert t.tags.names() == ["early"]
    assert Path(t.location, "snapshot", "LATEST").read_text() == "3"
    assert t.remove_orphans("1 ms", force=True).files == ()
    t.write(row(9))
    assert t.store.snapshots.latest_id() == 4
    assert keys(t) == [0, 1, 2, 9]
    assert t.check() == []


def test_what_a_branch_or_an_older_tag_reads_stays(tmp_path: Path) -> None:
    t = written(tmp_path, range(4))
    t.tags.create("mark", 3)
    t.branches.create("b", "mark")
    t.branch("b").write(row(7))
    t.rollback(snapshot=1)
    assert keys(t) == [0]
    assert t.tags.names() == []
    assert sorted(t.branch("b").scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 7]
    assert t.branch("b").at(tag="mark").scan().count() == 3


def test_a_tag_whose_snapshot_has_expired_can_be_gone_back_to(tmp_path: Path) -> None:
    t = written(tmp_path, range(5))
    t.tags.create("kept", 2)
    t.expire_snapshots(keep=1)
    assert t.store.snapshots.ids() == [5]
    with pytest.raises(NotFound, match=r"have 5\.\.5"):
        t.rollback(snapshot=3)
    t.rollback(snapshot=2)
    assert keys(t) == [0, 1]
    assert t.store.snapshots.ids() == [2]
    assert t.tags.names() == ["kept"]
    t.write(row(8))
    t.expire_snapshots(keep=1)
    assert keys(t) == [0, 1, 8]
    assert t.check() == []


def test_a_moment_means_the_snapshot_before_it(tmp_path: Path) -> None:
    t = written(tmp_path, range(3))
    second = t.store.snapshots.get(2).time_millis
    newest = max(s.id for s in t.store.snapshots.all() if s.time_millis <= second)
    assert t.rollback(timestamp=second).snapshot == newest
    with pytest.raises(InvalidRequest, match="exactly one"):
        t.rollback()


@pytest.mark.parametrize("what", ["snapshot", "manifest list", "manifest", "missing"])
def test_damaged_later_snapshots_are_passed_over(tmp_path: Path, what: str) -> None:
    t = written(tmp_path, range(4))
    third = t.store.snapshots.get(3)
    (manifest,) = t.store.manifests.read_list(third.delta_manifest_list)
    paths = {"snapshot": t.store.paths.snapshot(3), "manifest": t.store.paths.manifest(manifest.file_name)}
    path = Path(paths.get(what, t.store.paths.manifest(third.delta_manifest_list)))
    path.unlink() if what == "missing" else path.write_bytes(b"")
    manifest_cache.LOCAL.clear()
    rolled = ts.open(t.location).rollback(snapshot=2)
    assert (rolled.snapshot, rolled.snapshots) == (2, (3, 4))
    assert keys(t) == [0, 1]
    assert t.check() == []
    if what != "missing":
        assert path.name in rolled.problems[0]
        assert "remove_orphans" in repr(rolled)
    t.write(row(8))
    t.remove_orphans("1 ms", force=True, dry_run=False)
    assert keys(t) == [0, 1, 8]
    assert data_files(t) == named_files(t)
    assert t.refresh().check() == []


def test_a_damaged_target_is_refused_and_nothing_goes(tmp_path: Path) -> None:
    t = written(tmp_path, range(3))
    Path(t.store.paths.manifest(t.store.snapshots.get(2).base_manifest_list)).write_bytes(b"")
    manifest_cache.LOCAL.clear()
    with pytest.raises(Corrupt):
        ts.open(t.location).rollback(snapshot=2)
    assert t.store.snapshots.ids() == [1, 2, 3]
    assert keys(t) == [0, 1, 2]


def test_an_older_damaged_snapshot_keeps_its_files_and_that_is_said(tmp_path: Path) -> None:
    t = written(tmp_path, range(4))
    Path(t.store.paths.snapshot(1)).write_bytes(b"{")
    before = data_files(t)
    rolled = ts.open(t.location).rollback(snapshot=3)
    assert (rolled.files, data_files(t)) == ((), before)
    assert "snapshot-1 is damaged" in rolled.problems[0]
    assert keys(t) == [0, 1, 2]


def test_a_commit_that_stood_still_through_a_rollback_lands_on_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = written(tmp_path, (1, 2, 3))
    publish = SnapshotStore.publish
    stalled = []

    def stall(self: SnapshotStore, snapshot: Snapshot) -> bool:
        if not stalled and snapshot.commit_user == "slow":
            stalled.append(snapshot.id)
            ts.open(t.location).rollback(snapshot=1)
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", stall)
    created = t.write(row(9), user="slow", identifier=1)
    assert (stalled, created.snapshots) == ([4], (2,))
    assert keys(t) == [1, 9]
    assert t.refresh().check() == []


def test_a_commit_on_a_snapshot_that_was_replaced_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = written(tmp_path, (1, 2))
    publish = SnapshotStore.publish
    stalled = []

    def stall(self: SnapshotStore, snapshot: Snapshot) -> bool:
        if not stalled and snapshot.commit_user == "slow":
            stalled.append(snapshot.id)
            other = ts.open(t.location)
            other.rollback(snapshot=1)
            other.write(row(5))
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", stall)
    assert t.write(row(9), user="slow", identifier=1).snapshots == (3,)
    assert stalled == [3]
    assert keys(t) == [1, 5, 9]
    assert t.refresh().check() == []


def fork(warehouse: Path, *, compacted: bool) -> ts.Table:
    """A table and its branch `b`, which has expired all snapshots but one since they parted."""
    t = written(warehouse, (1, 2))
    t.tags.create("parting")
    t.branches.create("b", "parting")
    t.tags.delete("parting")
    if compacted:
        t.compact(full=True)
    for k in (30, 31):
        t.write(row(k))
    b = t.branch("b")
    b.tags.delete("parting")
    for k in (3, 4, 5):
        b.write(row(k))
    b.expire_snapshots(keep=1)
    return t


def require_forwarded(t: ts.Table) -> None:
    """The rows of the branch `b` of such a table, which stay when nothing else has them."""
    assert t.store.snapshots.ids() == [5]
    assert t.check() == []
    t.branches.delete("b")
    t.write(row(6))
    t.expire_snapshots(keep=1)
    assert keys(t) == [1, 2, 3, 4, 5, 6]
    assert t.check() == []


@pytest.mark.parametrize("compacted", [False, True])
def test_no_snapshot_stays_that_the_forwarded_branch_was_not_made_from(
    tmp_path: Path, compacted: bool
) -> None:
    t = fork(tmp_path, compacted=compacted)
    t.branches.fast_forward("b")
    require_forwarded(t.refresh())
    assert len(t.remove_orphans("1 ms", force=True).files) == 0


def test_so_does_none_where_a_fast_forward_was_killed_and_called_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fork(tmp_path / "start", compacted=True)
    chance = random.Random(request.config.option.seed)

    def some(cases: Cases) -> Cases:
        return chance.sample(cases, min(len(cases), 4 * request.config.option.rounds))

    def forward(lake: ts.Lake) -> None:
        lake.table("d.t").branches.fast_forward("b")

    for call in failed_calls(tmp_path / "start", tmp_path, forward, some):
        forward(call.lake)
        require_forwarded(call.table)


def test_a_rollback_that_fails_after_it_began_does_not_say_that_nothing_was_done(tmp_path: Path) -> None:
    start = written(tmp_path / "start", range(1, 4))
    start.tags.create("late")
    place = Path(start.location).relative_to(tmp_path / "start")

    def copied(name: str, io: FaultyIO) -> ts.Table:
        shutil.copytree(tmp_path / "start", tmp_path / name)
        return ts.open(tmp_path / name / place, io=io)

    counting = FaultyIO()
    whole = copied("whole", counting)
    opening = counting.count
    whole.rollback(snapshot=1)
    said: dict[type, int] = {}
    for at in range(opening, counting.count):
        if counting.log[at].startswith(("delete ", "replace ", "list ", "sync ")):
            table, error = copied(f"try-{at}", FaultyIO(at)), None
            try:
                table.rollback(snapshot=1)
            except TablestoreError as e:
                error = e
            if error is not None:
                now = ts.open(table.location)
                untouched = now.store.snapshots.ids() == [1, 2, 3] and now.tags.names() == ["late"]
                assert isinstance(error, CommitUnknown) != untouched, counting.log[at]
                assert untouched or "the same call completes it" in str(error)
                said[type(error)] = said.get(type(error), 0) + 1
                now.rollback(snapshot=1)
            assert keys(table) == [1]
            assert ts.open(table.location).tags.names() == []
            assert ts.open(table.location).check() == []
    assert said[CommitUnknown] >= 3
    assert said[Unavailable] >= 1
