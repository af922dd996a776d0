"""Which manifests and partitions a scan looks at; which files of them: `test_pruning_cases.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.format import binary_row, stats
from tablestore.format.manifests.manifest import EMPTY_STATS, ManifestFileMeta
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Always
from tablestore.format.predicates.predicate_text import parse
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import BIGINT, INT
from tablestore.read.scan.pruning import TRUE, matching_manifests, selected_partitions
from tests.tables import schema_of

COLUMNS = {"k": BIGINT, "p": INT}
SCHEMA = schema_of(COLUMNS, primary_key=("k", "p"), partition_by=("p",))
FLAT = schema_of(COLUMNS, primary_key=("k",))


def manifest(
    name: str, low: int | None, high: int | None, nulls: int = 0, **fields: object
) -> ManifestFileMeta:
    """One with entries of partitions low..high, or without statistics of them."""
    partition_stats = EMPTY_STATS if low is None else stats.encode([ColumnStats(low, high, nulls, 4)], [INT])
    meta = ManifestFileMeta(name, 100, 3, 1, partition_stats, 0)
    return replace(meta, **fields)


def matching(where: str, *manifests: ManifestFileMeta, buckets: frozenset[int] | None = None) -> str:
    bound = predicate.bind(parse(where), SCHEMA) if where else TRUE
    return "".join(m.file_name for m in matching_manifests(manifests, bound, SCHEMA, buckets))


@pytest.mark.parametrize(
    ("where", "names"),
    [("", "abcd"), ("p = 2", "ad"), ("p = 3", "abd"), ("p > 5", "cd"), ("p = 9", "d"), ("p is null", "cd")],
)
def test_manifests_are_left_out_by_the_partitions_of_their_entries(where: str, names: str) -> None:
    some = (manifest("a", 1, 3), manifest("b", 3, 5), manifest("c", 6, 7, nulls=1), manifest("d", None, None))
    assert matching(where, *some) == names
    assert matching(where, *some, *some) == names * 2


@pytest.mark.parametrize(
    ("buckets", "names"),
    [
        (None, "abcd"),
        ({0}, "acd"),
        ({2}, "abcd"),
        ({3}, "bcd"),
        ({4}, "bcd"),
        ({5}, "cd"),
        (set(), "cd"),
        ({5, 1}, "acd"),
    ],
)
def test_manifests_are_left_out_by_the_buckets_of_their_entries(buckets: set[int] | None, names: str) -> None:
    some = (
        manifest("a", 1, 1, min_bucket=0, max_bucket=2),
        manifest("b", 1, 1, min_bucket=2, max_bucket=4),
        manifest("c", 1, 1, min_bucket=2),
        manifest("d", 1, 1, max_bucket=2),
    )
    assert matching("", *some, buckets=None if buckets is None else frozenset(buckets)) == names


def test_a_partition_is_selected_exactly() -> None:
    first, second, null = (binary_row.encode([value], [INT]) for value in (1, 2, None))

    def selected(where: str) -> list[bool]:
        bound = predicate.bind(parse(where), SCHEMA)
        actual = selected_partitions(
            [first, second, first, null], bound, lambda p: binary_row.decode(p, [INT]), SCHEMA
        )
        return [actual[each] for each in (first, second, null)]

    assert selected("p = 2") == [False, True, False]
    assert selected("p is null") == [False, False, True]
    assert selected("p < 2 or p = 2") == [True, True, False]


@pytest.mark.parametrize("value", [True, False])
def test_a_table_without_partitions_is_selected_whole_or_not_at_all(value: bool) -> None:
    assert selected_partitions([b"", b""], Always(value), lambda _: (), FLAT) == {b"": value}
    assert selected_partitions([], Always(value), lambda _: (), FLAT) == {}
