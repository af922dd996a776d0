"""Orders, their updates and deletes: the small data of the course. Same arguments, same rows.

`orders(n)` are new rows with keys from `first` on; `updates` and `deletes` draw keys among those that exist.
Pure, by whole columns. Called by the notebooks.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa

import tablestore as ts

STATES = ("new", "paid", "sent", "done")
CITIES = ("Berlin", "Lagos", "Lima", "Osaka", "Oslo", "Quito")
ORDERS = {
    "order_id": ts.BIGINT,
    "city": ts.STRING,
    "status": ts.STRING,
    "amount": ts.BIGINT,
    "placed": ts.DATE,
}
"""The columns of the course's table; its key is `order_id`."""


def orders(rows: int, *, first: int = 1, seed: int = 7) -> pa.Table:
    """New orders with the keys `first` … `first + rows − 1`, all of status new."""
    draw = np.random.default_rng([seed, first, rows])
    days = np.datetime64(date(2026, 1, 1)) + draw.integers(0, 90, rows).astype("timedelta64[D]")
    columns = {
        "order_id": pa.array(np.arange(first, first + rows)),
        "city": pa.array(CITIES).take(pa.array(draw.integers(0, len(CITIES), rows))),
        "status": pa.array(["new"] * rows, pa.string()),
        "amount": pa.array(draw.integers(5, 500, rows)),
        "placed": pa.array(days, pa.date32()),
    }
    return pa.table(columns)


def updates(rows: int, *, among: int, first: int = 1, seed: int = 7) -> pa.Table:
    """Later versions of `rows` different orders with keys in `first` … `first + among − 1`."""
    draw = np.random.default_rng([seed, 1, rows, among, first])
    chosen = np.sort(draw.choice(among, size=min(rows, among), replace=False)) + first
    base = orders(among, first=first, seed=seed).take(pa.array(chosen - first))
    status = pa.array(STATES[1:]).take(pa.array(draw.integers(0, len(STATES) - 1, len(chosen))))
    return base.set_column(base.schema.get_field_index("status"), "status", status)


def deletes(rows: int, *, among: int, first: int = 1, seed: int = 7) -> pa.Table:
    """The keys of `rows` different orders, for `table.delete`."""
    draw = np.random.default_rng([seed, 2, rows, among, first])
    chosen = np.sort(draw.choice(among, size=min(rows, among), replace=False)) + first
    return pa.table({"order_id": pa.array(chosen)})
