"""A change directory into tables of other bucket modes: postponed ones, and those that one writer assigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cdc.items import content, ingested, item_table, shop


def test_postponed_buckets_take_load_and_increments(lake, tmp_path: Path) -> None:
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, bucket=-2, **{"changelog-producer": "none"})
    ingested(lake, source, engine="local")
    assert content(table) == {}
    table.compact()
    assert content(table) == expected
    assert table.check() == []


@pytest.mark.large
def test_dynamic_buckets_are_assigned_by_one_writer(lake, tmp_path: Path) -> None:
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, bucket=-1)
    ingested(lake, source, engine="local")
    assert content(table) == expected
    assert table.check() == []
