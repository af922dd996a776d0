"""The rows of `bench large`, generated, and the steps that it asks of this engine, each in its own process.

Row i has key (i · step) mod rows, so that every stretch of rows spreads over all keys, in no order, and every
commit overlaps the others; each key comes once. A row's values follow from its key and its version alone, so
sums are known without a second table. Memory: one batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from notebooks.bench.contenders.serve import Answer, serve

BATCH_ROWS = 1 << 17
BYTES_A_ROW = 68  # in Arrow
NAMES = 5000
COMMITS = 4
UPDATED_IN = 20
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("code", pa.int32()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("name", pa.string()),
        pa.field("score", pa.float64()),
    ]
)


def main() -> None:
    serve({"write": _write, "scan": _scan, "compact": _compact})


def batches(start: int, stop: int, rows: int, *, version: int = 0) -> Iterator[pa.RecordBatch]:
    """Rows start..stop of `rows`."""
    step = _step(rows)
    for at in range(start, stop, BATCH_ROWS):
        keys = np.arange(at, min(at + BATCH_ROWS, stop), dtype=np.int64) * step % rows
        yield _rows_of(keys, version)


def _step(rows: int) -> int:
    """About the golden section of the rows, which scatters neighbours; no factor in common with them."""
    return next(step for step in range(int(rows * 0.618), 2 * rows + 2) if math.gcd(step, rows) == 1)


def _rows_of(keys: np.ndarray, version: int) -> pa.RecordBatch:
    mixed = keys * 2_654_435_761 % (1 << 32)
    cents = np.zeros((len(keys), 2), dtype=np.int64)
    cents[:, 0] = mixed % 10_000_000
    price = pa.Array.from_buffers(pa.decimal128(12, 2), len(keys), [None, pa.py_buffer(cents)])
    arrays = [
        pa.array(keys),
        pa.array(value_of(keys) + version),
        pa.array((mixed % 4000).astype(np.int32)).cast(pa.date32()),
        pa.array((mixed >> 8).astype(np.int32)),
        price,
        _names().take(pa.array(mixed % NAMES)),
        pa.array(mixed / 7.0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def value_of(keys: np.ndarray) -> np.ndarray:
    """The value of a key in its first version."""
    return keys * 7919 % 1_000_003


@functools.cache
def _names() -> pa.Array:
    return pa.array([f"name {n:05d} of many" for n in range(NAMES)])


def expected(rows: int) -> dict[str, int]:
    """What a scan must find once the first of every so many rows are updated."""
    values = sum(
        int(value_of(np.arange(at, min(at + BATCH_ROWS, rows), dtype=np.int64)).sum())
        for at in range(0, rows, BATCH_ROWS)
    )
    return {"rows": rows, "keys": rows * (rows - 1) // 2, "values": values + rows // UPDATED_IN}


def _write(path: str, rows: str) -> Answer:
    """Every row in so many commits, then some of them once more."""
    table, total = ts.open(path), int(rows)
    for commit in range(COMMITS):
        with table.writer() as w:
            w.write(batches(total * commit // COMMITS, total * (commit + 1) // COMMITS, total))
    with table.writer() as w:
        w.write(batches(0, total // UPDATED_IN, total, version=1))
    return {}


def _scan(path: str) -> Answer:
    totals = {"rows": 0, "keys": 0, "values": 0}
    for batch in ts.open(path).scan().to_batches():
        totals["rows"] += len(batch)
        totals["keys"] += pc.sum(batch.column("k")).as_py() or 0
        totals["values"] += pc.sum(batch.column("value")).as_py() or 0
    return totals


def _compact(path: str) -> Answer:
    done = ts.open(path).compact(full=True)
    return {"snapshots": len(done.committed.snapshots) if done.committed is not None else 0}


if __name__ == "__main__":
    main()
