"""The 22 queries of TPC-H on keyed tables with ten rounds of changes unmerged, as DuckDB answers them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tablestore as ts
from datasets import tpch
from datasets.tpch.queries import QUERIES
from datasets.tpch.tables import changed, loaded
from tablestore.sql import Session
from tablestore.sql.query import sources

SCALE = "0.01"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ts.Lake:
    lake = ts.connect(tmp_path_factory.mktemp("tpch") / "lake")
    loaded(lake, SCALE)
    for name in tpch.TABLES:
        lake.table(f"tpch.{name}").compact(full=True)
    for number in range(1, 11):
        changed(lake, SCALE, number)
    return lake


@pytest.fixture(scope="module")
def peer(lake: ts.Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in tpch.TABLES:
            connection.register(name, lake.table(f"tpch.{name}").scan().to_arrow())
        yield connection


@pytest.fixture(scope="module")
def session(lake: ts.Lake) -> Session:
    session = ts.sql_session(lake)
    session.sql("USE tpch")
    return session


def test_the_changes_are_unmerged(lake: ts.Lake) -> None:
    assert len(lake.table("tpch.lineitem").inspect.files()) > 10


@pytest.mark.parametrize("number", QUERIES)
@pytest.mark.parametrize("worthwhile", [0, 1 << 40], ids=["files", "scans"])
@pytest.mark.sample(5)
def test_a_query(
    session: Session,
    peer: duckdb.DuckDBPyConnection,
    number: int,
    worthwhile: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_WORTHWHILE_BYTES", worthwhile)
    ours = session.sql(QUERIES[number]).to_arrow()
    theirs = peer.sql(QUERIES[number]).to_arrow_table()
    assert ours.num_rows == theirs.num_rows
    pairs = zip(rows(ours), rows(theirs), strict=True)
    assert all(
        alike(a, b) for ours_row, theirs_row in pairs for a, b in zip(ours_row, theirs_row, strict=True)
    )


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def alike(a: Any, b: Any) -> bool:
    """Whether ours is theirs; a mean of decimals is rounded to its last digit."""
    if isinstance(a, Decimal) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=0.51 * 10.0 ** int(a.as_tuple().exponent))
    if isinstance(a, float | Decimal | int) and isinstance(b, float | Decimal | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)
