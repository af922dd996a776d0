"""How results of ours are compared with recorded answers of Flink."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.peers import flink_texts
from tests.peers.sql_scripts import ScriptAnswer

DOUBLES = {0.0: "0.0", 1.0: "1.0", 100.0: "100.0", 1e6: "1000000.0", 9999999.5: "9999999.5", 1e7: "1.0E7"}
DOUBLES |= {
    123456789.125: "1.23456789125E8",
    -1.5e300: "-1.5E300",
    1e23: "1.0E23",
    0.1: "0.1",
    0.001: "0.001",
}
DOUBLES |= {0.00012: "1.2E-4", 1e-5: "1.0E-5"}


@pytest.mark.parametrize("value", DOUBLES)
def test_doubles_are_printed_as_java_does(value: float) -> None:
    assert flink_texts.java_double(value) == DOUBLES[value]


def test_values_of_each_type_are_texts_of_flinks_client() -> None:
    moment = datetime.datetime(2024, 3, 5, 14, 7, 9, 120_000)
    cases = [
        (pa.array([True, None]), "BOOLEAN", ("TRUE", None)),
        (pa.array([Decimal("1.50")]), "DECIMAL(3, 2)", ("1.50",)),
        (pa.array([b"\x00\xff"]), "BYTES", ("x'00ff'",)),
        (pa.array([moment], pa.timestamp("us")), "TIMESTAMP(3)", ("2024-03-05 14:07:09.120",)),
        (pa.array([moment], pa.timestamp("ms")), "TIMESTAMP(9) NOT NULL", ("2024-03-05 14:07:09.120000000",)),
        (pa.array([moment], pa.timestamp("us")), "TIMESTAMP(0)", ("2024-03-05 14:07:09",)),
        (pa.array([moment], pa.timestamp("us", "UTC")), "TIMESTAMP_LTZ(1)", ("2024-03-05 14:07:09.1",)),
        (pa.array([moment.time()]), "TIME(0)", ("14:07:09",)),
        (pa.array([moment.date()]), "DATE", ("2024-03-05",)),
        (pa.array([[1, None], None]), "ARRAY<BIGINT>", ("[1, NULL]", None)),
        (pa.array([[("a", 1.0)]], pa.map_(pa.string(), pa.float64())), "MAP<STRING, DOUBLE>", ("{a=1.0}",)),
        (pa.array([{"x": 1, "y": "z"}]), "ROW<`x` BIGINT, `y` STRING>", ("(1, z)",)),
        (pa.array([float("inf"), float("nan")]), "DOUBLE", ("Infinity", "NaN")),
    ]
    for array, flink_type, expected in cases:
        actual = flink_texts.texts(pa.table({"c": array}), [flink_type])
        assert actual == [(text,) for text in expected], flink_type


def test_a_difference_is_said_and_equal_results_have_none() -> None:
    answer = ScriptAnswer((("k", "INT NOT NULL"), ("d", "DOUBLE")), (("1", "0.1"), ("2", None)))
    d = pa.array([None, 0.1 + 1e-17])
    table = pa.table({"k": pa.array([2, 1], pa.int32()), "d": d})

    def differs(actual: pa.Table, answer: ScriptAnswer = answer, **more: bool) -> str:
        return flink_texts.difference(answer, lambda: actual, ordered=more.pop("ordered", False), **more)

    assert differs(table, types=True) == ""
    assert "rows of ours" in differs(table, ordered=True)
    assert "rows of ours" in differs(table.slice(1))
    assert "columns ['d', 'k']" in differs(table.select(["d", "k"]))
    wide = table.set_column(0, "k", table["k"].cast(pa.int64()))
    assert differs(wide) == ""
    assert differs(wide, types=True) == "types ['BIGINT', 'DOUBLE'], Flink ['INT', 'DOUBLE']"
    assert differs(table, ScriptAnswer(error="No")) == "no error of ours; Flink: No"
    assert differs(table, ScriptAnswer()) == ""


def test_errors_agree_whatever_they_say() -> None:
    def fails() -> pa.Table:
        raise ValueError("ours")

    assert flink_texts.difference(ScriptAnswer(error="theirs"), fails, ordered=False) == ""
    actual = flink_texts.difference(ScriptAnswer(), fails, ordered=False)
    assert actual == "an error of ours, none of Flink's: ValueError: ours"


@pytest.mark.parametrize(
    ("arrow", "flink_type"),
    [
        (pa.string(), "CHAR(1) NOT NULL"),
        (pa.binary(3), "BINARY(3)"),
        (pa.binary(), "BYTES"),
        (pa.time32("ms"), "TIME(0)"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ(6)"),
        (pa.list_(pa.string()), "ARRAY<VARCHAR(4) NOT NULL>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING, INT>"),
        (pa.map_(pa.string(), pa.int32()), "MULTISET<STRING>"),
        (pa.struct({"x": pa.int32(), "y": pa.binary()}), "ROW<`x` INT NOT NULL, `y` VARBINARY(5)>"),
    ],
)
def test_types_are_compared_by_kind(arrow: pa.DataType, flink_type: str) -> None:
    assert flink_texts.arrow_kind(arrow) == flink_texts.kind(flink_type)
