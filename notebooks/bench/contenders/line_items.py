"""The rows that benchmarks write: line items out of Parquet files, read alike by every Python contender.

Needs pyarrow only, as it also runs in the environments of peers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_ROWS = 1 << 17
EVERY = 100  # an update rewrites one row in so many
QUANTITY = "l_quantity"


def read(files: Sequence[str], *, months: bool) -> Iterator[pa.RecordBatch]:
    """All rows, in order; with `months` also l_year and l_month of l_shipdate."""
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield _with_months(_plain(batch)) if months else _plain(batch)


def changed(files: Sequence[str], *, months: bool) -> Iterator[pa.RecordBatch]:
    """Every hundredth row of each file, its quantity now 99."""
    for path in files:
        at = 0
        for batch in read([path], months=months):
            rows = pa.array(range(-at % EVERY, len(batch), EVERY), pa.int64())
            at += len(batch)
            some = batch.take(rows)
            column = some.schema.get_field_index(QUANTITY)
            value = pa.scalar(Decimal("99.00"), some.schema.field(column).type)
            yield some.set_column(column, some.schema.field(column), pa.repeat(value, len(some)))


def total(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Rows and the sum of their quantities, in hundredths: what every contender must agree on."""
    rows, hundredths = 0, 0
    for batch in batches:
        rows += len(batch)
        quantity = pc.sum(batch.column(QUANTITY)).as_py()
        hundredths += int(quantity.scaleb(2)) if quantity is not None else 0
    return {"rows": rows, "quantity": hundredths}


def timed(files: Sequence[str], change: Callable[[list[pa.RecordBatch]], object]) -> dict[str, str]:
    """Hand each file's rows to `change`; milliseconds of each. Reading the files does not count."""
    times = []
    for path in files:
        batches = list(read([path], months=False))
        began = time.perf_counter()
        change(batches)
        times.append(time.perf_counter() - began)
    return {"ms": ",".join(f"{t * 1000:.3f}" for t in times)}


def looked_up(file: str, get: Callable[[dict[str, int]], Mapping[str, Any] | None]) -> dict[str, object]:
    """Look up a file's keys one by one: rows found, the sum of their quantities, milliseconds of each."""
    rows, hundredths, times = 0, 0, []
    for key in pq.read_table(file).to_pylist():
        began = time.perf_counter()
        row = get(key)
        times.append(time.perf_counter() - began)
        rows += row is not None
        hundredths += int(row[QUANTITY].scaleb(2)) if row is not None else 0
    return {"rows": rows, "quantity": hundredths, "ms": ",".join(f"{t * 1000:.3f}" for t in times)}


def small(commits: int, rows: int) -> Iterator[pa.RecordBatch]:
    """A batch for each commit of the small table (k BIGINT, v STRING), keys in order and partly known."""
    for number in range(commits):
        keys = pa.array([row * 7919 + number for row in range(rows)], pa.int64())
        yield pa.record_batch({"k": keys, "v": pa.array([f"value {number}"] * rows)})


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [c if not _is_view(c.type) else c.cast(pa.string()) for c in batch.columns]
    fields = [pa.field(f.name, a.type, nullable=False) for f, a in zip(batch.schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _is_view(kind: pa.DataType) -> bool:
    return str(kind) == "string_view"


def _with_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    shipped = batch.column("l_shipdate")
    arrays = [*batch.columns, pc.year(shipped), pc.month(shipped)]
    fields = [*batch.schema, pa.field("l_year", pa.int64(), False), pa.field("l_month", pa.int64(), False)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
