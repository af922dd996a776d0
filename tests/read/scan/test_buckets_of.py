"""Which buckets a condition names, by the number of buckets."""

from __future__ import annotations

import pytest

from tablestore import col
from tablestore.core.options.table_options import TableOptions
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import create_schema
from tablestore.format.types.arrow_types import BIGINT, INT, DataField
from tablestore.read.scan.pruning import _MAX_POINTS, buckets_of

SCHEMA = create_schema(
    (DataField(0, "a", BIGINT), DataField(1, "b", INT), DataField(2, "v", INT)),
    primary_key=("a", "b"),
    partition_by=(),
    options={"bucket": "4"},
    comment=None,
    time_millis=0,
)


def named(where: Predicate, buckets: int, bucket: int = 4) -> frozenset[int] | None:
    options = TableOptions.parse({"bucket": str(bucket)})
    return buckets_of(predicate.bind(where, SCHEMA), SCHEMA, options)(buckets)


def points(a: int, b: int) -> Predicate:
    return col("a").is_in(list(range(a))) & col("b").is_in(list(range(b)))


def test_a_key_is_in_one_bucket_of_any_number() -> None:
    where = (col("a") == 5) & (col("b") == 7)
    assert named(where, 1) == {0}
    for buckets in (2, 3, 16):
        (bucket,) = named(where, buckets) or ()
        assert 0 <= bucket < buckets
        assert named(where, buckets, bucket=1) == {bucket}


def test_every_pair_of_values_names_its_bucket() -> None:
    wanted = {
        b for a in (0, 1) for c in (0, 1, 2) for b in named((col("a") == a) & (col("b") == c), 64) or ()
    }
    assert named(points(2, 3), 64) == wanted
    assert len(wanted) > 1


@pytest.mark.parametrize("buckets", [0, -1, -2])
def test_no_number_of_buckets_names_none(buckets: int) -> None:
    assert named((col("a") == 5) & (col("b") == 7), buckets) is None


def test_a_table_without_a_fixed_number_of_buckets_names_none() -> None:
    assert named((col("a") == 5) & (col("b") == 7), 4, bucket=-1) is None


def test_a_condition_on_a_part_of_the_key_names_none() -> None:
    assert named(col("a") == 5, 4) is None
    assert named((col("a") == 5) & (col("b") > 7), 4) is None


def test_conditions_that_no_row_meets_name_no_bucket() -> None:
    assert named(col("a").is_in([]) & (col("b") == 7), 4) == frozenset()
    assert named((col("b") == 7) & col("a").is_in([]), 4) == frozenset()


def test_very_many_keys_name_none() -> None:
    half = _MAX_POINTS // 2
    assert half * 2 == _MAX_POINTS
    assert named(points(half, 2), 4) is not None
    assert named(points(half + 1, 2), 4) is None
