"""A lake with tables of a shop, and a session over it."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.sql import Session


@pytest.fixture(scope="session")
def made_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each test has a copy of."""
    folder = tmp_path_factory.mktemp("made") / "lake"
    lake = ts.connect(folder)
    orders = lake.create_table(
        "shop.orders",
        schema={"order_id": ts.INT, "customer": ts.STRING, "amount": ts.DECIMAL(8, 2)},
        primary_key=["order_id"],
        options={"bucket": 2},
    )
    rows = {"order_id": [1, 2], "customer": ["ann", "bob"], "amount": [Decimal("12.50"), Decimal("7.00")]}
    orders.write(pa.table(rows))
    orders.write(pa.table({"order_id": [2, 3], "customer": ["bob", None], "amount": [Decimal(8), None]}))
    events = lake.create_table("shop.events", schema={"day": ts.DATE, "n": ts.BIGINT}, partition_by=["day"])
    events.write(pa.table({"day": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)], "n": [1, 2]}))
    return folder


@pytest.fixture
def lake(made_lake: Path, tmp_path: Path) -> ts.Lake:
    """shop.orders, keyed, two commits; shop.events, append only, partitioned by day."""
    return ts.connect(shutil.copytree(made_lake, tmp_path / "lake"))


@pytest.fixture
def session(lake: ts.Lake) -> Session:
    """Statements over the lake; the current database is shop."""
    session = ts.sql_session(lake)
    session.sql("USE shop")
    return session
