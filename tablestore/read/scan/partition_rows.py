"""Rows of partition columns alone, by what manifests say: no data file is opened.

An entry has the values of its partition and the number of rows of its file. Where these are rows of the
table, each once (`DataSplit.whole`), they are all that is needed. Damage in such files goes unnoticed.
Memory: one batch, and a row for each split. Used by scans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import BATCH_ROWS
from tablestore.read.scan.pruning import ONE_FORM, TRUE, Filters


def suffice(store: Store, columns: Sequence[str], where: Predicate | None) -> bool:
    """Whether partitions say all that a scan of these columns with this bound condition asks for."""
    schema, options = store.schema, store.options
    if not columns or options.scan_tolerant or schema.row_count_field is not None:
        return False
    fields = [f for f in schema.partition_fields if f.name in columns]
    if len(fields) < len(columns) or any(f.type.root not in ONE_FORM for f in fields):
        return False
    return Filters.of(where, schema).rows == TRUE


def rows(store: Store, splits: Sequence[DataSplit], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of whole splits, split after split."""
    by_name = dict(
        zip(
            store.schema.partition_keys,
            zip(*(store.partition_values(s.partition) for s in splits), strict=True),
            strict=True,
        )
    )
    fields = store.schema.columns(tuple(columns))
    arrays = [literal.array(by_name[f.name], f.type) for f in fields]
    partitions = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([f.arrow for f in fields]))
    ends = np.cumsum([s.rows for s in splits])
    for start in range(0, int(ends[-1]), BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, int(ends[-1])))
        yield partitions.take(pa.array(np.searchsorted(ends, numbers, side="right")))
