"""The exceptions of I12: where it shows when rows met. Every case has both of its results.

A case is two lists of commits that say the same in the same order, and what a reader sees after each list.
They differ in what was in one commit (the write buffer merges it) or in a compaction between, which drops
deletes that have nothing below. tests/peers/test_timing_shows.py plays them with Java. Nothing else may make
rows differ (test_metamorphic.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts

Row = tuple[Any, ...]  # kind, a, b
FULL = "full compaction"
TYPES = {"INT": pa.int32(), "DOUBLE": pa.float64()}


@dataclass(frozen=True)
class Case:
    """Rows of one key; a step is a commit or FULL. Each way says what is seen at its end, None: no row."""

    name: str
    options: Mapping[str, str]
    ways: tuple[tuple[Sequence[Sequence[Row] | str], tuple[Any, ...] | None], ...]
    type: str = "INT"


def of(engine: str, **functions: str) -> dict[str, str]:
    named = {f"fields.{column}.aggregate-function": function for column, function in functions.items()}
    return {"merge-engine": engine, "write-only": "true", "bucket": "1", **named}


REMOVING = {"partial-update.remove-record-on-delete": "true"}
CASES = (
    Case(
        "a late row comes back once the delete that beat it was dropped",
        {**of("deduplicate"), "sequence.field": "a"},
        (
            ([[("+I", 5, 1)], [("-D", 9, 1)], [("+I", 7, 2)]], None),
            ([[("+I", 5, 1)], [("-D", 9, 1)], FULL, [("+I", 7, 2)]], (7, 2)),
        ),
    ),
    Case(
        "a retract of nothing counts until a compaction drops it",
        of("aggregation", a="sum", b="last_value"),
        (
            ([[("-D", 9, 9)], [("+I", 5, 1)]], (-4, 1)),
            ([[("-D", 9, 9)], FULL, [("+I", 5, 1)]], (5, 1)),
        ),
    ),
    Case(
        "retracts that a column ignores are NULL to last_value once they met without a row before",
        {**of("aggregation", a="sum", b="last_value"), "fields.b.ignore-retract": "true"},
        (
            ([[("+I", 5, 1), ("-D", 1, 9), ("-D", 1, 9)]], (3, 1)),
            ([[("+I", 5, 1)], [("-D", 1, 9), ("-D", 1, 9)]], (3, None)),
        ),
    ),
    Case(
        "a delete that removes a record leaves its values until a compaction drops it: aggregation",
        {**of("aggregation", a="sum", b="last_value"), "aggregation.remove-record-on-delete": "true"},
        (
            ([[("+I", 1, 1)], [("-D", 9, 9)], [("+I", 5, 2)]], (14, 2)),
            ([[("+I", 1, 1)], [("-D", 9, 9)], FULL, [("+I", 5, 2)]], (5, 2)),
        ),
    ),
    Case(
        "a delete that removes a record leaves its values until a compaction drops it: partial-update",
        {**of("partial-update"), **REMOVING},
        (
            ([[("+I", 1, 1)], [("-D", 9, 9)], [("+I", None, 2)]], (9, 2)),
            ([[("+I", 1, 1)], [("-D", 9, 9)], FULL, [("+I", None, 2)]], (None, 2)),
        ),
    ),
    Case(
        "a late row belongs between two that a compaction has made one",
        {**of("partial-update"), "sequence.field": "b"},
        (
            ([[("+I", 5, 1)], [("+I", None, 3)], [("+I", 7, 2)]], (7, 3)),
            ([[("+I", 5, 1)], [("+I", None, 3)], FULL, [("+I", 7, 2)]], (5, 3)),
        ),
    ),
    Case(
        "a product forgets what a pair takes back where the write buffer merges the pair",
        of("aggregation", a="product", b="last_value"),
        (
            ([[("+I", 6, 1)], [("-U", 2, 1)], [("+U", 3, 2)]], (9, 2)),
            ([[("+I", 6, 1)], [("-U", 2, 1), ("+U", 3, 2)]], (18, 2)),
        ),
    ),
    Case(
        "what retracts to NULL is forgotten where the next row without a value is in its commit",
        of("aggregation", a="last_non_null_value", b="last_value"),
        (
            ([[("+I", 5, 1)], [("-D", 7, 1)], [("+I", None, 2)]], (None, 2)),
            ([[("+I", 5, 1)], [("-D", 7, 1), ("+I", None, 2)]], (5, 2)),
        ),
    ),
    Case(
        "sums of floating point numbers round where they meet",
        of("aggregation", a="sum", b="last_value"),
        (
            ([[("+I", 0.1, 1)], [("+I", 0.2, 1)], [("+I", 0.3, 1)]], (0.1 + 0.2 + 0.3, 1.0)),
            ([[("+I", 0.1, 1)], [("+I", 0.2, 1), ("+I", 0.3, 1)]], (0.1 + (0.2 + 0.3), 1.0)),
        ),
        type="DOUBLE",
    ),
    Case(
        "a row that is alone is shown as written, with others as its sequence group says",
        {**of("partial-update"), "fields.a.sequence-group": "b"},
        (
            ([[("+I", None, 7)]], (None, 7)),
            ([[("+I", None, 7)], [("+I", None, 7)]], (None, None)),
        ),
    ),
)


def rows_of(case: Case, rows: Sequence[Row]) -> tuple[list[str], pa.Table]:
    kinds, a, b = (list(c) for c in zip(*rows, strict=True))
    t = TYPES[case.type]
    columns = {"k": pa.array([1] * len(rows), pa.int32()), "a": pa.array(a, t), "b": pa.array(b, t)}
    return kinds, pa.table(columns)


def create(case: Case, where: Path) -> ts.Table:
    value = {"INT": ts.INT, "DOUBLE": ts.DOUBLE}[case.type]
    return ts.connect(str(where)).create_table(
        "d.t", schema={"k": ts.INT, "a": value, "b": value}, primary_key=["k"], options=case.options
    )


def seen(table: ts.Table) -> tuple[Any, ...] | None:
    rows = ts.open(table.location).scan(columns=["a", "b"]).to_arrow().to_pylist()
    assert len(rows) < 2
    return tuple(rows[0].values()) if rows else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.sample(3)
def test_it_shows_when_rows_met(tmp_path: Path, case: Case) -> None:
    results = []
    for number, (steps, wanted) in enumerate(case.ways):
        table = create(case, tmp_path / str(number))
        for step in steps:
            if step == FULL:
                table.compact(full=True)
            else:
                kinds, rows = rows_of(case, step)
                table.write(rows.append_column("kind", [kinds]), row_kind_column="kind")
        assert seen(table) == wanted
        assert table.check() == []
        table.compact(full=True)
        assert seen(table) == wanted
        results.append(wanted)
    assert results[0] != results[1]


def two_writers(where: Path, options: Mapping[str, str]) -> ts.Table:
    """Both open at once: the one that commits last has numbered its only row lower."""
    table = ts.connect(str(where)).create_table(
        "d.t", schema={"k": ts.INT, "a": ts.INT}, primary_key=["k"], options={"bucket": "1", **options}
    )
    with ts.open(table.location).writer() as low:
        low.write(pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([10], pa.int32())}))
        with ts.open(table.location).writer() as high:
            high.write(pa.table({"k": pa.array([0, 1], pa.int32()), "a": pa.array([0, 20], pa.int32())}))
    return table


def value_of(table: ts.Table) -> Any:
    return ts.open(table.location).get({"k": 1})["a"]


def test_of_two_writers_at_once_the_one_that_wrote_more_rows_before_wins(tmp_path: Path) -> None:
    """Not the one that committed last: both number from one snapshot on. One after the other, it is."""
    table = two_writers(tmp_path, {"write-only": "true"})
    assert value_of(table) == 20
    table.write(pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([10], pa.int32())}))
    assert value_of(table) == 10
    assert table.check() == []


def test_a_first_row_that_was_seen_gives_way_to_one_of_a_writer_that_numbered_it_lower(
    tmp_path: Path,
) -> None:
    """As in Java, whose changelog does not tell it either. Apart from each other, the first one stays."""
    options = {"merge-engine": "first-row", "write-only": "true"}
    table = two_writers(tmp_path / "at once", options)
    table.compact(full=True)
    assert value_of(table) == 10
    apart = ts.connect(str(tmp_path / "apart")).create_table(
        "d.t", schema={"k": ts.INT, "a": ts.INT}, primary_key=["k"], options={"bucket": "1", **options}
    )
    for value in (20, 10):
        apart.write(pa.table({"k": pa.array([0, 1], pa.int32()), "a": pa.array([0, value], pa.int32())}))
        apart.compact(full=True)
        assert value_of(apart) == 20
    assert table.check() == apart.check() == []
