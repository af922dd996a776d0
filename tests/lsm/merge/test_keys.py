"""Key order: codes and positions of whole columns agree with the order of single keys in the metadata."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format import binary_row
from tablestore.format.types.arrow_types import BIGINT, DOUBLE, INT, STRING, DataType, parse_type
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.keys import equal_rows, equal_values
from tests.lsm.rows import RAW, array_of

composite = st.lists(st.sampled_from(list(RAW)), min_size=1, max_size=3)


def key_codes(columns: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    return keys.codes(keys.components(columns, types))


@st.composite
def key_columns(draw, max_rows=25):
    types = draw(composite)
    rows = draw(st.lists(st.tuples(*(RAW[t] for t in types)), min_size=1, max_size=max_rows))
    return [t.not_null() for t in types], rows


def columns_of(types, rows):
    return [array_of([r[i] for r in rows], t) for i, t in enumerate(types)]


def sort_keys(types, rows):
    raw = [binary_row.raw_values(c, t) for c, t in zip(columns_of(types, rows), types, strict=True)]
    return [binary_row.sort_key(r, types) for r in zip(*raw, strict=True)]


@given(key_columns())
def test_codes_order_as_single_keys_do(case):
    types, rows = case
    codes = key_codes(columns_of(types, rows), types)
    single = sort_keys(types, rows)
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (codes[i] < codes[j]) == (single[i] < single[j])
            assert (codes[i] == codes[j]) == (single[i] == single[j])


@given(key_columns(), st.data())
def test_rows_up_to_counts_rows_not_after_a_key(case, data):
    types, rows = case
    single = sort_keys(types, rows)
    order = sorted(range(len(rows)), key=lambda i: single[i])
    parts = keys.components(columns_of(types, [rows[i] for i in order]), types)
    bound = data.draw(st.integers(0, len(rows) - 1))
    wanted = sum(s <= single[bound] for s in single)
    key = keys.key_at(keys.components(columns_of(types, [rows[bound]]), types), 0)
    assert keys.rows_up_to(parts, key) == wanted
    start = data.draw(st.integers(0, wanted))
    assert keys.rows_up_to(parts, key, start) == wanted


@given(key_columns(max_rows=2))
def test_less_compares_two_keys(case):
    types, rows = case
    single = sort_keys(types, rows)
    parts = keys.components(columns_of(types, rows), types)
    first, last = keys.key_at(parts, 0), keys.key_at(parts, -1)
    assert keys.less(first, last) == (single[0] < single[-1])


@given(key_columns())
def test_strictly_increasing_is_exact(case):
    types, rows = case
    single = sort_keys(types, rows)
    unique = dict(sorted(zip(single, rows, strict=True)))
    assert keys.strictly_increasing(keys.components(columns_of(types, list(unique.values())), types))
    increasing = all(a < b for a, b in pairwise(single))
    assert keys.strictly_increasing(keys.components(columns_of(types, rows), types)) == increasing


def test_wide_columns_fall_back_to_ranks():
    a = pa.array([2**62, -(2**62), 2**62, 2**62])
    b = pa.array([2**62, 1, -(2**62), 2**62])
    codes = key_codes([a, b], [BIGINT.not_null()] * 2)
    assert codes.tolist() == [2, 0, 1, 2]


def test_null_is_first_where_keys_may_be_null():
    codes = key_codes([pa.array([5, None, -7, None])], [BIGINT])
    assert np.argsort(codes, kind="stable").tolist() == [1, 3, 2, 0]


def test_null_in_a_key_column_is_refused():
    with pytest.raises(SchemaMismatch, match="NULL in a key column of type BIGINT NOT NULL"):
        key_codes([pa.array([1, None])], [BIGINT.not_null()])


def test_zero_signs_and_nan_have_their_places():
    values = [math.nan, 0.0, -0.0, math.inf, -math.inf, -math.nan, 1.0]
    codes = key_codes([pa.array(values)], [DOUBLE.not_null()])
    assert np.argsort(codes, kind="stable").tolist() == [4, 2, 1, 6, 3, 0, 5]
    assert codes[0] == codes[5]


def test_dictionary_encoded_text_is_a_key_too():
    codes = key_codes([pa.array(["b", "a", "b"]).dictionary_encode()], [STRING.not_null()])
    assert codes.tolist() == [2, 1, 2]


def test_types_that_cannot_be_keys_are_refused():
    array = pa.array([[1]], pa.list_(pa.int32()))
    with pytest.raises(Unsupported, match="ARRAY in a primary key"):
        key_codes([array], [parse_type({"type": "ARRAY NOT NULL", "element": "INT"})])


def test_no_rows_have_no_codes():
    empty: list[DataType] = [INT.not_null(), STRING.not_null()]
    assert len(key_codes([pa.array([], pa.int32()), pa.array([], pa.string())], empty)) == 0


@given(key_columns(), st.booleans(), st.lists(st.booleans(), min_size=75, max_size=75))
def test_order_codes_put_null_first_and_turn_values_round_when_descending(case, descending, missing):
    """Of `sequence.field` NULL is smallest in both directions."""
    types, rows = case
    columns = columns_of(types, rows)
    gaps = [missing[i * len(columns) : (i + 1) * len(columns)] for i in range(len(rows))]
    masked = [
        pa.array(
            np.where([g[i] for g in gaps], -1, np.arange(len(rows))), mask=np.array([g[i] for g in gaps])
        )
        for i in range(len(columns))
    ]
    given_columns = [c.take(m) for c, m in zip(columns, masked, strict=True)]
    codes = keys.order_codes(given_columns, [t.as_nullable() for t in types], descending=descending)
    whole = [sort_keys([t], [(r[i],) for r in rows]) for i, t in enumerate(types)]

    def before(a, b):
        for i in range(len(types)):
            if gaps[a][i] != gaps[b][i]:
                return gaps[a][i]
            if not gaps[a][i] and whole[i][a] != whole[i][b]:
                return (whole[i][a] < whole[i][b]) != descending
        return None

    for a in range(len(rows)):
        for b in range(len(rows)):
            actual = None if codes[a] == codes[b] else bool(codes[a] < codes[b])
            assert actual == before(a, b)


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
