"""Rounds into Iceberg tables: each row once, what is refused, what a former table's rows become."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from tablestore.core.errors import CommitConflict, SchemaMismatch, Unsupported
from tablestore.format.types.arrow_types import BIGINT, DATE, INT, SMALLINT, STRING, TIMESTAMP
from tablestore.format.types.data_type import DataField
from tablestore.meta import positions
from tablestore.tiering.cluster import ClusterTable, LakeCommit, RowBatch
from tablestore.tiering.committer import RoundCommitted, SplitResult, commit_round, plan_round
from tablestore.tiering.iceberg.factory import IcebergTieringFactory
from tablestore.tiering.splits import TieredBucket, TieringLogSplit
from tests.tiering.memory import MemoryCluster, PartitionedCluster, remade


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/lake",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster.holding(5, 3)


def read(cluster: MemoryCluster, factory: IcebergTieringFactory) -> tuple[Any, Any, list[SplitResult]]:
    table = cluster.table("db.t")
    factory.prepare(table)
    committer = factory.create_committer(table)
    plan = plan_round(cluster, committer, table)
    results = []
    for split in plan.splits:
        writer = pickle.loads(pickle.dumps(factory)).create_writer(table, split, replaces=plan.replaces)
        for step in cluster.read_log(table, [split]):
            writer.write(step.batch)
        result = pickle.loads(pickle.dumps(writer.complete()))
        results.append(SplitResult(split, result, split.stop - split.log_start))
    return committer, plan, results


def round_of(cluster: MemoryCluster, factory: IcebergTieringFactory) -> RoundCommitted:
    return commit_round(cluster, *read(cluster, factory))


def table_of(properties: dict[str, str]) -> Any:
    return load_catalog("lake", **properties).load_table(("db", "t"))


def rows(properties: dict[str, str]) -> list[int]:
    return sorted(table_of(properties).scan().to_arrow()["x"].to_pylist())


def files(tmp_path: Path) -> int:
    return len(list((tmp_path / "lake").rglob("data/**/*.parquet")))


def test_rounds_put_each_row_into_the_table_once(
    tmp_path: Path, properties: dict[str, str], cluster: MemoryCluster
) -> None:
    factory = IcebergTieringFactory(properties)
    first = round_of(cluster, factory)
    assert first.rows == 8
    cluster.append(1, 2)
    second = round_of(cluster, factory)
    assert second.rows == 2
    assert round_of(cluster, factory).snapshot_id is None
    assert rows(properties) == sorted([*range(5), *range(5)])
    newest = table_of(properties).current_snapshot()
    assert newest.snapshot_id == second.snapshot_id == cluster.known.snapshot_id
    assert newest.summary[positions.OFFSETS] == '[{"bucket":0,"offset":5},{"bucket":1,"offset":5}]'
    assert files(tmp_path) == 3


def test_of_two_services_one_is_refused_and_its_files_go(
    tmp_path: Path, properties: dict[str, str], cluster: MemoryCluster
) -> None:
    factory = IcebergTieringFactory(properties)
    late = read(cluster, factory)
    assert round_of(cluster, factory).rows == 8
    with pytest.raises(CommitConflict):
        commit_round(cluster, *late)
    committer, plan, results = late
    commit = LakeCommit(plan.lake, 1, {TieredBucket(None, 0): 5}, {})
    with pytest.raises(CommitConflict, match="newer snapshot"):
        committer.commit(committer.to_committable([outcome.result for outcome in results]), commit)
    assert rows(properties) == sorted([*range(5), *range(3)])
    assert files(tmp_path) == 2


def test_rows_that_others_append_meanwhile_refuse_a_round_in_the_commit_itself(
    tmp_path: Path, properties: dict[str, str], cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = IcebergTieringFactory(properties)
    committer, plan, results = read(cluster, factory)
    stale = table_of(properties)
    table_of(properties).append(pa.table({"x": pa.array([99], pa.int64())}))
    monkeypatch.setattr(committer, "_loaded", lambda: stale)
    with pytest.raises(CommitConflict, match="changed since"):
        committer.commit(
            committer.to_committable([outcome.result for outcome in results]),
            LakeCommit(plan.lake, 1, {TieredBucket(None, 0): 5}, {}),
        )
    assert rows(properties) == [99]
    monkeypatch.undo()
    assert round_of(cluster, factory).rows == 8


def test_a_lost_answer_of_the_cluster_is_healed(properties: dict[str, str], cluster: MemoryCluster) -> None:
    factory = IcebergTieringFactory(properties)
    cluster.lost_answers = 1
    with pytest.raises(ConnectionError):
        round_of(cluster, factory)
    assert round_of(cluster, factory).snapshot_id is None
    assert cluster.known.offsets == {TieredBucket(None, 0): 5, TieredBucket(None, 1): 3}
    assert len(rows(properties)) == 8


def test_rows_of_a_former_table_are_replaced(properties: dict[str, str], cluster: MemoryCluster) -> None:
    factory = IcebergTieringFactory(properties)
    round_of(cluster, factory)
    remade(cluster)
    assert round_of(cluster, factory).snapshot_id is not None
    assert rows(properties) == []
    cluster.append(0, 2)
    assert round_of(cluster, factory).rows == 2
    assert rows(properties) == [0, 1]
    state = factory.create_committer(cluster.table("db.t")).state()
    assert (state.table_id, state.offsets) == (2, {TieredBucket(None, 0): 2})


def test_rows_of_partitions_are_dropped_with_the_offsets_kept(properties: dict[str, str]) -> None:
    cluster, factory = PartitionedCluster(), IcebergTieringFactory(properties)
    cluster.add("a", 3)
    cluster.add("b", 2)
    round_of(cluster, factory)
    committer = factory.create_committer(cluster.table("db.t"))
    before = committer.state()
    commit = LakeCommit(before, 1, before.offsets, {1: "b"}, drops=("a",))
    number = committer.commit(committer.to_committable([]), commit)
    assert rows(properties) == [0, 1]
    after = committer.state()
    assert (after.snapshot_id, after.offsets, after.partition_names) == (number, before.offsets, {1: "b"})


def test_offsets_outlive_the_snapshots_of_rounds(properties: dict[str, str], cluster: MemoryCluster) -> None:
    factory = IcebergTieringFactory(properties)
    snapshot_id = round_of(cluster, factory).snapshot_id
    table = table_of(properties)
    table.append(pa.table({"x": pa.array([99], pa.int64())}))
    table.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    assert round_of(cluster, factory).snapshot_id is None
    assert len(rows(properties)) == 9


def test_rows_of_a_round_that_was_rolled_back_come_again(
    properties: dict[str, str], cluster: MemoryCluster
) -> None:
    factory = IcebergTieringFactory(properties)
    first = round_of(cluster, factory).snapshot_id
    cluster.append(0, 2)
    assert round_of(cluster, factory).rows == 2
    table_of(properties).manage_snapshots().rollback_to_snapshot(first).commit()
    assert round_of(cluster, factory).rows == 2
    assert len(rows(properties)) == 10


def test_partitions_types_and_columns_of_the_log(properties: dict[str, str]) -> None:
    fields = (
        DataField(0, "day", DATE),
        DataField(1, "small", SMALLINT),
        DataField(2, "at", TIMESTAMP(3)),
        DataField(3, "name", STRING),
    )
    source = ClusterTable("db.t", 1, fields, 1, partition_keys=("name",))
    factory = IcebergTieringFactory(properties, log_columns=True)
    factory.prepare(source)
    split = TieringLogSplit(
        table_path="db.t", table_id=1, partition_id=3, partition_name="x", bucket=0, start=7, stop=9
    )
    batch = pa.record_batch(
        {
            "day": pa.array([1, None], pa.int32()).cast(pa.date32()),
            "small": pa.array([-3, None], pa.int16()),
            "at": pa.array([12, None], pa.int64()).cast(pa.timestamp("ms")),
            "name": ["x", "x"],
        }
    )
    writer = factory.create_writer(source, split)
    writer.write(RowBatch(batch, None, 7, 1_000))
    committer = factory.create_committer(source)
    commit = LakeCommit(committer.state(), 1, {TieredBucket(3, 0): 9}, {3: "x"})
    committer.commit(committer.to_committable([writer.complete()]), commit)
    rows = table_of(properties).scan().to_arrow().sort_by("__offset").to_pylist()
    assert [row["__offset"] for row in rows] == [7, 8]
    assert [row["small"] for row in rows] == [-3, None]
    assert rows[0]["at"].microsecond == 12_000
    assert [task.file.partition[0] for task in table_of(properties).scan().plan_files()] == ["x"]
    assert committer.state().partition_names == {3: "x"}
    assert committer.state().offsets == {TieredBucket(3, 0): 9}


def test_what_iceberg_cannot_hold_is_refused_by_name(
    properties: dict[str, str], cluster: MemoryCluster
) -> None:
    factory = IcebergTieringFactory(properties)
    table = cluster.table("db.t")
    with pytest.raises(Unsupported, match=r"keyed table db\.t in Iceberg"):
        factory.prepare(replace(table, primary_keys=("x",)))
    with pytest.raises(Unsupported, match=r"'t'.*microseconds"):
        factory.prepare(replace(table, fields=(DataField(0, "t", TIMESTAMP(9)),)))
    factory.prepare(table)
    with pytest.raises(SchemaMismatch, match="'x' is int64"):
        factory.prepare(replace(table, fields=(DataField(0, "x", STRING),)))
    more = replace(table, fields=(*table.fields, DataField(1, "y", INT)))
    factory.prepare(more)
    assert [f.name for f in table_of(properties).schema().fields] == ["x", "y"]
    with pytest.raises(SchemaMismatch, match="NOT NULL"):
        factory.prepare(replace(more, fields=(*more.fields, DataField(2, "z", BIGINT.not_null()))))
