"""ANALYZE: what is added up of each type, exact and estimated."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.format.types.arrow_types import DataField, parse_type
from tablestore.meta import statistics
from tablestore.write.analyze import DistinctCounter, analyze
from tests.faults import FaultyIO, Killed
from tests.tables import KEYED


def column(t: str, values: pa.Array, pieces: int = 3) -> statistics.ColumnStatistics:
    field = DataField(7, "c", parse_type(t))
    size = max(1, len(values) // pieces)
    batches = [pa.record_batch({"c": values.slice(at, size)}) for at in range(0, len(values), size)]
    rows, actual = analyze(batches, [field])
    assert rows == len(values)
    return actual["c"]


CASES: list[tuple[str, pa.Array, dict[str, Any]]] = [
    (
        "INT",
        pa.array([3, None, -1, 3], pa.int32()),
        {"min": "-1", "max": "3", "distinct_count": 2, "avg_len": 4},
    ),
    ("BOOLEAN", pa.array([True, None]), {"min": "true", "max": "true", "distinct_count": 1, "max_len": 1}),
    ("DOUBLE", pa.array([1.5, -0.0, None]), {"min": "-0.0", "max": "1.5", "distinct_count": 2, "avg_len": 8}),
    ("STRING", pa.array(["é", "abc", None]), {"min": "abc", "max": "é", "avg_len": 2, "max_len": 3}),
    ("BYTES", pa.array([b"abcd", None]), {"min": None, "max": None, "avg_len": 4, "distinct_count": 1}),
    (
        "DECIMAL(20, 2)",
        pa.array([Decimal("1.50"), Decimal("-2")], pa.decimal128(20, 2)),
        {"min": "-2.00", "max": "1.50", "avg_len": 16},
    ),
    ("DATE", pa.array([19724, 3], pa.int32()).cast(pa.date32()), {"min": "3", "max": "19724", "avg_len": 4}),
    (
        "TIMESTAMP(9)",
        pa.array([1, None, 1704164645678901234], pa.timestamp("ns")),
        {"min": "1970-01-01 00:00:00.000000001", "max": "2024-01-02 03:04:05.678901234"},
    ),
    (
        "ARRAY<INT>",
        pa.array([[1], None]),
        {"min": None, "distinct_count": None, "avg_len": None},
    ),
    (
        "INT",
        pa.array([None, None], pa.int32()),
        {"min": None, "max": None, "distinct_count": 0},
    ),
]


@pytest.mark.parametrize(("t", "values", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_each_type_is_added_up(t: str, values: pa.Array, wanted: dict[str, Any]) -> None:
    if t == "ARRAY<INT>":
        field = DataField(7, "c", ts.ARRAY(ts.INT))
        actual = analyze([pa.record_batch({"c": values})], [field])[1]["c"]
    else:
        actual = column(t, values)
    assert {name: getattr(actual, name) for name in wanted} == wanted
    assert actual.column_id == 7
    assert actual.null_count == values.null_count


@pytest.mark.parametrize("t", ["BIGINT", "STRING"])
@pytest.mark.parametrize("distinct", [1_000, 70_000, 400_000])
def test_distinct_values_are_exact_when_few_and_near_when_many(t: str, distinct: int) -> None:
    numbers = pa.array(np.arange(2 * distinct) % distinct)
    values = numbers if t == "BIGINT" else numbers.cast(pa.string())
    distinct_count = column(t, values, pieces=7).distinct_count
    assert distinct_count is not None
    if distinct <= 65_536:
        assert distinct_count == distinct
    else:
        assert abs(distinct_count - distinct) / distinct < 0.03


def test_small_estimates_are_near_too() -> None:
    for n in (10, 5_000, 30_000, 50_000):
        counter = DistinctCounter(parse_type("BIGINT"), exact=0)
        counter.add(pa.array(np.arange(n)))
        assert abs(counter.count() - n) <= max(2, 0.05 * n), n


def test_rows_are_counted_after_merging_and_later_commits_inherit(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    with pytest.raises(NotFound, match="no snapshot to analyze"):
        t.analyze()
    t.write(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    t.write(pa.table({"k": [1], "v": ["z"]}))
    t.analyze(["v"])
    (row,) = t.inspect.statistics().to_pylist()
    assert (row["snapshot_id"], row["mergedRecordCount"]) == (2, 3)
    assert '"max" : "z"' in row["colstat"]
    assert '"k"' not in row["colstat"]
    t.write(pa.table({"k": [9], "v": ["y"]}))
    assert t.inspect.statistics().num_rows == 1
    t.analyze([])
    assert t.inspect.statistics()["mergedRecordCount"].to_pylist() == [4]
    with pytest.raises(NotFound, match="column"):
        t.analyze(["w"])


def test_statistics_name_the_schema_of_their_columns(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write(pa.table({"k": [1], "v": ["a"]}))
    t = t.alter(ts.add("n", ts.INT))
    t.analyze()
    (row,) = t.inspect.statistics().to_pylist()
    assert (row["snapshot_id"], row["schema_id"]) == (1, 1)
    assert '"n"' in row["colstat"]


def test_a_failed_analyze_leaves_nothing(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write(pa.table({"k": [1], "v": ["a"]}))
    counting = FaultyIO()
    ts.open(t.location, io=counting).analyze()
    before = t.store.snapshots.ids()
    steps = [i for i, e in enumerate(counting.log) if e.startswith(("put", "write", "replace"))]
    assert len(steps) >= 4
    for fail_at in steps:
        for mode in ("error before", "kill before", "kill after"):
            io, lay = FaultyIO(fail_at, mode), statistics_files(t)
            with contextlib.suppress(ts.TablestoreError, Killed):
                ts.open(t.location, io=io).analyze()
            fresh = ts.open(t.location)
            assert fresh.check() == []
            assert fresh.scan().count() == 1
            assert fresh.inspect.statistics().num_rows == 1
            if mode == "error before":
                named = {x.statistics for x in fresh.store.snapshots.all() if x.statistics}
                assert statistics_files(t) - lay <= named
    assert ts.open(t.location).store.snapshots.ids()[: len(before)] == before


def statistics_files(t: ts.Table) -> set[str]:
    return {p.name for p in Path(t.location, "statistics").glob("stat-*")}
