"""Policies, hours of the day, and bytes of an hour, as users say them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tablestore as ts
from tablestore.maintenance.policy import (
    DAY_MINUTES,
    HOUR_MS,
    ByteBudget,
    DayWindow,
    MaintenanceLimits,
    PolicyBook,
)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("22:00-06:00", {*range(22 * 60, DAY_MINUTES), *range(6 * 60)}),
        ("6:30-7:00", set(range(390, 420))),
        ("00:00-24:00", set(range(DAY_MINUTES))),
    ],
)
def test_a_window_holds_its_minutes_alone(text: str, minutes: set[int]):
    window = DayWindow.of(text)
    assert {minute for minute in range(DAY_MINUTES) if window.holds(minute)} == minutes
    assert DayWindow.of(str(window)) == window


@pytest.mark.parametrize(
    "text", ["22-06", "22:00", "22:60-23:00", "25:00-26:00", "07:00-07:00", "", "24:30-01:00"]
)
def test_what_is_no_window_is_refused(text: str):
    with pytest.raises(ts.InvalidRequest, match="window"):
        DayWindow.of(text)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"runs": 0}, "runs 0"),
        ({"freshness": "soon"}, "freshness 'soon'"),
        ({"freshness": "10"}, "freshness '10' of a policy must be a duration with a unit"),
        ({"freshness": 10}, "freshness 10 of a policy must be a duration with a unit"),
        ({"orphans_every": "1 fortnight"}, "orphans_every"),
    ],
)
def test_what_is_no_policy_is_refused(wrong: dict[str, Any], words: str):
    with pytest.raises(ts.InvalidRequest, match=words):
        ts.MaintenancePolicy(**wrong)


def test_the_first_pattern_that_fits_decides():
    book = PolicyBook.of({"shop.orders": {"runs": 2}, "shop.*": ts.MaintenancePolicy(runs=7)}, ())
    assert [book.policy(name).runs for name in ("shop.orders", "shop.lines")] == [2, 7]
    assert book.policy("other.t") is None
    assert PolicyBook.of(None, ["shop.*"]).policy("other.t") is None
    assert PolicyBook.of(None, ()).policy("other.t") == ts.MaintenancePolicy()


@pytest.mark.parametrize(
    ("policy", "tables", "words"),
    [
        ({"*": {"run": 2}}, (), "runs"),
        ({"*": 3}, (), "mapping"),
        ({}, (), "name a table"),
        ({"*": {"runs": 2}}, ("shop.*",), "leave tables= out"),
    ],
)
def test_what_are_no_policies_is_refused(policy: Any, tables: tuple[str, ...], words: str):
    with pytest.raises((ts.InvalidRequest, ts.NotFound), match=words):
        PolicyBook.of(policy, tables)


@pytest.mark.parametrize("size", ["much", 0, "-1 gb"])
def test_what_is_no_size_is_refused(size: Any):
    with pytest.raises(ts.InvalidRequest, match="bytes_per_hour"):
        MaintenanceLimits.of(size, ())


def test_no_hour_spends_more_than_its_bytes_but_for_one_large_piece(seeds: tuple[int, ...]):
    for seed in seeds:
        draw = random.Random(seed)
        budget, spent, now = ByteBudget(1_000), list[tuple[int, int]](), 0
        for _ in range(300):
            now += draw.randrange(HOUR_MS // 4)
            size = draw.choice((50, 400, 3_000))
            wait = budget.wait_ms(now, size)
            assert (wait == 0) == budget.allows(now, size)
            now += wait
            assert budget.allows(now, size), "what it waited for is over"
            budget.spend(now, size)
            spent.append((now, size))
            within = [some for at, some in spent if at > now - HOUR_MS]
            assert sum(within) <= 1_000 or len(within) == 1
