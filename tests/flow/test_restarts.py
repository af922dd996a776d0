"""When a stream is started again after an error."""

from __future__ import annotations

import pytest

from tablestore.core.errors import SchemaMismatch, Unavailable
from tablestore.flow.restarts import NO_RESTART, Restarts, RestartStrategy

LOST = RuntimeError("Python worker failed to connect back")
AWAY = Unavailable(0, "the server is away")


def waits(strategy: RestartStrategy, error: BaseException = AWAY, at_most: int = 100) -> list[float]:
    restarts = Restarts(strategy)
    collected: list[float] = []
    while len(collected) < at_most and (wait := restarts.wait_after(error, 0)) is not None:
        collected.append(wait)
    return collected


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (RestartStrategy(5, 1, 10, 2), [1, 2, 4, 8, 10]),
        (RestartStrategy(3, 0.5, 0.5, 1), [0.5, 0.5, 0.5]),
        (RestartStrategy(2, 0, 60, 2), [0, 0]),
        (RestartStrategy(2, 30, 10, 2), [10, 10]),
        (NO_RESTART, []),
    ],
)
def test_waits_grow_to_the_longest_and_end(strategy: RestartStrategy, wanted: list[float]) -> None:
    assert waits(strategy) == waits(strategy, LOST) == wanted


def test_the_default_gives_up_after_a_quarter_of_an_hour() -> None:
    assert 600 < sum(waits(RestartStrategy())) < 1200


def test_an_error_that_would_come_again_is_not_tried_again() -> None:
    assert waits(RestartStrategy(), SchemaMismatch("a value does not fit")) == []


def test_a_batch_starts_the_count_anew() -> None:
    restarts = Restarts(RestartStrategy(2, 1, 60, 2))
    assert [restarts.wait_after(AWAY, batches) for batches in (0, 0, 1, 1, 1)] == [1, 2, 1, 2, None]


def test_an_hour_without_a_failure_does_too() -> None:
    restarts = Restarts(RestartStrategy(2, 1, 60, 2))
    assert [restarts.wait_after(AWAY, 0, seconds) for seconds in (9, 9, 3_600, 9, 9)] == [1, 2, 1, 2, None]
