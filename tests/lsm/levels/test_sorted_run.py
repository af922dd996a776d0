"""Levels: the order of runs, and changing them."""

from __future__ import annotations

import pytest

from tablestore.lsm.levels.sorted_run import Levels, old_to_new
from tests.lsm.trees import data_file


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
