"""Merge engines against Java Paimon: the small cases record by record, bitmaps, sketches, expired records.

Both engines write, read and compact one table; after each step both see the same rows. Lists are compared
sorted: what maps, distinct and nested aggregates hold has no order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.core.errors import CannotMerge, InvalidRequest
from tablestore.format import roaring, roaring_tree
from tests.lsm.merge.merge_cases import Case, cases
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon

pytestmark = pytest.mark.peer
KINDS = ("+I", "-U", "+U", "-D")


def plain(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows with every list sorted, in order."""
    return in_order([[in_order(c) if isinstance(c, list) else c for c in row] for row in rows])


def ours(table: ts.Table) -> list[list[Any]] | str:
    try:
        return plain(cells(ts.open(table.location).scan().to_arrow()))
    except CannotMerge:
        return "error"


def theirs(java: JavaPaimon, table: ts.Table) -> list[list[Any]] | str:
    try:
        return plain(java.rows(table.location))
    except JavaError:
        return "error"


@pytest.mark.large
def test_java_agrees_on_the_small_cases(java: JavaPaimon, tmp_path: Path) -> None:
    for warehouse, (case, answers) in enumerate(cases()):
        table = case.create(tmp_path / str(warehouse))
        for number, records in enumerate(case.steps):
            if records is None:
                java.compact(table.location, identifier=number)
            else:
                step(java, table, case, records, number, answers)
        if any(end in answer for answer in answers for end in ("error", "refused")):
            continue
        java.compact(table.location, identifier=1000)
        assert theirs(java, table) == ours(table), case.name
        assert ts.open(table.location).check() == [], case.name


def step(
    java: JavaPaimon,
    table: ts.Table,
    case: Case,
    records: list[tuple[int, str, tuple[Any, ...]]],
    number: int,
    answers: list[str],
) -> None:
    """Records of different keys written by Java, read by both."""
    ends = {answer.split(" => ")[0].split(" | ")[-1] for answer in answers}
    last = number + 1 == len(case.steps)
    rows, kinds = case.rows(table, records), [kind for _, kind, _ in records]
    if last and "refused" in ends:  # Java accepts it and fails in the next read
        with pytest.raises(InvalidRequest):
            ts.open(table.location).write(rows.append_column("kind", [kinds]), row_kind_column="kind")
    java.write(table.location, rows, kinds=kinds, identifier=number, write_only=True)
    read = theirs(java, table)
    assert read == ours(table), case.name
    assert (read == "error") == (last and not ends.isdisjoint(("error", "refused"))), case.name


def aggregated(path: Path, function: str) -> ts.Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.INT, "a": ts.BYTES},
        primary_key=["k"],
        options={
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": function,
            "write-only": "true",
        },
    )


def bytes_row(value: bytes) -> pa.Table:
    return pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([value], pa.binary())})


def theta(values: range) -> bytes:
    sketch = datasketches.update_theta_sketch()
    for value in values:
        sketch.update(value)
    return sketch.compact().serialize()


def hll(values: range) -> bytes:
    sketch = datasketches.hll_sketch(12)
    for value in values:
        sketch.update(value)
    return sketch.serialize_compact()


def counted(function: str, value: bytes) -> float:
    """How many distinct values a sketch or bitmap tells of."""
    if function == "theta_sketch":
        return datasketches.compact_theta_sketch.deserialize(value).get_estimate()
    if function == "hll_sketch":
        return datasketches.hll_sketch.deserialize(value).get_estimate()
    if function == "rbm64":
        return len(roaring_tree.decode(value))
    return len(roaring.decode32(value))


def bitmap32(values: range) -> bytes:
    return roaring.encode32(np.array(values))


def bitmap64(values: range) -> bytes:
    return roaring_tree.encode(np.array(values, dtype=np.uint64) * np.uint64(2**33 + 1))


MAKERS = {"theta_sketch": theta, "hll_sketch": hll, "rbm32": bitmap32, "rbm64": bitmap64}


@pytest.mark.parametrize("function", MAKERS)
@pytest.mark.parametrize(
    "size", [10, 300, 5_000]
)  # the last: containers that are bitmaps, sketches that estimate
@pytest.mark.sample(2)
def test_bitmaps_and_sketches_of_both_are_united_alike(
    java: JavaPaimon, tmp_path: Path, function: str, size: int
) -> None:
    make, exact = MAKERS[function], function.startswith("rbm")
    table, parts = aggregated(tmp_path, function), [range(size), range(size // 2, 2 * size), range(5)]
    for number, part in enumerate(parts):
        java.write(table.location, bytes_row(make(part)), identifier=number, write_only=True)
    ((_, given),) = java.rows(table.location)
    (merged,) = ts.open(table.location).scan().to_arrow().column("a").to_pylist()
    from_java = counted(function, bytes.fromhex(given["hex"]))
    assert counted(function, merged) == pytest.approx(from_java, rel=1e-6)
    assert from_java == pytest.approx(2 * size, rel=0 if exact else 0.05)
    ts.open(table.location).compact(full=True)  # Java goes on with what ours made, and ours with Java's
    java.write(table.location, bytes_row(make(range(2 * size, 3 * size))), identifier=9, write_only=True)
    java.compact(table.location, identifier=10)
    (last,) = ts.open(table.location).scan().to_arrow().column("a").to_pylist()
    assert counted(function, last) == pytest.approx(3 * size, rel=0 if exact else 0.05)


@pytest.mark.parametrize(
    "kind", ["INT", "BIGINT", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"]
)
@pytest.mark.sample(2)
def test_rows_expire_in_compaction_as_in_java(java: JavaPaimon, tmp_path: Path, kind: str) -> None:
    """Both show rows that no compaction has touched, and drop the same ones when they compact."""
    now = int(SYSTEM.now_ms() // 1000)
    ages = [0, 3_000, 4_000, 10**6, None]
    unit = {"INT": 1, "BIGINT": 1000, "TIMESTAMP(3)": 1000}.get(kind, 10**6)
    tables = []
    for name in ("ours", "java"):
        table = ts.connect(str(tmp_path)).create_table(
            f"d.{name}",
            schema={"k": ts.INT, "at": kind},
            primary_key=["k"],
            options={
                "record-level.expire-time": "1 h",
                "record-level.time-field": "at",
                "write-only": "true",
            },
        )
        values = [None if a is None else (now - a) * unit for a in ages]
        column = pa.array(values, pa.int64()).cast(table.schema.field("at").type)
        table.write(pa.table({"k": pa.array(range(5), pa.int32()), "at": column}))
        tables.append(table)
    mine, other = tables
    assert len(theirs(java, mine)) == len(ours(mine)) == 5
    mine.compact(full=True)
    java.compact(other.location)
    assert ours(mine) == ours(other) == theirs(java, mine) == theirs(java, other)
    assert [row[0] for row in ours(mine)] == [0, 1, 4]
    assert [f[1:4] for f in java.levels(mine.location)] == [f[1:4] for f in java.levels(other.location)]
