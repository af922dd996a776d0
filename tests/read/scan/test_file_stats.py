"""Statistics of a file under the names of a later schema, and buckets that a condition names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.format import stats
from tablestore.format.manifests.manifest import EMPTY_STATS, DataFileMeta
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate_text import parse
from tablestore.format.schema import TableSchema, create_schema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import (
    BIGINT,
    CHAR,
    DECIMAL,
    DOUBLE,
    INT,
    STRING,
    DataField,
    DataType,
)
from tablestore.read.scan.file_stats import own_stats, stats_by_name
from tablestore.read.scan.pruning import buckets_of
from tests.lsm.trees import data_file


def schema(*fields: tuple[int, str, DataType]) -> TableSchema:
    columns = tuple(DataField(*field) for field in fields)
    created = create_schema(columns, primary_key=(), partition_by=(), options={}, comment=None, time_millis=0)
    return replace(created, fields=columns)  # with the ids that are given


A, B = ColumnStats(3, 7, 0, 10), ColumnStats("x", "y", 2, 10)
WRITTEN = schema((0, "a", INT), (1, "b", STRING))


def file(*columns: ColumnStats, types: tuple[DataType, ...] = (INT, STRING), **fields: Any) -> DataFileMeta:
    created = data_file("f.parquet", 0, 9, row_count=10)
    return replace(
        created, **{"value_stats": stats.encode(list(columns), list(types[: len(columns)])), **fields}
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"a": A, "b": B}),  # all columns of its schema
        ({"write_cols": ("b", "a"), "value_stats": stats.encode([B, A], [STRING, INT])}, {"a": A, "b": B}),
        ({"value_stats_cols": ("a",), "value_stats": stats.encode([A], [INT])}, {"a": A}),
        (
            {"value_stats_cols": ("a",), "write_cols": ("b",), "value_stats": stats.encode([A], [INT])},
            {"a": A},
        ),
        ({"value_stats_cols": (), "value_stats": EMPTY_STATS}, {}),
        ({"value_stats_cols": ("a", "unknown")}, {}),
        ({"value_stats": EMPTY_STATS}, {}),
    ],
)
def test_a_file_says_of_which_columns_it_has_statistics(
    fields: dict[str, Any], expected: dict[str, ColumnStats]
) -> None:
    assert own_stats(file(A, B, **fields), WRITTEN) == expected


def test_blanks_of_char_values_in_orc_files_are_no_part_of_them() -> None:
    padded, types = ColumnStats("x  ", "y  ", 0, 10), (CHAR(3), STRING)
    written = schema((0, "c", types[0]), (1, "s", types[1]))
    padded_file = file(padded, padded, types=types)
    assert own_stats(padded_file, written) == {"c": padded, "s": padded}
    assert own_stats(replace(padded_file, file_name="f.orc"), written) == {
        "c": ColumnStats("x", "y", 0, 10),
        "s": padded,
    }


def test_columns_are_matched_by_their_ids() -> None:
    later = schema((1, "a", STRING), (0, "b", BIGINT), (2, "new", INT))
    actual = stats_by_name(file(A, B), WRITTEN, later)
    assert actual == {"a": B, "b": A, "new": ColumnStats(None, None, 10, 10)}
    without = file(A, value_stats_cols=("a",))
    assert "a" not in stats_by_name(without, WRITTEN, later), "b as it was may hold anything"


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (BIGINT, A),  # wider integers keep their bounds
        (STRING, ColumnStats(None, None, 0, 10)),  # texts order otherwise
        (DECIMAL(2, 1), ColumnStats(None, None, None, 10)),  # what is too large is NULL
    ],
)
def test_bounds_of_another_type_are_unknown(type_: DataType, expected: ColumnStats) -> None:
    assert stats_by_name(file(A, B), WRITTEN, schema((0, "a", type_)))["a"] == expected


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("d = 1.5", True),
        ("d in (1.5, 2.5)", True),
        ("d = 0.0", False),
        ("d in (1.5, 0.0)", False),
        ("d > 1.5", False),
    ],
)
def test_a_zero_with_a_sign_names_no_bucket(where: str, named: bool) -> None:
    """0.0 and -0.0 are equal, but may lie in two buckets."""
    table = replace(schema((0, "d", DOUBLE)), options={"bucket": "4", "bucket-key": "d"})
    of = buckets_of(predicate.bind(parse(where), table), table, TableOptions.parse(table.options))
    assert (of(4) is not None) is named
    assert of(4) is None or 1 <= len(of(4) or ()) <= 2
    assert of(-1) is None
