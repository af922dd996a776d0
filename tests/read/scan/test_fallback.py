"""Scans over two branches: `scan.fallback-branch` and `scan.primary-branch`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import InvalidOption, InvalidRequest

FALLBACK, PRIMARY = {"scan.fallback-branch": "b"}, {"scan.primary-branch": "b"}


def row(p: int, k: int, v: str) -> dict[str, Any]:
    return {"p": p, "k": k, "v": v}


def made(tmp_path: Path) -> ts.Table:
    """Partition 1 in both branches, 2 in branch b alone, 3 in the table alone."""
    columns = {"p": ts.INT, "k": ts.INT, "v": ts.STRING}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema=columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": 2}
    )
    t.branches.create("b")
    t.branch("b").write([row(1, 1, "b"), row(1, 2, "b"), row(2, 1, "b")])
    t.write([row(1, 1, "main"), row(3, 1, "main")])
    return t


def rows(t: ts.Table, where: ts.Predicate | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t.scan(where=where).to_arrow().to_pylist())


def test_partitions_that_are_missing_come_from_the_fallback_branch(tmp_path: Path) -> None:
    t = made(tmp_path).with_options(FALLBACK)
    assert rows(t) == [(1, 1, "main"), (2, 1, "b"), (3, 1, "main")]
    assert t.scan().count() == 3
    assert rows(t, col("v") == "b") == [(2, 1, "b")], (
        "a partition is read from one branch, whatever the filter"
    )
    assert rows(t, col("p") == 2) == [(2, 1, "b")]
    assert t.inspect.partitions().column("partition").to_pylist() == ["p=1", "p=2", "p=3"]
    assert t.check() == []


def test_partitions_of_the_primary_branch_win(tmp_path: Path) -> None:
    t = made(tmp_path).with_options(PRIMARY)
    assert rows(t) == [(1, 1, "b"), (1, 2, "b"), (2, 1, "b"), (3, 1, "main")]
    counts = dict(zip(*t.inspect.partitions().select([0, 1]).to_pydict().values(), strict=True))
    assert counts == {"p=1": 2, "p=2": 1, "p=3": 1}


def test_writes_streams_and_deletes_know_the_current_branch_only(tmp_path: Path) -> None:
    t = made(tmp_path).with_options(FALLBACK)
    assert t.delete(col("p") == 2).rows == 0
    assert t.update({"v": "new"}, where=col("p") == 2).rows == 0
    (change,) = t.stream(follow=False)
    assert sorted(change.to_arrow().column("p").to_pylist()) == [1, 3]
    t.write([row(2, 9, "main")])
    assert rows(t, col("p") == 2) == [(2, 9, "main")]
    assert rows(t.branch("b"), col("p") == 2) == [(2, 1, "b")]


def test_point_reads_find_what_scans_find(tmp_path: Path) -> None:
    t = made(tmp_path).with_options(FALLBACK)
    assert t.get({"p": 2, "k": 1}) == row(2, 1, "b")
    assert t.get({"p": 1, "k": 2}) is None
    assert t.get({"p": 3, "k": 1}, ["v"]) == {"v": "main"}
    keys = [{"p": p, "k": k} for p in (1, 2, 3, 4) for k in (1, 2)]
    rows = t.get_many(keys).to_pylist()
    assert sorted(rows, key=str) == [row(1, 1, "main"), row(2, 1, "b"), row(3, 1, "main")]
    primary = t.with_options({"scan.fallback-branch": "", **PRIMARY})
    rows = primary.get_many(keys, ["v", "p"]).to_pylist()
    assert sorted((r["p"], r["v"]) for r in rows) == [(1, "b"), (1, "b"), (2, "b"), (3, "main")]


def test_the_other_branch_is_read_as_it_was_at_that_time(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.branch("b").write([row(4, 1, "late")])
    t.write([row(3, 2, "late")])
    both = t.with_options(FALLBACK)
    assert rows(both.at(snapshot=1)) == [(1, 1, "main"), (2, 1, "b"), (3, 1, "main")]
    assert rows(both.with_options({"scan.snapshot-id": 1})) == rows(both.at(snapshot=1))
    assert [r[:2] for r in rows(both)] == [(1, 1), (2, 1), (3, 1), (3, 2), (4, 1)]


def test_explain_shows_both_branches_and_splits_travel(tmp_path: Path) -> None:
    scan = made(tmp_path).with_options(FALLBACK).scan(where=col("k") == 1)
    text = repr(scan.explain())
    assert "snapshot 1 (APPEND) and of branch b snapshot 1 (APPEND)" in text
    assert "1 partition read from branch b" in text
    explained = scan.explain().to_arrow()
    assert explained.num_rows == scan.explain().decisions().num_rows == 3
    assert set(explained.column("partition").to_pylist()) == {"p=1", "p=2", "p=3"}
    assert scan.explain().row_groups().num_rows == 3
    t = ts.open(made_location(scan))
    splits = pickle.loads(pickle.dumps(scan.plan().splits))
    actual = [r for s in splits for b in t.read_split(s, where=scan.plan().where) for r in b.to_pylist()]
    assert sorted(tuple(r.values()) for r in actual) == [(1, 1, "main"), (2, 1, "b"), (3, 1, "main")]


def made_location(scan: Any) -> str:
    return scan.store.paths.root


def test_branches_may_have_other_keys_and_buckets_but_not_other_columns(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.branch("b").alter(ts.set_options({"bucket": 3}))
    t.branch("b").refresh().overwrite([row(2, 1, "b"), row(2, 2, "b")], partition={"p": 2})
    assert rows(t.with_options(FALLBACK), col("p") == 2) == [(2, 1, "b"), (2, 2, "b")]
    t.branch("b").alter(ts.add("w", ts.INT))
    with pytest.raises(
        InvalidOption, match=r"branch 'b', read beside branch 'main', has other columns \(w INT\)"
    ):
        t.with_options(FALLBACK).scan()


def test_options_that_name_no_branch_or_two_are_refused(tmp_path: Path) -> None:
    t = made(tmp_path)
    with pytest.raises(InvalidOption, match="names branch 'c', which does not exist; branches: b"):
        t.with_options({"scan.fallback-branch": "c"})
    with pytest.raises(InvalidOption, match="names branch 'c'"):
        t.alter(ts.set_options({"scan.primary-branch": "c"}))
    with pytest.raises(InvalidOption, match="exclude each other"):
        t.with_options(FALLBACK | PRIMARY)
    with pytest.raises(InvalidOption, match="has none yet"):
        ts.connect(str(tmp_path)).create_table("d.u", schema={"k": ts.INT}, options=FALLBACK)
    stored = t.alter(ts.set_options(PRIMARY))
    with pytest.raises(InvalidRequest, match=r"scan\.primary-branch; reset that option first"):
        stored.branches.delete("b")
