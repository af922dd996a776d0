"""The demo's tables and the query that is kept up to date, as in the article.

`dwd_lineitem`: 16 columns of LINEITEM and l_year, l_month; partitioned by them, 2 buckets, so 84 partitions
and 168 LSM trees at full size. `ads_pricing_summary`: TPC-H Q1 with the article's date rule, one row a
group.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from tablestore.cdc.sink import ComputedColumn, Load
from tablestore.spark.summary import Summary

DATABASE = "tpch"
LINEITEM, SUMMARY = f"{DATABASE}.dwd_lineitem", f"{DATABASE}.ads_pricing_summary"
LINEITEM_USER, SUMMARY_USER = "lineitem-ingest", "pricing-summary"
KEY = ("l_orderkey", "l_linenumber", "l_year", "l_month")
COMPUTED = (ComputedColumn("l_year", "year", "l_shipdate"), ComputedColumn("l_month", "month", "l_shipdate"))
LINEITEM_OPTIONS = {
    "bucket": 2,
    "changelog-producer": "input",
    "tablestore.full-phase-changelog": False,  # nobody reads the changelog of a first load
    "write-only": True,  # compaction is a job of its own
    "write-buffer-size": "1 gb",  # for each task: a chunk then makes one file in each bucket
}
GROUP = ("l_returnflag", "l_linestatus")


def _sum(scale: int) -> pa.DataType:
    return pa.decimal128(38, scale)


SUMMARY_SCHEMA = pa.schema(
    [
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("sum_qty", _sum(2)),
        ("sum_base_price", _sum(2)),
        ("sum_disc_price", _sum(4)),
        ("sum_charge", _sum(6)),
        ("avg_qty", _sum(6)),
        ("avg_price", _sum(6)),
        ("avg_disc", _sum(6)),
        ("count_order", pa.int64()),
        ("sum_disc", _sum(2)),  # what avg_disc is derived from: an average alone cannot take a change in
    ]
)


def lineitem(lake: ts.Lake, source: pa.Schema) -> ts.Table:
    """The table of line items, made if need be for the columns of `source`."""
    added = [pa.field(c.name, pa.int64(), nullable=False) for c in COMPUTED]
    schema = pa.schema([*source, *added])
    return lake.create_table(
        LINEITEM,
        schema=schema,
        primary_key=KEY,
        partition_by=["l_year", "l_month"],
        options=LINEITEM_OPTIONS,
        if_not_exists=True,
    )


def summary(lake: ts.Lake) -> ts.Table:
    """The table of the pricing summary, made if need be."""
    return lake.create_table(
        SUMMARY, schema=SUMMARY_SCHEMA, primary_key=GROUP, options={"bucket": 2}, if_not_exists=True
    )


def load_of(source: str, table: ts.Table) -> Load:
    """The load of line items from the change directory `source`."""
    return Load(source, "lineitem", table.location, LINEITEM_USER, COMPUTED)


def q1() -> Summary:
    """TPC-H Q1. (year < 1998 or (year = 1998 and month <= 9)) and l_shipdate <= 1998-12-01 less 90 days."""
    one = pc.scalar(pa.scalar(Decimal(1), pa.decimal128(3, 2)))
    discount, tax = (pc.field(name).cast(pa.decimal128(3, 2)) for name in ("l_discount", "l_tax"))
    discounted = pc.field("l_extendedprice") * (one - discount)
    year, month, shipped = ts.col("l_year"), ts.col("l_month"), ts.col("l_shipdate")
    return Summary(
        keys=GROUP,
        sums={
            "sum_qty": pc.field("l_quantity"),
            "sum_base_price": pc.field("l_extendedprice"),
            "sum_disc_price": discounted,
            "sum_charge": discounted * (one + tax),
            "sum_disc": pc.field("l_discount"),
        },
        count="count_order",
        columns=(*GROUP, "l_quantity", "l_extendedprice", "l_discount", "l_tax"),
        averages={"avg_qty": "sum_qty", "avg_price": "sum_base_price", "avg_disc": "sum_disc"},
        where=((year < 1998) | ((year == 1998) & (month <= 9)))
        & (shipped <= date(1998, 12, 1) - timedelta(days=90)),
    )
