"""What may be written: data of any shape made to fit, or refused with column, value and remedy."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField, DataType, parse_type, to_arrow
from tablestore.write.arrow_input import as_batches
from tablestore.write.conform import conform
from tests.tables import schema_of


def schema(v: DataType | str, *, default: str | None = None) -> TableSchema:
    t = parse_type(v) if isinstance(v, str) else v
    return schema_of({"k": ts.INT, "v": DataField(1, "v", t, default=default)})


def fitted(v: DataType | str, values: list[Any] | pa.Array) -> list[Any]:
    of = schema(v)
    batches = [conform(b, of) for b in as_batches({"k": list(range(len(values))), "v": values}, of)]
    assert all(b.schema == of.arrow for b in batches)
    for batch in batches:
        batch.validate(full=True)
    return [x for b in batches for x in b.column("v").to_pylist()]


ROW = "ROW<`x` INT NOT NULL, `y` VARCHAR(3)>"


@pytest.mark.parametrize(
    ("t", "values", "expected"),
    [
        ("ARRAY<INT>", [[1, None], None, []], [[1, None], None, []]),
        ("ARRAY<ARRAY<BIGINT>>", [[[1], None]], [[[1], None]]),
        ("MAP<STRING, INT>", [{"a": 1}, None, {}], [[("a", 1)], None, []]),
        ("MAP<INT, STRING>", [[(1, "a"), (2, None)]], [[(1, "a"), (2, None)]]),
        ("MULTISET<STRING>", [{"a": 2}, None], [[("a", 2)], None]),
        (ROW, [{"x": 1, "y": "a"}, None, {"x": 2}], [{"x": 1, "y": "a"}, None, {"x": 2, "y": None}]),
        (f"ARRAY<{ROW}>", [[{"x": 1}, None]], [[{"x": 1, "y": None}, None]]),
        ("VARIANT", [{"value": b"1", "metadata": b"2"}, None], [{"value": b"1", "metadata": b"2"}, None]),
        ("DECIMAL(4, 1)", [1, None], [Decimal("1.0"), None]),
        ("DATE", [None, date(2026, 1, 1)], [None, date(2026, 1, 1)]),
        ("DATE", [None, datetime(2026, 1, 1)], [None, date(2026, 1, 1)]),
        ("TINYINT", [127.0, -128.0, float("nan"), None, -0.0], [127, -128, None, None, 0]),
        ("BIGINT", [2.0**53, -(2.0**53)], [2**53, -(2**53)]),
        ("ARRAY<INT>", pa.array([[1.0, float("nan")]]), [[1, None]]),
        ("ARRAY<INT>", [[1, 2.0], np.array([3]), (4,)], [[1, 2], [3], [4]]),
    ],
)
def test_python_values_fit(t: str, values: list[Any], expected: list[Any]) -> None:
    assert fitted(t, values) == expected


@pytest.mark.parametrize(
    ("t", "kind"),
    [
        ("ARRAY<INT>", pa.large_list(pa.int64())),
        ("ARRAY<INT>", pa.list_(pa.int8(), 2)),
        ("ARRAY<STRING>", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        ("MAP<STRING, DOUBLE>", pa.map_(pa.large_string(), pa.int32())),
        ("ROW<`a` ARRAY<BIGINT>>", pa.struct([("a", pa.list_(pa.int16()))])),
        ("ARRAY<DATE>", pa.null()),
    ],
)
def test_other_arrow_types_of_the_same_shape_fit(t: str, kind: pa.DataType) -> None:
    of = schema(t)
    given = {
        "list": [[1, 2], None],
        "map": [[("a", 1)], None],
        "struct": [{"a": [1]}, None],
        "null": [None] * 2,
    }
    name = "map" if pa.types.is_map(kind) else "struct" if pa.types.is_struct(kind) else "list"
    values = given["null" if pa.types.is_null(kind) else name]
    if "dictionary" in str(kind):
        values = [["x", "y"], None]
    column = pa.array([values[0], *values], kind).slice(1)
    created = conform(pa.record_batch({"k": pa.array([1, 2]), "v": column}), of).column("v")
    assert created.type == to_arrow(of.by_name["v"].type)
    created.validate(full=True)
    assert created.to_pylist() == values


@pytest.mark.parametrize(
    ("t", "values", "said"),
    [
        ("ARRAY<INT NOT NULL>", [[1, None]], r"'v', element, is NOT NULL"),
        ("ARRAY<INT>", [[1], [2.5]], r"'v', element, is double and the table has INT: .*holds 2\.5"),
        ("ARRAY<ROW<`x` TINYINT>>", [[{"x": 1}, {"x": 0.5}]], r"'v', element,, field 'x', .*holds 0\.5"),
        ("MAP<STRING, INT>", [{"a": 1}, None, {"a": 2.5}], r"'v', value, .*holds 2\.5"),
        ("ARRAY<DATE>", [[datetime(2026, 1, 1, 5)]], "only midnights are dates"),
        ("ARRAY<TIMESTAMP(3)>", [[datetime(2026, 1, 1, 0, 0, 0, 1)]], "would lose data"),
        ("MAP<STRING, INT NOT NULL>", [[("a", None)]], r"'v', value, is NOT NULL"),
        ("MULTISET<STRING>", [[("a", 0)]], "counts start at 1"),
        (ROW, [{"y": "a"}], r"field 'x', is NOT NULL"),
        (ROW, [{"x": None, "y": "a"}], r"field 'x', is NOT NULL"),
        (ROW, [{"x": 1, "y": "abcd"}], r"VARCHAR\(3\) and a value has length 4"),
        ("CHAR(2)", ["abc"], r"CHAR\(2\) and a value has length 3"),
        ("BINARY(2)", [b"abc"], r"BINARY\(2\) and a value has length 3"),
        ("ARRAY<VARBINARY(1)>", [[b"ab"]], r"element, is VARBINARY\(1\)"),
        ("ARRAY<INT>", [3], "v"),
        ("DECIMAL(3, 1)", [Decimal("123.4")], "v"),
        ("DECIMAL(3, 1)", [Decimal("1.23")], "v"),
        ("TINYINT", [300], "v"),
        ("INT", ["1"], "cast it first"),
        ("INT", [1.0, 1.5], r"'v' is double and the table has INT: .*row 1 of the batch holds 1\.5"),
        ("INT", [float("inf")], "row 0 of the batch holds inf"),
        ("TINYINT", [1.0, 128.0], "row 1 of the batch holds 128"),
        ("BIGINT", [2.0**60], r"up to 9,007,199,254,740,992; row 0"),
        ("INT NOT NULL", [1.0, float("nan")], "row 1 of the batch holds NULL"),
        ("DATE", [datetime(2026, 1, 1), datetime(2026, 1, 1, 2)], "only midnights are dates; row 1"),
        ("TIMESTAMP(3)", [datetime(2026, 1, 1, 0, 0, 0, 1)], "v"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [datetime(2026, 1, 1)], "zone"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(t: str, values: list[Any], said: str) -> None:
    with pytest.raises(SchemaMismatch, match=said):
        fitted(t, values)


def test_a_field_that_a_row_has_not_is_refused_with_the_nearest() -> None:
    data = pa.record_batch({"k": pa.array([1]), "v": pa.array([{"x": 1, "yy": "a"}])})
    with pytest.raises(SchemaMismatch, match=r"'yy' is not in the table; did you mean 'y'"):
        conform(data, schema(ROW))


def test_null_within_a_null_row_is_no_null() -> None:
    inner = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32()), pa.array(["a", None])],
        names=["x", "y"],
        mask=pa.array([False, True]),
    )
    created = conform(pa.record_batch({"k": pa.array([1, 2]), "v": inner}), schema(ROW))
    assert created.column("v").to_pylist() == [{"x": 1, "y": "a"}, None]


def test_lists_of_keys_and_values_are_maps() -> None:
    pairs = pa.array([[{"key": "a", "value": 1}], None, []])
    assert fitted("MAP<STRING, INT>", pairs) == [[("a", 1)], None, []]
    with pytest.raises(SchemaMismatch, match="give maps"):
        fitted("MAP<STRING, INT>", pa.array([[1]]))
    with pytest.raises(SchemaMismatch, match=r"key, is NOT NULL"):
        fitted("MAP<STRING, INT>", pa.array([[{"key": None, "value": 1}, {"key": "a", "value": 1}]]))


def test_a_timestamp_beyond_nanoseconds_is_refused_and_not_wrapped() -> None:
    far = pa.array([2**53], pa.timestamp("s"))
    with pytest.raises(SchemaMismatch, match="'v'"):
        fitted("TIMESTAMP(9)", far)


def test_a_null_is_the_default_of_its_column_and_none_where_there_may_be_no_null() -> None:
    of = schema(ts.STRING, default="none")
    actual = conform(pa.record_batch({"k": pa.array([1, 2]), "v": pa.array([None, "x"])}), of)
    assert actual.column("v").to_pylist() == ["none", "x"]
    with pytest.raises(SchemaMismatch, match="NOT NULL"):
        conform(
            pa.record_batch({"k": [1], "v": pa.array([None], pa.int32())}),
            schema(ts.INT.not_null(), default="1"),
        )


@pytest.mark.parametrize("key", [[], ["k"]], ids=["append", "keyed"])
def test_an_update_to_null_stores_the_default(tmp_path: Path, key: list[str]) -> None:
    t = ts.connect(tmp_path).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=key,
        options={"deletion-vectors.enabled": True},
    )
    t = t.alter(ts.default("v", 7))
    t.write([{"k": 1, "v": None}, {"k": 2, "v": 3}])
    t.update({"v": None}, where=ts.col("k") == 2)
    assert sorted(t.scan().to_arrow().column("v").to_pylist()) == [7, 7]
    assert t.check() == []


def test_columns_that_are_left_out_get_their_default() -> None:
    of = schema(ts.DECIMAL(5, 2).not_null(), default="1.5")
    created = conform(pa.record_batch({"k": pa.array([1, 2])}), of)
    assert created.column("v").to_pylist() == [Decimal("1.50")] * 2
    with pytest.raises(SchemaMismatch, match="is missing"):
        conform(pa.record_batch({"k": pa.array([1])}), schema(ts.INT.not_null()))
    with pytest.raises(Unsupported, match="ARRAY"):
        conform(pa.record_batch({"k": pa.array([1])}), schema(ts.ARRAY(ts.INT), default="[]"))


@pytest.mark.parametrize("root", ["BLOB", "VECTOR<FLOAT, 2>", "GEOMETRY"])
def test_types_that_are_not_carried_out_are_refused_by_name(root: str, tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(Unsupported, match=root[:4]):
        lake.create_table("d.t", schema={"k": ts.INT, "v": root}, primary_key=["k"])


def test_the_written_nested_rows_come_back(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT, "a": ts.ARRAY(ts.INT), "m": ts.MAP(ts.STRING, ts.INT), "r": parse_type(ROW)}
    t = lake.create_table("d.t", schema=columns, primary_key=["k"])
    rows = [
        {"k": 1, "a": [1, None], "m": [("x", 1)], "r": {"x": 1, "y": "a"}},
        {"k": 2, "a": None, "m": None, "r": None},
        {"k": 3, "a": [], "m": [], "r": {"x": 3, "y": None}},
    ]
    t.write(rows)
    assert sorted(t.scan().to_arrow().to_pylist(), key=lambda r: r["k"]) == rows
    assert t.check() == []


def test_no_rows_are_no_batches() -> None:
    assert list(as_batches([], schema("INT"))) == []


def test_an_index_without_a_name_is_no_column() -> None:
    frame = pd.DataFrame({"k": [1, 2, 3], "v": [1.0, None, 3.0]})
    filtered = frame[frame.k > 1]
    of = schema("INT")
    expected = [{"k": 2, "v": None}, {"k": 3, "v": 3}]
    for data in (filtered, pa.Table.from_pandas(filtered), [filtered], pa.RecordBatch.from_pandas(filtered)):
        assert [row for b in as_batches(data, of) for row in conform(b, of).to_pylist()] == expected
    named = frame.set_index("k")[1:]
    assert [row for b in as_batches(named, of) for row in conform(b, of).to_pylist()] == expected
    rows = pa.table({"__index_level_0__": [1]})  # a column of that name that is no index
    assert [b.schema.names for b in as_batches(rows)] == [["__index_level_0__"]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pd.Series([1], name="k"), "a pandas Series is one column"),
        (pl.Series("k", [1]), "a polars Series is one column"),
        (pl.DataFrame({"k": [1]}).lazy(), r"pass frame\.collect\(\)"),
        (pd.DataFrame([[1, 2]], columns=["k", "k"]), "Duplicate column names"),
        (pd.DataFrame({"k": [1, "a"]}), "cannot be read as Arrow"),
    ],
)
def test_frames_that_are_no_rows_are_refused_with_what_to_pass(data: Any, said: str) -> None:
    with pytest.raises(SchemaMismatch, match=said):
        list(as_batches(data))


@pytest.mark.parametrize("t", ["MAP<STRING, INT>", "MULTISET<STRING>"])
def test_frames_hold_maps_as_lists_of_pairs(t: str) -> None:
    maps = pa.array([[("a", 1)], None, []], to_arrow(parse_type(t)))
    rows = pa.record_batch([pa.array([1, 2, 3], pa.int32()), maps], schema=schema(t).arrow)
    frame = rows.to_pandas()
    for some, expected in ((frame, rows), (frame[["v", "k"]], rows), (frame[frame.k > 1], rows[1:])):
        (batch,) = as_batches(some, schema(t))
        assert conform(batch, schema(t)).to_pylist() == expected.to_pylist()
    (batch,) = as_batches(frame[["v"]], schema(t))
    assert batch.to_pylist() == rows.select(["v"]).to_pylist()
    assert sum(b.num_rows for b in as_batches(frame[:0], schema(t))) == 0
