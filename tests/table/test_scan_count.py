"""`count()` of a scan is the number of rows that its `to_arrow()` has, or the same error."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import CannotMerge, InvalidRequest, NotFound, SchemaMismatch, TablestoreError

ENGINES: list[dict[str, Any]] = [
    {},
    {"sequence.field": "s"},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update"},
    {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "a,b",
        "fields.a.aggregate-function": "sum",
    },
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "max"},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "product"},
]


def made(path: Path, **options: Any) -> ts.Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.INT, "a": ts.TINYINT, "b": ts.TINYINT, "s": ts.INT},
        primary_key=["k"],
        options={"write-only": "true", **options},
    )


def outcome(read: Callable[[], int]) -> int | str:
    """Rows, or the error."""
    try:
        return read()
    except TablestoreError as e:
        return f"{type(e).__name__}: {e}"


def both(scan: ts.Scan) -> tuple[int | str, int | str]:
    return outcome(scan.count), outcome(lambda: scan.to_arrow().num_rows)


def test_a_key_that_cannot_be_merged_is_no_row_or_an_error(tmp_path: Path) -> None:
    t = made(tmp_path, **{"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"})
    for a in (100, 100):
        t.write([{"k": 1, "a": a}, {"k": 2, "a": 1}])
    with pytest.raises(CannotMerge):
        t.scan().count()
    assert t.scan(["k"]).count() == t.scan(["k"]).to_arrow().num_rows == 2
    skipping = t.with_options({"tablestore.merge.on-error": "skip"})
    assert skipping.scan().count() == skipping.scan().to_arrow().num_rows == 1


def test_columns_that_are_none_are_refused_by_count(tmp_path: Path) -> None:
    t = made(tmp_path)
    for table in (t, t.system("files"), t.with_options({"tablestore.scan.threads": 1})):
        with pytest.raises(NotFound, match="nope"):
            table.scan(["nope"]).count()
    with pytest.raises(InvalidRequest, match="twice"):
        t.scan(["k", "k"]).count()
    t.write([{"k": 1}])
    assert t.scan([]).count() == t.scan([]).to_arrow().num_rows == 1


def test_rows_of_a_second_branch_are_counted_by_its_own_columns(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "p": ts.INT, "v": ts.STRING},
        primary_key=["k", "p"],
        partition_by=["p"],
    )
    t.write([{"k": 1, "p": 1, "v": "7"}])
    t.branches.create("b")
    t.branch("b").write([{"k": k, "p": 2, "v": "7"} for k in range(3)])
    both_branches = t.with_options({"scan.fallback-branch": "b"}).scan()
    assert both_branches.count() == both_branches.to_arrow().num_rows == 4


def test_what_older_files_cannot_be_seen_as_is_an_error_of_count(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": ts.STRING})
    t.write([{"k": 1, "v": "7"}, {"k": 2, "v": "seven"}])
    t = t.alter(ts.retype("v", ts.INT))
    with pytest.raises(SchemaMismatch, match="seven"):
        t.scan().count()
    assert t.scan(["k"]).count() == t.scan(["k"]).to_arrow().num_rows == 2


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: "/".join(map(str, e.values())) or "plain")
@pytest.mark.sample(3)
def test_count_is_what_the_scan_gives(tmp_path: Path, engine: dict[str, Any], seeds: tuple[int, ...]) -> None:
    for seed in seeds[::5]:
        compare(
            made(tmp_path / str(seed), **engine),
            random.Random(seed),
            first_row=engine.get("merge-engine") == "first-row",
        )


def compare(t: ts.Table, random_: random.Random, *, first_row: bool) -> None:
    kinds = ["+I"] if first_row else ["+I", "+U", "-U", "-D"]
    for number in range(4):
        rows = [
            {
                "k": key,
                "a": random_.choice([None, 2, 100]),
                "b": random_.choice([None, 0, 3, 100]),
                "s": random_.choice([None, 1, 2]),
                "kind": random_.choice(kinds) if number else "+I",
            }
            for key in random_.sample(range(6), 3)
        ]
        with suppress(InvalidRequest):  # an engine that takes no such kind
            t.write(rows, row_kind_column="kind")
    for columns in (None, ["k"], ["a"], ["b", "s"], []):
        for where in (None, col("a") > 1, col("k") < 3, col("b").is_null()):
            for options in ({}, {"tablestore.merge.on-error": "skip"}):
                counted, read = both(t.with_options(options).scan(columns, where))
                assert counted == read, (columns, where, options)
