"""Sections and sorted runs, against recorded partitions of Java Paimon 2.0.0 and by their invariants."""

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
from tablestore.lsm.levels.sorted_run import MIXED, key_sections
from tests.lsm.trees import KEY, data_file

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
