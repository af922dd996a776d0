"""Rows of splits: kinds, ties between writers, files that vanish or lie, projections, rows that are lost."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import Corrupt, NotFound
from tablestore.format import rowkind
from tablestore.format.data_format import FileRequest
from tablestore.format.parquet.schema import KIND
from tablestore.meta import manifest_cache
from tablestore.read.changes.incremental import snapshot_changes
from tablestore.read.scan.data_split import chooses_rows, lost_rows
from tablestore.read.scan.file_read import read_file
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


OPTIONS = [
    {},
    {"sequence.field": "v"},
    {"ignore-delete": True},
    {"deletion-vectors.enabled": True},
    {"sequence.field": "v", "sequence.field.sort-order": "descending"},
]


def filled(lake: ts.Lake, by: random.Random, options: dict[str, object]) -> ts.Table:
    table = lake.create_table(
        "d.t",
        schema={"a": ts.INT, "b": ts.STRING, "v": ts.INT},
        primary_key=["a", "b"],
        options={"bucket": 2, "target-file-size": "4 kb", "write-only": by.random() < 0.5, **options},
    )
    for _ in range(by.randint(1, 6)):
        count = by.randint(1, 200)
        rows = {
            "a": [by.randrange(-20, 20) for _ in range(count)],
            "b": [by.choice(["", "x", "yy"]) for _ in range(count)],
            "v": [by.randrange(5) for _ in range(count)],
            "kind": [by.choice(["+I", "+U", "-D"] if by.random() < 0.3 else ["+I"]) for _ in range(count)],
        }
        table.write(rows, row_kind_column="kind")
        if by.random() < 0.3:
            table.compact(full=by.random() < 0.5)
    return table


def test_what_is_not_lost_is_the_table(tmp_path, seeds: tuple[int, ...]):
    for seed in seeds:
        by = random.Random(seed)
        for number, options in enumerate(OPTIONS):
            lake = ts.connect(str(tmp_path / f"{seed}-{number}"))
            table = filled(lake, by, options)
            scan = table.scan()
            collected: Counter[tuple[object, ...]] = Counter()
            for split in scan.plan().splits:
                lost = lost_rows(scan.store, split)
                parts = np.split(lost, np.cumsum([file.row_count for file in split.files]))
                assert not parts.pop().size
                for file, gone in zip(split.files, parts, strict=True):
                    request = FileRequest(["a", "b", "v"])
                    batches = read_file(scan.store, split.partition, split.bucket, file, request)
                    rows = pa.Table.from_batches(batches)
                    kept = rows.filter(pa.array(~gone))
                    assert not rowkind.retracts(kept[KIND].to_numpy()).any()
                    collected.update(zip(*(kept[c].to_pylist() for c in ("a", "b", "v")), strict=True))
            wanted = Counter(tuple(row.values()) for row in scan.to_arrow().to_pylist())
            assert collected == wanted, f"seed {seed}, {options}"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, True),
        ({"merge-engine": "partial-update"}, False),
        ({"merge-engine": "aggregation"}, False),
        ({"merge-engine": "first-row"}, False),
        ({"scan.ignore-corrupt-files": True}, False),
    ],
)
def test_which_merges_only_choose_rows(tmp_path, options: dict[str, object], chosen: bool):
    lake = ts.connect(str(tmp_path / "lake"))
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options)
    assert chooses_rows(table.store) is chosen
