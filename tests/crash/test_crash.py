"""Every single I/O operation of a commit and of a compaction fails in turn: before it, after it, and as the
death of the process.

Afterwards a fresh process opens the table: it is sound, the commit is wholly there or wholly not, and
retrying the same
identifier adds it exactly once.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tests.faults import FaultyIO, Killed, failures

COMMITS = 3


def rows(n: int) -> pa.Table:
    return pa.table({"id": list(range(n, n + 40)), "part": [i % 2 for i in range(40)], "v": [f"v{n}"] * 40})


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with history: overlapping commits, retractions, a changelog."""
    root = tmp_path_factory.mktemp("crash") / "lake"
    t = ts.connect(str(root)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "part": ts.INT, "v": ts.STRING},
        primary_key=["id", "part"],
        partition_by=["part"],
        options={
            "changelog-producer": "input",
            "write-only": True,
            "manifest.merge-min-count": 3,
        },
    )
    for i in range(COMMITS):
        t.write(rows(10 * i), user="loader", identifier=i)
    t.delete(ts.col("id") < 5)
    assert t.check() == []
    return root


def state(root: Path) -> list[dict]:
    found = ts.connect(str(root)).table("d.t").scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda r: (r["id"], r["part"]))


def survive(
    start: Path, tmp_path: Path, act: Callable[[ts.Table], object], *, every: int = 1
) -> tuple[int, list[list[dict]]]:
    """Run `act` with each operation failing in each way that differs, or with one in `every` failures;
    (operations, states seen)."""
    seen: list[list[dict]] = []
    counting = FaultyIO()
    shutil.copytree(start, tmp_path / "count")
    act(ts.connect(str(tmp_path / "count"), io=counting).table("d.t"))
    before, after = state(start), state(tmp_path / "count")
    for fail_at, mode in failures(counting.log)[::every]:
        root = tmp_path / "try"
        shutil.copytree(start, root)
        io = FaultyIO(fail_at, mode)
        with contextlib.suppress(TablestoreError, Killed):
            act(ts.connect(str(root), io=io).table("d.t"))
        place = f"{mode} operation {fail_at}: {io.log[fail_at] if fail_at < len(io.log) else 'not reached'}"
        assert io.open_outputs == [], place
        fresh = ts.connect(str(root)).table("d.t")
        assert fresh.check() == [], place
        found = state(root)
        assert found in (before, after), place
        act(fresh)
        assert state(root) == after, place
        assert fresh.check() == [], place
        seen.append(found)
        shutil.rmtree(root)
    return counting.count, seen


@pytest.mark.large
def test_a_commit_survives_any_failure(start: Path, tmp_path: Path) -> None:
    def commit(t: ts.Table) -> None:
        t.write(rows(25), user="loader", identifier=COMMITS)

    operations, seen = survive(start, tmp_path, commit)
    assert operations > 20
    assert len({len(s) for s in seen}) == 2, "some failures came before the commit, some after"


def test_replaying_a_commit_adds_nothing(start: Path, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    shutil.copytree(start, root)
    t = ts.connect(str(root)).table("d.t")
    first = t.write(rows(25), user="loader", identifier=COMMITS)
    again = t.write(rows(25), user="loader", identifier=COMMITS)
    older = t.write(rows(90), user="loader", identifier=COMMITS - 2)
    assert (len(first.snapshots), first.replayed) == (1, False)
    assert (again.snapshots, again.replayed) == ((), True)
    assert older.replayed
    assert len(t.store.snapshots.ids()) == COMMITS + 2


def some(seeds: tuple[int, ...]) -> int:
    """Every failure with more than the usual rounds, every second without."""
    return 1 if len(seeds) > 5 else 2


@pytest.mark.large
def test_a_compaction_survives_any_failure(start: Path, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    operations, seen = survive(start, tmp_path, lambda t: t.compact(full=True), every=some(seeds))
    assert operations > 20
    assert all(s == seen[0] for s in seen), "compaction changes no row (I12)"


@pytest.mark.large
def test_expiry_survives_any_failure(start: Path, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    compacted = tmp_path / "compacted"
    shutil.copytree(start, compacted)
    ts.connect(str(compacted)).table("d.t").compact(full=True)
    operations, _ = survive(compacted, tmp_path, lambda t: t.expire_snapshots(keep=1), every=some(seeds))
    assert operations > 20
