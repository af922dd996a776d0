"""Rows of given primary keys: key predicates prune files and row groups, a semi-join picks the rows.

Memory: one batch of the scan and the keys asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import SchemaMismatch
from tablestore.format.predicate import Predicate, all_of, col
from tablestore.format.types import arrow_schema
from tablestore.table.scan import Scan

_FEW = 256  # distinct values of a key column up to which they are named one by one


def rows_of(scan: Scan, keys: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of `scan` whose primary key is in `keys` (exactly the key columns, in the table's types)."""
    if not keys.num_rows:
        return
    names = list(scan.store.schema.primary_keys)
    for batch in scan.filter(all_of(*(_bounds(keys, n) for n in names))).to_batches():
        found = pa.Table.from_batches([batch]).join(keys, keys=names, join_type="left semi")
        yield from found.select(batch.schema.names).cast(batch.schema).to_batches()


def key_table(scan: Scan, data: pa.Table) -> pa.Table:
    """The key columns of `data` in the table's types; raises SchemaMismatch for missing columns and NULLs."""
    fields = scan.store.schema.columns(scan.store.schema.primary_keys)
    missing = [f.name for f in fields if f.name not in data.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the keys lack {', '.join(missing)}; a key holds {', '.join(f.name for f in fields)}"
        )
    try:
        keys = data.select([f.name for f in fields]).cast(arrow_schema(fields))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
        raise SchemaMismatch(f"the keys do not fit the key columns: {e}") from None
    return keys.group_by(keys.schema.names).aggregate([])


def _bounds(keys: pa.Table, name: str) -> Predicate:
    values = pc.unique(keys.column(name))
    if len(values) <= _FEW:
        return col(name).is_in(values.to_pylist())
    bounds = pc.min_max(values)
    return col(name).between(bounds["min"].as_py(), bounds["max"].as_py())
