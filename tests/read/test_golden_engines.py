"""Tables that Java made with each merge engine: rows, projections, filters, and our compaction of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tests.peers.cells import cells, in_order
from tests.read import golden

TABLES = ("pk_partial_update", "pk_aggregation", "pk_first_row", "pk_sequence_field")


def copied(name: str, tmp_path: Path) -> ts.Table:
    target = tmp_path / "j.db" / name
    shutil.copytree(golden.JAVA / "warehouse" / "j.db" / name, target)
    return ts.open(str(target))


def plain(name: str, rows: list[list[Any]]) -> list[list[Any]]:
    """Rows in order, and in columns that have no order their lists too."""
    wanted = golden.expected(name)
    free = {i for i, (column, _) in enumerate(wanted["fields"]) if column in wanted["unordered"]}
    return in_order([[in_order(c) if i in free and c else c for i, c in enumerate(row)] for row in rows])


def rows_of(table: ts.Table, name: str) -> list[list[Any]]:
    types = {f.name: f.type for f in table.store.schema.fields}
    return plain(name, cells(ts.open(table.location).scan().to_arrow(), types))


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_as_java_says_also_after_our_compaction(name: str, tmp_path: Path) -> None:
    table, wanted = copied(name, tmp_path), plain(name, golden.expected(name)["rows"])
    assert rows_of(table, name) == wanted
    table.compact(full=True)
    assert rows_of(table, name) == wanted
    assert ts.open(table.location).check() == []
    assert {f["level"] for f in table.inspect.levels().to_pylist()} == {5}


@pytest.mark.parametrize("name", TABLES)
def test_each_column_alone_is_that_column_of_the_rows(name: str, tmp_path: Path) -> None:
    table = copied(name, tmp_path)
    whole = table.scan().to_arrow()
    for column in whole.column_names:
        part = table.scan(columns=[column]).to_arrow()
        assert in_order(cells(part)) == in_order(cells(whole.select([column])))


@pytest.mark.parametrize("name", TABLES)
def test_a_filter_on_values_is_asked_of_merged_rows(name: str, tmp_path: Path) -> None:
    table = copied(name, tmp_path)
    whole = table.scan().to_arrow()
    column = whole.column_names[1]
    values = [v for v in whole.column(column).to_pylist() if v is not None]
    middle = sorted(values)[len(values) // 2]
    rows = table.scan(where=col(column) >= middle).to_arrow()
    assert rows.num_rows == sum(v >= middle for v in values)
    assert set(rows.column("k").to_pylist()) <= set(whole.column("k").to_pylist())
