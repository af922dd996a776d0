"""Rounds into tables of this engine: what their snapshots say, and which commits are refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, SchemaMismatch, Unavailable, Unsupported
from tablestore.format import hashing
from tablestore.format.types.arrow_types import BIGINT, INT, STRING, TIME, TIMESTAMP_LTZ
from tablestore.format.types.data_type import DataField, DataType
from tablestore.meta import positions
from tablestore.read.table_log import offsets_at
from tablestore.tiering.cluster import COMMIT_USER, ClusterTable, LakeCommit, LakeState, RowBatch
from tablestore.tiering.committer import RoundCommitted, SplitResult, commit_round, plan_round
from tablestore.tiering.paimon.factory import PaimonTieringFactory
from tablestore.tiering.splits import TieredBucket, TieringLogSplit
from tests.tiering.memory import MemoryCluster, remade

FIELDS = (DataField(0, "id", BIGINT.not_null()), DataField(1, "day", STRING), DataField(2, "v", INT))
KEYED = ClusterTable("db.k", 4, FIELDS, 2, primary_keys=("id",), bucket_keys=("id",))
B0 = TieredBucket(None, 0)


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    return ts.connect(tmp_path)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster.holding(5, 3)


def round_of(cluster: MemoryCluster, factory: PaimonTieringFactory) -> RoundCommitted:
    table = cluster.table("db.t")
    factory.prepare(table)
    committer = factory.create_committer(table)
    plan = plan_round(cluster, committer, table)
    results = []
    for split in plan.splits:
        writer = factory.create_writer(table, split, replaces=plan.replaces)
        for step in cluster.read_log(table, [split]):
            writer.write(step.batch)
        results.append(SplitResult(split, writer.complete(), split.stop - split.log_start))
    return commit_round(cluster, committer, plan, results)


def rows(lake: ts.Lake) -> list[int]:
    return sorted(lake.table("db.t").scan().to_arrow()["x"].to_pylist())


def test_a_lake_that_is_away_is_not_filled_anew(tmp_path: Path, cluster: MemoryCluster):
    lake = ts.connect(tmp_path / "lake")
    factory = PaimonTieringFactory(lake)
    assert round_of(cluster, factory).rows == 8
    cluster.append(0, 2)
    (tmp_path / "lake").rename(tmp_path / "away")
    (tmp_path / "lake" / "tablestore-tiering").mkdir(parents=True)  # a service has written there
    with pytest.raises(Unavailable, match="mount what holds it"):
        round_of(cluster, factory)
    (tmp_path / "lake" / "tablestore-tiering").rmdir()
    (tmp_path / "lake").rmdir()
    with pytest.raises(Unavailable, match="mount what holds it"):
        round_of(cluster, factory)
    assert not (tmp_path / "lake").exists()
    (tmp_path / "away").rename(tmp_path / "lake")
    assert round_of(cluster, factory).rows == 2
    lake.drop_table("db.t")
    assert round_of(cluster, factory).rows == 10  # which is dropped is filled anew


def test_rounds_put_each_row_into_the_lake_once(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    assert round_of(cluster, factory).rows == 8
    cluster.append(1, 2)
    assert round_of(cluster, factory) == RoundCommitted(2, 2)
    assert round_of(cluster, factory).snapshot_id is None
    assert rows(lake) == sorted([*range(5), *range(5)])
    snapshot = lake.table("db.t").store.snapshots.latest()
    assert snapshot.commit_user == COMMIT_USER
    assert snapshot.properties["fluss-offsets"] == '[{"bucket":0,"offset":5},{"bucket":1,"offset":5}]'
    assert snapshot.properties[positions.TABLE_ID] == "1"
    assert cluster.known.snapshot_id == 2
    assert lake.table("db.t").check() == []


def test_every_later_snapshot_of_ours_says_the_offsets(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    round_of(cluster, factory)
    table = lake.table("db.t")
    table.compact(full=True)
    table.write([{"x": 99}])  # rows of others
    table.expire_snapshots(keep=1)
    state = factory.create_committer(cluster.table("db.t")).state()
    assert (state.offsets, state.table_id) == ({B0: 5, TieredBucket(None, 1): 3}, 1)
    cluster.append(0, 1)
    assert round_of(cluster, factory).rows == 1


def test_where_other_engines_expired_the_offsets_the_position_has_them(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    round_of(cluster, factory)
    store = lake.table("db.t").store
    ours = store.snapshots.latest()
    foreign = replace(ours, id=2, properties=None, writer_version=None, commit_user="java", uuid=None)
    assert store.snapshots.publish(foreign)
    store.snapshots.delete(1)
    state = factory.create_committer(cluster.table("db.t")).state()
    assert (state.snapshot_id, state.offsets[B0], state.table_id) == (2, 5, 1)


def test_of_two_rounds_of_one_state_the_second_is_refused_by_the_lake(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    table = cluster.table("db.t")
    factory.prepare(table)
    committers = [factory.create_committer(table) for _ in range(2)]
    states = [committer.state() for committer in committers]
    split = TieringLogSplit(table_path="db.t", table_id=1, bucket=0, start=0, stop=2)
    committables = []
    for committer in committers:
        writer = factory.create_writer(table, split)
        writer.write(RowBatch(pa.record_batch({"x": [0, 1]}), None, 0, 0))
        committables.append(committer.to_committable([writer.complete()]))
    asked = [LakeCommit(state, 1, {B0: 2}, {}) for state in states]
    assert committers[0].commit(committables[0], asked[0]) == 1
    with pytest.raises(CommitConflict):
        committers[1].commit(committables[1], asked[1])
    assert rows(lake) == [0, 1]
    removed = lake.table("db.t").remove_orphans(older_than="0s", dry_run=True, force=True)
    assert not removed.files


def test_rows_of_others_since_the_plan_refuse_a_round(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    table = cluster.table("db.t")
    factory.prepare(table)
    committer = factory.create_committer(table)
    state = committer.state()
    lake.table("db.t").write([{"x": 7}])
    with pytest.raises(CommitConflict, match="snapshot 1 changed rows"):
        committer.commit(committer.to_committable([]), LakeCommit(state, 1, {B0: 2}, {}))


def test_rows_of_a_former_table_are_replaced_and_a_tag_keeps_them(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake)
    round_of(cluster, factory)
    remade(cluster)
    cluster.append(0, 2)
    assert round_of(cluster, factory).rows == 2
    assert rows(lake) == [0, 1]
    table = lake.table("db.t")
    assert table.at(tag="fluss-table-1").scan().count() == 8
    assert factory.create_committer(cluster.table("db.t")).state().offsets == {B0: 2}
    assert table.check() == []


def test_a_table_that_was_made_again_is_empty_in_the_lake_before_its_first_row(
    lake: ts.Lake, cluster: MemoryCluster
):
    factory = PaimonTieringFactory(lake)
    round_of(cluster, factory)
    remade(cluster)
    assert round_of(cluster, factory).snapshot_id is not None
    assert rows(lake) == []
    assert round_of(cluster, factory).snapshot_id is None
    cluster.append(0, 2)
    assert round_of(cluster, factory).rows == 2
    assert lake.table("db.t").check() == []


def test_each_round_says_how_much_of_the_log_is_in_files(lake: ts.Lake, cluster: MemoryCluster):
    factory = PaimonTieringFactory(lake, read_from="127.0.0.1:9123")
    round_of(cluster, factory)
    store = lake.table("db.t").store
    assert offsets_at(store, store.snapshots.latest()) == {0: 5, 1: 3}
    remade(cluster)
    cluster.append(0, 2)
    round_of(cluster, factory)
    assert offsets_at(store, store.snapshots.latest()) == {0: 2, 1: 0}
    table = lake.table("db.t")
    assert table.log.system == "fluss"
    for refused in (
        lambda: table.write({"x": [1]}),
        lambda: table.delete(ts.col("x") == 1),
        lambda: table.update({"x": 1}, where="x = 0"),
        lambda: table.overwrite({"x": [1]}),
        table.truncate,
        table.log.finish,
        table.open_writer,
    ):
        with pytest.raises(Unsupported, match="by tiering"):
            refused()
    assert {a.verb: a.works for a in table.abilities()}["write"] is False
    table.compact()
    assert rows(lake) == [0, 1]


def test_log_columns_say_where_a_row_was(lake: ts.Lake, cluster: MemoryCluster):
    round_of(cluster, PaimonTieringFactory(lake, log_columns=True))
    rows = (
        lake.table("db.t").scan().to_arrow().sort_by([("__bucket", "ascending"), ("__offset", "ascending")])
    )
    assert rows["__bucket"].to_pylist() == [0] * 5 + [1] * 3
    assert rows["__offset"].to_pylist() == rows["x"].to_pylist()


def keyed_rows(bucket: int, count: int = 100) -> pa.RecordBatch:
    ids = pa.array(np.arange(1000))
    ids = ids.filter(pa.array(hashing.bucket_of([ids], [BIGINT], 2) == bucket)).slice(0, count)
    names = ["id", "day", "v"]
    return pa.RecordBatch.from_arrays(
        [ids, pa.nulls(len(ids), pa.string()), pa.array(range(len(ids)), pa.int32())], names=names
    )


def test_keyed_rows_go_to_the_bucket_of_their_split(lake: ts.Lake):
    factory = PaimonTieringFactory(lake)
    factory.prepare(KEYED)
    task = pickle.loads(pickle.dumps(factory))
    results = []
    for bucket in range(2):
        split = TieringLogSplit(table_path="db.k", table_id=4, bucket=bucket, start=0, stop=150)
        writer = task.create_writer(KEYED, split)
        batch = keyed_rows(bucket)
        writer.write(RowBatch(batch, None, 0, 0))
        changed = pa.record_batch(
            [batch["id"], batch["day"], pa.array([-1] * 100, pa.int32())], names=batch.schema.names
        )
        pairs = pa.concat_batches([batch.slice(0, 10), changed.slice(0, 10), batch.slice(50, 5)])
        kinds = pa.array([1] * 10 + [2] * 10 + [3] * 5, pa.int8())
        writer.write(RowBatch(pairs, kinds, 100, 0))
        results.append(pickle.loads(pickle.dumps(writer.complete())))
    committer = factory.create_committer(KEYED)
    commit = LakeCommit(LakeState(basis=committer.state().basis), 4, {B0: 150}, {})
    committer.commit(committer.to_committable(results), commit)
    table = lake.table("db.k")
    assert table.scan().count() == 190
    assert table.scan(where=ts.col("v") == -1).count() == 20
    assert table.check() == []


def test_a_cluster_that_hashes_otherwise_is_refused(lake: ts.Lake):
    factory = PaimonTieringFactory(lake)
    factory.prepare(KEYED)
    split = TieringLogSplit(table_path="db.k", table_id=4, bucket=1, start=0, stop=100)
    writer = factory.create_writer(KEYED, split)
    with pytest.raises(Unsupported, match="hashes for another lake"):
        writer.write(RowBatch(keyed_rows(0), None, 0, 0))
    writer.abort()


def test_partitions_are_named_as_fluss_names_them(lake: ts.Lake):
    source = ClusterTable("db.p", 5, FIELDS, 1, primary_keys=("id", "day"), partition_keys=("day",))
    factory = PaimonTieringFactory(lake)
    factory.prepare(source)
    split = TieringLogSplit(
        table_path="db.p", table_id=5, partition_id=12, partition_name="a/b=c", bucket=0, start=0, stop=1
    )
    writer = factory.create_writer(source, split)
    batch = pa.record_batch(
        {"id": pa.array([1], pa.int64()), "day": ["a/b=c"], "v": pa.array([1], pa.int32())}
    )
    writer.write(RowBatch(batch, None, 0, 0))
    committer = factory.create_committer(source)
    commit = LakeCommit(committer.state(), 5, {TieredBucket(12, 0): 1}, {12: "a/b=c"})
    committer.commit(committer.to_committable([writer.complete()]), commit)
    state = committer.state()
    assert (state.offsets, state.partition_names) == ({TieredBucket(12, 0): 1}, {12: "a/b=c"})


def test_a_lake_table_as_the_plugin_of_fluss_makes_it_takes_rows(lake: ts.Lake):
    """Its TIME has no fraction by name and has milliseconds, its ROW has other ids of fields, and rows of a
    snapshot of keys are at no place in the log."""
    row = DataType("ROW", children=(DataField(0, "a", INT), DataField(1, "b", STRING)))
    fields = (DataField(0, "id", BIGINT.not_null()), DataField(1, "at", TIME(3)), DataField(2, "r", row))
    theirs = DataType("ROW", children=(DataField(4, "a", INT), DataField(5, "b", STRING)))
    columns = {"id": BIGINT.not_null(), "at": TIME(0), "r": theirs}
    columns |= {"__bucket": INT, "__offset": BIGINT, "__timestamp": TIMESTAMP_LTZ(3)}
    lake.create_table("db.k", schema=columns, primary_key=["id"], options={"bucket": 1})
    source = ClusterTable("db.k", 4, fields, 1, primary_keys=("id",), bucket_keys=("id",))
    factory = PaimonTieringFactory(lake)
    factory.prepare(source)
    split = TieringLogSplit(table_path="db.k", table_id=4, bucket=0, start=0, stop=3)
    writer = factory.create_writer(source, split)
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "at": pa.array([0, 45_296_789, None], pa.time32("ms")),
            "r": [{"a": 1, "b": "x"}] * 3,
        }
    )
    writer.write(RowBatch(rows.to_batches()[0], None, -1, -1))
    committer = factory.create_committer(source)
    commit = LakeCommit(committer.state(), 4, {B0: 3}, {})
    committer.commit(committer.to_committable([writer.complete()]), commit)
    actual = lake.table("db.k").scan().to_arrow().sort_by("id")
    assert actual["at"].cast(pa.time32("ms")).to_pylist() == rows["at"].to_pylist()
    assert actual["r"].to_pylist() == rows["r"].to_pylist()
    assert actual["__offset"].to_pylist() == [-1] * 3
    assert lake.table("db.k").check() == []


def test_a_lake_table_that_is_another_one_is_refused_and_new_columns_are_added(lake: ts.Lake):
    factory = PaimonTieringFactory(lake)
    factory.prepare(KEYED)
    with pytest.raises(SchemaMismatch, match="it has bucket = 2, the cluster's table 3"):
        factory.prepare(ClusterTable("db.k", 4, FIELDS, 3, primary_keys=("id",), bucket_keys=("id",)))
    more = (*FIELDS, DataField(3, "note", STRING))
    factory.prepare(ClusterTable("db.k", 4, more, 2, primary_keys=("id",), bucket_keys=("id",)))
    assert lake.table("db.k").schema.names == ["id", "day", "v", "note"]


def test_columns_that_others_add_to_the_lake_table_are_null_in_rows_of_the_cluster(lake: ts.Lake):
    factory = PaimonTieringFactory(lake)
    factory.prepare(KEYED)
    lake.table("db.k").alter(ts.add("score", INT))
    factory.prepare(KEYED)
    split = TieringLogSplit(table_path="db.k", table_id=4, bucket=0, start=0, stop=100)
    writer = factory.create_writer(KEYED, split)
    writer.write(RowBatch(keyed_rows(0), None, 0, 0))
    committer = factory.create_committer(KEYED)
    commit = LakeCommit(committer.state(), 4, {B0: 100}, {})
    committer.commit(committer.to_committable([writer.complete()]), commit)
    rows = lake.table("db.k").scan().to_arrow()
    assert (rows["score"].null_count, rows.num_rows) == (rows.num_rows, keyed_rows(0).num_rows)
    for name, columns in (("needed", {"id": BIGINT, "x": INT.not_null()}), ("other", {"x": INT})):
        lake.create_table(f"db.{name}", schema=columns)
        with pytest.raises(SchemaMismatch, match="the cluster's table has no column 'x'"):
            factory.prepare(ClusterTable(f"db.{name}", 5, (DataField(0, "id", BIGINT),), 1))
