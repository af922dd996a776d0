"""Tables are made from whatever has columns: names and types, Arrow, frames, another table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, SchemaMismatch

EVERY = {
    "k": ts.BIGINT,
    "c": ts.CHAR(3),
    "v": ts.VARCHAR(7).not_null(),
    "m": ts.MULTISET(ts.VARCHAR(2)),
    "t": ts.TIME(0),
    "n": ts.ROW(x=ts.VARCHAR(2), y=ts.ARRAY(ts.BINARY(2))),
    "j": ts.VARIANT,
    "b": ts.BINARY(4),
    "at": ts.TIMESTAMP(4),
    "d": ts.DATE,
}


@pytest.fixture
def model(lake: ts.Lake) -> ts.Table:
    return lake.create_table(
        "d.model",
        schema=EVERY,
        primary_key=["k", "d"],
        partition_by=["d"],
        options={"bucket": 3, "merge-engine": "partial-update"},
        comment="the first",
        comments={"c": "a code", "n": "nested"},
    )


def columns(table: ts.Table) -> list[tuple[Any, ...]]:
    return [(f.name, str(f.type), f.description, f.default) for f in table.store.schema.fields]


def test_a_table_is_made_like_another(lake: ts.Lake, model: ts.Table) -> None:
    model = model.alter(ts.add("w", ts.VARCHAR(2)), ts.default("w", "x"))
    for like in (model, "d.model"):
        table = lake.create_table(f"d.copy_{isinstance(like, str)}", like=like)
        assert columns(table) == columns(model)
        assert (table.primary_key, table.partition_by, table.comment) == (("k", "d"), ("d",), "the first")
        assert table.options["tablestore.uuid"] != model.options["tablestore.uuid"]
        assert {**table.options, "tablestore.uuid": ""} == {**model.options, "tablestore.uuid": ""}


def test_what_is_given_beside_like_wins(lake: ts.Lake, model: ts.Table) -> None:
    table = lake.create_table(
        "d.other",
        like=model,
        primary_key=["k"],
        partition_by=[],
        options={"bucket": 2, "merge-engine": None},
        comment="the second",
        comments={"c": "its code"},
    )
    assert (table.primary_key, table.partition_by, table.comment) == (("k",), (), "the second")
    assert {k: v for k, v in table.options.items() if k != "tablestore.uuid"} == {"bucket": "2"}
    assert [c[2] for c in columns(table)][:2] == [None, "its code"]
    narrow = lake.create_table("d.narrow", like=model, schema={"k": ts.INT, "d": ts.DATE})
    assert [c[:2] for c in columns(narrow)] == [("k", "INT NOT NULL"), ("d", "DATE NOT NULL")]


def test_a_change_log_table_and_the_past_are_models_too(lake: ts.Lake) -> None:
    counted = lake.create_table("d.counted", schema={"a": ts.INT}, options={"write-mode": "change-log"})
    table = lake.create_table("d.again", like=counted)
    table.write([{"a": 1}, {"a": 1}])
    assert (columns(table), table.scan().count()) == (columns(counted), 2)
    counted.write([{"a": 1}])
    plain = lake.create_table("d.plain", schema={"a": ts.INT})
    plain.write([{"a": 1}])
    plain.alter(ts.add("b", ts.INT))
    assert lake.create_table("d.then", like=plain.refresh().at(snapshot=1)).schema.names == ["a"]


def test_the_schema_of_a_table_makes_the_same_columns(lake: ts.Lake, model: ts.Table) -> None:
    table = lake.create_table("d.same", schema=model.schema)
    assert columns(table) == columns(model)
    cast = model.schema.set(
        1, model.schema.field("c").with_type(pa.int32())
    )  # notes of a field that was cast
    assert lake.create_table("d.cast", schema=cast).store.schema.by_name["c"].type == ts.INT
    rows = model.schema.empty_table()
    assert columns(lake.create_table("d.rows", schema=rows)) == columns(model)


FRAME = pd.DataFrame({"k": [1, 2, 3], "s": ["a", None, "c"], "f": [0.5, None, 1]})
FRAME["x"] = pd.array([1, None, 3], "Int32")
FOUND = {"k": "BIGINT", "s": "STRING", "f": "DOUBLE", "x": "INT"}


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME[FRAME.k > 1],
        pl.from_pandas(FRAME),
        pl.from_pandas(FRAME).lazy(),
        pl.from_pandas(FRAME).schema,
        pa.Table.from_pandas(FRAME[FRAME.k > 1]),
        pa.RecordBatch.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME).to_reader(),
    ],
    ids=lambda f: f"{type(f).__module__.partition('.')[0]} {type(f).__name__}",
)
def test_frames_are_schemas_and_rows(lake: ts.Lake, frame: Any) -> None:
    table = lake.create_table("d.t", schema=frame)
    assert {f.name: str(f.type) for f in table.store.schema.fields} == FOUND
    if not isinstance(frame, pl.LazyFrame | pl.Schema):
        table.write(frame)
        assert table.scan(where="k = 2").to_arrow().to_pylist() == [{"k": 2, "s": None, "f": None, "x": None}]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ({}, InvalidRequest, "needs columns"),
        ({"like": 3}, InvalidRequest, "like=3 is no table"),
        ({"like": "d.modle"}, NotFound, "d.model"),
        ({"schema": pd.DataFrame({"a": [None]})}, SchemaMismatch, "'a' holds no value that shows its type"),
        ({"schema": pd.DataFrame({"a": [1, "x"]})}, SchemaMismatch, "no columns of Arrow types"),
        ({"schema": pd.Series([1])}, SchemaMismatch, "pandas Series"),
        ({"schema": pd.DataFrame}, SchemaMismatch, "must be an Arrow schema, a frame"),
        ({"schema": {"a": ts.INT}, "comments": {"b": "x"}}, NotFound, "no column 'b'"),
        ({"schema": {"a": ts.INT}, "comments": {"a": 1}}, SchemaMismatch, "comment of column 'a' is text"),
    ],
)
def test_what_has_no_columns_is_refused(
    lake: ts.Lake, model: ts.Table, call: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        lake.create_table("d.t", **call)
    assert lake.tables("d") == ["model"]


def test_if_not_exists_is_about_what_the_catalog_knows(tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    table = ts.connect(folder).create_table("d.t", schema={"a": ts.INT})
    table.write([{"a": 1}])
    lake = ts.connect(metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/catalog.db", warehouse=folder)
    for exists in (False, True):
        with pytest.raises(AlreadyExists, match="repair_table adds it"):
            lake.create_table("d.t", schema={"a": ts.INT}, if_not_exists=exists)
    lake.repair_table("d.t")
    assert lake.create_table("d.t", schema={"a": ts.INT}, if_not_exists=True).scan().count() == 1
