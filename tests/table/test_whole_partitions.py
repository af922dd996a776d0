"""Deletes and overwrites of whole partitions: what is written, what is left, what is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import InvalidRequest, SchemaMismatch


def made(tmp_path: Path, keys: list[str] | None = None, **options: Any) -> ts.Table:
    columns = {"p": ts.INT, "k": ts.INT, "v": ts.STRING}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema=columns,
        primary_key=["p", "k"] if keys is None else keys,
        partition_by=["p"],
        options={"bucket": 2, **options},
    )
    t.write([{"p": p, "k": k, "v": "x"} for p in (1, 2, 3) for k in (1, 2, 3)])
    return t


def rows(t: ts.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t.scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": -1},
        {"deletion-vectors.enabled": True},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
        {"keys": ["k"], "bucket": -1},
        {"keys": [], "bucket": -1},
    ],
    ids=["fixed", "dynamic", "vectors", "partial-update", "across", "append"],
)
def test_a_delete_of_whole_partitions_is_one_commit_of_metadata(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    t = made(tmp_path, **options)
    before = t.inspect.files().num_rows
    left = [r for r in rows(t) if r[0] != 2]
    at = t.store.snapshots.latest_id()
    done = t.delete(col("p") == 2)
    assert (done.snapshots, done.rows, done.replaced_partitions) == (
        (at + 1,),
        0,
        int(bool(len(rows(t)) < 9)),
    )
    newest = t.store.snapshots.latest()
    assert (newest.commit_kind, newest.operation) == ("OVERWRITE", "DELETE")
    assert rows(t) == left
    assert t.inspect.files().num_rows < before or not left
    assert t.delete(col("p") == 2).snapshots == ()
    t.write([{"p": 2, "k": 2, "v": "again"}])
    assert (2, 2, "again") in rows(t)
    assert t.check() == []


def test_changelogs_hold_every_row_that_a_delete_removes(tmp_path: Path) -> None:
    for number, option in enumerate(({"changelog-producer": "input"}, {"changelog-producer": "lookup"})):
        t = made(tmp_path / str(number), **option)
        at = t.store.snapshots.latest_id()
        done = t.delete(col("p") == 2)
        assert done.replaced_partitions is None
        gone = t.changes(since=at).to_pylist()
        assert sorted((r["rowkind"], r["p"], r["k"]) for r in gone) == [("-D", 2, k) for k in (1, 2, 3)]
    t = made(tmp_path / "forced", **{"delete.force-produce-changelog": True})
    assert t.delete(col("p") == 2).rows == 3
    t = made(tmp_path / "told", **{"streaming-read-overwrite": True})
    t.delete(col("p") == 2)
    (change,) = t.stream(start=2, follow=False, normalize=False)
    assert change.to_arrow().column("rowkind").to_pylist() == ["-D"] * 3


def test_a_condition_of_other_columns_writes_row_by_row(tmp_path: Path) -> None:
    t = made(tmp_path)
    done = t.delete((col("p") == 2) & (col("k") < 3))
    assert (done.rows, done.replaced_partitions) == (2, None)
    with pytest.raises(InvalidRequest, match="does not delete rows"):
        made(tmp_path / "first", **{"merge-engine": "first-row"}).delete(col("p") == 2)


def test_an_overwrite_says_how_many_partitions_it_replaced(tmp_path: Path) -> None:
    t = made(tmp_path)
    done = t.overwrite([{"p": 1, "k": 9, "v": "new"}, {"p": 7, "k": 9, "v": "new"}])
    assert done.replaced_partitions == 1
    assert "replaced_partitions=1" in repr(done)
    assert t.overwrite([{"p": 8, "k": 9, "v": "new"}]).replaced_partitions == 0
    assert t.truncate(partition={"p": 2}).replaced_partitions == 1
    assert t.write([{"p": 2, "k": 1, "v": "y"}]).replaced_partitions is None
    assert t.overwrite([{"p": 2, "k": 1, "v": "z"}], dynamic=False).replaced_partitions == 5
    assert rows(t) == [(2, 1, "z")]


def test_an_overwrite_fills_in_the_columns_that_it_names(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "day": ts.DATE, "hour": ts.STRING},
        partition_by=["day", "hour"],
        options={"bucket": -1},
    )
    t.overwrite([{"k": 1}, {"k": 2}], partition={"day": "2026-01-31", "hour": "07"})
    t.overwrite([{"k": 3, "hour": "08"}], partition={"day": date(2026, 2, 1)})
    day = date(2026, 1, 31)
    assert rows(t) == [(1, day, "07"), (2, day, "07"), (3, date(2026, 2, 1), "08")]
    with pytest.raises(SchemaMismatch, match="which is not the one that is overwritten"):
        t.overwrite([{"k": 3, "hour": "09"}], partition={"day": day, "hour": "08"})
    t.overwrite([{"k": 4, "hour": "09"}], partition={"day": day})
    assert rows(t) == [(3, date(2026, 2, 1), "08"), (4, day, "09")], (
        "a part of the columns names all below it"
    )


def test_an_overwrite_without_rows_leaves_the_partitions_alone(tmp_path: Path) -> None:
    t = made(tmp_path)
    for nothing in ([], t.schema.empty_table()):
        assert t.overwrite(nothing, partition={"p": 1}).snapshots == ()
        assert t.overwrite(nothing).snapshots == ()
    assert len(rows(t)) == 9
    assert t.overwrite([], partition={"p": 1}, dynamic=False).replaced_partitions == 1
    static = t.with_options({"dynamic-partition-overwrite": False})
    assert static.overwrite([], partition={"p": 2}).replaced_partitions == 1
    assert {r[0] for r in rows(t)} == {3}
    flat = ts.connect(str(tmp_path)).create_table("d.flat", schema={"k": ts.INT}, options={"bucket": -1})
    flat.write([{"k": 1}])
    flat.overwrite([])
    assert flat.scan().count() == 0
