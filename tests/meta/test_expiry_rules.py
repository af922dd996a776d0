"""Rules of expiry with names and texts of their own; which snapshots they keep: `test_retention_cases.py`."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tablestore.core.options.table_options import TableOptions
from tablestore.meta import consumers, positions
from tablestore.meta.expiry_rules import (
    CONSUMER,
    POSITION,
    Bound,
    ExpirePolicy,
    consumer_bounds,
    duration,
    moment,
    position_bounds,
)

HOUR_MS = 3_600_000


def store(options: dict[str, str]) -> Any:
    return SimpleNamespace(options=TableOptions.parse(options), snapshots=None)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1500, "1500 ms"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (90_000, "90 s"),
        (3_600_000, "1 h"),
        (5_400_000, "90 min"),
        (86_400_000, "1 d"),
        (90_000_000, "25 h"),
        (172_800_000, "2 d"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_divides_it(millis: int, text: str) -> None:
    assert duration(millis) == text


def test_a_moment_is_local_to_the_second_or_a_number_where_no_calendar_has_it() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5)
    assert moment(int(at.timestamp() * 1000) + 999) == "2026-01-02 03:04:05"
    assert moment(1 << 62) == f"{1 << 62} ms after 1970"


def test_snapshots_and_changelogs_have_policies_of_their_own() -> None:
    table = store(
        {
            "snapshot.num-retained.min": "2",
            "snapshot.num-retained.max": "9",
            "snapshot.time-retained": "3 h",
            "snapshot.expire.limit": "4",
            "changelog.num-retained.min": "5",
            "changelog.num-retained.max": "20",
            "changelog.time-retained": "7 h",
        }
    )
    assert ExpirePolicy.of(table) == ExpirePolicy(2, 9, 3 * HOUR_MS, 4, decoupled=True)
    assert ExpirePolicy.of_changelogs(table) == ExpirePolicy(5, 20, 7 * HOUR_MS, 4)


@pytest.fixture
def three_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`slow` moved last at 1 o'clock, `fast` at 5, the file of `gone` vanishes while it is looked at."""
    monkeypatch.setattr(consumers, "names", lambda store: {"slow": HOUR_MS, "fast": 5 * HOUR_MS})
    monkeypatch.setattr(consumers, "all_next", lambda store: {"slow": 3, "fast": 9, "gone": 7})


@pytest.mark.usefixtures("three_consumers")
def test_consumers_keep_snapshots_until_they_are_forgotten() -> None:
    slow, fast, gone = (
        f"consumer {n} (next snapshot {i})" for n, i in [("slow", 3), ("fast", 9), ("gone", 7)]
    )
    assert consumer_bounds(store({"consumer.expiration-time": "2 h"})) == [
        Bound(CONSUMER, 3, slow, 3 * HOUR_MS, "slow"),
        Bound(CONSUMER, 9, fast, 7 * HOUR_MS, "fast"),
        Bound(CONSUMER, 7, gone, None, "gone"),
    ]
    assert [bound.until_ms for bound in consumer_bounds(store({}))] == [None, None, None]
    assert [bound.name for bound in consumer_bounds(store({}), ignoring=["fast"])] == ["slow", "gone"]


@pytest.mark.usefixtures("three_consumers")
@pytest.mark.parametrize(
    ("options", "changelogs", "count"),
    [
        ({}, False, 3),
        ({"consumer.changelog-only": "true"}, False, 3),  # snapshots are the only changelog there is
        ({"changelog.time-retained": "9 d"}, False, 3),
        ({"consumer.changelog-only": "true", "changelog.time-retained": "9 d"}, False, 0),
        ({"consumer.changelog-only": "true", "changelog.time-retained": "9 d"}, True, 3),
    ],
)
def test_consumers_of_changelogs_alone_keep_no_snapshot(
    options: dict[str, str], changelogs: bool, count: int
) -> None:
    assert len(consumer_bounds(store(options), changelogs=changelogs)) == count


def test_the_snapshot_that_holds_positions_of_streams_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "holder", lambda snapshots, latest: latest)
    assert position_bounds(store({}), None) == []
    at: Any = 6
    assert position_bounds(store({}), at) == [Bound(POSITION, 6, "stream positions in snapshot 6")]
