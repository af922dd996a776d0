"""`inspect.merging` against the table's own scans and compactions, and against tables that Java made."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, Unsupported
from tests.peers.cells import cells, in_order
from tests.read import golden

ENGINES = {
    "deduplicate": {},
    "sequence": {"sequence.field": "n"},
    "ignoring": {"ignore-delete": "true"},
    "partial-update": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "n,v",
        "fields.n.aggregate-function": "sum",
    },
    "removing": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
}
COLUMNS = {"k": ts.INT, "n": ts.BIGINT, "g": ts.INT, "v": ts.STRING}
NO_COMPACTION = {"bucket": "1", "write-only": "true"}


def table_of(lake: ts.Lake, name: str, options: dict[str, str], rng: random.Random) -> ts.Table:
    """Seven commits over sixty keys, with deletes, and a compaction in between."""
    table = lake.create_table(
        f"t.{name}", schema=COLUMNS, primary_key=["k"], options={**NO_COMPACTION, **options}
    )
    for commit in range(7):
        rows = [
            {
                "k": k,
                "n": rng.choice([None, rng.randrange(9)]),
                "g": rng.choice([None, rng.randrange(5)]),
                "v": rng.choice([None, f"{commit}·{k}"]),
                "kind": rng.choice(["+I", "+U", "-D"]) if commit else "+I",
            }
            for k in sorted(rng.sample(range(60), 25))
        ]
        table.write(pa.Table.from_pylist(rows), row_kind_column="kind")
        if commit == 2:
            table.with_options({"write-only": "false"}).compact(full=True)
    return table


def in_key_order(rows: pa.Table) -> list[dict]:
    return sorted(rows.to_pylist(), key=lambda row: row["k"])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.sample(3)
def test_the_steps_are_what_a_scan_reads_and_a_full_compaction_writes(name: str, tmp_path, seeds) -> None:
    lake = ts.connect(str(tmp_path))
    for seed in seeds[::2]:
        table = table_of(lake, f"t{seed}", ENGINES[name], random.Random(seed))
        merging = table.inspect.merging(limit=100)
        if name == "first-row":  # its readers pass over level 0
            assert "level 0" in merging.place.unread
        else:
            assert in_key_order(merging.rows) == in_key_order(table.scan().to_arrow())
            assert merging.place.unread == ""
        assert merging.runs["name"].to_pylist()[-1] == "L5"
        assert merging.runs["name"].to_pylist()[0] == f"L0 #{table.inspect.snapshots()['snapshot_id'][-1]}"
        table.with_options({"write-only": "false"}).compact(full=True)
        after = table.inspect.merging(limit=100)
        assert in_key_order(after.rows) == in_key_order(merging.rows)
        assert in_key_order(table.scan().to_arrow()) == in_key_order(merging.rows)
        assert after.runs.num_rows == 1
        assert table.check() == []


def test_part_of_the_runs_keeps_its_deletes(tmp_path) -> None:
    table = table_of(ts.connect(str(tmp_path)), "t", {}, random.Random(1))
    part = table.inspect.merging(runs=2, limit=100)
    gone = part.outputs.filter(pa.compute.equal(part.outputs["row_kind"], "-D"))
    assert gone.num_rows
    assert set(gone["fate"].to_pylist()) == {"kept"}
    whole = table.inspect.merging(limit=100)
    assert (
        "kept"
        not in whole.outputs.filter(pa.compute.equal(whole.outputs["row_kind"], "-D"))["fate"].to_pylist()
    )


def test_windows_by_filter_and_by_place_on_the_axis_walk_over_all_keys(tmp_path) -> None:
    table = table_of(ts.connect(str(tmp_path)), "t", {}, random.Random(3))
    first = table.inspect.merging(limit=10)
    assert first.place.more
    seen, low = [], 0.0
    while True:
        merging = table.inspect.merging(between=(low, 1.0), limit=10)
        keys = merging.input_rows["k"].to_pylist()
        seen += [k for k in sorted(set(keys)) if k not in seen]
        if not merging.place.more:
            break
        low = merging.place.last
    everything = table.inspect.merging(limit=100)
    assert seen == sorted(set(everything.input_rows["k"].to_pylist()))
    asked = table.inspect.merging(where=(col("k") >= 20) & (col("k") < 24), limit=100)
    assert set(asked.input_rows["k"].to_pylist()) == {k for k in seen if 20 <= k < 24}


def test_a_past_snapshot_is_merged_as_it_was(tmp_path) -> None:
    table = table_of(ts.connect(str(tmp_path)), "t", {}, random.Random(4))
    merging = table.inspect.merging(3, limit=100)
    assert in_key_order(merging.rows) == in_key_order(table.at(snapshot=3).scan().to_arrow())
    assert merging.place.snapshot_id == 3
    then = table.at(snapshot=3).inspect
    assert then.merging(limit=100).outputs.equals(merging.outputs)
    assert then.levels().equals(table.inspect.levels(3))
    assert then.levels(4).equals(table.inspect.levels(4))


def test_rows_are_merged_as_if_the_table_had_another_engine(tmp_path) -> None:
    table = table_of(ts.connect(str(tmp_path)), "t", {}, random.Random(6))
    before = table.options
    asked = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    summed = table.inspect.merging(options=asked, limit=100)
    assert summed.engine == "aggregation"
    assert ("n", "sum") in summed.functions
    assert table.inspect.merging().engine == "deduplicate"
    assert table.refresh().options == before
    with pytest.raises(InvalidOption, match="'summ'"):
        table.inspect.merging(options={**asked, "fields.n.aggregate-function": "summ"})


def test_the_bucket_of_the_most_runs_is_chosen_and_others_by_name(tmp_path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "t.p",
        schema={"p": ts.STRING, **COLUMNS},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "2", "write-only": "true"},
    )
    for part in ("a", "b", "b"):
        table.write([{"p": part, "k": k, "n": k, "g": 1, "v": "x"} for k in range(20)])
    merging = table.inspect.merging()
    assert merging.place.partition == "p=b"
    assert merging.runs.num_rows == 2
    other = table.inspect.merging(partition="p=a", bucket=1, limit=100)
    assert (other.place.partition, other.place.bucket, other.runs.num_rows) == ("p=a", 1, 1)
    assert len(table.inspect.merging(where=col("p") == "a")) > 0
    with pytest.raises(NotFound, match="no files in p=c"):
        table.inspect.merging(partition="p=c")


def test_lookup_tables_leave_out_what_a_level_already_holds(tmp_path) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    options |= {"changelog-producer": "lookup", "bucket": "1"}
    table = ts.connect(str(tmp_path)).create_table("t.l", schema=COLUMNS, primary_key=["k"], options=options)
    for number in range(9):
        table.write([{"k": k, "n": number, "g": 0, "v": "x"} for k in range(number % 3, 12)])
        merging = table.inspect.merging(limit=100)
        assert in_key_order(merging.rows) == in_key_order(table.scan().to_arrow())


def test_what_makes_no_window_is_refused_with_its_remedy(tmp_path) -> None:
    lake = ts.connect(str(tmp_path))
    table = table_of(lake, "t", {}, random.Random(5))
    with pytest.raises(InvalidRequest, match="'v', which is no key column"):
        table.inspect.merging(where=col("v") == "a")
    with pytest.raises(InvalidRequest, match="limit 0"):
        table.inspect.merging(limit=0)
    with pytest.raises(InvalidRequest, match="two places"):
        table.inspect.merging(between=(0.9, 0.1))
    append = lake.create_table("t.append", schema=COLUMNS)
    with pytest.raises(Unsupported, match="without a primary key"):
        append.inspect.merging()
    empty = lake.create_table("t.empty", schema=COLUMNS, primary_key=["k"])
    assert len(empty.inspect.merging()) == 0


JAVA = [
    name
    for name in golden.java_tables()
    if name.startswith("pk_") and name not in ("pk_postpone", "pk_changelog_full")
]


@pytest.mark.parametrize("name", JAVA)
@pytest.mark.sample(8)
def test_tables_that_java_wrote_merge_to_the_rows_java_reads(name: str) -> None:
    table = ts.open(str(golden.JAVA / "warehouse" / "j.db" / name))
    buckets = table.inspect.levels().group_by(["partition", "bucket"]).aggregate([]).to_pylist()
    actual = [
        table.inspect.merging(partition=b["partition"], bucket=b["bucket"], limit=1000) for b in buckets
    ]
    rows = pa.concat_tables([m.rows for m in actual])
    types = {f.name: f.type for f in table.store.schema.fields}
    wanted = cells(table.scan().to_arrow().cast(rows.schema), types)
    assert in_order(cells(rows, types)) == in_order(wanted)
    assert len(wanted) == len(golden.expected(name)["rows"])
