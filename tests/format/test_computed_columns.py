"""Computed columns and watermarks among options: what Flink over Java Paimon stored is read back."""

from __future__ import annotations

from tablestore.format.computed_columns import (
    ComputedColumn,
    Watermark,
    as_options,
    computed_columns,
    in_order,
    other_options,
    watermark,
)

FROM_JAVA = {
    "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
    "schema.watermark.0.rowtime": "ts",
    "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    "bucket": "2",
    "schema.3.data-type": "VARCHAR(2147483647)",
    "schema.3.comment": "it's",
    "schema.3.name": "day",
    "schema.3.expr": "DATE_FORMAT(`ts`, 'yyyy-MM-dd')",
    "schema.1.name": "w",
    "schema.1.expr": "`v` * 2",
    "schema.1.data-type": "DECIMAL(22, 2)",
}
STORED = ("k", "v", "ts")


def test_what_java_stored() -> None:
    day = "DATE_FORMAT(`ts`, 'yyyy-MM-dd')"
    columns = (
        ComputedColumn("w", "`v` * 2", "DECIMAL(22, 2)", 1),
        ComputedColumn("day", day, "VARCHAR(2147483647)", 3, "it's"),
    )
    mark = Watermark("ts", "`ts` - INTERVAL '5' SECOND", "TIMESTAMP(3)")
    assert computed_columns(FROM_JAVA, STORED) == columns
    assert watermark(FROM_JAVA) == mark
    assert other_options(FROM_JAVA, STORED) == {"bucket": "2"}
    assert as_options(columns, mark) | {"bucket": "2"} == FROM_JAVA
    assert in_order(STORED, columns) == ["k", "w", "v", "day", "ts"]


def test_stored_columns_that_old_tables_list_are_not_computed() -> None:
    options = {
        "schema.0.name": "k",
        "schema.0.data-type": "INT",
        "schema.1.name": "m",
        "schema.1.metadata": "x",
    }
    assert computed_columns(options, ["k"]) == ()
    assert other_options(options, ["k"]) == options


def test_a_comment_that_java_left_behind_belongs_to_nothing() -> None:
    assert other_options({**FROM_JAVA, "schema.7.comment": "it's"}, STORED) == {"bucket": "2"}


def test_a_position_behind_the_end_is_the_end() -> None:
    assert in_order(["a"], [ComputedColumn("x", "1", "INT", 9)]) == ["a", "x"]
