"""Tables of a lake that hold TPC-H: eight keyed ones, and rounds of changes to them.

The lake is the caller's; this module only calls its methods, so it needs no import of the engine.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.tpch.base_tables import base, read
from datasets.tpch.refresh_sets import refresh
from datasets.tpch.scale import Scale, ScaleFactor
from datasets.tpch.schema import TABLES

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "customer": ("c_custkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
        "nation": ("n_nationkey",),
        "orders": ("o_orderkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "region": ("r_regionkey",),
        "supplier": ("s_suppkey",),
    }
)
_UPDATED = {
    "customer": "c_acctbal",
    "part": "p_retailprice",
    "supplier": "s_acctbal",
    "partsupp": "ps_supplycost",
}


def loaded(lake: Any, scale_factor: ScaleFactor | Scale, *, options: Mapping[str, Any] | None = None) -> None:
    """Make and fill the tables `tpch.<name>`, each by one commit; nothing is ever compacted by a write."""
    for name, files in base(scale_factor, TABLES, progress=False).items():
        batches = [batch for file in files for batch in read(file)]
        table = lake.create_table(
            f"tpch.{name}",
            schema=batches[0].schema,
            primary_key=list(KEYS[name]),
            options={
                "bucket": 2 if name in ("lineitem", "orders") else 1,
                "write-only": True,
                **(options or {}),
            },
        )
        with table.writer() as writer:
            for batch in batches:
                writer.write(batch)


def changed(lake: Any, scale_factor: ScaleFactor | Scale, number: int) -> None:
    """One round: the refresh set of that number in orders and lineitem, and one row in a hundred of four
    other tables with another amount."""
    pair = refresh(scale_factor, number)
    for name, inserted, deleted in (
        ("orders", pair.orders, pair.deleted_orders),
        ("lineitem", pair.lineitem, pair.deleted_lineitem),
    ):
        rows = pa.Table.from_batches([*_batches(inserted)])
        gone = pa.Table.from_batches([*_batches(deleted)])
        kinds = pa.array(["+I"] * len(rows) + ["-D"] * len(gone))
        both = pa.concat_tables([rows, gone]).append_column("rowkind", kinds)
        lake.table(f"tpch.{name}").write(both, row_kind_column="rowkind")
    for name, column in _UPDATED.items():
        table = lake.table(f"tpch.{name}")
        rows = table.scan().to_arrow()
        rows = rows.take(np.arange(number, len(rows), 100))
        place = rows.schema.get_field_index(column)
        more = pc.add(rows[column], pa.scalar(number, pa.int32()).cast(rows[column].type))
        table.write(rows.set_column(place, rows.schema.field(place), more.cast(rows[column].type)))


def _batches(rows: Any) -> list[pa.RecordBatch]:
    return [rows] if isinstance(rows, pa.RecordBatch) else list(rows)
