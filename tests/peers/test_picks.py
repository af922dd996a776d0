"""Picks, partitions into sections and off-peak hours beside Java's own classes, on random layouts and options
and at the edges of both: equal and empty sizes, sums beyond 2^63, few levels, thresholds met to the byte."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.recorded import check_picks
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer
CASES = 400
RATIOS = (0, 0, 1, 1, 10, 50, 99, 100, 101, 500, 2**31 - 1)
EDGES = [1 << n for n in (0, 10, 31, 53, 56, 57, 62)] + [(1 << 31) - 1, (1 << 63) - 1]
DAY_MS = 86_400_000


def some_case(chance: random.Random) -> dict[str, Any]:
    """A layout and options without an answer, in the form of recorded picks."""
    levels, trigger = chance.choice([2, 2, 3, 4, 6, 6, 9]), chance.choice([1, 2, 3, 4, 5, 5, 8])
    sizes = some_sizes(chance)
    count = chance.choice([0, 1, trigger - 1, trigger, trigger + 1, trigger + 1, trigger + 4, 12])
    runs = [[0, [next(sizes), 0, 9]] for _ in range(count)]
    for level in range(1, levels):
        if chance.random() < 0.5:
            files = 1 if chance.random() < 0.7 else chance.randint(2, 4)
            runs.append([level, *([next(sizes), 10 * i, 10 * i + 9] for i in range(files))])
    case = {
        "num_levels": levels,
        "trigger": trigger,
        "max_size_amp": chance.choice([0, 1, 50, 100, 200, 200, 2000, 2**31 - 1]),
        "size_ratio": chance.choice(RATIOS),
        "off_peak_ratio": chance.choice(RATIOS) if chance.random() < 0.3 else 0,
        "force_up_level_0": chance.random() < 0.4,
        "runs": runs,
    }
    return case | early_full(chance, runs) if chance.random() < 0.4 else case


def some_sizes(chance: random.Random):
    """Sizes of files that follow each other: alike, growing, random or at the edges of what a size can be."""
    kind, size = chance.randrange(5), chance.choice([0, 1, 100, 1 << 20, 1 << 33])
    while True:
        if kind == 0:
            yield size
        elif kind == 1:
            yield max(0, size + chance.choice([-1, 0, 0, 1]))
        elif kind == 2:
            yield (size := min(size * chance.choice([1, 2, 3]) + chance.randint(0, 2), 1 << 60))
        elif kind == 3:
            yield chance.randint(0, 1 << chance.choice([3, 12, 35]))
        else:
            yield max(0, min(chance.choice(EDGES) + chance.randint(-1, 1), (1 << 63) - 1))


def early_full(chance: random.Random, runs: list[list[Any]]) -> dict[str, int | None]:
    """Options of early full compaction, near what would fire; times are far enough from a clock that goes
    on."""
    total = sum(size for _, *files in runs for size, *_ in files)
    above = sum(size for level, *files in runs for size, *_ in files if level < 5)
    interval = chance.choice([None, DAY_MS])

    def near(size: int) -> int | None:
        return chance.choice([None, max(0, min(size + chance.randint(-1, 1), (1 << 63) - 1))])

    return {
        "interval_ms": interval,
        "since_last_full_ms": chance.choice([None, 0, DAY_MS - 3_600_000, DAY_MS + 1]),
        "total_size_threshold": near(total),
        "incremental_size_threshold": near(above),
    }


def some_spans(chance: random.Random) -> list[list[int]]:
    """Key ranges of files, many of which meet or follow each other closely; no two end alike, as then the
    order of a heap decides."""
    wide = chance.choice([20, 200, 1 << 40])
    ends = chance.sample(range(wide), min(wide // 2, chance.randint(0, 20)))
    return [[max(0, end - chance.randint(0, chance.choice([1, wide // 8, wide]))), end] for end in ends]


def compare_picks(java: JavaPaimon, seed: int, count: int) -> list[str]:
    """Differences to Java, as text."""
    chance = random.Random(seed)
    cases = [some_case(chance) for _ in range(count)]
    for case, answer in zip(cases, java.picks(cases), strict=True):
        case["pick"] = answer
    actual = check_picks(map(json.dumps, cases))
    assert (actual.cases, actual.damaged) == (count, ())
    return list(actual.shown)


def test_picks_of_random_layouts_are_those_of_java(java: JavaPaimon, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        assert compare_picks(java, seed, CASES) == [], seed


def test_sections_of_random_files_are_those_of_java(java: JavaPaimon, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        spans = [some_spans(chance) for _ in range(CASES // 2)]
        answers = zip(spans, java.sections(spans), strict=True)
        actual = check_picks(json.dumps({"files": s, "sections": a}) for s, a in answers)
        assert (actual.cases, actual.wrong, actual.damaged) == (len(spans), 0, ()), (seed, actual.shown)


def test_off_peak_hours_are_those_of_java(java: JavaPaimon, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        cases = [
            [chance.randint(-1, 24), chance.randint(-1, 24), 7, chance.randint(0, 23)] for _ in range(CASES)
        ]
        for (start, end, ratio, hour), added in zip(cases, java.off_peak_ratios(cases), strict=True):
            rules = CompactionOptions(size_ratio=0, offpeak_start=start, offpeak_end=end, offpeak_ratio=ratio)
            assert rules.percent(hour) == 100.0 + added, (seed, start, end, hour)
