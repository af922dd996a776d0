"""The common type of two: the same in both orders, and one that holds both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.cdc.capture.shapes import common_type, widened
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType
from tablestore.format.types.type_text import parse_type

TYPES = st.one_of(
    st.sampled_from([t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.DATE, t.STRING, t.BOOLEAN]),
    st.integers(1, 20).map(t.VARCHAR),
    st.integers(1, 20).map(t.CHAR),
    st.integers(0, 9).map(t.TIMESTAMP),
    st.tuples(st.integers(1, 38), st.integers(0, 38))
    .filter(lambda p: p[1] <= p[0])
    .map(lambda p: t.DECIMAL(*p)),
)


@given(TYPES, TYPES)
def test_the_common_type_does_not_depend_on_the_order_and_holds_itself(
    left: DataType, right: DataType
) -> None:
    both = common_type(left, right)
    assert both == common_type(right, left)
    if both is not None:
        assert common_type(both, left) == both == common_type(both, right)


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "DECIMAL(20, 0)", "DECIMAL(20, 0)"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 10)", None),
        ("INT", "DOUBLE", "DOUBLE"),
        ("VARCHAR(5)", "CHAR(9)", "VARCHAR(9)"),
        ("CHAR(3)", "CHAR(5)", "CHAR(5)"),
        ("BINARY(3)", "BYTES", "BYTES"),
        ("INT NOT NULL", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("BOOLEAN", "INT", None),
    ],
)
def test_two_types_have_the_narrowest_that_holds_both(a: str, b: str, both: str | None):
    wanted = both and parse_type(both)
    assert common_type(parse_type(a), parse_type(b)) == wanted == common_type(parse_type(b), parse_type(a))


@given(TYPES, TYPES, TYPES)
def test_the_common_type_of_three_does_not_depend_on_which_two_come_first(
    a: DataType, b: DataType, c: DataType
) -> None:
    actual = {
        common_type(both, third) for both, third in ((common_type(a, b), c), (common_type(b, c), a)) if both
    }
    assert len(actual - {None}) <= 1


@pytest.mark.parametrize(
    ("here", "there", "room"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "INT", "BIGINT"),
        ("VARCHAR(10)", "VARCHAR(20)", "VARCHAR(20)"),
        ("VARCHAR(20)", "VARCHAR(10)", "VARCHAR(20)"),
        ("CHAR(5)", "VARCHAR(3)", "VARCHAR(5)"),
        ("STRING", "CHAR(5)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 2)", "DECIMAL(38, 4)", None),
        ("INT", "DECIMAL(5, 2)", "DECIMAL(12, 2)"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", "DATE", None),
        ("DATE", "TIMESTAMP(3)", None),
        ("INT", "STRING", None),
        ("STRING", "INT", None),
        ("INT NOT NULL", "BIGINT", "BIGINT NOT NULL"),
    ],
)
def test_a_column_has_room_for_what_was_and_what_comes(here: str, there: str, room: str | None) -> None:
    wanted = None if room is None else parse_type(room)
    assert widened(parse_type(here), parse_type(there)) == wanted
