"""Tables with a log of their own, tiered by the real service through our coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict
from tablestore.meta import positions
from tablestore.table.lake import Lake
from tablestore.tiering.cluster import LakeCommit
from tablestore.tiering.coordinator.coordinator import Coordinator
from tablestore.tiering.paimon.factory import OwnTableCommitter
from tablestore.tiering.service import TieringService
from tablestore.tiering.splits import TieredBucket

TIERED = {
    **{"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True},
    **{"tablestore.tiering.freshness": "100 ms"},
}
COLUMNS = {"k": ts.INT, "v": ts.BIGINT, "p": ts.STRING}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def made(lake: Lake, name: str, *, keys: tuple[str, ...] = ("k",), **options: Any) -> ts.Table:
    own = {} if keys else {"bucket-key": "k"}
    partitions = {"partition_by": ["p"]} if "p" in keys else {}
    return lake.create_table(
        name, schema=COLUMNS, primary_key=keys or None, options={**TIERED, **own, **options}, **partitions
    )


@contextmanager
def tiering(lake: Lake) -> Iterator[tuple[Coordinator, TieringService]]:
    with lake.coordinator() as coordinator:
        service = lake.tier(f"fluss://{coordinator.address}", poll="50ms")
        try:
            yield coordinator, service
        finally:
            service.stop(20)


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within that time"
        time.sleep(0.05)


def all_in_files(*tables: ts.Table) -> None:
    until(lambda: all(table.log.in_files == table.log.end for table in tables))


def rows(table: ts.Table, *, log: bool = False) -> list[tuple[Any, ...]]:
    actual = table.scan(log=log).to_arrow()
    return sorted(zip(*(actual[name].to_pylist() for name in COLUMNS), strict=True))


def test_every_kind_of_table_comes_into_files_by_rounds_while_writers_run(tmp_path: Path):
    lake = ts.connect(tmp_path)
    keyed = made(lake, "shop.keyed")
    sums = made(lake, "shop.sums", **SUM)
    parts = made(lake, "shop.parts", keys=("k", "p"))
    append = made(lake, "shop.append", keys=())
    tables = (keyed, sums, parts, append)

    def write(name: str) -> None:
        table = ts.connect(tmp_path).table(name)
        for n in range(25):
            actual = [{"k": k, "v": n, "p": f"p{k % 2}"} for k in range(5)]
            table.write(actual, user="writer", identifier=n, position=f"at {n}")

    with tiering(lake) as (coordinator, service):
        threads = [threading.Thread(target=write, args=(table.name,)) for table in tables]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        all_in_files(*tables)
        assert {r.outcome for r in service.rounds()} <= {"", "committed", "empty", "registered"}
        until(lambda: [s.rounds > 0 for s in coordinator.tables()] == [True] * 4)  # it hears of them last
    newest = [(k, 24, f"p{k % 2}") for k in range(5)]
    assert rows(keyed) == newest
    assert rows(parts) == newest
    assert rows(append) == sorted((k, n, f"p{k % 2}") for k in range(5) for n in range(25))
    assert [v for _, v, _ in rows(sums)] == [sum(range(25))] * 5
    for table in tables:
        table = lake.table(table.name)
        offsets = positions.known(table.store, table.store.snapshots.latest())
        assert offsets["writer"] == (24, "at 24")
        assert table.write([{"k": 1, "v": 1, "p": "p1"}], user="writer", identifier=24).replayed
        assert table.check() == []
        assert len(table.store.snapshots.ids()) < 40, "rounds, not commits, make snapshots"


def test_two_services_and_a_new_coordinator_bring_each_row_once(tmp_path: Path):
    lake = ts.connect(tmp_path)
    sums = made(lake, "shop.sums", **SUM)
    with tiering(lake) as (coordinator, _):
        other = lake.tier(f"fluss://{coordinator.address}", poll="50ms", name="other")
        for n in range(20):
            sums.write([{"k": k, "v": 1} for k in range(4)], user="w", identifier=n)
            if n % 7 == 3:
                sums.log.finish()
        all_in_files(sums)
        other.stop(20)
    with tiering(lake):
        sums.write([{"k": 1, "v": 1}])
        all_in_files(sums)
    assert [(k, v) for k, v, _ in rows(sums)] == [(0, 20), (1, 21), (2, 20), (3, 20)]
    assert sums.check() == []


def test_rows_removed_from_a_table_without_a_key_go(tmp_path: Path):
    lake = ts.connect(tmp_path)
    vectors = {"deletion-vectors.enabled": True, "deletion-vectors.modifiable": True}
    append = made(lake, "shop.append", keys=(), **vectors)
    append.write([{"k": k, "v": 0} for k in range(6)])
    append.delete(ts.col("k") == 2)
    append.write([{"k": 9, "v": 0}])
    with tiering(lake):
        all_in_files(append)
    assert [k for k, *_ in rows(append)] == [0, 1, 3, 4, 5, 9]


def test_a_table_that_is_made_again_is_filled_anew(tmp_path: Path):
    lake = ts.connect(tmp_path)
    made(lake, "shop.t").write([{"k": 1, "v": 1}])
    with tiering(lake):
        all_in_files(lake.table("shop.t"))
        lake.drop_table("shop.t")
        again = made(lake, "shop.t")
        again.write([{"k": 2, "v": 2}])
        all_in_files(again)
    assert rows(again) == [(2, 2, None)]


def test_a_round_on_files_that_moved_is_refused(tmp_path: Path):
    """A job that stalls until others have brought its rows."""
    lake = ts.connect(tmp_path)
    table = made(lake, "shop.t", **SUM)
    table.write([{"k": 1, "v": 1}])
    table.log.finish()
    table.write([{"k": 1, "v": 10}])
    committer = OwnTableCommitter(lake.table("shop.t"))
    state = committer.state()
    ends = {TieredBucket(None, b): o for b, o in table.log.end.items()}
    table.log.finish()
    commit = LakeCommit(state, state.table_id, ends, {})
    with pytest.raises(CommitConflict):
        committer.commit(committer.to_committable([]), commit)
    assert [(k, v) for k, v, _ in rows(table)] == [(1, 11)]
