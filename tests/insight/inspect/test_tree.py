"""Lists, manifests, entries, states and row groups: each step checked against the format's own readers."""

from __future__ import annotations

import fastavro
import numpy as np
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound


@pytest.fixture
def lake(tmp_path) -> ts.Lake:
    return ts.connect(str(tmp_path))


def filled(lake: ts.Lake, name: str = "t.t", **options: str) -> ts.Table:
    """Three commits and a full compaction."""
    given = {"bucket": 2, "write-only": "true", "changelog-producer": "input"} | options
    table = lake.create_table(
        name,
        schema={"p": ts.INT, "k": ts.BIGINT, "s": ts.STRING, "tags": ts.ARRAY(ts.STRING)},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={k: v for k, v in given.items() if v != ""},
    )
    for n in range(3):
        ks = list(range(n * 50, n * 50 + 100))
        texts = [None if k % 10 == 0 else f"v{k:04}" for k in ks]
        table.write({"p": [k % 2 for k in ks], "k": ks, "s": texts, "tags": [["a"]] * len(ks)})
    table.with_options({"write-only": "false"}).compact(full=True, partition="p=1")
    return table


def test_lists_and_manifests_are_those_that_the_files_hold(lake: ts.Lake) -> None:
    table = filled(lake)
    snapshot = table.store.snapshots.latest()
    lists = table.inspect.manifest_lists()
    assert lists["kind"].to_pylist() == ["base", "delta"]
    assert lists["file_name"].to_pylist() == [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    assert table.inspect.manifest_lists(1)["kind"].to_pylist() == ["base", "delta", "changelog"]
    for row in lists.to_pylist():
        path = f"{table.location}/manifest/{row['file_name']}"
        with open(path, "rb") as f:
            there = list(fastavro.reader(f))
        list_manifests = table.inspect.list_manifests(row["file_name"])
        assert list_manifests["file_name"].to_pylist() == [m["_FILE_NAME"] for m in there]
        assert list_manifests["files_added"].to_pylist() == [m["_NUM_ADDED_FILES"] for m in there]
        assert row["entries"] == len(there)
        assert row["files_deleted"] == sum(m["_NUM_DELETED_FILES"] for m in there)


def test_single_snapshots_are_read_alone(lake: ts.Lake) -> None:
    table = filled(lake)
    whole = table.inspect.snapshots()
    assert table.inspect.snapshots(newest=2).equals(whole.slice(2))
    assert table.inspect.snapshots(newest=99).equals(whole)
    assert table.inspect.snapshots(newest=0).num_rows == 0
    assert table.inspect.snapshots(only=2).equals(whole.slice(1, 1))
    table.tags.create("kept", snapshot=1)
    table.expire_snapshots(keep=1)
    assert table.inspect.snapshots(only=1).equals(whole.slice(0, 1)), "a tag keeps it"
    assert table.inspect.state(1).num_rows == 4
    with pytest.raises(NotFound, match="no snapshot 2"):
        table.inspect.snapshots(only=2)


def test_entries_are_what_a_manifest_adds_and_removes(lake: ts.Lake) -> None:
    table = filled(lake)
    (delta,) = table.inspect.list_manifests(table.store.snapshots.latest().delta_manifest_list).to_pylist()
    entries = table.inspect.entries(delta["file_name"])
    counts = {c: pc.sum(pc.equal(entries["change"], c).cast("int64")).as_py() for c in ("added", "removed")}
    assert counts == {"added": delta["files_added"], "removed": delta["files_deleted"]}
    with open(f"{table.location}/manifest/{delta['file_name']}", "rb") as f:
        names = [e["_FILE"]["_FILE_NAME"] for e in fastavro.reader(f)]
    assert entries["file_name"].to_pylist() == names
    with pytest.raises(InvalidRequest, match="no name of a manifest"):
        table.inspect.entries("../snapshot/snapshot-1")
    with pytest.raises(NotFound, match="gone, or never was"):
        table.inspect.entries("manifest-none")


def test_a_difference_of_states_adds_up_to_both(lake: ts.Lake) -> None:
    table = filled(lake)
    difference = table.inspect.diff(3, 4)
    for snapshot, absent in ((3, "added"), (4, "removed")):
        names = difference.filter(pc.not_equal(difference["change"], absent))["file_name"].to_pylist()
        assert sorted(names) == sorted(table.inspect.levels(snapshot)["file_name"].to_pylist())
    changes = difference.group_by("change").aggregate([("bytes", "sum"), ([], "count_all")]).to_pylist()
    counted = {c["change"]: c["count_all"] for c in changes}
    assert counted == {"removed": 6, "added": 2, "kept": 6}
    commit = table.inspect.commits().to_pylist()[-1]
    assert counted["removed"] == commit["files_removed"]
    assert {c["change"]: c["bytes_sum"] for c in changes}["added"] == commit["bytes_added"]
    assert table.inspect.diff(4, 4)["change"].unique().to_pylist() == ["kept"]
    assert table.inspect.state(4).num_rows == 8
    position = difference["min_key_pos"].to_numpy()
    assert position.min() == 0.0
    assert difference["max_key_pos"].to_numpy().max() == 1.0


def test_moved_and_masked_files_are_distinguished_from_new_ones(lake: ts.Lake) -> None:
    options = {"deletion-vectors.enabled": "true", "write-only": "", "changelog-producer": ""}
    table = filled(lake, **options)
    before = table.store.snapshots.latest_id()
    table.delete(ts.where("k = 7"))
    table.delete(ts.where("k = 9"))
    difference = table.inspect.diff(before)
    masked = difference.filter(pc.equal(difference["change"], "masked"))
    assert masked.num_rows >= 1
    vectors = {
        r["f0"]: r["_CARDINALITY"]
        for ranges in table.inspect.table_indexes()["dv_ranges"].to_pylist()
        for r in ranges or ()
    }
    assert dict(zip(*(masked[c].to_pylist() for c in ("file_name", "masked")), strict=True)).items() <= (
        vectors.items()
    )
    alone = lake.create_table("t.up", schema={"k": ts.INT}, primary_key=["k"], options={"write-only": "true"})
    alone.write({"k": [1, 2]})
    alone.with_options({"write-only": "false"}).compact(full=True)
    (moved,) = alone.inspect.diff(1).to_pylist()
    assert (moved["change"], moved["level_before"], moved["level"]) == ("moved", 0, 5)


def test_row_groups_are_those_of_the_footer(lake: ts.Lake) -> None:
    table = filled(lake, **{"file.block-size": "2 kb"})
    for row in table.inspect.files().slice(0, 3).to_pylist():
        name = row["file_path"].rsplit("/", 1)[-1]
        row_groups = table.inspect.row_groups(name).to_pylist()
        footer = pq.read_metadata(row["file_path"])
        assert {r["row_group"] for r in row_groups} == set(range(footer.num_row_groups))
        assert len(row_groups) == footer.num_row_groups * footer.num_columns
        for r in row_groups:
            group = footer.row_group(r["row_group"])
            at = [group.column(c).path_in_schema for c in range(group.num_columns)].index(r["column"])
            part = group.column(at)
            assert (r["rows"], r["bytes"]) == (group.num_rows, part.total_compressed_size)
            assert r["raw_bytes"] == part.total_uncompressed_size
            assert r["codec"] == part.compression.lower()
            assert set(r["encodings"].split(", ")) <= set(part.encodings)
            if r["column"] in ("k", "s"):
                stats = part.statistics
                assert (r["nulls"], r["min"], r["max"]) == (stats.null_count, str(stats.min), str(stats.max))
    with pytest.raises(NotFound, match="snapshot 4 names none such"):
        table.inspect.row_groups("data-none.parquet")


def test_a_file_that_was_removed_is_shown_as_long_as_its_snapshot_names_it(lake: ts.Lake) -> None:
    table = filled(lake)
    difference = table.inspect.diff(3, 4)
    gone = difference.filter(pc.equal(difference["change"], "removed"))["file_name"][0].as_py()
    assert table.inspect.row_groups(gone, 4).num_rows > 0
    (changelog,) = set(
        table.inspect.entries(
            table.inspect.list_manifests(table.inspect.manifest_lists(1)["file_name"][2].as_py())[
                "file_name"
            ][0].as_py()
        )
        .filter(pc.field("bucket") == 0)["file_name"]
        .to_pylist()[:1]
    )
    assert table.inspect.row_groups(changelog, 1).num_rows > 0


def test_stripes_of_orc_and_blocks_of_avro_are_shown_as_far_as_known(lake: ts.Lake) -> None:
    table = filled(lake, "t.o", **{"file.format": "orc"})
    row = table.inspect.files().to_pylist()[0]
    row_groups = table.inspect.row_groups(row["file_path"].rsplit("/", 1)[-1]).to_pylist()
    file = orc.ORCFile(row["file_path"])
    rows = file.read()
    assert {r["row_group"] for r in row_groups} == set(range(file.nstripes))
    k, s = (next(r for r in row_groups if r["column"] == c) for c in ("k", "s"))
    bounds = pc.min_max(rows["k"]).as_py()
    assert (k["min"], k["max"], k["nulls"]) == (str(bounds["min"]), str(bounds["max"]), 0)
    assert s["nulls"] == rows["s"].null_count
    avro = filled(lake, "t.a", **{"file.format": "avro"})
    row = avro.inspect.files().to_pylist()[0]
    blocks = avro.inspect.row_groups(row["file_path"].rsplit("/", 1)[-1])
    assert pc.sum(blocks["rows"]).as_py() == row["record_count"]
    assert blocks["column"].unique().to_pylist() == ["all columns"]


def test_append_tables_have_no_keys_and_an_empty_table_has_no_lists(lake: ts.Lake) -> None:
    table = lake.create_table("t.append", schema={"k": ts.INT})
    assert table.inspect.manifest_lists().num_rows == 0
    assert table.inspect.state().num_rows == 0
    table.write({"k": list(range(5))})
    (row,) = table.inspect.state().to_pylist()
    assert (row["min_key"], row["min_key_pos"], row["masked"], row["rows"]) == (None, None, 0, 5)
    assert np.isin("kept", table.inspect.state()["change"].to_pylist())
