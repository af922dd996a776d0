"""Columns of the partition alone come from metadata: the same rows in their order, and no file is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import Corrupt

DAYS = [1, 1, 2, None, 3, 3, 3]
REGIONS = ["eu", None, "us", "eu", "", "é", "é"]


def written(path: Path, *, keyed: bool, **options: Any) -> ts.Table:
    """Rows in five partitions, one with three rows."""
    lake = ts.connect(str(path))
    table = lake.create_table(
        "shop.orders",
        schema={"id": ts.BIGINT, "day": ts.INT, "region": ts.STRING, "amount": ts.DOUBLE},
        primary_key=["id", "day", "region"] if keyed else (),
        partition_by=["day", "region"],
        options={"bucket": 1 if keyed else -1, **options},
    )
    table.write(rows(keyed=keyed))
    return table


def rows(*, keyed: bool) -> pa.Table:
    """The columns of a key have no NULL."""
    days = [0 if keyed and day is None else day for day in DAYS]
    regions = ["-" if keyed and name is None else name for name in REGIONS]
    columns = {"id": range(len(days)), "day": days, "region": regions, "amount": [1.5] * len(days)}
    types = {"id": pa.int64(), "day": pa.int32(), "region": pa.string(), "amount": pa.float64()}
    return pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})


def without_files(path: Path) -> None:
    gone = list(path.rglob("data-*.parquet"))
    assert gone
    for file in gone:
        file.unlink()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("columns", [["day"], ["region", "day"]])
@pytest.mark.parametrize("where", [None, col("day") == 3, col("day").is_null() | (col("region") > "eu")])
def test_no_file_is_opened(tmp_path: Path, *, keyed: bool, columns: list[str], where: Any) -> None:
    table = written(tmp_path, keyed=keyed)
    wanted = table.scan(where=where).to_arrow().select(columns)
    without_files(tmp_path)
    got = table.scan(columns=columns, where=where).to_arrow()
    assert got.equals(wanted)
    assert got.num_rows or keyed


def test_sql_groups_counts_and_filters_without_a_file(tmp_path: Path) -> None:
    table = written(tmp_path, keyed=False)
    table.write(rows(keyed=False))
    without_files(tmp_path)
    sql = ts.sql_session(ts.connect(str(tmp_path))).sql
    grouped = sql("SELECT day, count(*) AS n FROM shop.orders GROUP BY day ORDER BY day").to_arrow()
    assert sorted(grouped.to_pylist(), key=str) == [
        {"day": 1, "n": 4},
        {"day": 2, "n": 2},
        {"day": 3, "n": 6},
        {"day": None, "n": 2},
    ]
    assert sql("SELECT count(*) FROM shop.orders WHERE day < 3").to_arrow()[0].to_pylist() == [6]
    assert sql("SELECT max(region) FROM shop.orders").to_arrow()[0].to_pylist() == ["é"]


def test_files_that_hide_rows_are_read(tmp_path: Path) -> None:
    """A bucket with a delete, among others without: rows come in the order of a scan of all columns."""
    table = written(tmp_path, keyed=True, **{"write-only": True})
    table.delete(pa.table({"id": [4, 6], "day": [3, 3], "region": ["", "é"]}))
    wanted = table.scan().to_arrow()
    assert wanted.num_rows == len(DAYS) - 2
    assert table.scan(columns=["region"]).to_arrow().equals(wanted.select(["region"]))
    without_files(tmp_path)
    with pytest.raises(Corrupt):
        table.scan(columns=["region"]).to_arrow()
    left = table.scan(columns=["region"], where=col("day") == 1).to_arrow()
    assert sorted(left["region"].to_pylist()) == ["-", "eu"]


@pytest.mark.parametrize(
    "asked",
    [{"columns": ["day", "amount"]}, {"columns": ["day"], "where": col("amount") > 1}],
)
def test_what_partitions_do_not_say_is_read(tmp_path: Path, asked: dict[str, Any]) -> None:
    table = written(tmp_path, keyed=False)
    without_files(tmp_path)
    with pytest.raises(Corrupt):
        table.scan(**asked).to_arrow()


def test_rows_with_deletion_vectors_are_read(tmp_path: Path) -> None:
    table = written(tmp_path, keyed=False, **{"deletion-vectors.enabled": True})
    table.delete(col("id") == 5)
    assert table.scan(columns=["day"]).to_arrow()["day"].to_pylist().count(3) == 2


def test_a_scan_that_passes_over_lost_files_looks_for_them(tmp_path: Path) -> None:
    table = written(tmp_path, keyed=False, **{"scan.ignore-lost-files": True})
    without_files(tmp_path)
    assert table.scan(columns=["day"]).to_arrow().num_rows == 0


def test_many_rows_come_in_several_batches(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("shop.days", schema={"day": ts.INT, "n": ts.INT}, partition_by=["day"])
    days = pa.array([1] * 100_000 + [2] * 50_000, pa.int32())
    table.write(pa.table({"day": days, "n": days}))
    batches = list(table.scan(columns=["day"]).to_batches())
    assert len(batches) > 2
    assert pa.Table.from_batches(batches)["day"].value_counts().to_pylist() == [
        {"values": 1, "counts": 100_000},
        {"values": 2, "counts": 50_000},
    ]
