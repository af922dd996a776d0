"""What a small commit asks of the store: on object stores each of these takes milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import tablestore as ts
from tests.faults import FaultyIO, SimEnv

SCHEMA = {"k": ts.BIGINT, "v": ts.BIGINT}
OPTIONS = {"bucket": 1, "num-sorted-run.compaction-trigger": 100}
KEYED = {"primary_key": ["k"], "options": OPTIONS}
SPECS: dict[str, dict[str, object]] = {
    "append": {},
    "mark": {"options": {"deletion-vectors.enabled": True, "deletion-vectors.modifiable": True}},
}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": keys})


COMMITS: dict[str, Callable[[ts.Table], object]] = {
    "write": lambda t: t.write(rows(*range(10))),
    "append": lambda t: t.write(rows(*range(10))),
    "delete": lambda t: t.delete(pa.table({"k": [1, 2]})),
    "mark": lambda t: t.delete("k = 1"),
    "compact": lambda t: t.compact(full=True),
}


@pytest.mark.parametrize("before", [2, 12], ids=["few snapshots", "more than the least retained"])
@pytest.mark.parametrize("kind", COMMITS)
def test_a_small_commit_reads_little(tmp_path: Path, kind: str, before: int) -> None:
    """The snapshot that it is based on, which says whose table it is and is looked for once, and is read
    again after publishing, as it says whether the id was used before; no manifest that this process wrote."""
    io = FaultyIO()
    lake = ts.connect(str(tmp_path), io=io)
    t = lake.create_table("d.t", schema=SCHEMA, **SPECS.get(kind, KEYED))
    for k in range(before):
        t.write(rows(k))
    io.log.clear()
    COMMITS[kind](t)
    asked = Counter(line.split()[0] for line in io.log)
    assert asked["read"] <= (3 if kind == "mark" else 2), io.log
    assert not any(line.startswith("read") and "/manifest/" in line for line in io.log), io.log
    assert asked["exists"] <= 1, io.log
    assert asked["list"] <= (3 if kind in ("delete", "mark") else 2), io.log
    assert asked["write"] + asked["create"] + asked["put"] + asked["replace"] == 6, io.log


def test_what_is_due_expires_though_the_last_expiry_was_early(tmp_path: Path) -> None:
    """By number at once, by age when it is over, also where the handle has looked before."""
    env = SimEnv()
    kept = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 5, "snapshot.time-retained": "1 h"}
    lake = ts.connect(str(tmp_path), env=env)
    t = lake.create_table("d.t", schema=SCHEMA, primary_key=["k"], options=OPTIONS | kept)

    def oldest_after(commits: int) -> int:
        for k in range(commits):
            t.write(rows(k))
        return t.store.snapshots.ids()[0]

    assert oldest_after(5) == 1
    assert oldest_after(1) == 2, "the sixth is one too many"
    assert oldest_after(1) == 3
    env.move(3_600_000)
    newest = t.store.snapshots.ids()[-1]
    assert oldest_after(1) == newest, "the hour of all others is over"


def test_who_commits_between_opening_and_commit_is_not_overwritten(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    """A writer that was alone when it was opened takes what it saw for the newest, until its id is taken;
    each row is there once, whoever came between, expired or rolled back meanwhile."""
    for seed in seeds:
        chance = Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table("d.t", schema=SCHEMA, **KEYED)
        other, expected = ts.open(t.location), dict[int, int]()
        for n in range(5):
            with t.writer() as writer:
                for _ in range(chance.choice([0, 0, 1, 3])):
                    key = chance.randrange(20)
                    other.write([{"k": key, "v": n}])
                    expected[key] = n
                if chance.random() < 0.3:
                    other.expire_snapshots(keep=1)
                writer.write([{"k": 100 + n, "v": n}])
            expected[100 + n] = n
            read = t.scan().to_arrow()
            assert dict(zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True)) == expected
        assert t.check() == []


@pytest.mark.parametrize("moment", ["before its commit", "in its commit"])
def test_what_a_writer_saw_long_ago_is_looked_for_again(tmp_path: Path, moment: str) -> None:
    """Then the id after it may have been used and be free again: of a writer that does not look, readers
    would see a snapshot that does not belong to the table until it is taken back."""
    env, io = SimEnv(), FaultyIO()
    t = ts.connect(str(tmp_path), env=env, io=io).create_table("d.t", schema=SCHEMA, **KEYED)
    t.write(rows(1))
    other, write = ts.connect(str(tmp_path), env=env).table("d.t"), io.write

    def others() -> None:
        for k in range(3):
            other.write(rows(10 + k))
        other.expire_snapshots(keep=1)
        env.move(2_000)
        io.log.clear()

    def slowly(path: str, data: bytes) -> None:
        io.write = write  # type: ignore[method-assign]  # for this one object
        others()
        write(path, data)

    with t.writer() as writer:
        writer.write(rows(2))
        if moment == "before its commit":
            others()
        else:
            io.write = slowly  # type: ignore[method-assign]  # the first manifest
    tried = [line for line in io.log if line.startswith("put")]
    assert len(tried) == 1, tried
    assert t.scan().count() == 5
