"""Which tests a run takes: by default every part of the project once, with `--all` everything, with
`--rest` what the last default run left out. Who names a file, a test or a word (`-k`) gets all of it.

`@pytest.mark.large` leaves a test to `--all`: kills, large counts, whole notebooks, long lives of servers.
`@pytest.mark.sample(2)` runs two cases of a parametrized test by default, chosen by the run's seed; with
`all=9` it is nine of them with `--all`, else every one. What is collected is always the same: tests are left
out afterwards.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

DEFAULT, ALL, REST, NAMED = "default", "all", "rest", "named"
HAD_ITS_FIRST_SEED = pytest.StashKey[bool]()
"""Of a test in `--rest`: that the default run had it, with its first seed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbench")
    group.addoption("--all", action="store_true", help="every test; by default each part of the project once")
    group.addoption("--rest", action="store_true", help="what the last default run left out of --all")


def part(config: pytest.Config) -> str:
    """`default`, `all`, `rest` or `named`."""
    option = config.option
    if option.rest or option.all:
        return REST if option.rest else ALL
    named = option.keyword or option.markexpr or not all(is_whole(config, arg) for arg in config.args)
    return NAMED if named else DEFAULT


def is_whole(config: pytest.Config, argument: str) -> bool:
    """Whether an argument stands for all tests."""
    path = Path(config.invocation_params.dir, argument).resolve()
    return path in (config.rootpath, config.rootpath / "tests")


@pytest.hookimpl(tryfirst=True)  # the others see what is left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, seed = part(config), config.option.seed
    if chosen == NAMED:
        return
    taken = taken_of_all(items, seed=seed)
    if chosen != ALL:
        by_default = taken_by_default(items, seed=seed)
        again = {item for item in by_default if "seeds" in getattr(item, "fixturenames", ())}
        taken = by_default if chosen == DEFAULT else taken - by_default | again
        for item in again if chosen == REST else ():
            item.stash[HAD_ITS_FIRST_SEED] = True
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = [item for item in items if item in taken]


def taken_by_default(items: list[pytest.Item], *, seed: int) -> set[pytest.Item]:
    """What a default run with that seed takes, a part of what `--all` takes."""
    small = [item for item in items if item.get_closest_marker("large") is None]
    return {item for cases in by_test(small) for item in sampled(cases, sample(cases)[0], seed=seed)}


def taken_of_all(items: list[pytest.Item], *, seed: int) -> set[pytest.Item]:
    """What `--all` takes with that seed."""
    return {item for cases in by_test(items) for item in sampled(cases, sample(cases)[1], seed=seed)}


def by_test(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The cases of each test."""
    cases = defaultdict[tuple[object, str], list[pytest.Item]](list)
    for item in items:
        cases[item.parent, getattr(item, "originalname", item.name)].append(item)
    return list(cases.values())


def sample(cases: list[pytest.Item]) -> tuple[int, int]:
    """How many cases of a test run by default and with `--all`."""
    mark = cases[0].get_closest_marker("sample")
    if mark is None:
        return len(cases), len(cases)
    return mark.args[0], mark.kwargs.get("all", len(cases))


def sampled(cases: list[pytest.Item], count: int, *, seed: int) -> list[pytest.Item]:
    """So many of the cases of one test; of two counts the smaller gives a part of the larger."""
    if count >= len(cases):
        return cases
    mixed = list(cases)
    random.Random(f"{seed} {cases[0].nodeid}").shuffle(mixed)
    return mixed[:count]
