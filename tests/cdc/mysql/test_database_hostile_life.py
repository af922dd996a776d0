"""A capture outlives what stands against it; the turns are in `campaign/hostile_sources.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaign.hostile_sources import live, see_definitions
from tests.cdc.databases.sources import MariaDbSource


@pytest.fixture
def seen(source: MariaDbSource) -> Iterator[MariaDbSource]:
    see_definitions(source)
    yield source
    source.run("REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'", "DROP DATABASE IF EXISTS o")


@pytest.mark.large
def test_a_capture_outlives_what_stands_against_it(seen: MariaDbSource, seeds: tuple[int, ...]) -> None:
    for seed in seeds[::3]:
        assert live(seen, seed)
