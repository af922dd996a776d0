"""One seed a run, drawn by the process that was started and handed to its workers."""

from __future__ import annotations

import random
from typing import Any

import hypothesis
import pytest

from tests.suite import parts

ALL_ROUNDS = 2
"""Seeds of a seeded test that is run whole; a default run gives it the first of them."""
REMEMBERED = "workbench/default-seed"

hypothesis.settings.register_profile(
    "workbench",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("workbench")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbench")
    rounds = f"seeds of each seeded test (default 1, with --all {ALL_ROUNDS})"
    group.addoption("--rounds", type=int, default=None, help=rounds)
    group.addoption("--seed", type=int, default=None, help="first seed; repeats the run that printed it")


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if option.seed is None:
        option.seed = handed(config)["seed"] if is_worker(config) else _drawn(config)
    if option.rounds is None:
        option.rounds = 1 if parts.part(config) == parts.DEFAULT else ALL_ROUNDS
    option.hypothesis_seed = option.seed  # its plugin, which was loaded before, is configured after


def is_worker(config: pytest.Config) -> bool:
    """Whether this process works for another one, which was started."""
    return hasattr(config, "workerinput")


def handed(config: pytest.Config) -> dict[str, Any]:
    """What a worker gets from the process that was started."""
    workerinput: dict[str, Any] = config.workerinput
    return workerinput


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.option.seed


def _drawn(config: pytest.Config) -> int:
    """By chance; the rest of a default run has the seed of that run."""
    if parts.part(config) != parts.REST:
        return random.SystemRandom().randrange(1_000_000)
    value: int | None = config.cache.get(REMEMBERED, None) if config.cache else None
    if value is None:
        raise pytest.UsageError("--rest is what the last default run left out: call `./workbench test` first")
    return value


def pytest_report_header(config: pytest.Config) -> str:
    option = config.option
    return f"tests: {parts.part(config)}, seeds: --seed {option.seed} --rounds {option.rounds}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if parts.part(config) == parts.DEFAULT and getattr(config, "cache", None) and not is_worker(config):
        config.cache.set(REMEMBERED, config.option.seed)


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """`--rounds` seeds from `--seed` on; in `--rest` those that the default run did not have. They are
    printed, so a failure shows what repeats it."""
    option, had = request.config.option, request.node.stash.get(parts.HAD_ITS_FIRST_SEED, False)
    first, end = option.seed + had, option.seed + option.rounds
    print(f"seeds {first}..{end - 1}: repeat with --seed {first} --rounds {end - first}")
    return tuple(range(first, end))
