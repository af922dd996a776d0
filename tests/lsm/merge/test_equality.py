"""Equality of rows: NULL equals NULL, NaN is one value, −0.0 is not 0.0, nested values by what they hold."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from tablestore.lsm.merge.keys import equal_rows, equal_values

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "left", "right", "wanted"),
    [
        (pa.int32(), [1, None, None, 2], [1, None, 3, 3], [True, True, False, False]),
        (pa.string(), ["a", "", None], ["a", None, None], [True, False, True]),
        (pa.float64(), [NAN, 0.0, 1.5, None], [-NAN, -0.0, 1.5, NAN], [True, False, True, False]),
        (pa.float32(), [NAN, 0.0], [NAN, 0.0], [True, True]),
        (pa.binary(), [b"\x00", b"a"], [b"\x00", b"b"], [True, False]),
        (pa.bool_(), [True, None], [False, None], [False, True]),
        (pa.decimal128(20, 2), [decimal.Decimal("1.10"), None], [decimal.Decimal("1.10")] * 2, [True, False]),
        (pa.date32(), [datetime.date(2020, 1, 1)], [datetime.date(2020, 1, 2)], [False]),
        (pa.list_(pa.int32()), [[1, 2], [], None, [1], [None]], [[1, 2], None, None, [1, 1], [None]],
         [True, False, True, False, True]),
        (pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())}),
         [{"a": 1, "b": ["x"]}, {"a": 1, "b": None}, None], [{"a": 1, "b": ["x"]}, {"a": 1, "b": []}, None],
         [True, False, True]),
        (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [("a", 1)], []], [[("a", 1)], [("a", 2)], []],
         [True, False, True]),
        (pa.list_(pa.list_(pa.float64())), [[[NAN], []], [[1.0]]], [[[NAN], []], [[2.0]]], [True, False]),
    ],
)  # fmt: skip
def test_values(kind: pa.DataType, left: list[Any], right: list[Any], wanted: list[bool]) -> None:
    a, b = pa.array(left, kind), pa.array(right, kind)
    assert equal_values(a, b).tolist() == wanted
    assert equal_values(b, a).tolist() == wanted
    assert equal_values(a.slice(1), b.slice(1)).tolist() == wanted[1:]


def test_rows_are_equal_in_every_column_dictionaries_or_not() -> None:
    left = pa.record_batch({"a": [1, 2, 3], "b": pa.array(["x", "y", "z"]).dictionary_encode()})
    right = pa.record_batch({"a": [1, 2, 4], "b": ["x", "w", "z"]})
    assert equal_rows(left, right).tolist() == [True, False, False]
