"""Metadata tables: their columns, the text forms of Paimon, places on the key axis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format import binary_row
from tablestore.format.types.arrow_types import BIGINT, DOUBLE, INT, STRING
from tablestore.insight.explain.key_axis import key_axis
from tablestore.insight.inspect.inspect import Inspect
from tests.faults import SimEnv
from tests.read import golden
from tests.tables import WRITE_ONLY, TableSpec

BY_DAY = TableSpec(
    {"k": ts.INT, "p": ts.DATE, "v": ts.STRING},
    primary_key=("k", "p"),
    partition_by=("p",),
    options=WRITE_ONLY | {"bucket": 2},
    new_env=SimEnv,
)


def rows(keys: Any, day: int, v: str | None) -> pa.Table:
    keys = list(keys)
    days = pa.array([day] * len(keys), pa.int32()).cast(pa.date32())
    return pa.table({"k": pa.array(keys, pa.int32()), "p": days, "v": pa.array([v] * len(keys), pa.string())})


def test_commits_add_up_what_each_snapshot_changed(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path)
    table.write(rows(range(10), 0, "a"), user="u", identifier=1)
    table.write(rows(range(5), 0, "b"), user="u", identifier=2)
    table.compact(full=True)
    commits = table.inspect.commits()
    assert commits.schema.names == [
        "snapshot_id",
        "commit_kind",
        "commit_time",
        "rows_added",
        "rows_removed",
        "files_added",
        "files_removed",
        "bytes_added",
        "bytes_removed",
        "changelog_rows",
        "watermark",
        "commit_user",
        "commit_identifier",
        "properties",
    ]
    seen = [
        (
            r["snapshot_id"],
            r["commit_kind"],
            r["rows_added"],
            r["rows_removed"],
            r["files_added"],
            r["files_removed"],
        )
        for r in commits.to_pylist()
    ]
    assert seen == [(1, "APPEND", 10, 0, 2, 0), (2, "APPEND", 5, 0, 2, 0), (3, "COMPACT", 10, 15, 2, 4)]
    assert commits["bytes_removed"][2].as_py() == sum(commits["bytes_added"].to_pylist()[:2])
    assert all(isinstance(json.loads(p), dict) for p in commits["properties"].to_pylist())


def test_levels_number_the_runs_from_the_newest(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path, {"bucket": 1})
    for _ in range(2):
        table.write(rows(range(100), 0, "a"))
    table.compact(full=True)
    table.write(rows(range(0, 50), 0, "b"))
    table.write(rows(range(50, 60), 0, "c"))
    levels = table.inspect.levels().to_pylist()
    assert [(r["run"], r["level"], r["rows"]) for r in levels] == [(0, 0, 10), (1, 0, 50), (2, 5, 100)]
    assert [(r["min_key"], r["max_key"]) for r in levels] == [
        ("[50]", "[59]"),
        ("[0]", "[49]"),
        ("[0]", "[99]"),
    ]
    assert [(r["min_key_pos"], r["max_key_pos"]) for r in levels] == [
        (pytest.approx(50 / 99), pytest.approx(59 / 99)),
        (0.0, pytest.approx(49 / 99)),
        (0.0, 1.0),
    ]
    assert {r["partition"] for r in levels} == {"p=1970-01-01"}
    assert [r["file_source"] for r in levels] == ["APPEND", "APPEND", "COMPACT"]
    assert table.inspect.levels(3).num_rows == 1
    assert table.inspect.levels(partition="p=1970-01-02").num_rows == 0
    assert table.inspect.levels(bucket=0).num_rows == 3


def test_text_forms_are_those_of_paimon(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path, {"bucket": 1})
    table.write(rows([7, 9], 19_724, "x"))
    table.write(rows([8], 19_724, None))
    first = table.inspect.files().to_pylist()[0]
    assert first["partition"] == "{2024-01-02}"
    assert first["file_path"].startswith(f"{table.location}/p=19724/bucket-0/data-")
    assert (first["min_key"], first["max_key"]) == ("[7]", "[9]")
    assert first["null_value_counts"] == "{k=0, p=0, v=0}"
    assert first["min_value_stats"] == "{k=7, p=19724, v=x}"
    second = table.inspect.files().to_pylist()[1]
    assert (second["max_value_stats"], second["null_value_counts"]) == (
        "{k=8, p=19724, v=null}",
        "{k=0, p=0, v=1}",
    )
    (partition,) = table.inspect.partitions().to_pylist()
    assert (partition["partition"], partition["record_count"], partition["file_count"]) == (
        "p=2024-01-02",
        3,
        2,
    )
    (bucket,) = table.inspect.buckets().to_pylist()
    assert (bucket["partition"], bucket["bucket"], bucket["record_count"]) == ("{2024-01-02}", 0, 3)
    (manifest, _) = table.inspect.manifests().to_pylist()
    assert manifest["min_partition_stats"] == manifest["max_partition_stats"] == "{2024-01-02}"
    (schema,) = table.inspect.schemas().to_pylist()
    assert json.loads(schema["fields"])[0] == {"id": 0, "name": "k", "type": "INT NOT NULL"}
    assert json.loads(schema["primary_keys"]) == ["k", "p"]
    assert {"key": "bucket", "value": "1"} in table.inspect.options().to_pylist()


def test_partitions_come_in_the_order_of_their_values(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path, {"bucket": 1})
    for day in (100, 9, -3, 20):
        table.write(rows([1], day, "x"))
    wanted = ["p=1969-12-29", "p=1970-01-10", "p=1970-01-21", "p=1970-04-11"]
    assert table.inspect.partitions()["partition"].to_pylist() == wanted
    assert table.inspect.levels()["partition"].to_pylist() == wanted


def test_an_unpartitioned_table_has_one_empty_partition() -> None:
    inspect = Inspect(golden.java("pk_levels"))
    assert set(inspect.files()["partition"].to_pylist()) == {"{}"}
    assert inspect.partitions()["partition"].to_pylist() == [""]


def test_older_snapshots_have_their_own_files() -> None:
    inspect = Inspect(golden.java("pk_levels"))
    assert inspect.files(3)["level"].to_pylist() == [0] * 6
    assert inspect.buckets(3)["file_count"].to_pylist() == [3, 3]
    assert inspect.manifests(3).num_rows == 3


def test_tags_branches_and_consumers_are_listed() -> None:
    java = Inspect(golden.java("branch_tags"))
    names = {r["tag_name"]: r for r in java.tags().to_pylist()}
    assert set(names) == {"t1", "kept"}
    assert names["t1"]["create_time"] is None
    assert names["kept"]["create_time"] is not None
    assert names["kept"]["time_retained"] == "PT24H"
    assert java.branches()["branch_name"].to_pylist() == ["b1"]
    python = Inspect(golden.python("pk_branch_consumer"))
    assert python.consumers().to_pylist() == [{"consumer_id": "c1", "next_snapshot_id": 2}]


@pytest.mark.parametrize("table", golden.java_tables())
def test_every_metadata_table_can_be_had_of_every_java_table(table: str) -> None:
    inspect = Inspect(golden.java(table))
    names = (
        "snapshots",
        "schemas",
        "options",
        "manifests",
        "commits",
        "files",
        "levels",
        "partitions",
        "buckets",
    )
    sizes = {n: getattr(inspect, n)().num_rows for n in names}
    assert sizes["files"] == sizes["levels"] == len(golden.expected(table)["files"])
    assert sizes["snapshots"] == sizes["commits"] == len(golden.expected(table)["snapshots"])


def test_a_table_without_snapshots_has_empty_tables(tmp_path: Path) -> None:
    inspect = BY_DAY.create(tmp_path).inspect
    for name in ("snapshots", "manifests", "commits", "files", "levels", "partitions", "buckets"):
        assert getattr(inspect, name)().num_rows == 0


@pytest.mark.parametrize("view", ["levels", "compactions", "amplification"])
def test_places_of_the_wrong_type_are_refused(tmp_path: Path, view: str) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT}, primary_key=["k"])
    with pytest.raises(ts.InvalidRequest, match="bucket '0' must be a whole number"):
        getattr(t.inspect, view)(bucket="0")
    assert isinstance(getattr(t.inspect, view)(bucket=np.int32(0)), pa.Table)
    with pytest.raises(ts.InvalidRequest, match="must be text such as 'p=1'"):
        getattr(t.inspect, view)(partition={"p": 1})


def test_the_key_axis_is_linear_in_the_first_column_that_varies() -> None:
    types = [BIGINT, INT]
    keys = [binary_row.encode(v, types) for v in ([5, 10], [5, 20], [5, 30])]
    place = key_axis(keys, types)
    assert [place(k) for k in keys] == [0.0, 0.5, 1.0]


def test_texts_have_places_by_what_follows_their_common_beginning() -> None:
    keys = [binary_row.encode([t], [STRING]) for t in ("order-a", "order-b", "order-c", "order-é")]
    place = key_axis(keys, [STRING])
    actual = [place(k) for k in keys]
    assert actual[0] == 0.0
    assert actual[-1] == 1.0
    assert actual == sorted(actual)


def test_a_single_key_is_in_the_middle_and_infinities_at_the_ends() -> None:
    key = binary_row.encode([3], [INT])
    assert key_axis([key, key], [INT])(key) == 0.5
    ends = [binary_row.encode([v], [DOUBLE]) for v in (float("-inf"), 0.0, 10.0, float("inf"), float("nan"))]
    place = key_axis(ends, [DOUBLE])
    assert [place(k) for k in ends] == [0.0, 0.0, 1.0, 1.0, 1.0]


def test_every_view_takes_what_another_gives(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table(
        "d.t",
        schema={"k": ts.INT, "p": ts.INT, "q": ts.STRING},
        primary_key=["k", "p", "q"],
        partition_by=["p", "q"],
        options={"bucket": 2},
    )
    for _ in range(2):
        t.write([{"k": k, "p": k % 2, "q": "a /="} for k in range(8)])
    t.tags.create("v1", snapshot=1)
    see = t.inspect
    name = see.levels()["file_name"][0]
    path = next(p for p in see.files()["file_path"] if p.as_py().endswith(name.as_py()))
    stored = next(p for p in see.storage().files["path"] if p.as_py().endswith(name.as_py()))
    for file in (name, name.as_py(), path, path.as_py(), stored):
        assert see.row_groups(file) == see.row_groups(name.as_py())
    with pytest.raises(ts.NotFound):
        see.row_groups(f"elsewhere/{name}")
    for files, view in ((see.manifest_lists(), see.list_manifests), (see.manifests(), see.entries)):
        actual = files["file_name"][0].as_py()
        stored = next(p for p in see.storage().files["path"].to_pylist() if p.endswith(actual))
        assert view(actual) == view(files["file_name"][0]) == view(stored) == view(f"{t.location}/{stored}")
    views = (see.files(), see.buckets(), see.levels(), see.partitions())
    partitions = [v["partition"][0] for v in views]
    assert {str(p) for p in partitions} == {"{0, a /=}", "p=0/q=a /="}
    for partition in partitions:
        assert see.levels(partition=partition, bucket=see.buckets()["bucket"][0]).num_rows == 2
        assert see.amplification("bucket", partition=partition).num_rows == 2
        assert see.merging(partition=partition).place.partition == "p=0/q=a /="
        chosen = {"partition": partition.as_py(), "bucket": see.buckets()["bucket"][:2]}
        report = t.compact(full=True, dry_run=True, **chosen)
        assert len(report.picks) == 2
    first = see.snapshots()["snapshot_id"][0]
    for snapshot in (first, np.int64(1), "v1", see.tags()["snapshot_id"][0]):
        assert see.files(snapshot) == see.files(1)
        assert see.diff(snapshot, 2) == see.diff(1, 2)
    assert t.at(snapshot=first).scan().count() == t.at(tag=see.tags()["tag_name"][0]).scan().count() == 8
    assert t.changes(since=first).num_rows == 8


def test_the_latest_snapshot_is_known_by_its_id_alone(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path)
    assert table.inspect.latest_snapshot_id() is None
    table.write(rows(range(3), 1, "a"))
    table.write(rows(range(3), 1, "b"))
    assert table.inspect.latest_snapshot_id() == 2
    assert table.at(snapshot=1).inspect.latest_snapshot_id() == 2


def test_the_levels_of_a_fresh_tree_follow_the_options(tmp_path: Path) -> None:
    table = BY_DAY.create(tmp_path, {"num-sorted-run.compaction-trigger": 4})
    assert table.inspect.num_levels() == 5
    assert table.with_options({"num-levels": 3}).inspect.num_levels() == 3
