"""What notebook 18 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts


def the_offsets(newest: Any, offsets: Any, orders: ts.Table) -> None:
    """Each row of the stream up to the snapshot is there once."""
    tiered = sum(place["offset"] for place in offsets)
    assert tiered == orders.at(snapshot=newest.id).scan().count(), "each row of the stream up to there, once"


def with_the_stream(fresh: Any, shop: Any, orders: ts.Table, counts: Any) -> None:
    """With the stream every order is seen, and the sums follow."""
    assert fresh.answer.own == shop.orders
    assert orders.scan(log=True).count() == fresh.answer.own
    assert pc.sum(counts).as_py() == shop.orders


def a_killed_round(uncommitted: Any, killed: Any) -> None:
    """The killed round committed nothing."""
    assert uncommitted.answer.own == 0
    assert len(killed) == 1


def found_by_the_next(second_found: Any, told: Any) -> None:
    """The next round finds and registers what the killed one left."""
    assert second_found > 0
    assert any("it was registered" in note for note in told)


def each_order_once(rows: pa.Table, shop: Any, customers: ts.Table) -> None:
    """Each order is there once."""
    assert rows.num_rows == shop.orders
    assert pc.count_distinct(rows["order_id"]).as_py() == shop.orders, "each order once"
    assert pc.sum(customers.scan(log=True).to_arrow()["orders"]).as_py() == shop.orders


def still_once(orders: ts.Table, shop: Any) -> None:
    """Each order is still there once."""
    assert pc.count_distinct(orders.scan().to_arrow()["order_id"]).as_py() == shop.orders
