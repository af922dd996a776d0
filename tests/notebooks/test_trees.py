"""Simulated buckets by their story."""

from __future__ import annotations

import pytest

from notebooks import course
from tablestore.insight.simulator import Workload

WORKLOAD = Workload("uniform", rows=500, keys=500_000)


def test_a_story_gives_its_tree_again_and_again() -> None:
    first, second = (course.tree(5, "compact", 4, workload=WORKLOAD) for _ in range(2))
    assert first.inspect.levels() == second.inspect.levels()
    assert first.inspect.levels()["level"].to_pylist() == [0, 0, 0, 0, 5]
    assert first.inspect.commits().num_rows == 10


def test_options_change_in_the_story() -> None:
    created = course.tree(4, {"num-sorted-run.compaction-trigger": 3}, "compact", workload=WORKLOAD)
    assert created.inspect.levels()["level"].to_pylist() == [5]


@pytest.mark.parametrize("story", [(2, "compact"), ("flush",), (True,)])
def test_what_is_no_story_is_refused(story: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"nothing to compact|no act"):
        course.tree(*story, workload=WORKLOAD)
