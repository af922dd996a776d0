"""Golden tables and their expectations, for the tests of reading."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.format import binary_row
from tablestore.format.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.format.types import DataType
from tablestore.meta.store import Store
from tablestore.read import time_travel
from tablestore.read.plan import Plan, plan
from tablestore.read.split_read import read_split
from tests.peers import cells as peer_cells

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
    made = sorted(p.name for p in (PYTHON / "warehouse" / "g.db").iterdir())
    return [*made, "handwritten", "handwritten_compact"]


def expected(table: str) -> dict[str, Any]:
    """What Java says of its table."""
    return json.loads((JAVA / "expected" / f"{table}.json").read_text())


def planned(
    store: Store, snapshot: Snapshot | None = None, where: Predicate | None = None, columns: Any = None
) -> Plan:
    """The plan of a snapshot under its own schema (None: of the newest one under the newest schema)."""
    found = store.snapshots.latest() if snapshot is None else snapshot
    return plan(time_travel.at(store, snapshot), found, where, columns=columns)


def read(
    store: Store, snapshot: Snapshot | None = None, where: Predicate | None = None, columns: Any = None
) -> pa.Table:
    """All rows of a snapshot (None: the newest)."""
    made = planned(store, snapshot, where, columns)
    names = columns or made.store.schema.names
    schema = pa.schema([f.arrow for f in made.store.schema.columns(tuple(names))])
    batches = [b for s in made.splits for b in read_split(made.store, s, columns, made.where)]
    return pa.Table.from_batches(batches, schema)


def cells(table: pa.Table, types: dict[str, DataType]) -> list[list[Any]]:
    """Rows in the JSON form of the expectations; a `rowkind` column stays as it is."""
    columns = []
    for name in table.column_names:
        array = table.column(name).combine_chunks()
        t = types.get(name)
        columns.append(_cells_of(array, t))
    return [list(row) for row in zip(*columns, strict=True)]


def _cells_of(array: pa.Array, t: DataType | None) -> list[Any]:
    if t is None:
        return array.to_pylist()
    if not t.is_scalar:
        return peer_cells.column(array, t)
    return [cell(v, t) for v in binary_row.raw_values(array, t)]


def cell(value: Any, t: DataType) -> Any:
    """A raw value in the JSON form of the expectations."""
    if value is None or t.root in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT") or t.is_string:
        return value
    if t.is_binary:
        return {"hex": value.hex()}
    if t.root in ("FLOAT", "DOUBLE"):
        if not math.isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return float(str(np.float32(value))) if t.root == "FLOAT" else value
    if t.root == "DECIMAL":
        digits = str(abs(value)).rjust(t.scale + 1, "0")
        whole = digits[: len(digits) - t.scale] + ("." + digits[len(digits) - t.scale :] if t.scale else "")
        return "-" + whole if value < 0 else whole
    if t.root == "DATE":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if t.root == "TIME":
        return _clock(value // 1000, f"{value % 1000:03d}")
    per = 1000 if t.precision <= 3 else 10**6 if t.precision <= 6 else 10**9
    seconds, rest = divmod(value, per)
    days, second = divmod(seconds, 86_400)
    fraction = f"{rest * (10**9 // per):09d}"[: t.precision]
    day = (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    return f"{day} {_clock(second, fraction)}" + ("Z" if t.root == "TIMESTAMP_LTZ" else "")


def _clock(seconds: int, fraction: str) -> str:
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction}" if fraction else text


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows sorted by their JSON text, as the expectations are."""
    return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False, sort_keys=True))


def types_of(store: Store) -> dict[str, DataType]:
    return {f.name: f.type for f in store.schema.fields}
