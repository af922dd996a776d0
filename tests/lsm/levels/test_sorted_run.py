"""Levels and sections: the order of runs, changing them, and files packed by their keys."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.format.binary_row import comparable_keys
from tablestore.format.types.arrow_types import BIGINT
from tablestore.lsm.levels.sorted_run import MIXED, Levels, SortedRun, key_sections, old_to_new
from tests.lsm.trees import KEY, data_file, key_bytes


def names(levels: Levels) -> list[list[str]]:
    return [[f.file_name for f in run.files] for run in levels.runs]


def test_level_0_is_newest_first_then_by_first_sequence_time_and_name():
    files = [
        data_file("old", 0, 9, min_sequence=0, max_sequence=10),
        data_file("b", 0, 9, min_sequence=5, max_sequence=20, creation_time_ms=2),
        data_file("a", 0, 9, min_sequence=5, max_sequence=20, creation_time_ms=2),
        data_file("earlier", 0, 9, min_sequence=5, max_sequence=20, creation_time_ms=1),
        data_file("wider", 0, 9, min_sequence=4, max_sequence=20, creation_time_ms=9),
    ]
    assert names(Levels.of(files, 6)) == [["wider"], ["earlier"], ["a"], ["b"], ["old"]]
    unknown = [data_file("z", 0, 9, creation_time_ms=None), data_file("a", 0, 9, creation_time_ms=1)]
    assert names(Levels.of(unknown, 6)) == [["z"], ["a"]]


def test_a_level_is_one_run_in_key_order_and_empty_levels_are_none():
    files = [data_file("y", 10, 19, level=3), data_file("x", 0, 9, level=3), data_file("n", 0, 9)]
    levels = Levels.of(files, 6, key=lambda k: k)
    assert names(levels) == [["n"], ["x", "y"]]
    assert (levels.run_count, levels.num_levels, levels.oldest_nonempty_level) == (2, 6, 3)


def test_a_file_above_the_option_raises_the_number_of_levels():
    assert Levels.of([data_file("x", 0, 9, level=7)], 6).num_levels == 8


def test_an_empty_bucket_has_no_runs():
    levels = Levels.of([], 6)
    assert (levels.runs, levels.oldest_nonempty_level, levels.oldest_level) == ((), -1, 5)


def test_apply_moves_files_between_levels():
    a, b = data_file("a", 0, 9, max_sequence=2), data_file("b", 0, 9, max_sequence=1)
    levels = Levels.of([a, b], 6)
    moved = levels.apply([b], [b.upgraded(5)])
    assert names(moved) == [["a"], ["b"]]
    assert moved.oldest_nonempty_level == 5
    assert names(levels) == [["a"], ["b"]]
    assert levels.oldest_nonempty_level == 0


def test_apply_gives_what_the_files_alone_would_give():
    a, b, c, d = (data_file(n, 10 * i, 10 * i + 9, level=5) for i, n in enumerate("abcd"))
    levels = Levels.of([a, c], 6)
    assert levels.apply([], []) == levels
    assert levels.apply([], [b, d]) == Levels.of([a, b, c, d], 6)
    assert levels.apply([a], [a.upgraded(7)]) == Levels.of([a.upgraded(7), c], 6)
    assert levels.apply([a], [a.upgraded(7)]).num_levels == 8
    assert levels.apply([c], [c.upgraded(1)]) == Levels.of([a, c.upgraded(1)], 6)
    assert levels.apply([a, c], []).upper == Levels.of([], 6).upper
    assert levels.apply([c], [c.upgraded(1)]).upper[3] is levels.upper[3]


def test_apply_orders_by_the_key_that_it_is_given():
    low, high, middle = (data_file(n, k, k, level=5) for n, k in [("low", -5), ("high", 300), ("middle", 7)])
    levels = Levels.of([low, high], 6)
    assert names(levels) != names(Levels.of([low, high], 6, comparable_keys(KEY))), "as bytes, -5 comes last"
    assert names(levels.apply([], [middle], comparable_keys(KEY))) == [["low", "middle", "high"]]


def test_comparable_bounds_are_made_once_for_a_key():
    asked = []

    def key(data: bytes) -> int:
        asked.append(data)
        return order(data)

    order = comparable_keys(KEY)
    run = SortedRun((data_file("a", 0, 4), data_file("b", 5, 9)), 5)
    assert (
        run.bounds(key)
        == run.bounds(key)
        == ([order(key_bytes(n)) for n in (0, 5)], [order(key_bytes(n)) for n in (4, 9)])
    )
    assert len(asked) == 4
    assert run.bounds(len) == ([len(key_bytes(0))] * 2, [len(key_bytes(0))] * 2)


def test_files_that_overlap_a_range_are_those_that_touch_it():
    run = SortedRun(tuple(data_file(n, k, k + 5) for n, k in [("a", 0), ("b", 10), ("c", 20)]), 5)
    order = comparable_keys(KEY)

    def overlapping(low: int, high: int) -> str:
        actual = run.overlapping(order(key_bytes(low)), order(key_bytes(high)), order)
        return "".join(f.file_name for f in actual)

    assert [
        overlapping(*ends) for ends in [(5, 10), (6, 9), (-9, 0), (-9, -1), (25, 99), (26, 99), (0, 20)]
    ] == [
        "ab",
        "",
        "a",
        "",
        "c",
        "",
        "abc",
    ]
    assert run.ends(1, order) == (order(key_bytes(10)), order(key_bytes(15)))
    assert (run.size, run.rows) == (3 << 20, 3000)


def test_apply_refuses_files_that_are_not_there():
    a = data_file("a", 0, 9)
    with pytest.raises(AssertionError, match="I6"):
        Levels.of([a], 6).apply([a.upgraded(5)], [])


def test_old_to_new_is_the_order_of_runs_reversed():
    files = [
        data_file("a", 0, 9, max_sequence=20, creation_time_ms=1),
        data_file("b", 0, 9, max_sequence=20, creation_time_ms=2),
        data_file("c", 0, 9, max_sequence=99, level=4),
        data_file("d", 0, 9, max_sequence=5, level=5),
    ]
    levels = Levels.of(files, 6)
    assert old_to_new(levels.runs) == list(reversed(levels.runs))


GOLDEN = Path(__file__).parents[2] / "golden" / "picks" / "interval-partition.jsonl.gz"
ORDER = comparable_keys(KEY)


def sections_of(spans: list[list[int]]) -> list[list[list[int]]]:
    files = [data_file(str(i), low, high) for i, (low, high) in enumerate(spans)]
    return [
        [[int(f.file_name) for f in run.files] for run in section] for section in key_sections(files, ORDER)
    ]


def recorded() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_sections_are_those_of_java():
    cases = recorded()
    assert len(cases) == 500
    for case in cases:
        actual = sections_of(case["files"])
        if case["ties"]:
            assert [len(s) for s in actual] == [len(s) for s in case["sections"]], case["id"]
            flat = [sorted(n for run in s for n in run) for s in actual]
            assert flat == [sorted(n for run in s for n in run) for s in case["sections"]], case["id"]
        else:
            as_text = [sorted(map(str, s)) for s in actual]
            assert as_text == [sorted(map(str, s)) for s in case["sections"]], case["id"]


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 20)), max_size=30))
def test_runs_are_disjoint_and_sections_do_not_meet(pairs):
    spans = [[low, low + length] for low, length in pairs]
    sections = sections_of(spans)
    assert sorted(n for s in sections for run in s for n in run) == list(range(len(spans)))
    last = None
    for section in sections:
        for run in section:
            ends = [bound for n in run for bound in spans[n]]
            assert ends == sorted(ends)
            assert all(spans[a][1] < spans[b][0] for a, b in pairwise(run))
        low = min(spans[n][0] for run in section for n in run)
        assert last is None or low > last
        last = max(spans[n][1] for run in section for n in run)
        points = {bound for run in section for n in run for bound in spans[n]}
        deepest = max(
            sum(lo <= p <= hi for run in section for lo, hi in (spans[n] for n in run)) for p in points
        )
        assert len(section) == deepest  # as few runs as files that share a key


@pytest.mark.parametrize(("second", "level"), [(5, 5), (4, MIXED)])
def test_a_run_has_the_level_of_its_files_if_they_have_one(second: int, level: int):
    files = [data_file("a", 0, 9, level=5), data_file("b", 20, 29, level=second), data_file("c", 5, 25)]
    (section,) = key_sections(files, ORDER)
    assert [([f.file_name for f in run.files], run.level) for run in section] == [
        (["a", "b"], level),
        (["c"], 0),
    ]


def test_no_files_have_no_sections():
    assert key_sections([], ORDER) == []


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 1, 2**63 - 1])
def test_keys_compare_as_numbers_not_as_bytes(value):
    files = [data_file("low", -(2**63), value), data_file("high", 2**63 - 1, 2**63 - 1)]
    runs = key_sections(files, comparable_keys((BIGINT,)))
    assert len(runs) == (1 if value == 2**63 - 1 else 2)
