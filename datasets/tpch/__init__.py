"""TPC-H data: base tables, refresh functions, Q1. Derived from TPC-H, not comparable to published results."""

from datasets.tpch.base_tables import base, base_rows, read
from datasets.tpch.pricing import PricingSummary, q1
from datasets.tpch.refresh_sets import Refresh, refresh, write_files
from datasets.tpch.scale import Scale, Sizes
from datasets.tpch.schema import LINEITEM, ORDERS, PRIMARY_KEYS, SCHEMAS, TABLES, plain

__all__ = [
    "LINEITEM",
    "ORDERS",
    "PRIMARY_KEYS",
    "SCHEMAS",
    "TABLES",
    "PricingSummary",
    "Refresh",
    "Scale",
    "Sizes",
    "base",
    "base_rows",
    "plain",
    "q1",
    "read",
    "refresh",
    "write_files",
]
