"""What a small commit asks of the store: on object stores each of these takes milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.faults import FaultyIO, SimEnv

SCHEMA = {"k": ts.BIGINT, "v": ts.BIGINT}
OPTIONS = {"bucket": 1, "num-sorted-run.compaction-trigger": 100}
KEYED = {"primary_key": ["k"], "options": OPTIONS}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": keys})


COMMITS: dict[str, Callable[[ts.Table], object]] = {
    "write": lambda t: t.write(rows(*range(10))),
    "append": lambda t: t.write(rows(*range(10))),
    "delete": lambda t: t.delete(pa.table({"k": [1, 2]})),
    "compact": lambda t: t.compact(full=True),
}


@pytest.mark.parametrize("before", [2, 12], ids=["few snapshots", "more than the least retained"])
@pytest.mark.parametrize("kind", COMMITS)
def test_a_small_commit_reads_little(tmp_path: Path, kind: str, before: int) -> None:
    """Whose it is (3 times: opening, before and after publishing), LATEST, and the snapshot that it is based
    on (3 times: writing, each attempt, and after it whether its id was used again); no manifest that this
    process just wrote."""
    io = FaultyIO()
    lake = ts.connect(str(tmp_path), io=io)
    t = lake.create_table("d.t", schema=SCHEMA, **({} if kind == "append" else KEYED))
    for k in range(before):
        t.write(rows(k))
    io.log.clear()
    COMMITS[kind](t)
    asked = Counter(line.split()[0] for line in io.log)
    assert asked["read"] <= 7, io.log
    assert not any(line.startswith("read") and "/manifest/" in line for line in io.log), io.log
    assert asked["exists"] <= 2, io.log
    assert asked["list"] <= (3 if kind == "delete" else 2), io.log
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
