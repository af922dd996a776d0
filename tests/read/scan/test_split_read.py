"""Rows of splits: kinds, ties between writers, files that vanish or lie, projections."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import Corrupt, NotFound
from tablestore.meta import manifest_cache
from tablestore.read.changes.incremental import snapshot_changes
from tablestore.read.scan.plan import plan
from tablestore.table.table import Table
from tests.read import golden
from tests.tables import WRITE_ONLY, TableSpec

UNCOMPACTED = TableSpec({"k": ts.INT, "a": ts.BIGINT, "s": ts.STRING}, primary_key=("k",), options=WRITE_ONLY)


def rows(keys: Any, a: int, kind: str = "+I") -> pa.Table:
    keys = list(keys)
    n = len(keys)
    return pa.table(
        {"k": pa.array(keys, pa.int32()), "a": [a] * n, "s": [f"s{a}"] * n, "rowkind": [kind] * n}
    )


def put(table: Table, *args: Any) -> None:
    table.write(rows(*args), row_kind_column="rowkind")


def test_kinds_come_first_when_asked_for(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(3), 1)
    put(table, [1], 2, "+U")
    actual = plan(table.store, table.store.snapshots.latest())
    read = [b for s in actual.splits for b in s.read(table.store, ["a", "k"], with_kinds=True)]
    assert pa.Table.from_batches(read).to_pylist() == [
        {"rowkind": "+I", "a": 1, "k": 0},
        {"rowkind": "+U", "a": 2, "k": 1},
        {"rowkind": "+I", "a": 1, "k": 2},
    ]


def test_a_filter_may_use_columns_that_are_not_asked_for(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    put(table, range(5), 2)
    rows = table.scan(["s"], where=(col("a") == 2) & (col("k") > 2)).to_arrow()
    assert rows.to_pydict() == {"s": ["s2", "s2"]}


def test_the_winner_of_a_tie_between_two_writers_is_the_same_after_compaction(tmp_path: Path) -> None:
    for seed in range(6):
        table = UNCOMPACTED.create(tmp_path / str(seed))
        put(table, range(20), 0)
        first, second = (table.open_writer(user=f"u{i}") for i in range(2))
        first.write(rows(range(5, 15), 1).drop(["rowkind"]))
        second.write(rows(range(5, 15), 2).drop(["rowkind"]))
        messages = [w.prepare() for w in (first, second)]  # both number their rows from the same snapshot
        for i in (seed % 2, 1 - seed % 2):
            table.commit(messages[i], user=f"u{i}", identifier=1)
        before = table.scan().to_arrow().sort_by("k")
        table.compact(full=True)
        assert table.scan().to_arrow().sort_by("k").equals(before)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_of_no_columns_are_counted(tmp_path: Path, file_format: str, keyed: bool) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"] if keyed else [],
        options={"file.format": file_format, **({"bucket": 1} if keyed else {})},
    )
    table.write([{"k": 1, "v": 1}, {"k": 2, "v": None}])
    if keyed:
        table.write([{"k": 2, "v": 2}, {"k": 3, "v": None}])
        assert table.scan(columns=[]).to_arrow().num_rows == 3
        table.compact(full=True)
    table.alter(ts.add("n", "INT", first=True))
    table = table.refresh()
    rows = table.scan().to_arrow().num_rows
    assert [table.scan(columns=c).to_arrow().num_rows for c in ([], ["n"])] == [rows, rows]
    assert table.scan(columns=[], where=col("v").is_null()).to_arrow().num_rows == 1
    assert table.scan(columns=[]).head(1).to_arrow().num_rows == 1


def test_a_damaged_or_missing_file_is_named(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    path = next(Path(table.location).glob("bucket-0/data-*"))
    kept = path.read_bytes()
    path.write_bytes(kept[:-20])
    with pytest.raises(Corrupt, match=path.name):
        table.scan().to_arrow()
    path.write_bytes(kept[:-20] + b"\0" * 20)
    with pytest.raises(Corrupt, match=path.name):
        table.scan().to_arrow()
    path.unlink()
    with pytest.raises(Corrupt, match=rf"{path.name}: the file is missing"):
        table.scan().to_arrow()


def test_a_snapshot_that_expires_while_it_is_read_is_said_to_have(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    actual = plan(table.store, table.store.snapshots.latest())
    put(table, range(10), 2)
    table.compact(full=True)
    table.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match="snapshot 1 expired while it was read"):
        list(actual.splits[0].read(table.store))
    manifest_cache.LOCAL.clear()
    fresh = ts.open(table.location).store  # whose manifests are not in memory
    with pytest.raises(NotFound, match="snapshot 1 expired while it was read"):
        plan(fresh, actual.snapshot)
    with pytest.raises(NotFound, match="snapshot 1 expired while it was read"):
        list(snapshot_changes(fresh, actual.snapshot))


def test_deletes_that_a_writer_did_not_count_stay_hidden() -> None:
    store = golden.python("pk_upsert_delete")
    for number in (1, 2, 3):
        actual = plan(store, store.snapshots.get(number))
        for split in actual.splits:
            kinds = [b.column(0).to_pylist() for b in split.read(store, with_kinds=True)]
            assert {k for some in kinds for k in some} <= {"+I", "+U"}


def test_a_delete_alone_in_its_range_is_no_row(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    put(table, range(100, 105), 1, "-D")
    assert table.scan().to_arrow().num_rows == 10
    assert table.scan(where=col("k") >= 100).to_arrow().num_rows == 0


def test_counting_needs_no_value_column(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    put(table, range(5), 2)
    actual = plan(table.store, table.store.snapshots.latest(), columns=())
    assert sum(b.num_rows for s in actual.splits for b in s.read(table.store, ())) == 10


def test_a_split_is_read_by_another_process_with_a_store_of_its_own(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    put(table, range(10), 1)
    put(table, range(5), 2)
    actual = plan(table.store, table.store.snapshots.latest(), col("k") > 2)
    store, split, where = pickle.loads(pickle.dumps((table.store, actual.splits[0], actual.where)))
    read = pa.Table.from_batches(split.read(store, ["k", "a"], where))
    assert read.to_pydict() == {"k": [3, 4, 5, 6, 7, 8, 9], "a": [2, 2, 1, 1, 1, 1, 1]}
