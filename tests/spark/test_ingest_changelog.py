"""The pipeline into a table whose changelog comes of compaction: each batch is compacted by Spark tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.spark import start_ingest
from tests.spark.items import content, ingest_of, item_table, shop

pytestmark = pytest.mark.spark


def test_rows_and_changes_end_at_the_sources_state(spark, lake, tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "deletion-vectors.enabled": True}
    source, expected = shop(tmp_path / "s", transactions=2)
    table = item_table(lake, **options)
    start_ingest(spark, ingest_of(source, table, tmp_path / "ck", log_bytes_per_batch=1)).awaitTermination()
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
