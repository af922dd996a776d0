"""The changes that `bench lsm` makes to line items, as Parquet files that every contender reads alike.

Half of an upsert's rows are rows of the source with quantity 99, half are new keys; deletes hold whole rows
as they are then, since some peers delete by row. No row is changed twice, so that the order of files cannot
matter. Rows are chosen by a seed; memory is that of the rows chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from notebooks.bench.contenders import line_items

COMMITS = 10
ONE_IN = 100  # rows of the source for one of an upsert
DELETED_IN = 1000
LOOKUPS = 100
SEED = 20261121
ORDER, LINE = "l_orderkey", "l_linenumber"


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths of the files; `keys` holds those that are looked up."""

    upserts: tuple[str, ...]
    deletes: tuple[str, ...]
    keys: str
    upsert_rows: int
    delete_rows: int


def make_changes(files: Sequence[str], folder: Path) -> Changes:
    """Changes for a table that holds the rows of `files`, written below `folder`."""
    total = sum(pq.read_metadata(path).num_rows for path in files)
    half, gone = max(total // ONE_IN // 2, 1), max(total // DELETED_IN, 1)
    rng = np.random.default_rng(SEED)
    places = rng.permutation(total)[: COMMITS * (half + half + gone) + LOOKUPS]
    rows = _at(files, places)
    updated, copied, deleted, looked_up = _split(
        rows, [COMMITS * half, COMMITS * half, COMMITS * gone, LOOKUPS]
    )
    updated = _with_quantity(updated)
    inserted = _with_new_orders(copied, _largest_order(files) + 1)
    folder.mkdir(parents=True)
    upserts = [
        pa.concat_tables([updated.slice(i * half, half), inserted.slice(i * half, half)])
        for i in range(COMMITS)
    ]
    deletes = [deleted.slice(i * gone, gone) for i in range(COMMITS)]
    return Changes(
        tuple(_write(rows, folder / f"upsert-{i}.parquet") for i, rows in enumerate(upserts)),
        tuple(_write(rows, folder / f"delete-{i}.parquet") for i, rows in enumerate(deletes)),
        _write(_looked_up(looked_up, updated, inserted, deleted), folder / "keys.parquet"),
        2 * half,
        gone,
    )


def _at(files: Sequence[str], places: np.ndarray) -> pa.Table:
    """The rows at these places of the source, in the order of `places`."""
    order = np.argsort(places)
    wanted, parts, start = places[order], [], 0
    for batch in line_items.read(files, months=False):
        here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + len(batch))]
        parts.append(batch.take(pa.array(here - start)))
        start += len(batch)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.Table.from_batches(parts).take(pa.array(back))


def _split(rows: pa.Table, sizes: Sequence[int]) -> Iterator[pa.Table]:
    start = 0
    for size in sizes:
        yield rows.slice(start, size)
        start += size


def _largest_order(files: Sequence[str]) -> int:
    orders = (pq.read_table(path, columns=[ORDER])[ORDER].to_numpy() for path in files)
    return max(int(values.max()) for values in orders)


def _with_quantity(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index(line_items.QUANTITY)
    value = pa.scalar(Decimal("99.00"), rows.schema.field(at).type)
    return rows.set_column(at, rows.schema.field(at), pa.repeat(value, len(rows)))


def _with_new_orders(rows: pa.Table, first: int) -> pa.Table:
    at = rows.schema.get_field_index(ORDER)
    return rows.set_column(at, rows.schema.field(at), pa.array(np.arange(first, first + len(rows))))


def _looked_up(kept: pa.Table, updated: pa.Table, inserted: pa.Table, deleted: pa.Table) -> pa.Table:
    """Keys of every fate: seven of ten as loaded, one updated, one inserted, one deleted."""
    tenth = LOOKUPS // 10
    parts = [kept.slice(0, 7 * tenth), *(some.slice(0, tenth) for some in (updated, inserted, deleted))]
    return pa.concat_tables([part.select([ORDER, LINE]) for part in parts])


def _write(rows: pa.Table, path: Path) -> str:
    pq.write_table(rows, path)
    return str(path)
