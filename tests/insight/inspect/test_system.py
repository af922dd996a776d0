"""System tables are read like tables: columns, conditions, branches, lakes; nothing writes to them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.insight.inspect.system import NAMES
from tests.faults import SimEnv
from tests.tables import TableSpec

SIMULATED = TableSpec(
    {"k": ts.INT, "p": ts.STRING, "v": ts.STRING},
    primary_key=("k", "p"),
    partition_by=("p",),
    new_env=SimEnv,
)


def rows(first: int, n: int, v: str = "x") -> pa.Table:
    keys = list(range(first, first + n))
    return pa.table({"k": pa.array(keys, pa.int32()), "p": ["ab"[i % 2] for i in keys], "v": [v] * n})


def test_columns_and_conditions_are_asked_for_as_of_tables(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path, {"write-only": True})
    for i in range(3):
        t.write(rows(i * 4, 4))
    lake = ts.connect(str(tmp_path))
    table = lake.table("d.t$files")
    actual = table.scan(["bucket", "record_count"], where=ts.col("partition") == "{a}").to_arrow()
    assert actual.schema.names == ["bucket", "record_count"]
    assert actual["record_count"].to_pylist() == [2, 2, 2]
    assert table.scan().filter(ts.col("level") == 0).head(4).count() == 4
    assert table.scan().select("level").schema.names == ["level"]
    assert len(table["file_path"]) == 6
    late = lake.table("d.t$snapshots").scan(where=ts.col("snapshot_id") > 1)
    assert late.select("commit_kind").to_arrow().to_pylist() == [{"commit_kind": "APPEND"}] * 2
    assert pa.table(late)["snapshot_id"].to_pylist() == [2, 3]
    assert repr(table).startswith("SystemTable(d.t$files: partition, bucket")
    assert late.to_pandas().shape == (2, 15)
    assert late.to_polars().height == 2


def test_every_one_of_them_opens(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path)
    t.write(rows(0, 4))
    for name in set(NAMES) - {"row_tracking"}:
        table = t.system(name)
        assert table.to_arrow().schema.names == table.schema.names, name
    with pytest.raises(InvalidRequest, match="row-tracking"):
        t.system("row_tracking").to_arrow()


def test_the_lake_alone_lacks_rows_that_are_in_the_log_only(tmp_path: Path) -> None:
    options = {"log.system": "embedded", "log.consistency": "eventual", "bucket": 1}
    t = SIMULATED.create(tmp_path, {**options, "tablestore.scan.log": True})
    t.write(rows(0, 4))
    with t.writer() as w:
        w.write(rows(2, 4, "y"))
        name = "d.t$lake"
        alone = ts.connect(str(tmp_path)).table(name).scan(where=ts.col("k") >= 2)
        assert sorted(alone.to_arrow()["k"].to_pylist()) == [2, 3]
        assert t.scan().count() == 6
    assert t.system("lake").scan().count() == 6
    with pytest.raises(Unsupported, match="audit_log"):
        t.system("audit_log").to_arrow()
    assert t.with_options({"tablestore.scan.log": False}).system("audit_log").scan().count() == 6


def test_what_is_misspelt_or_written_to_is_refused(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path)
    with pytest.raises(NotFound, match="did you mean snapshots"):
        t.system("snapshot")
    with pytest.raises(NotFound, match="did you mean level"):
        t.system("files").scan(["levels"]).to_arrow()
    with pytest.raises(InvalidRequest, match=r"d\.t\$files is a system table: it is read-only"):
        t.system("files").write(rows(0, 1))
    with pytest.raises(NotFound, match="did you mean tables"):
        ts.connect(str(tmp_path)).table("sys.table")


def test_a_branch_and_a_system_table_in_one_name(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path)
    t.write(rows(0, 2))
    t.tags.create("one")
    t.branches.create("b", "one")
    t.branch("b").write(rows(5, 1))
    lake = ts.connect(str(tmp_path))
    assert lake.table("d.t$branch_b$snapshots").scan().count() == 2
    assert lake.table("d.t$snapshots").scan().count() == 1
    assert lake.table("d.t$branch_b").scan().count() == 3
    with pytest.raises(NotFound, match="no branch 'bb'; did you mean b"):
        lake.table("d.t$branch_bb")
    assert repr(t.branch("b")).startswith("Table(d.t$branch_b at snapshot 2")
    assert t.with_options({"branch": "b"}).scan().count() == 3


def test_the_audit_log_is_pruned_by_the_table_s_own_columns(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path, {"write-only": True})
    t.write(rows(0, 4))
    t.delete(ts.col("k") == 1)
    audit = t.system("audit_log")
    assert audit.scan(where=ts.col("rowkind") == "-D").to_arrow().to_pylist() == [
        {"rowkind": "-D", "k": 1, "p": "b", "v": "x"}
    ]
    assert audit.scan(["k"], where=ts.col("p") == "a").to_arrow()["k"].to_pylist() == [0, 2]
    assert audit.scan(["k"]).count() == 4


def test_updates_of_the_binlog_hold_both_values(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path, {"changelog-producer": "input", "write-only": True})
    t.write(rows(0, 2))
    t.update({"v": "new"}, where=ts.col("k") == 0)
    t.delete(ts.col("k") == 1)
    actual = t.with_options({"incremental-between": "1,3"}).system("binlog").to_arrow().to_pylist()
    assert actual == [
        {"rowkind": "+U", "k": [0, 0], "p": ["a", "a"], "v": ["x", "new"]},
        {"rowkind": "-D", "k": [1], "p": ["b"], "v": ["x"]},
    ]


def test_read_optimized_shows_the_highest_level_only(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path, {"write-only": True})
    t.write(rows(0, 4))
    assert t.system("ro").scan().count() == 0
    t.compact(full=True)
    t.write(rows(0, 4, "y"))
    assert set(t.system("ro")["v"].to_pylist()) == {"x"}
    assert t.system("ro").scan(where=ts.col("k") == 2).to_arrow().to_pylist() == [
        {"k": 2, "p": "a", "v": "x"}
    ]


def test_a_lake_lists_its_tables_options_and_partitions(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path)
    t.write(rows(0, 4))
    lake = ts.connect(str(tmp_path))
    lake.create_table("e.log", schema={"v": ts.INT})
    tables = lake.table("sys.tables").scan(["database_name", "table_name", "partitioned", "primary_key"])
    assert tables.to_arrow().to_pylist() == [
        {"database_name": "d", "table_name": "t", "partitioned": True, "primary_key": True},
        {"database_name": "e", "table_name": "log", "partitioned": False, "primary_key": False},
    ]
    options = lake.table("sys.all_table_options").scan(where=ts.col("key") == "bucket").to_arrow()
    assert options.to_pylist() == [{"database_name": "d", "table_name": "t", "key": "bucket", "value": "1"}]
    actual = lake.table("sys.partitions").scan().to_arrow().to_pylist()
    assert [(r["table_name"], r["partition_name"], r["record_count"]) for r in actual] == [
        ("t", "p=a", 2),
        ("t", "p=b", 2),
    ]


def test_the_past_has_system_tables_too(tmp_path: Path) -> None:
    t = SIMULATED.create(tmp_path, {"write-only": True})
    for i in range(3):
        t.write(rows(i * 4, 4))
    t.tags.create("early", 1)
    t.expire_snapshots(keep=1)
    assert t.at(tag="early").system("files").scan().count() == 2
    assert t.at(tag="early").system("audit_log").scan().count() == 4
    assert t.system("files").scan().count() == 6
