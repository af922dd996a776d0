"""What a commit is made from expires meanwhile: a conflict that leaves nothing, or the act is done anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, Corrupt
from tablestore.table import writes
from tests.faults import FaultyIO
from tests.tables import keys


class Meanwhile(FaultyIO):
    """Local files; when a data file is opened for the first time, something else happens first."""

    def __init__(self) -> None:
        super().__init__()
        self.act: Callable[[], object] | None = None

    def open_input(self, path: str) -> pa.NativeFile:
        if self.act is not None and "/data-" in path:
            act, self.act = self.act, None
            act()
        return super().open_input(path)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": keys})


KEYED = {"primary_key": ["k"], "options": {"write-only": True, "num-sorted-run.compaction-trigger": 2}}
COUNTED = {"options": {"write-mode": "change-log", "write-only": True, "bucket": 1}}
MARKED = {"options": {"deletion-vectors.enabled": True, "write-only": True}}


def made(root: Path, io: FaultyIO, table: dict[str, Any]) -> tuple[ts.Table, Callable[[], None]]:
    """A table of three commits, and what rewrites and expires all of it."""
    schema = {"k": ts.BIGINT, "v": ts.BIGINT}
    created = ts.connect(str(root)).create_table("d.t", schema=schema, **table)
    for k in range(3):
        created.write(rows(k, k + 10))

    def rewrite_and_expire() -> None:
        created.compact(full=True)
        created.write(rows(99))
        created.expire_snapshots(keep=1)

    return ts.connect(str(root), io=io).table("d.t"), rewrite_and_expire


BEFORE = [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize(
    ("table", "act", "after"),
    [
        (KEYED, lambda t: t.compact(full=True), [*BEFORE, 99]),
        (KEYED, lambda t: t.with_options({"write-only": False}).write(rows(5)), [0, 1, 2, 5, 10, 11, 12, 99]),
    ],
    ids=["compact", "write that compacts"],
)
def test_it_is_a_conflict_that_leaves_nothing_and_may_be_done_again(
    table: dict[str, Any], act: Callable[[ts.Table], Any], after: list[int], tmp_path: Path
) -> None:
    io = Meanwhile()
    t, io.act = made(tmp_path, io, table)
    with pytest.raises(CommitConflict, match="snapshot 3, which this commit was made from, expired"):
        act(t)
    assert keys(t) == [*BEFORE, 99]
    act(t)
    assert keys(t) == after
    assert t.check() == []


@pytest.mark.parametrize("table", [KEYED, COUNTED, MARKED], ids=["keyed", "counted", "marked"])
@pytest.mark.parametrize(
    ("act", "after"),
    [
        (lambda t: t.delete("k < 2"), [2, 10, 11, 12, 99]),
        (lambda t: t.update({"v": 7}, where="k < 2"), [*BEFORE, 99]),
    ],
    ids=["delete", "update"],
)
def test_deletes_and_updates_look_again_by_themselves(
    table: dict[str, Any], act: Callable[[ts.Table], Any], after: list[int], tmp_path: Path
) -> None:
    io = Meanwhile()
    t, io.act = made(tmp_path, io, table)
    act(t)
    assert keys(t) == after
    assert t.check() == []


def test_they_look_again_where_others_committed_before_the_first_row_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = Meanwhile()
    t, _ = made(tmp_path, io, KEYED)
    before, other = writes.writer, ts.connect(str(tmp_path)).table("d.t")

    def late(*given: Any) -> Any:
        monkeypatch.setattr(writes, "writer", before)
        other.compact(full=True)
        other.write(rows(99))
        io.act = lambda: other.expire_snapshots(keep=1)
        return before(*given)

    monkeypatch.setattr(writes, "writer", late)
    t.delete("k < 2")
    assert keys(t) == [2, 10, 11, 12, 99]


def test_a_task_of_an_engine_is_a_conflict_too(tmp_path: Path) -> None:
    t, rewrite_and_expire = made(tmp_path, FaultyIO(), KEYED)
    tasks = t.buckets_to_compact(full=True)
    rewrite_and_expire()
    with pytest.raises(CommitConflict, match="expired meanwhile"):
        ts.compact_bucket(t.location, tasks[0])


def test_a_file_that_is_lost_though_its_snapshot_is_there_stays_damage(tmp_path: Path) -> None:
    t, _ = made(tmp_path, FaultyIO(), KEYED)
    next((tmp_path / "d.db" / "t").rglob("data-*")).unlink()
    with pytest.raises(Corrupt, match="missing"):
        t.compact(full=True)


def test_expiry_looks_again_when_another_one_was_faster(tmp_path: Path) -> None:
    io = FaultyIO()
    t, rewrite_and_expire = made(tmp_path, io, KEYED)
    read = io.read
    started: list[str] = []

    def slow_read(path: str) -> bytes:
        if "manifest-list" in path and not started:
            started.append(path)
            rewrite_and_expire()
        return read(path)

    io.read = slow_read  # type: ignore[method-assign]  # for this one object
    assert t.expire_snapshots(keep=1).snapshots == ()
    assert started
    assert keys(t) == [*BEFORE, 99]
    assert t.check() == []


ACTS: dict[str, tuple[Callable[[ts.Table], object], list[int]]] = {
    "a tag is deleted": (lambda t: t.tags.delete("early"), [*BEFORE, 50, 99]),
    "a branch is deleted": (lambda t: t.branches.delete("b"), [*BEFORE, 50, 99]),
    "fast_forward": (lambda t: t.branches.fast_forward("b"), BEFORE),
    "rollback": (lambda t: t.rollback(tag="early"), BEFORE),
}


@pytest.mark.parametrize("act", ACTS)
def test_who_looks_for_files_that_nothing_needs_looks_again(tmp_path: Path, act: str) -> None:
    io = FaultyIO()
    t, rewrite_and_expire = made(tmp_path, io, KEYED)
    t.tags.create("early")
    t.branches.create("b", tag="early")
    other = ts.open(t.location)
    other.write(rows(50))
    other.expire_snapshots(keep=1)
    newest = t.store.snapshots.latest()
    assert newest is not None
    read = io.read
    started: list[str] = []

    def slow_read(path: str) -> bytes:
        if path.endswith(newest.base_manifest_list) and not started:
            started.append(path)
            rewrite_and_expire()
        return read(path)

    io.read = slow_read  # type: ignore[method-assign]  # for this one object
    verb, after = ACTS[act]
    verb(t)
    assert started
    assert keys(t) == after
    assert t.check() == []
