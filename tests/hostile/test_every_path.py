"""Each field of each metadata file with a path to somewhere else: nothing there is opened, listed or removed.

Each seed takes a few of the cases of `tests/hostile/elsewhere.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.elsewhere import cases, make_table, reached

CASES = 3  # a seed


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_table(tmp_path_factory.mktemp("hostile") / "lake")


@pytest.mark.large
def test_no_field_leads_outside(table: Path, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    outside = tmp_path / "outside"
    every = list(cases(table, outside))
    kinds = {name.partition("/")[0] for name, _, _ in every}
    named = {"snapshot", "schema", "manifest", "tag", "branch", "consumer", "changelog", "statistics"}
    assert kinds == {*named, "tablestore"}
    for seed in seeds:
        for name, what, data in random.Random(seed).sample(every, CASES):
            actual = reached(table, tmp_path / "lake/d.db/t", outside, {name: data()})
            assert actual == [], f"{name}: {what}"


def test_the_watch_notes_what_a_root_lets_through(table: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    named = f"external_path: file:{outside}/index-"
    name, data = next((name, data) for name, what, data in cases(table, outside) if what.startswith(named))
    copy = tmp_path / "lake/d.db/t"
    assert reached(table, copy, outside, {name: data()}) == []
    assert reached(table, copy, outside, {name: data()}, roots=[outside]) != []
