"""Which file moves first, and which neighbours come along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.compaction.leveled import Candidate, candidate_at, candidates, expanded, first
from tablestore.lsm.levels.sorted_run import Levels
from tests.lsm.trees import KEY, data_file, parse_file

UPPER = ("L1 [0,9] 50-59 10b", "L1 [10,19] 40-49 20b", "L1 [40,49] 30-39 10b", "L1 [50,59] 20-29 10b")
LOWER = ("L2 [0,4] 0-9 7b", "L2 [5,14] 0-9 11b", "L2 [15,30] 0-9 13b")


def levels(*lines: str) -> Levels:
    files = (parse_file(line, f"f{i}") for i, line in enumerate(lines))
    return Levels.of(files, 4, comparable_keys(KEY))


def names(files: tuple[DataFileMeta, ...]) -> str:
    return " ".join(f.file_name for f in files)


def taken(lines: tuple[str, ...], position: int, target_bytes: int) -> str:
    """The files that come with the one at this position of level 1."""
    tree = levels(*lines)
    return names(expanded(tree, 1, candidate_at(tree, 1, position), target_bytes=target_bytes))


def test_a_candidate_names_what_it_overlaps_and_its_bytes() -> None:
    created = [(c.position, c.overlapped, c.overlap) for c in candidates(levels(*UPPER, *LOWER), 1)]
    assert created == [(0, slice(0, 2), 18), (1, slice(1, 3), 24), (2, slice(3, 3), 0), (3, slice(3, 3), 0)]


def test_a_candidate_at_a_place_is_that_of_all() -> None:
    tree = levels(*UPPER, *LOWER)
    assert [candidate_at(tree, 1, position) for position in range(4)] == list(candidates(tree, 1))


def test_levels_farther_down_are_compared_with_the_next() -> None:
    tree = levels("L1 [0,99] 5-9 10b", *LOWER, "L3 [0,4] 0-9 100b")
    assert [c.overlap for c in candidates(tree, 2)] == [100, 0, 0]
    assert candidate_at(tree, 2, 0).overlap == 100


def ranked(overlap: int, size: int, max_sequence: int = 0, position: int = 0) -> tuple[float, int, int]:
    file = data_file("f", 0, 9, file_size=size, max_sequence=max_sequence)
    return Candidate(position, file, slice(0, 1), overlap).rank


def test_the_least_overlap_for_its_size_is_first_then_age_then_place() -> None:
    assert ranked(30, 10) == (3.0, 0, 0)
    assert ranked(30, 10, 7, 2) == (3.0, 7, 2)
    assert ranked(30, 1) == (30.0, 0, 0)
    assert ranked(30, 0) == (30.0, 0, 0)
    tree = levels(*UPPER, *LOWER)
    assert first(tree, 1).file.file_name == "f3"  # of two without overlap that with the older rows


@pytest.mark.parametrize(
    ("other", "nothing_else"),
    [
        ((2, 5), True),
        ((2, 3), True),
        ((4, 5), True),
        ((1, 3), False),
        ((4, 6), False),
        ((5, 5), False),
        ((2, 2), False),
        ((5, 6), False),
        ((1, 2), False),
    ],
)
def test_a_neighbour_adds_nothing_where_all_that_it_overlaps_is_overlapped(
    other: tuple[int, int], nothing_else: bool
) -> None:
    chosen = Candidate(0, data_file("f", 0, 9), slice(2, 5), 30)
    assert chosen.meets_nothing_else(replace(chosen, overlapped=slice(*other))) is nothing_else


def test_neighbours_that_overlap_the_same_come_along_on_both_sides() -> None:
    upper = tuple(f"L1 [{k},{k + 1}] {k}-{k} 10b" for k in (0, 10, 20, 30, 40))
    assert taken((*upper, "L2 [10,35] 0-9 50b"), 2, 1) == "f1 f2 f3"
    assert taken((*upper, "L2 [0,45] 0-9 50b"), 0, 1) == "f0 f1 f2 f3 f4"
    assert taken((*upper, "L2 [0,45] 0-9 50b"), 4, 1) == "f0 f1 f2 f3 f4"
    assert taken((*upper, "L2 [0,21] 0-9 50b", "L2 [22,45] 0-9 50b"), 2, 1) == "f0 f1 f2"


@pytest.mark.parametrize(
    ("target_bytes", "together"),
    [
        (10, "f2"),
        (19, "f2"),
        (20, "f2 f3"),
        (29, "f2 f3"),
        (30, "f2 f3 f4"),
        (39, "f2 f3 f4"),
        (40, "f1 f2 f3 f4"),
    ],
)
def test_files_that_overlap_nothing_come_along_up_to_the_target(target_bytes: int, together: str) -> None:
    upper = tuple(f"L1 [{k},{k + 1}] {k}-{k} 10b" for k in (0, 10, 20, 30, 40))
    assert taken(upper, 2, target_bytes) == together


def test_files_before_come_along_when_there_is_none_behind() -> None:
    upper = tuple(f"L1 [{k},{k + 1}] {k}-{k} 10b" for k in (0, 10, 20))
    assert taken(upper, 2, 20) == "f1 f2"
    assert taken(upper, 2, 1_000) == "f0 f1 f2"


def test_files_that_overlap_nothing_elsewhere_stay() -> None:
    upper = ("L1 [0,1] 0-0 10b", "L1 [40,41] 0-0 10b", "L1 [50,51] 0-0 10b")
    assert taken((*upper, "L2 [10,20] 0-9 50b"), 1, 1_000) == "f1 f2"
    assert taken((*upper, "L2 [45,46] 0-9 50b"), 1, 1_000) == "f0 f1"
