"""Conversions of captures: columns at a time they give what a row at a time gives."""

from __future__ import annotations

import json
import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.cdc.capture.conversion import Conversion
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import ShapeColumn, TableRows, TableShape
from tablestore.core.errors import NotFound
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataField
from tests.cdc.capture import naive_conversion as naive

NAME = SourceName("shop", "orders")
SOURCE = {
    "id": t.INT,
    "at": t.TIMESTAMP(0),
    "name": t.VARCHAR(8),
    "big": t.DECIMAL(20, 0),
    "flag": t.TINYINT,
    "body": t.BYTES,
    "price": t.DECIMAL(6, 2),
}
SHAPE = TableShape(tuple(ShapeColumn(n, kind) for n, kind in SOURCE.items()), ("id",))
TARGET = {  # a table that was made for narrower values
    "year": t.INT.not_null(),
    "id": t.SMALLINT.not_null(),
    "at": t.TIMESTAMP(0),
    "name": t.VARCHAR(4).not_null(),
    "big": t.BIGINT,
    "flag": t.BOOLEAN,
    "body": t.STRING,
    "price": t.STRING,
    "other": t.INT,
}
FIELDS = tuple(DataField(i, n, kind) for i, (n, kind) in enumerate(TARGET.items()))
NAIVE = naive.NaiveTarget(
    {n: (kind.root, kind.precision, kind.nullable) for n, kind in TARGET.items()}, ("id", "year")
)
RULES = CaptureRules.of(
    "shop.*",
    into="ods",
    computed={"year": "year(at)"},
    primary_keys=["*", "year"],
    partition_by=["year"],
    bad_rows="dead-letter",
)
CONVERSION = Conversion.of(RULES, NAME, SHAPE, FIELDS, primary_key=["id", "year"])

ROWS = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.integers(0, 3), st.just(70_000)),
        "at": st.one_of(
            st.none(), st.sampled_from([datetime(y, 3, 1, 12, 30, 5) for y in (1969, 2024, 2025)])
        ),
        "name": st.one_of(st.none(), st.text("aé𝄞", max_size=6)),
        "big": st.one_of(st.none(), st.sampled_from([Decimal(n) for n in (0, 2**63 - 1, 2**63, 10**20 - 1)])),
        "flag": st.one_of(st.none(), st.integers(-2, 2)),
        "body": st.one_of(st.none(), st.sampled_from([b"", b"text", b"\xff\xfe"])),
        "price": st.one_of(st.none(), st.decimals(-9999, 9999, places=2)),
    }
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([INSERT, DELETE, UPDATE_AFTER]), ROWS).map(lambda row: [row]),
        st.tuples(ROWS, ROWS).map(lambda two: [(UPDATE_BEFORE, two[0]), (UPDATE_AFTER, two[1])]),
    ),
    max_size=12,
).map(lambda parts: [row for part in parts for row in part])


def changes_of(changes: list[tuple[int, dict[str, Any]]]) -> TableRows:
    schema = pa.schema([pa.field(f.name, f.type) for f in SHAPE.schema])
    rows = pa.RecordBatch.from_pylist([row for _, row in changes], schema=schema)
    kinds = pa.array([kind for kind, _ in changes], pa.int8())
    return TableRows(NAME, rows, kinds, pa.array([7] * len(changes), pa.int64()), "file:4")


@given(CHANGES)
@settings(max_examples=120, deadline=None)
def test_columns_give_what_rows_give(changes: list[tuple[int, dict[str, Any]]]) -> None:
    conversion = pickle.loads(pickle.dumps(CONVERSION))
    converted = conversion.convert(changes_of(changes))
    rows, bad = naive.convert(changes, NAIVE)
    assert list(zip(converted.kinds.to_pylist(), converted.rows.to_pylist(), strict=True)) == rows
    assert [bad_row.kind for bad_row in converted.bad] == [kind for kind, _ in bad]
    assert [json.loads(bad_row.row)["id"] for bad_row in converted.bad] == [row["id"] for _, row in bad]
    assert all(
        bad_row.reason and bad_row.position == "file:4" and bad_row.seconds == 7 for bad_row in converted.bad
    )


def one(**values: Any) -> dict[str, Any]:
    row = {
        "id": 1,
        "at": datetime(2024, 3, 1),
        "name": "a",
        "big": None,
        "flag": 1,
        "body": b"",
        "price": None,
    }
    return row | values


def test_a_row_that_moves_to_another_partition_leaves_the_old_one() -> None:
    changes = [(UPDATE_BEFORE, one()), (UPDATE_AFTER, one(at=datetime(2025, 1, 1)))]
    converted = CONVERSION.convert(changes_of(changes))
    assert converted.kinds.to_pylist() == [DELETE, INSERT]
    assert converted.rows.column("year").to_pylist() == [2024, 2025]


def test_a_bad_row_says_where_it_is_what_it_is_and_why() -> None:
    bad = one(id=70_000, name="too long", big=Decimal(2**64), body=b"\xff")
    (actual,) = CONVERSION.convert(changes_of([(INSERT, bad)])).bad
    assert actual.reason.split("; ") == [
        "70000 does not fit column 'id', which is SMALLINT NOT NULL",
        "'too long' does not fit column 'name', which is VARCHAR(4) NOT NULL",
        "Decimal('18446744073709551616') does not fit column 'big', which is BIGINT",
        "b'\\xff' does not fit column 'body', which is STRING",
    ]
    assert json.loads(actual.row) == {
        "id": 70000,
        "at": "2024-03-01 00:00:00",
        "name": "too long",
        "big": "18446744073709551616",
        "flag": 1,
        "body": "/w==",
        "price": None,
    }


def test_a_column_that_the_table_lost_and_a_computed_one_needs_is_named() -> None:
    shape = TableShape(tuple(c for c in SHAPE.columns if c.name != "at"), ("id",))
    with pytest.raises(NotFound, match="'year' = year\\(at\\): no column 'at'"):
        Conversion.of(RULES, NAME, shape, FIELDS, primary_key=["id", "year"])


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_a_column_of_the_same_type_is_not_copied(count: int) -> None:
    rules = CaptureRules.of("shop.*", into="ods")
    fields = tuple(
        DataField(i, c.name, c.type) for i, c in enumerate(rules.target_shape(NAME, SHAPE).columns)
    )
    given = changes_of([(INSERT, one(id=i)) for i in range(count)])
    converted = Conversion.of(rules, NAME, SHAPE, fields, primary_key=["id"]).convert(given)
    for before, after in zip(given.rows.columns, converted.rows.columns, strict=True):
        assert [b and b.address for b in after.buffers()] == [b and b.address for b in before.buffers()]
