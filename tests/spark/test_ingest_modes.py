"""The pipeline into tables of other bucket modes: append tables and postponed buckets take it, tables for one
writer at a time are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.utils import StreamingQueryException

import tablestore as ts
from tablestore.core.errors import Unsupported
from tablestore.spark import compact, start_ingest
from tests.spark.items import content, ingest_of, item_table, shop

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("options", [{}, {"bucket": 2, "bucket-key": "id", "compaction.min.file-num": 2}])
def test_an_append_table_takes_a_full_load(spark, lake, tmp_path: Path, options: dict[str, object]) -> None:
    source, expected = shop(tmp_path / "s", transactions=0)
    kept = {**options, "tablestore.full-phase-changelog": False}
    schema = item_table(lake).schema
    table = lake.create_table("shop.rows", schema=schema, partition_by=["year"], options=kept)
    start_ingest(spark, ingest_of(source, table, tmp_path / "ck")).awaitTermination()
    table = ts.open(table.location)
    assert content(table) == expected
    assert table.check() == []
    files = len(table.inspect.files())
    done = compact(spark, table.location, full=True)
    assert done.snapshot is not None
    assert len(ts.open(table.location).inspect.files()) < files
    assert content(ts.open(table.location)) == expected
    assert ts.open(table.location).check() == []


def test_changes_of_rows_do_not_fit_an_append_table(spark, lake, tmp_path: Path) -> None:
    source, _ = shop(tmp_path / "s", chunks=1)
    schema = item_table(lake).schema
    table = lake.create_table("shop.rows", schema=schema, partition_by=["year"])
    query = start_ingest(spark, ingest_of(source, table, tmp_path / "ck"))
    with pytest.raises(StreamingQueryException, match="append tables take inserts only"):
        query.awaitTermination()
    assert len(content(ts.open(table.location))) == 50, "the load is there, nothing of the changes"


def test_postponed_buckets_take_load_and_increments(spark, lake, tmp_path: Path) -> None:
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, bucket=-2, **{"changelog-producer": "none"})
    start_ingest(spark, ingest_of(source, table, tmp_path / "ck")).awaitTermination()
    assert content(table) == {}
    table.compact()
    assert content(table) == expected
    assert table.check() == []


@pytest.mark.parametrize("key", [["id", "year"], ["id"]])
def test_dynamic_buckets_are_refused_before_anything_is_read(
    spark, lake, tmp_path: Path, key: list[str]
) -> None:
    source, _ = shop(tmp_path / "s")
    schema = item_table(lake).schema
    table = lake.create_table(
        "shop.dynamic", schema=schema, primary_key=key, partition_by=["year"], options={"bucket": -1}
    )
    with pytest.raises(Unsupported, match="only one writer may assign buckets"):
        start_ingest(spark, ingest_of(source, table, tmp_path / "ck"))
    with pytest.raises(Unsupported, match="dynamic buckets"):
        table.open_writer(sequence_base=0)
