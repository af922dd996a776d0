"""Arrow schemas of the two tables that refresh functions change; the types of the generated Parquet files.

Strings are plain `string` everywhere in Python; files read as `string_view`, which `base_tables.read` casts.
"""

from collections.abc import Sequence

import pyarrow as pa

MONEY = pa.decimal128(15, 2)


def _required(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in columns])


LINEITEM = _required(
    ("l_orderkey", pa.int64()),
    ("l_partkey", pa.int64()),
    ("l_suppkey", pa.int64()),
    ("l_linenumber", pa.int32()),
    ("l_quantity", MONEY),
    ("l_extendedprice", MONEY),
    ("l_discount", MONEY),
    ("l_tax", MONEY),
    ("l_returnflag", pa.string()),
    ("l_linestatus", pa.string()),
    ("l_shipdate", pa.date32()),
    ("l_commitdate", pa.date32()),
    ("l_receiptdate", pa.date32()),
    ("l_shipinstruct", pa.string()),
    ("l_shipmode", pa.string()),
    ("l_comment", pa.string()),
)
ORDERS = _required(
    ("o_orderkey", pa.int64()),
    ("o_custkey", pa.int64()),
    ("o_orderstatus", pa.string()),
    ("o_totalprice", MONEY),
    ("o_orderdate", pa.date32()),
    ("o_orderpriority", pa.string()),
    ("o_clerk", pa.string()),
    ("o_shippriority", pa.int32()),
    ("o_comment", pa.string()),
)
SCHEMAS = {"orders": ORDERS, "lineitem": LINEITEM}
PRIMARY_KEYS = {"orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")}
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def plain(batch: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """`batch` with its view strings cast to plain ones and without field metadata."""
    names = list(columns or batch.schema.names)
    fields, arrays = [], []
    for name in names:
        field, array = batch.schema.field(name), batch.column(name)
        if pa.types.is_string_view(field.type):
            array = array.cast(pa.string())
        fields.append(pa.field(name, array.type, nullable=field.nullable))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
