"""Reads that need no merging never merge; files that overlap are asked about key columns only.

Rows are grouped by key in one place, files are opened in another: both are watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.format.predicates.predicate import Predicate
from tablestore.lsm.merge import merge_reader
from tablestore.read.scan import data_split

ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}


class Watched:
    """How often rows were grouped, and the predicate that each opened file was asked, with its level."""

    def __init__(self) -> None:
        self.merges = 0
        self.asked: list[tuple[int, tuple[str, ...]]] = []

    def clear(self) -> None:
        self.merges, self.asked = 0, []


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen, grouped, read_file = Watched(), merge_reader.grouped, data_split.read_file

    def counting(*arguments: Any) -> Any:
        seen.merges += 1
        return grouped(*arguments)

    def noting(*arguments: Any) -> Iterator[pa.RecordBatch]:
        *_, file, request = arguments
        where = request.predicate
        seen.asked.append((file.level, () if where is None else tuple(sorted(where.columns))))
        return read_file(*arguments)

    monkeypatch.setattr(merge_reader, "grouped", counting)
    monkeypatch.setattr(data_split, "read_file", noting)
    return seen


def create(path: Path, **options: Any) -> ts.Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.INT, "w": ts.INT},
        primary_key=["k"],
        options={"bucket": 1, **options},
    )


def write(table: ts.Table, keys: range, value: int = 1) -> None:
    columns = {n: pa.array([value] * len(keys), pa.int32()) for n in ("v", "w")}
    table.write(pa.table({"k": pa.array(keys, pa.int32()), **columns}))


def read(table: ts.Table, where: Predicate | None = None) -> int:
    return ts.open(table.location).scan(where=where).to_arrow().num_rows


@pytest.mark.parametrize("engine", ENGINES)
def test_a_compacted_table_is_read_as_it_lies_and_its_files_are_asked_the_whole_predicate(
    tmp_path: Path, engine: str, watched: Watched
) -> None:
    table = create(tmp_path, **ENGINES[engine])
    for value in range(3):
        write(table, range(100), value)
    table.compact(full=True)
    watched.clear()
    assert read(table) == 100
    assert read(table, (col("v") >= 0) & (col("k") < 40)) == 40
    assert watched.merges == 0
    assert watched.asked == [(5, ()), (5, ("k", "v"))]


@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": True},
        {"deletion-vectors.enabled": True, **ENGINES["aggregation"]},
        {"deletion-vectors.enabled": True, **ENGINES["partial-update"], "changelog-producer": "lookup"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
    ],
)
def test_deletion_vectors_and_first_row_never_merge_on_read(
    tmp_path: Path, options: dict[str, Any], watched: Watched
) -> None:
    table = create(tmp_path, **{"num-levels": 5, "num-sorted-run.compaction-trigger": 4}, **options)
    numbers = np.random.default_rng(1).integers(0, 2**31 - 1, 20_000).astype(np.int32)  # so the file is large
    ones = pa.array([1] * len(numbers), pa.int32())
    table.write(pa.table({"k": pa.array(range(len(numbers)), pa.int32()), "v": ones, "w": numbers}))
    levels = set[int]()
    for value in range(4):
        write(table, range(19_990 + value * 10, 20_005 + value * 10), value + 2)  # old and new keys
        watched.clear()
        assert read(table) == 20_005 + 10 * value
        assert read(table, (col("v") == 1) & (col("k") < 19_000)) == 19_000
        assert watched.merges == 0
        assert {columns for _, columns in watched.asked} <= {(), ("k", "v")}
        levels |= {level for level, _ in watched.asked}
    assert len(levels) > 1  # files of several levels, and none is merged
    assert table.check() == []


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_files_that_overlap_are_asked_about_keys_only(tmp_path: Path, engine: str, watched: Watched) -> None:
    """A row of another value may be the one that replaces, or add to, what another file holds."""
    table = create(tmp_path, **{"write-only": True}, **ENGINES[engine])
    write(table, range(100), 1)
    write(table, range(50, 150), 2)
    wanted = 3 if engine == "aggregation" else 2
    watched.clear()
    assert read(table, col("v") == wanted) == (50 if engine == "aggregation" else 100)
    assert (col("v") == 1).columns == {"v"}
    assert watched.asked == [(0, ()), (0, ())]
    assert watched.merges > 0
    watched.clear()
    assert read(table, (col("v") == wanted) & (col("k") >= 60) & (col("w") > 0)) > 0
    assert watched.asked == [(0, ("k",)), (0, ("k",))]
    watched.clear()
    assert read(table, (col("v") == wanted) | (col("k") >= 149)) > 0  # says nothing of keys alone
    assert watched.asked == [(0, ()), (0, ())]


def test_only_what_overlaps_is_merged(tmp_path: Path, watched: Watched) -> None:
    table = create(tmp_path, **{"write-only": True})
    write(table, range(1000), 1)
    table.compact(full=True)
    write(table, range(2000, 2100), 2)
    watched.clear()
    assert read(table, col("v") > 0) == 1100
    assert watched.merges == 0
    write(table, range(2050, 2060), 3)
    watched.clear()
    assert read(table, col("v") > 0) == 1100
    assert watched.merges == 1
    assert (5, ("v",)) in watched.asked  # the compacted file overlaps nothing
    assert [columns for level, columns in watched.asked if level == 0] == [(), ()]
