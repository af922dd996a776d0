"""Calls that were meant otherwise: an error of ours that says how, no Python traceback, nothing changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound, SchemaMismatch, Unsupported

ROWS = {"id": [1, 2], "p": ["a", "b"], "v": [10, 20]}


@pytest.fixture
def table(lake: ts.Lake) -> ts.Table:
    orders = lake.create_table(
        "shop.orders",
        schema={"id": ts.BIGINT, "p": ts.STRING, "v": ts.INT},
        primary_key=["p", "id"],
        partition_by=["p"],
    )
    orders.write(ROWS)
    return orders


CALLS: list[tuple[Callable[[ts.Table], Any], type[Exception], str]] = [
    (lambda t: t.get(1), InvalidRequest, "a key of shop.orders holds p, id: get({'p': …, 'id': …})"),
    (lambda t: t.get({"id": 1}), InvalidRequest, "holds p, id"),
    (lambda t: t.get_many(ROWS, columns="v"), InvalidRequest, "a list of names, not 'v'"),
    (lambda t: t.write({"id": 1, "p": "a"}), SchemaMismatch, "column 'id' is 1, not a list of values"),
    (lambda t: t.write({"id": [1], "p": ["a", "b"]}), SchemaMismatch, "'id' has 1, 'p' has 2"),
    (lambda t: t.write([{"id": 1, "p": "a"}, 5]), SchemaMismatch, "5 among rows given as dicts"),
    (lambda t: t.write(pa.array([1])), SchemaMismatch, "an array of int64 has no column names"),
    (lambda t: t.scan(where=ts.col("id").is_in(5)), InvalidRequest, "is_in() takes a list of values, not 5"),
    (lambda t: t.count(), AttributeError, "'count': table.scan().count"),
    (lambda t: t.snapshots(), AttributeError, "'snapshots': table.inspect.snapshots"),
    (lambda t: t.write(ROWS, watermark="noon"), InvalidRequest, "watermark 'noon' must be a whole number"),
    (lambda t: t.write(ROWS, watermark=1 << 63), InvalidRequest, "64 bits"),
    (lambda t: t.write(ROWS, identifier="x", user="u"), InvalidRequest, "identifier 'x'"),
    (lambda t: t.write(ROWS, user=5), InvalidRequest, "'user' of a commit must be text, not 5"),
    (lambda t: t.write(ROWS, properties={"n": 1}), InvalidRequest, "'n' of a commit must be text, not 1"),
    (lambda t: t.update({}, where=ts.col("id") == 1), InvalidRequest, "name the columns to set"),
    (lambda t: t.update(["v"], where=ts.col("id") == 1), InvalidRequest, "name the columns to set"),
    (lambda t: t.scan("v"), InvalidRequest, "columns are a list of names, not 'v'"),
    (lambda t: t.scan(5), InvalidRequest, "columns are a list of names, not 5"),
    (lambda t: t.scan([1]).to_arrow(), InvalidRequest, "a list of names, and 1 is none"),
    (lambda t: t.system("files").scan("level"), InvalidRequest, "not 'level'"),
    (lambda t: t.analyze("v"), InvalidRequest, "columns are a list of names, not 'v'"),
    (
        lambda t: t.changes(since=None),
        InvalidRequest,
        "since None must be a snapshot id or the name of a tag",
    ),
    (lambda t: t.changes(since=1.5), InvalidRequest, "since 1.5"),
    (lambda t: list(t.stream(until="x")), InvalidRequest, "until 'x' must be a snapshot id"),
    (lambda t: list(t.stream(timeout="1 s")), InvalidRequest, "timeout '1 s' must be a number of seconds"),
    (lambda t: t.compact(partition="p=zz"), NotFound, "no partition 'p=zz'; did you mean"),
    (lambda t: t.compact(partition=5), InvalidRequest, "must be text such as 'p=1'"),
    (lambda t: t.truncate(partition="p=a"), InvalidRequest, "must be given by columns"),
    (lambda t: t.overwrite(ROWS, partition="p=a"), InvalidRequest, "must be given by columns"),
    (lambda t: t.rescale(2, partition="p=a"), InvalidRequest, "must be given by columns"),
    (lambda t: t.tags.create("x", retain=5), InvalidRequest, "retain 5 must be a duration such as '10 min'"),
    (lambda t: t.branch(5), NotFound, "no branch 5"),
    (lambda t: t.with_options("bucket"), InvalidOption, "must be a mapping"),
    (lambda t: t.rename("x"), Unsupported, "lake.rename_table(name, new_name)"),
    (
        lambda t: t.alter(ts.default("v", "x")),
        SchemaMismatch,
        "default 'x' of column 'v' is not a value of INT",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), CALLS, ids=[text for _, _, text in CALLS])
def test_a_call_that_cannot_be_meant_so(
    table: ts.Table, call: Callable[[ts.Table], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(table)
    now = ts.open(table.location)
    assert now.scan().count() == 2
    assert now.store.schemas.ids() == [0]
    assert now.store.snapshots.latest_id() == 1
    assert now.check() == []


def test_a_misspelt_partition_of_a_table_without_partitions(lake: ts.Lake) -> None:
    table = lake.create_table("plain", schema={"id": ts.INT}, primary_key=["id"])
    with pytest.raises(InvalidRequest, match="the table has no partitions"):
        table.compact(partition="p=1")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (None, "a table needs columns: schema={column: type}"),
        ("a INT", "schema 'a INT' must be"),
        ([5], "column 5 must be a pair of name and type"),
        ([("a",)], "must be a pair of name and type"),
    ],
)
def test_what_is_no_schema(lake: ts.Lake, schema: Any, text: str) -> None:
    with pytest.raises(SchemaMismatch, match=re.escape(text)):
        lake.create_table("bad", schema=schema)
    assert "bad" not in lake


def test_a_chain_table_of_others_is_not_read_as_if_it_were_one_table(lake: ts.Lake) -> None:
    table = lake.create_table("t", schema={"a": ts.INT}, primary_key=["a"])
    table.write({"a": [1]})
    for key in ("chain-table.enabled", "sequence.snapshot-ordering"):
        store = table.store.with_schema(table.store.schema.with_options({key: "true"}))
        with pytest.raises(Unsupported, match=re.escape(key)):
            ts.Table(store, "t").scan().to_arrow()


@pytest.mark.parametrize("name", [5, None])
def test_a_name_is_text(lake: ts.Lake, name: Any) -> None:
    with pytest.raises(InvalidRequest, match="is no table name"):
        lake.table(name)


def test_a_place_is_a_path() -> None:
    with pytest.raises(InvalidRequest, match="not 5"):
        ts.connect(5)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidRequest, match="not 5"):
        ts.open(5)  # type: ignore[arg-type]  # what is refused


def test_a_rest_catalog_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="metastore rest"):
        ts.connect(metastore="rest", uri="http://127.0.0.1")


def test_values_show_what_they_are(table: ts.Table) -> None:
    tag = table.tags.create("v1", retain="1 d")
    (state,) = table.stream(follow=False)
    assert repr(tag) == "Tag('v1' of snapshot 1, for 86400 s)"
    assert repr(state) == "Change(state of snapshot 1: rowkind, id, p, v)"
    assert repr(ts.DECIMAL(10, 2).not_null()) == "DataType(DECIMAL(10, 2) NOT NULL)"
    assert "snapshots, schemas, options" in repr(table.inspect)
    assert repr(table.system("options").scan().select("key")) == "SystemScan(key)"
