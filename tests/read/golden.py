"""Golden tables and their expectations, for the tests of reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import DataType
from tablestore.meta.store import Store
from tablestore.read.scan import time_travel
from tablestore.read.scan.plan import Plan, plan
from tests.peers.cells import cells, column, in_order

__all__ = ["cell", "cells", "in_order"]

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
JAVA = GOLDEN / "paimon-java"
PYTHON = GOLDEN / "paimon"


def java(table: str, *, branch: str = "main") -> Store:
    """A table written by Java Paimon."""
    return Store.open(str(JAVA / "warehouse" / "j.db" / table), branch=branch)


def python(table: str, *, branch: str = "main") -> Store:
    """A table written by pypaimon, or one of the two written by hand."""
    if table.startswith("handwritten"):
        return Store.open(str(PYTHON / table / "d.db" / "hand"))
    return Store.open(str(PYTHON / "warehouse" / "g.db" / table), branch=branch)


def java_tables() -> list[str]:
    return sorted(p.stem for p in (JAVA / "expected").glob("*.json"))


def python_tables() -> list[str]:
    names = sorted(p.name for p in (PYTHON / "warehouse" / "g.db").iterdir())
    return [*names, "handwritten", "handwritten_compact"]


def expected(table: str) -> dict[str, Any]:
    """What Java says of its table."""
    return json.loads((JAVA / "expected" / f"{table}.json").read_text())


def planned(
    store: Store, snapshot: Snapshot | None = None, where: Predicate | None = None, columns: Any = None
) -> Plan:
    """The plan of a snapshot under its own schema (None: of the newest one under the newest schema)."""
    latest = store.snapshots.latest() if snapshot is None else snapshot
    return plan(time_travel.at(store, snapshot), latest, where, columns=columns)


def read(
    store: Store, snapshot: Snapshot | None = None, where: Predicate | None = None, columns: Any = None
) -> pa.Table:
    """All rows of a snapshot (None: the newest)."""
    planned_files = planned(store, snapshot, where, columns)
    names = columns or planned_files.store.schema.names
    schema = pa.schema([f.arrow for f in planned_files.store.schema.columns(tuple(names))])
    batches = [
        b for s in planned_files.splits for b in s.read(planned_files.store, columns, planned_files.where)
    ]
    return pa.Table.from_batches(batches, schema)


def types_of(store: Store) -> dict[str, DataType]:
    return {f.name: f.type for f in store.schema.fields}


def cell(value: Any, t: DataType) -> Any:
    """One raw value (as statistics hold it) in the JSON form of the expectations."""
    return column(literal.array([value], t), t)[0]


def without_order(rows: list[list[Any]], names: list[str], unordered: list[str]) -> list[list[Any]]:
    """Rows whose arrays in the columns `unordered` are sorted: their order means nothing."""
    places = {names.index(n) for n in unordered}
    return [[sorted(c, key=repr) if i in places and c else c for i, c in enumerate(row)] for row in rows]
