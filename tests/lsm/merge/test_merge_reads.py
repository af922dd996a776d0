"""Reads of tables whose engine computes rows: filters, projections, schemas that changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import CannotMerge, InvalidRequest
from tablestore.format.types.arrow_types import DataType


def keyed_table(path: Path, columns: dict[str, DataType], **options: str) -> ts.Table:
    return ts.connect(str(path)).create_table(
        "d.t", schema={"k": ts.INT, **columns}, primary_key=["k"], options={"write-only": "true", **options}
    )


def write(table: ts.Table, *rows: tuple[int | None, ...]) -> None:
    """One commit a row."""
    for row in rows:
        columns = [pa.array([v], f.type) for v, f in zip(row, table.schema, strict=True)]
        table.write(pa.Table.from_arrays(columns, schema=table.schema))


def test_a_filter_finds_a_row_that_no_file_holds(tmp_path: Path) -> None:
    table = keyed_table(tmp_path, {"a": ts.INT, "b": ts.INT}, **{"merge-engine": "partial-update"})
    write(table, (1, 1, None), (1, None, 2))
    assert table.scan(where=(col("a") == 1) & (col("b") == 2)).to_arrow().num_rows == 1


def test_a_filter_on_a_sum_is_asked_of_the_sum(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    table = keyed_table(tmp_path, {"a": ts.INT, "b": ts.INT}, **options)
    write(table, (1, 5, 1), (1, 6, 1))
    assert table.scan(where=col("a") == 11).to_arrow().num_rows == 1
    assert table.scan(where=col("a") == 5).to_arrow().num_rows == 0
    table.compact(full=True)
    assert table.scan(where=col("a") == 11).to_arrow().num_rows == 1


@pytest.mark.parametrize("column", ["a", "b", "s", "k"])
def test_one_column_is_read_with_the_columns_that_decide_about_it(tmp_path: Path, column: str) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "a",
        "partial-update.remove-record-on-sequence-group": "s",
        "sequence.field": "t",
    }
    table = keyed_table(tmp_path, {"a": ts.INT, "b": ts.INT, "s": ts.INT, "t": ts.INT}, **options)
    write(table, (1, 1, 1, 5, 9), (1, 2, 2, 3, 8), (1, 3, None, 7, 1), (2, 1, 1, 1, 1), (3, 0, 0, 1, 1))
    delete = pa.table({"k": [3], "s": [2], "t": [2], "kind": ["-D"]})
    table.write(delete, row_kind_column="kind")
    whole = table.scan().to_arrow()
    assert whole.column("k").to_pylist() == [1, 2]
    assert table.scan(columns=[column]).to_arrow().column(0) == whole.column(column)


def test_a_wider_type_heals_a_sum_that_overflows(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    table = keyed_table(tmp_path, {"a": ts.INT}, **options)
    write(table, (1, 2**31 - 1), (1, 1))
    with pytest.raises(CannotMerge, match="int overflow: 2147483647"):
        table.scan().to_arrow()
    table = table.alter(ts.retype("a", ts.BIGINT))
    write(table, (1, 2))
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "a": 2**31 + 2}]
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "a": 2**31 + 2}]
    assert table.check() == []


def test_columns_that_come_and_change_names_keep_their_functions(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    table = keyed_table(tmp_path, {"a": ts.INT}, **options)
    write(table, (1, 5), (1, 6))
    table = table.alter(ts.rename("a", "total"), ts.add("top", ts.INT))
    table = table.alter(ts.set_options({"fields.top.aggregate-function": "max"}))
    write(table, (1, 1, 3), (1, 1, 2))
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "total": 13, "top": 3}]
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "total": 13, "top": 3}]
    assert table.check() == []


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"merge-engine": "partial-update"}, "remove-record-on-delete"),
        ({"merge-engine": "aggregation"}, "aggregation.remove-record-on-delete"),
        ({"merge-engine": "first-row"}, "never deleted"),
        ({"ignore-delete": "true"}, "dropped"),
    ],
)
def test_delete_is_refused_where_rows_would_stay(
    tmp_path: Path, options: dict[str, str], remedy: str
) -> None:
    table = keyed_table(tmp_path, {"a": ts.INT}, **options)
    write(table, (1, 1))
    with pytest.raises(InvalidRequest, match=remedy):
        table.delete(col("k") == 1)


def test_update_sets_columns_of_every_engine_that_can(tmp_path: Path) -> None:
    for number, options in enumerate(
        (
            {"merge-engine": "partial-update"},
            {"merge-engine": "partial-update", "fields.s.sequence-group": "a"},
            {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
            {"sequence.field": "s"},
        )
    ):
        table = keyed_table(tmp_path / str(number), {"s": ts.INT, "a": ts.INT}, **options)
        write(table, (1, 5, 1), (1, 6, 2), (2, 1, 1))
        table.update({"a": 40}, where=col("k") == 1)
        assert [row["a"] for row in table.scan().to_arrow().to_pylist()] == [40, 1], options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}, "gives 0 for 'a'"),
        ({"merge-engine": "aggregation", "fields.a.aggregate-function": "product"}, "keeps the old value"),
        (
            {
                "merge-engine": "aggregation",
                "fields.a.aggregate-function": "sum",
                "fields.a.ignore-retract": "true",
            },
            "keeps the old value of 'a'",
        ),
        (
            {
                "merge-engine": "partial-update",
                "fields.s.sequence-group": "a",
                "fields.a.aggregate-function": "sum",
            },
            "gives 0 for 'a'",
        ),
    ],
    ids=["sum", "product", "ignored-retracts", "in-a-group"],
)
def test_update_to_null_is_refused_where_a_function_would_not_show_it(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    table = keyed_table(tmp_path, {"s": ts.INT, "a": ts.INT}, **options)
    write(table, (1, 5, 3))
    with pytest.raises(InvalidRequest, match=f"{text}.* where the new one is NULL"):
        table.update({"a": None}, where=col("k") == 1)

    def nothing(batch: pa.RecordBatch) -> ts.RowChanges:
        rows = batch.set_column(2, batch.schema.field("a"), pa.nulls(batch.num_rows, pa.int32()))
        return ts.RowChanges(updated=range(batch.num_rows), rows=rows)

    refused = (
        f"{text}.* where the new one is NULL|an update cannot replace what .* of column 'a' has added up"
    )
    with pytest.raises(InvalidRequest, match=refused):
        table.change_rows(nothing, columns=["a"])
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "s": 5, "a": 3}]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "fields.s.sequence-group": "b"},
        {"merge-engine": "aggregation", "fields.b.aggregate-function": "last_value"},
    ],
    ids=["partial-update", "outside-groups", "aggregation"],
)
def test_update_to_null_is_refused_where_the_old_value_stays(tmp_path: Path, options: dict[str, str]) -> None:
    table = keyed_table(tmp_path, {"s": ts.INT, "a": ts.INT, "b": ts.INT}, **options)
    write(table, (1, 5, 1, 2))
    for null in (None, pa.scalar(None)):
        with pytest.raises(InvalidRequest, match=f"{options['merge-engine']} keeps the old value of 'a'"):
            table.update({"a": null}, where=col("k") == 1)
    if len(options) > 1:
        table.update({"b": None}, where=col("k") == 1)
        assert table.scan().to_arrow().to_pylist() == [{"k": 1, "s": 5, "a": 1, "b": None}]
