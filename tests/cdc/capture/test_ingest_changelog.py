"""The pipeline into a table whose changelog comes of compaction: each batch is compacted by tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.core.errors import Unsupported
from tests.cdc.items import content, ingested, item_table, shop


@pytest.mark.large
def test_rows_and_changes_end_at_the_sources_state(lake, tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "deletion-vectors.enabled": True}
    source, expected = shop(tmp_path / "s", transactions=2)
    table = item_table(lake, **options)
    ingested(lake, source, engine="local", log_bytes=1)
    assert content(table) == expected
    assert table.check() == []
    left: dict[int, str] = {}
    for change in table.changes(since=0).to_pylist():
        if change["rowkind"] in ("-D", "-U"):
            assert left.pop(change["id"]) == change["name"]
        else:
            left[change["id"]] = change["name"]
    assert left == {i: row["name"] for i, row in expected.items()}
    table.compact(full=True)
    assert content(table) == expected


@pytest.mark.large
def test_a_partition_whose_changes_are_not_tracked(lake, tmp_path: Path) -> None:
    source, expected = shop(tmp_path / "s", transactions=2)
    table = item_table(lake, **{"changelog-producer": "lookup"})
    year = min(row["day"].year for row in expected.values())
    table = table.alter(ts.set_options({"change-tracking": False}, partition={"year": year}))
    for n in (1, 2):  # the second is a replay: it adds nothing
        ingested(lake, source, engine="local", checkpoint=tmp_path / f"ck{n}", log_bytes=1)
        assert content(table) == expected
    assert table.check() == []
    tracked = table.with_options({"incremental-between": f"0,{table.store.snapshots.latest_id()}"})
    with pytest.raises(Unsupported, match=f"partition year={year}"):
        tracked.scan().to_arrow()
    assert year not in tracked.scan(where=ts.col("year") != year).to_arrow()["year"].to_pylist()
    with pytest.raises(Unsupported, match=f"partition year={year}"):
        ChangeFeed(table.location).latest()
    assert ChangeFeed(table.location, normalize=True).latest() == table.store.snapshots.latest_id()
