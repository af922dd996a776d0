"""Partitions of a real Fluss that are dropped under a lake: rounds say so, streams and union reads go on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.journal import read_report
from tablestore.tiering.opening import journal_directory
from tablestore.tiering.report import RoundReport
from tablestore.tiering.splits import TieringLogSplit
from tests.servers.fluss import LAKE, Fluss

LOG = {"id": BIGINT, "day": STRING.not_null()}
KEYED = {"id": BIGINT.not_null(), "day": STRING.not_null()}
SERVED_SECONDS = 60
"""For how long a tablet server may go on serving a partition: the coordinator tells it later."""


BOTH_KINDS = pytest.mark.parametrize("keyed", [False, True], ids=["log", "keyed"])


def new_table(fluss: Fluss, *, keyed: bool) -> FlussTable:
    """Made by a test itself, so that it is on the cluster on which a test is done once more."""
    columns, key = (KEYED, ("id", "day")) if keyed else (LOG, ())
    table = fluss.table(columns, key=key, partitions=["day"], buckets=1, properties=LAKE)
    for day in "ab":
        fluss.admin.create_partition(table.path, {"day": day})
    return table


def put(fluss: Fluss, table: FlussTable, rows: Sequence[tuple[int, str]]) -> None:
    with TableWriter(fluss.cluster, table) as writer:
        given = pa.table({"id": [id for id, _ in rows], "day": [day for _, day in rows]})
        (writer.upsert if table.primary_key else writer.append)(given)


def round_of(fluss: Fluss, lake: ts.Lake, table: FlussTable, **options: str) -> RoundReport:
    service = lake.tier(f"fluss://{fluss.address}", tables=str(table.path), follow=False, **options)
    assert service.wait(240)
    (done,) = service.rounds()
    return done


def ids(stream: ts.Stream) -> list[int]:
    return sorted(row["id"] for step in stream for row in step.to_arrow().to_pylist())


@BOTH_KINDS
def test_a_dropped_partition_ends_no_stream_and_is_reported(
    fluss: Fluss, keyed: bool, tmp_path: Path
) -> None:
    lake, table = ts.connect(tmp_path), new_table(fluss, keyed=keyed)
    put(fluss, table, [(id, "ab"[id % 2]) for id in range(10)])
    assert round_of(fluss, lake, table).outcome == "committed"
    ours = lake.table(str(table.path))
    (*_, first) = ours.stream(start="latest-full", follow=False)
    put(fluss, table, [(id, "ab"[id % 2]) for id in range(10, 14)])
    assert round_of(fluss, lake, table).outcome == "committed"
    (*_, second) = ours.stream(start=first.cursor, follow=False)
    put(fluss, table, [(20, "a"), (21, "b")])  # no round brings the first
    fluss.admin.drop_partition(table.path, {"day": "a"})
    wanted = [*range(14), 21]
    assert ids(ours.stream(start=second.cursor, follow=False)) == [21]
    assert ids(ours.stream(start=first.cursor, follow=False)) == [10, 11, 12, 13, 21]
    for start in ("latest-full", "earliest"):
        assert ids(ours.stream(start=start, follow=False)) == wanted
    assert sorted(ours.scan(log=True).to_arrow()["id"].to_pylist()) == wanted
    done = round_of(fluss, lake, table)
    assert (done.outcome, done.rows) == ("incomplete", 1)
    assert "partition a was dropped in the cluster: the lake keeps its rows" in done.notes[0]
    (event,) = read_report(journal_directory(lake.warehouse)).events
    assert (event.name, event.table, event.partition) == ("partition dropped", str(table.path), "a")
    assert round_of(fluss, lake, table).outcome == "empty"
    assert ids(ours.stream(start=second.cursor, follow=False)) == [21]
    assert sorted(ours.refresh().scan().to_arrow()["id"].to_pylist()) == wanted
    assert ours.check() == []
    fluss.admin.create_partition(table.path, {"day": "a"})  # another one of the same name
    put(fluss, table, [(30, "a")])
    fluss.admin.drop_partition(table.path, {"day": "b"})
    assert round_of(fluss, lake, table, dropped="drop").outcome == "incomplete"
    kept = [*range(0, 14, 2), 30]
    assert sorted(ours.refresh().scan(log=True).to_arrow()["id"].to_pylist()) == kept
    assert ids(ours.stream(start="latest-full", follow=False)) == kept
    assert ours.check() == []
    newest = ours.store.snapshots.latest()
    assert newest is not None
    offsets = json.loads((newest.properties or {})["fluss-offsets"])
    assert [offset["partition_name"] for offset in offsets] == ["day=a"]  # those of partitions that are there
    fluss.admin.drop_table(table.path)
    with pytest.raises(ts.NotFound, match="no table"):
        round_of(fluss, lake, table)
    event = read_report(journal_directory(lake.warehouse)).events[-1]
    assert (event.name, event.table, event.offsets) == ("table dropped", str(table.path), None)
    assert sorted(ours.refresh().scan().to_arrow()["id"].to_pylist()) == kept


@BOTH_KINDS
def test_of_a_partition_that_is_dropped_while_it_is_read_the_others_are_read_on(
    fluss: Fluss, keyed: bool
) -> None:
    table = new_table(fluss, keyed=keyed)
    put(fluss, table, [(id, "ab"[id % 2]) for id in range(10)])
    cluster = FlussTieringCluster(fluss.address)
    actual = cluster.table(str(table.path))
    names = cluster.partitions(str(table.path))
    splits = [
        TieringLogSplit(
            table_path=actual.path,
            table_id=actual.table_id,
            partition_id=id,
            partition_name=name,
            bucket=0,
            start=0,
            stop=5,
        )
        for id, name in names.items()
    ]
    fluss.admin.drop_partition(table.path, {"day": "a"})
    until, read = time.monotonic() + SERVED_SECONDS, dict[str, tuple[bool, int]]()
    while not read or (read["a"] == (False, 5) and time.monotonic() < until):
        steps = list(cluster.read_log(actual, splits))
        read = {names[step.table_bucket.partition_id]: (step.gone, step.offset) for step in steps}
        assert read["b"] == (False, 5)
    cluster.close()
    assert read["a"][0]
