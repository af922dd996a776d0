"""Commits that mark rows as deleted and tell changes fail at every single I/O operation.

A fresh process finds the table sound and the commit wholly there or wholly not; what failed before anything
was published leaves no file behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.lsm.lookup.cache import LOCAL
from tests.faults import failed_calls

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
    rows = ts.connect(str(root)).table("d.t").scan().to_arrow()
    return sorted(rows.to_pylist(), key=lambda r: (r["id"], r["v"]))


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
    make(start := tmp_path / "start")

    def act_anew(lake: ts.Lake) -> None:
        LOCAL.clear()  # else what earlier tries have read is not read again
        act(lake.table("d.t"))

    calls = failed_calls(start, tmp_path, act_anew, lambda cases: cases[seeds[0] % 8 :: 8])
    before, after = state(start), state(tmp_path / "whole")
    assert before != after
    for call in calls:
        # killed before its compaction
        assert {v.invariant for v in call.table.check()} <= {"I13"}, call.place
        assert state(call.root) in (before, after), call.place
        writing = any(part in call.operation for part in ("/bucket-0/", "/index/"))
        if call.mode == "error before" and writing and ": delete " not in call.operation:
            assert orphans(call.root) == set(), call.place
        act(call.table)
        assert state(call.root) == after, call.place
        assert call.table.check() == [], call.place
