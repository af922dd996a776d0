"""`lookup-wait` = false: a commit looks up what earlier ones left at level 0; its rows wait for the next."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.table.table import Table

LATER = {"lookup-wait": False}
LOOKUP = LATER | {"changelog-producer": "lookup"}
VECTORS = LATER | {"deletion-vectors.enabled": True}


def made(path: Path, **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options={"bucket": 1} | options
    )


def changes(t: Table, since: int = 0) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in t.changes(since=since).to_pylist()]


def rows(t: Table) -> dict[int, str]:
    columns = t.scan().to_arrow().to_pydict()
    return dict(zip(columns["k"], columns["v"], strict=True))


def kinds(t: Table) -> list[str]:
    return t.inspect.snapshots()["commit_kind"].to_pylist()


def test_the_changelog_of_a_commit_comes_with_the_next_one(tmp_path: Path) -> None:
    t = made(tmp_path, **LOOKUP)
    t.write([{"k": 1, "v": "a"}])
    assert (kinds(t), changes(t), rows(t)) == (["APPEND"], [], {1: "a"})
    t.write([{"k": 1, "v": "b"}])
    assert (kinds(t), changes(t)) == (["APPEND", "APPEND", "COMPACT"], [("+I", 1, "a")])
    assert rows(t) == {1: "b"}
    t.compact()
    assert changes(t, since=3) == [("-U", 1, "a"), ("+U", 1, "b")]
    assert t.check() == []


def test_a_changelog_that_waits_costs_a_compaction_only_where_it_is_due(tmp_path: Path) -> None:
    t = made(tmp_path, **LOOKUP, **{"lookup-compact": "gentle", "lookup-compact.max-interval": 5})
    for i in range(12):
        t.write([{"k": i, "v": "a"}])
    assert kinds(t).count("COMPACT") <= 3
    t.compact(full=True)
    assert sorted(changes(t)) == [("+I", i, "a") for i in range(12)]


def test_rows_that_wait_are_deleted_and_updated_though_they_are_not_read(tmp_path: Path) -> None:
    t = made(tmp_path, **VECTORS)
    t.write([{"k": k, "v": "a"} for k in range(4)])
    assert rows(t) == {}
    t.delete(col("k") == 1)
    t.update({"v": "b"}, where=col("k") == 2)
    t.write([{"k": 4, "v": "c"}])
    t.delete([{"k": 3}, {"k": 4}, {"k": 99}])
    t.compact()
    assert rows(t) == {0: "a", 2: "b"}
    assert t.check() == []


@pytest.mark.parametrize("options", [LOOKUP, VECTORS, LATER | {"merge-engine": "first-row"}], ids=str)
def test_an_overwrite_and_a_compaction_leave_nothing_waiting(tmp_path: Path, options: dict[str, Any]) -> None:
    t = made(tmp_path, **options)
    t.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    t.overwrite([{"k": 7, "v": "o"}])
    assert rows(t) == {7: "o"}
    t.write([{"k": 8, "v": "p"}])
    t.compact()
    assert rows(t) == {7: "o", 8: "p"}
    assert t.check() == []


def test_postponed_rows_are_read_once_they_have_their_bucket(tmp_path: Path) -> None:
    t = made(tmp_path, **VECTORS | {"bucket": -2})
    t.write([{"k": 1, "v": "a"}])
    t.compact()
    assert rows(t) == {1: "a"}


@pytest.mark.parametrize(
    "options", [LOOKUP, LOOKUP | VECTORS, LOOKUP | {"write-buffer-size": "2 kb"}], ids=str
)
def test_the_changes_in_the_end_are_what_happened(
    tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any]
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed), **options)
        model: dict[int, str] = {}
        for _ in range(12):
            data = [(rng.randrange(20), rng.choice("abc"), rng.choice(["+I", "-D"])) for _ in range(30)]
            t.write([{"k": k, "v": v, "r": r} for k, v, r in data], row_kind_column="r")
            for k, v, r in data:
                model.pop(k, None) if r == "-D" else model.update({k: v})
        t.compact()
        assert rows(t) == model, seed
        state: dict[int, str] = {}
        for kind, k, v in changes(t):
            if kind in ("-D", "-U"):
                assert state.pop(k) == v, seed
            else:
                assert k not in state, seed
                state[k] = v
        assert state == model, seed
        assert t.check() == []
