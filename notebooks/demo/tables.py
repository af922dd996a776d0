"""The demo's tables, as in the article; `summary_job` has the query that is kept up to date.

`dwd_lineitem`: 16 columns of LINEITEM and l_year, l_month; partitioned by them, 2 buckets, so 84 partitions
and 168 LSM trees at full size. `ads_pricing_summary`: TPC-H Q1 with the article's date rule, one row a
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import tablestore as ts

DATABASE = "tpch"
LINEITEM, SUMMARY = f"{DATABASE}.dwd_lineitem", f"{DATABASE}.ads_pricing_summary"
LINEITEM_USER = "lineitem-ingest"
KEY = ("l_orderkey", "l_linenumber", "l_year", "l_month")
COMPUTED = {"l_year": "year(l_shipdate)", "l_month": "month(l_shipdate)"}
LINEITEM_OPTIONS = {
    "bucket": 2,
    "changelog-producer": "input",
    "tablestore.full-phase-changelog": False,  # nobody reads the changelog of a first load
    "write-only": True,  # compaction is a job of its own
    "write-buffer-size": "1 gb",  # for each task: a chunk then makes one file in each bucket
}
LINEITEM_RULES: Mapping[str, Any] = {
    "computed": COMPUTED,
    "primary_keys": ["*", *COMPUTED],
    "partition_by": [*COMPUTED],
    "options": LINEITEM_OPTIONS,
}
"""Arguments of `lake.ingest` for line items: the key is that of the source, and the partition."""
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
    ]
)


def lineitem(lake: ts.Lake, source: pa.Schema) -> ts.Table:
    """The table of line items, made if need be for the columns of `source`."""
    added = [pa.field(name, pa.int64(), nullable=False) for name in COMPUTED]
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
