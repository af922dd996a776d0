"""Two processes commit to one table as fast as they can: nothing is lost, nothing is doubled."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts

ROUNDS = 150
MEET = 10  # rounds from one meeting to the next: neither runs away from the other


def commit_all(path: str, who: int, start: object, *, meets: bool = False) -> None:
    t = ts.open(path)
    start.wait()
    for i in range(ROUNDS):
        if meets and i and i % MEET == 0:
            start.wait()
        t.write(pa.table({"id": [i, 1000 + who], "who": [who, i]}), user=f"w{who}", identifier=i)


@pytest.mark.large
def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    options = {"write-only": True, "commit.max-retries": 1000, "commit.max-retry-wait": "50 ms"}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"id": ts.BIGINT, "who": ts.BIGINT}, primary_key=["id"], options=options
    )
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    meets = {"meets": True}
    workers = [
        context.Process(target=commit_all, args=(t.location, who, start), kwargs=meets, daemon=True)
        for who in (1, 2)
    ]
    for w in workers:
        w.start()
    for w in workers:
        w.join(480)
    assert [w.exitcode for w in workers] == [0, 0]
    snapshots = t.store.snapshots.all()
    assert [s.id for s in snapshots] == list(range(1, 2 * ROUNDS + 1))
    for who in (1, 2):
        assert [s.commit_identifier for s in snapshots if s.commit_user == f"w{who}"] == list(range(ROUNDS))
        assert t.position(f"w{who}") == (ROUNDS - 1, None)
    users = [s.commit_user for s in snapshots]
    for at in range(0, len(users), 2 * MEET):
        assert set(users[at : at + 2 * MEET]) == {"w1", "w2"}, "the two went side by side"
    actual = {r["id"]: r["who"] for r in t.scan().to_arrow().to_pylist()}
    assert set(actual) == {*range(ROUNDS), 1001, 1002}
    assert (actual[1001], actual[1002]) == (ROUNDS - 1, ROUNDS - 1)
    assert t.check() == []


def compact_all(path: str, start: object, out: object) -> None:
    t = ts.open(path)
    start.wait()
    conflicts = 0
    for _ in range(15):
        try:
            t.compact(full=True)
        except ts.CommitConflict:
            conflicts += 1
    out.put(conflicts)


@pytest.mark.large
def test_two_compactors_and_a_writer_keep_every_row(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "who": ts.BIGINT},
        primary_key=["id"],
        options={"write-only": True, "commit.max-retries": 1000, "commit.max-retry-wait": "50 ms"},
    )
    t.write(pa.table({"id": [-1], "who": [0]}))
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(3), context.Queue()
    workers = [context.Process(target=commit_all, args=(t.location, 1, start), daemon=True)]
    compact = [context.Process(target=compact_all, args=(t.location, start, out), daemon=True) for _ in "ab"]
    workers += compact
    for w in workers:
        w.start()
    for w in workers:
        w.join(480)
    assert [w.exitcode for w in workers] == [0, 0, 0]
    actual = {r["id"]: r["who"] for r in t.scan().to_arrow().to_pylist()}
    assert actual == {-1: 0, 1001: ROUNDS - 1, **dict.fromkeys(range(ROUNDS), 1)}
    assert t.check() == []
