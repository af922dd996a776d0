"""What merge options may say, and which rows are refused before anything is written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CannotMerge, InvalidOption, InvalidRequest, Unsupported
from tablestore.format.checksums import unsealed

COLUMNS = {
    "k": ts.INT,
    "p": ts.INT,
    "a": ts.INT,
    "b": ts.STRING,
    "s": ts.INT,
    "t": ts.INT,
    "l": ts.ARRAY(ts.INT),
    "f": ts.BOOLEAN,
}


@pytest.mark.parametrize(
    ("engine", "options", "named"),
    [
        (
            "aggregation",
            {
                "fields.b.aggregate-function": "listagg",
                "fields.b.distinct": "true",
                "fields.b.list-agg-delimiter": "",
            },
            "'fields.b.list-agg-delimiter' is empty",
        ),
        ("aggregation", {"fields.a.aggregate-function": "summ"}, "did you mean 'sum'"),
        ("aggregation", {"fields.a.agregate-function": "sum"}, "did you mean 'fields.a.aggregate-function'"),
        ("aggregation", {"fields.b.aggregate-function": "sum"}, "for numbers; column 'b' is STRING"),
        ("aggregation", {"fields.a.aggregate-function": "listagg"}, "for STRING"),
        ("aggregation", {"fields.a.aggregate-function": "bool_or"}, "for BOOLEAN"),
        ("aggregation", {"fields.l.aggregate-function": "max"}, "compared"),
        ("aggregation", {"fields.l.aggregate-function": "nested_update"}, "ARRAY of ROW"),
        ("aggregation", {"fields.f.aggregate-function": "max"}, "BOOLEAN, fails in Paimon 2.0.0: 'bool_or'"),
        (
            "partial-update",
            {"fields.s.sequence-group": "f", "fields.f.aggregate-function": "min"},
            "'bool_and' is the same",
        ),
        ("aggregation", {"fields.x.aggregate-function": "sum"}, "'x', which is not a column"),
        ("aggregation", {"fields.a.ignore-retract": "maybe"}, "true or false"),
        (
            "aggregation",
            {"fields.a.ignore-retract": "true", "aggregation.remove-record-on-delete": "true"},
            "exclude each other",
        ),
        ("aggregation", {"sequence.field": "a", "fields.a.aggregate-function": "sum"}, "cannot have an"),
        ("partial-update", {"fields.a.aggregate-function": "sum"}, "needs a sequence group"),
        ("partial-update", {"fields.s.sequence-group": "a,k"}, "primary keys cannot be"),
        ("partial-update", {"fields.s.sequence-group": "a,x"}, "'x', which is not a column"),
        (
            "partial-update",
            {"fields.s.sequence-group": "a", "fields.t.sequence-group": "a"},
            "in two sequence groups",
        ),
        (
            "partial-update",
            {"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "exclude each other",
        ),
        (
            "partial-update",
            {"fields.s.sequence-group": "a", "partial-update.remove-record-on-delete": "true"},
            "exclude each other",
        ),
        (
            "partial-update",
            {"fields.s.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "t"},
            "sequence of no group",
        ),
        ("first-row", {"sequence.field": "a"}, "first-row exclude"),
        ("first-row", {"changelog-producer": "input"}, "none or lookup only"),
        ("deduplicate", {"sequence.field": "x"}, "'x', which is not a column"),
        ("deduplicate", {"sequence.field": "a,a"}, "twice"),
        ("deduplicate", {"sequence.field": "l"}, "cannot be compared"),
        ("deduplicate", {"rowkind.field": "x"}, "not a column"),
        ("deduplicate", {"record-level.expire-time": "1 d"}, "needs 'record-level.time-field'"),
        ("deduplicate", {"record-level.time-field": "b"}, "must be INT, BIGINT or a timestamp"),
        ("deduplicate", {"record-level.time-field": "x"}, "not a column"),
        ("deduplicate", {"tablestore.merge.on-error": "ignore"}, "one of fail, skip"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_a_table_is_created(
    tmp_path: Path, engine: str, options: dict[str, str], named: str
) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(InvalidOption, match=named):
        lake.create_table(
            "d.t", schema=COLUMNS, primary_key=["k"], options={"merge-engine": engine, **options}
        )
    assert "d.t" not in lake


@pytest.mark.parametrize(
    ("engine", "options", "remedy"),
    [
        ("partial-update", {}, "partial-update.remove-record-on-delete"),
        ("first-row", {}, "'ignore-delete' = 'true'"),
        ("aggregation", {"fields.a.aggregate-function": "max"}, "'fields.a.ignore-retract' = 'true'"),
        (
            "partial-update",
            {"fields.s.sequence-group": "a", "fields.a.aggregate-function": "first_value"},
            "'fields.a.ignore-retract' = 'true'",
        ),
    ],
)
def test_a_row_that_no_engine_takes_is_refused_with_the_remedy_and_nothing_is_written(
    tmp_path: Path, engine: str, options: dict[str, str], remedy: str
) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "a": ts.INT, "s": ts.INT},
        primary_key=["k"],
        options={"merge-engine": engine, **options},
    )
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "kind": ["+I", "-D"]})
    with pytest.raises(InvalidRequest, match=remedy):
        table.write(rows, row_kind_column="kind")
    assert table.store.snapshots.latest() is None
    assert not [p for p in Path(table.location).rglob("*") if "bucket" in p.name]


def test_a_delete_is_taken_where_the_row_is_removed_and_an_update_before_is_not(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "a": ts.INT},
        primary_key=["k"],
        options={
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "max",
            "aggregation.remove-record-on-delete": "true",
        },
    )
    row = {"k": pa.array([1], pa.int32()), "a": pa.array([3], pa.int32())}
    table.write(pa.table(row))
    table.write(pa.table({**row, "kind": ["-D"]}), row_kind_column="kind")
    assert table.scan().to_arrow().num_rows == 0
    with pytest.raises(InvalidRequest, match="ignore-retract"):
        table.write(pa.table({**row, "kind": ["-U"]}), row_kind_column="kind")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"merge-engine": "first-row"}, "its rows are never deleted"),
        ({"merge-engine": "partial-update"}, "partial-update.remove-record-on-delete"),
        ({"merge-engine": "aggregation"}, "aggregation.remove-record-on-delete"),
        ({"ignore-delete": True}, "'ignore-delete' is set: deletes are dropped"),
        ({}, ""),
    ],
)
def test_a_delete_by_condition_is_refused_where_its_rows_would_stay(
    tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "a": ts.INT}, primary_key=["k"], options=options
    )
    table.write([{"k": 1, "a": 1}])
    if problem:
        with pytest.raises(InvalidRequest, match=problem):
            table.delete("a = 1")
    else:
        table.delete("a = 1")
    assert table.scan().count() == (1 if problem else 0)


def test_a_sequence_field_is_refused_where_a_key_may_be_in_several_partitions(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="needs all partition columns in the primary key: p"):
        ts.connect(str(tmp_path)).create_table(
            "d.t",
            schema={"k": ts.INT, "p": ts.INT, "s": ts.INT},
            primary_key=["k"],
            partition_by=["p"],
            options={"bucket": -1, "sequence.field": "s"},
        )


def test_a_key_that_overflows_is_named_and_the_others_can_be_read(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "n": ts.STRING, "a": ts.TINYINT},
        primary_key=["k", "n"],
        options={"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "write-only": "true"},
    )
    for _ in range(2):
        table.write(
            pa.table({"k": pa.array([1, 2], pa.int32()), "n": ["x", "y"], "a": pa.array([100, 1], pa.int8())})
        )
    text = r"d\.db/t\S*: key k = 1, n = 'x' cannot be merged: column 'a': byte overflow: 100 \+ 100; ALTER"
    with pytest.raises(CannotMerge, match=text) as error:
        table.scan().to_arrow()
    assert (error.value.column, error.value.key) == ("a", {"k": 1, "n": "x"})
    with pytest.raises(CannotMerge, match=text):
        table.compact(full=True)
    skipping = ts.open(table.location).with_options({"tablestore.merge.on-error": "skip"})
    assert skipping.scan().to_arrow().column("k").to_pylist() == [2]
    with pytest.raises(CannotMerge, match=text):  # what a compaction left out would be lost
        skipping.compact(full=True)
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.column, again.key) == ("a", {"k": 1, "n": "x"})


def test_maps_stored_in_columns_of_their_own_are_refused_by_name(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    schema = {"k": ts.INT, "m": ts.MAP(ts.STRING.not_null(), ts.INT), "v": ts.INT}
    option = "fields.m.map.storage-layout"
    with pytest.raises(Unsupported, match="storage-layout = shared-shredding"):
        lake.create_table("d.t", schema=schema, primary_key=["k"], options={option: "shared-shredding"})
    table = lake.create_table("d.t", schema=schema, primary_key=["k"], options={option: "default"})
    table.write([{"k": 1, "m": None, "v": 2}])
    file = Path(table.store.paths.root) / "schema" / "schema-0"
    file.write_bytes(unsealed(file.read_bytes()).replace(b'"default"', b'"shared-shredding"'))
    other = ts.open(table.location)
    with pytest.raises(Unsupported, match="maps are stored as keys and values"):
        other.scan().to_arrow()
    assert other.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": 2}]
