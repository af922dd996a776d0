"""Reads of tables of a real Fluss with what no round of tiering has brought yet: lake and log as one."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, NotFound, Unsupported
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, INT, STRING, TIMESTAMP
from tests.servers.fluss import LAKE, Fluss

COLUMNS = {"id": BIGINT.not_null(), "day": STRING.not_null(), "v": INT, "at": TIMESTAMP(3)}


def rows(table: FlussTable, ids: range, v: int, day: str = "a") -> pa.RecordBatch:
    n = len(ids)
    columns = [pa.array(ids), pa.array([day] * n), pa.array([v] * n), pa.array([v] * n)]
    arrays = [c.cast(f.type) for c, f in zip(columns, table.arrow_schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema)


def tiered(lake: ts.Lake, fluss: Fluss, table: FlussTable) -> ts.Table:
    lake.tier(f"fluss://{fluss.address}", tables=str(table.path), follow=False).wait(240)
    return lake.table(str(table.path))


def found(scan: ts.Scan) -> list[tuple[int, str, int]]:
    return sorted((r["id"], r["day"], r["v"]) for r in scan.to_arrow().to_pylist())


@pytest.mark.parametrize("partitions", [(), ("day",)])
@pytest.mark.sample(1)
def test_a_keyed_table_is_read_as_it_is_now(fluss: Fluss, lake: ts.Lake, partitions: tuple[str, ...]) -> None:
    key = ["id", *partitions]
    table = fluss.table(COLUMNS, key=key, partitions=partitions, buckets=2, properties=LAKE)
    days = "ab" if partitions else "a"
    for day in days if partitions else ():
        fluss.admin.create_partition(table.path, {"day": day})
    with TableWriter(fluss.cluster, table) as writer:
        for day in days:
            writer.upsert(rows(table, range(10), 1, day))
    ours = tiered(lake, fluss, table)
    assert ours.log is not None
    assert ours.log.system == "fluss"
    assert found(ours.scan()) == sorted((k, day, 1) for k in range(10) for day in days)
    if partitions:
        fluss.admin.create_partition(table.path, {"day": "c"})
    with TableWriter(fluss.cluster, table) as writer:
        writer.upsert(rows(table, range(8, 12), 2))
        writer.delete(rows(table, range(2), 0))
        if partitions:
            writer.upsert(rows(table, range(1), 3, "c"))
    expected = {(k, day): 1 for k in range(10) for day in days} | {(k, "a"): 2 for k in range(8, 12)}
    expected = {place: v for place, v in expected.items() if place[1] != "a" or place[0] >= 2}
    expected |= {(0, "c"): 3} if partitions else {}
    wanted = sorted((k, day, v) for (k, day), v in expected.items())
    assert found(ours.scan(log=True)) == wanted
    assert found(ours.scan(log=True, where="v = 2")) == [row for row in wanted if row[2] == 2]
    name = str(table.path)
    assert len(lake.sql(f"SELECT * FROM {name}").to_arrow()) == 10 * len(days)
    hint = "/*+ OPTIONS('tablestore.scan.log'='true') */"
    assert len(lake.sql(f"SELECT * FROM {name} {hint}").to_arrow()) == len(wanted)
    assert len(lake.sql(f"SELECT * FROM {name}$lake").to_arrow()) == 10 * len(days)
    assert found(tiered(lake, fluss, table).scan()) == wanted
    assert found(ours.refresh().scan(log=True)) == wanted
    with pytest.raises(Unsupported, match="by tiering"):
        ours.write({"id": [1], "day": ["a"], "v": [1], "at": [None]})


def test_a_stream_goes_from_the_lake_to_the_log(fluss: Fluss, lake: ts.Lake) -> None:
    table = fluss.table(COLUMNS, key=["id"], buckets=2, properties=LAKE)
    with TableWriter(fluss.cluster, table) as writer:
        writer.upsert(rows(table, range(5), 1))
        ours = tiered(lake, fluss, table)
        steps = ours.stream(start="latest-full", follow=True, timeout=240)
        first = next(steps)
        assert (first.full, first.to_arrow().num_rows, first.source) == (True, 5, "files")
        writer.upsert(rows(table, range(4, 6), 2))
        second = next(steps)
        assert second.source == "log"
        changes = [(r["rowkind"], r["id"], r["v"]) for r in second.to_arrow().to_pylist()]
        while len(changes) < 3:  # one step a look at the log, and two buckets
            changes += [(r["rowkind"], r["id"], r["v"]) for r in next(steps).to_arrow().to_pylist()]
        assert sorted(changes) == [("+I", 5, 2), ("+U", 4, 2), ("-U", 4, 1)]


def test_a_log_table_adds_its_rows_with_their_places(fluss: Fluss, lake: ts.Lake) -> None:
    table = fluss.table(COLUMNS, buckets=2, properties=LAKE)
    with TableWriter(fluss.cluster, table) as writer:
        writer.append(rows(table, range(3), 1), bucket=1)
        lake.tier(f"fluss://{fluss.address}", tables=str(table.path), follow=False, log_columns=True).wait(
            240
        )
        ours = lake.table(str(table.path))
        writer.append(rows(table, range(3, 5), 2), bucket=1)
        writer.append(rows(table, range(5, 6), 2), bucket=0)
    both = ours.scan(log=True).to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["__bucket"], r["__offset"]) for r in both] == [
        *((k, 1, k) for k in range(5)),
        (5, 0, 0),
    ]
    assert all(time.time() - r["__timestamp"].timestamp() < 600 for r in both)
    assert ours.scan().count() == 3
    assert ours.scan(log=True).count() == 6


def test_a_table_that_was_made_again_is_read_in_the_lake_alone(fluss: Fluss, lake: ts.Lake) -> None:
    table = fluss.table(COLUMNS, buckets=1, properties=LAKE)
    with TableWriter(fluss.cluster, table) as writer:
        writer.append(rows(table, range(3), 1))
    ours = tiered(lake, fluss, table)
    fluss.admin.drop_table(table.path)
    with pytest.raises(NotFound, match="read the lake alone"):
        ours.refresh().scan(log=True).count()
    fluss.admin.create_table(table.path, table.descriptor)
    with pytest.raises(CommitConflict, match="made again"):
        lake.table(str(table.path)).scan(log=True).count()
    assert ours.scan().count() == 3


@pytest.mark.large
def test_a_stream_ends_by_name_where_its_table_is_made_again(fluss: Fluss, lake: ts.Lake) -> None:
    table = fluss.table(COLUMNS, buckets=1, properties=LAKE)
    with TableWriter(fluss.cluster, table) as writer:
        writer.append(rows(table, range(3), 1))
        steps = tiered(lake, fluss, table).stream(start="latest-full", follow=True, timeout=240)
        assert next(steps).to_arrow().num_rows == 3
        writer.append(rows(table, range(3, 4), 1))
        assert next(steps).to_arrow().num_rows == 1
    fluss.admin.drop_table(table.path)
    fluss.admin.create_table(table.path, table.descriptor)
    with pytest.raises(CommitConflict, match="made again"):
        next(steps)


@pytest.mark.spark
@pytest.mark.large
def test_spark_tiers_and_reads_lake_and_log(fluss: Fluss, lake: ts.Lake, spark: Any) -> None:
    table = fluss.table(COLUMNS, key=["id"], buckets=2, properties=LAKE)
    with TableWriter(fluss.cluster, table) as writer:
        writer.upsert(rows(table, range(10), 1))
        source = f"fluss://{fluss.address}"
        lake.tier(source, tables=str(table.path), follow=False, spark=spark).wait(240)
        writer.upsert(rows(table, range(8, 12), 2))
        writer.delete(rows(table, range(2), 0))
    ours = lake.table(str(table.path))
    reader = spark.read.format("tablestore")
    assert reader.load(ours.location).count() == 10
    both = reader.option("tablestore.scan.log", "true").load(ours.location)
    assert sorted((r.id, r.v) for r in both.collect()) == [
        *((k, 1) for k in range(2, 8)),
        *((k, 2) for k in range(8, 12)),
    ]
