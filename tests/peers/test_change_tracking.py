"""Tables and partitions whose changes are not tracked: Java Paimon and pypaimon read them, and Java
goes on writing and compacting them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PyPaimon
from tests.tables import KEEP_ALL, TableSpec

pytestmark = pytest.mark.peer
DAYS = TableSpec(
    {"dt": ts.STRING, "k": ts.INT, "v": ts.INT},
    primary_key=("dt", "k"),
    partition_by=("dt",),
    options=KEEP_ALL,
)


def both(value: int) -> list[dict[str, object]]:
    return [{"dt": dt, "k": k, "v": value} for dt in ("2026-01-01", "2026-01-02") for k in range(3)]


def written(warehouse: Path, producer: str) -> ts.Table:
    t = DAYS.create(warehouse, {"changelog-producer": producer})
    t.write(both(1))
    t = t.alter(ts.set_options({"change-tracking": False}, partition={"dt": "2026-01-01"}))
    t.write(both(2))
    return t


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
@pytest.mark.sample(1)
def test_java_reads_streams_and_goes_on(java: JavaPaimon, tmp_path: Path, producer: str) -> None:
    t = written(tmp_path, producer)
    expected = in_order(cells(t.scan().to_arrow()))
    assert in_order(java.rows(t.location)) == expected
    changes = [c for step in java.stream(t.location, 1) for c in step["changes"]]
    days = [c[1] for c in changes if c[-1] == 2]
    assert days
    assert set(days) == {"2026-01-02"}, "Java streams what there is"
    java.write(t.location, [["2026-01-01", 0, 3], ["2026-01-02", 0, 3]])
    java.compact(t.location, full=True)
    t = ts.open(t.location)
    assert sorted(r["v"] for r in t.scan().to_arrow().to_pylist()) == [2, 2, 2, 2, 3, 3]
    assert in_order(java.rows(t.location)) == in_order(cells(t.scan().to_arrow()))
    assert t.check() == []


def test_pypaimon_reads_it(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    t = written(tmp_path, "lookup")
    assert in_order(cells(peer.read("d.t"))) == in_order(cells(t.scan().to_arrow()))
