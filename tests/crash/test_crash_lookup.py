"""Commits that mark rows as deleted and tell changes fail at every single I/O operation.

A fresh process finds the table sound and the commit wholly there or wholly not; what failed before anything
was published leaves no file behind."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.lsm.lookup.cache import LOCAL
from tests.faults import FaultyIO, Killed

Act = Callable[[ts.Table], object]


def rows(numbers: range, value: str) -> pa.Table:
    return pa.table({"id": list(numbers), "v": [value] * len(numbers)})


def keyed(root: Path) -> None:
    """Two levels with a deletion vector on the upper one, and a changelog."""
    t = ts.connect(str(root)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "v": ts.STRING},
        primary_key=["id"],
        options={
            "deletion-vectors.enabled": True,
            "changelog-producer": "lookup",
            "num-levels": 4,
            "snapshot.num-retained.min": 1000,
        },
    )
    t.write(pa.table({"id": range(3000), "v": [f"{i * 7919}" for i in range(3000)]}))
    t.write(rows(range(0, 40, 3), "b"))
    assert t.check() == []
    assert t.store.manifests.index_entries(t.store.snapshots.latest())


def append(root: Path) -> None:
    """Files with deletion vectors in two containers."""
    t = ts.connect(str(root)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "v": ts.STRING},
        options={
            "deletion-vectors.enabled": True,
            "deletion-vector.index-file.target-size": "20 b",
            "snapshot.num-retained.min": 1000,
        },
    )
    for i in range(3):
        t.write(rows(range(10 * i, 10 * i + 20), f"v{i}"))
    t.delete(ts.col("id") < 13)
    assert t.check() == []


def not_tracked(root: Path) -> None:
    """The same, of a table whose changes are no longer tracked."""
    keyed(root)
    ts.connect(str(root)).table("d.t").alter(ts.set_options({"change-tracking": False}))


def write_and_look_up(t: ts.Table) -> None:
    t.write(rows(range(0, 60, 2), "c"), user="loader", identifier=7)


def delete_by_key(t: ts.Table) -> None:
    t.delete(ts.col("id") < 25)


CASES: dict[str, tuple[Callable[[Path], None], Act]] = {
    "merge on write with a changelog": (keyed, write_and_look_up),
    "merge on write without change tracking": (not_tracked, write_and_look_up),
    "delete by key, seen after a lookup": (keyed, delete_by_key),
    "delete by vectors": (append, lambda t: t.delete(ts.col("id") < 25)),
    "update by vectors": (append, lambda t: t.update({"v": "new"}, where=(ts.col("v") == "v2"))),
}


def state(root: Path) -> list[dict]:
    found = ts.connect(str(root)).table("d.t").scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda r: (r["id"], r["v"]))


def orphans(root: Path) -> set[str]:
    """Data and index files that no snapshot names."""
    store = ts.connect(str(root)).table("d.t").store
    named: set[str] = set()
    for snapshot in store.snapshots.all():
        entries = [*store.manifests.delta_entries(snapshot), *store.manifests.changelog_entries(snapshot)]
        named |= {e.file.file_name for e in entries}
        named |= {e.file.file_name for e in store.manifests.index_entries(snapshot)}
    there = {p.name for p in root.rglob("*") if p.parent.name in ("index", "bucket-0")}
    return there - named


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sample(1)
def test_commits_survive_failures(tmp_path: Path, seeds: tuple[int, ...], case: str) -> None:
    make, act = CASES[case]
    start, chance = tmp_path / "start", random.Random(seeds[0])
    make(start)
    counting = FaultyIO()
    shutil.copytree(start, tmp_path / "count")
    LOCAL.clear()
    act(ts.connect(str(tmp_path / "count"), io=counting).table("d.t"))
    before, after = state(start), state(tmp_path / "count")
    assert before != after
    for fail_at in range(seeds[0] % 3, counting.count, 3):
        mode, root = chance.choice(FaultyIO.MODES), tmp_path / "try"
        shutil.copytree(start, root)
        io = FaultyIO(fail_at, mode)
        LOCAL.clear()  # else what earlier tries have read is not read again
        with contextlib.suppress(TablestoreError, Killed):
            act(ts.connect(str(root), io=io).table("d.t"))
        place = f"{mode} operation {fail_at}: {io.log[fail_at] if fail_at < len(io.log) else 'not reached'}"
        assert io.open_outputs == [], place
        fresh = ts.connect(str(root)).table("d.t")
        assert {v.invariant for v in fresh.check()} <= {"I13"}, place  # killed before its compaction
        assert state(root) in (before, after), place
        writing = any(part in io.log[fail_at] for part in ("/bucket-0/", "/index/"))
        if mode == "error before" and writing and not io.log[fail_at].startswith("delete "):
            assert orphans(root) == set(), place
        act(fresh)
        assert state(root) == after, place
        assert fresh.check() == [], place
        shutil.rmtree(root)
