"""What notebook 03 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tablestore as ts
from notebooks.course.checks import claims


@claims("All four runs are merged into **L5**")
def four_runs(levels: list[dict[str, Any]], keys: int) -> None:
    """One delete, three updates, four updates, and all ten orders at the oldest level."""
    assert [(file["level"], file["rows"]) for file in levels] == [(0, 1), (0, 3), (0, 4), (5, keys)]


def the_newest_row_is_kept(
    newest: Any, rows_of: Any, asked: Any, status: Any, table: ts.Table, key: int
) -> None:
    """The largest sequence number wins, and a reader gets that row."""
    assert newest["part"] == "kept", "the newest row is kept"
    assert all(row["part"] == "superseded" for row in rows_of[asked] if row is not newest)
    row = table.get({"order_id": key})
    assert row is not None
    assert row["status"] == status[asked], "a reader gets the same row"


def one_delete_is_dropped(steps: Any, gone: int, merged: Any) -> None:
    """The delete vanishes with the row that it has beaten."""
    assert [step["fate"] for step in steps].count("dropped") == 1
    assert gone not in merged.rows["order_id"].to_pylist()


@claims("the **three runs of level 0**")
def the_delete_is_kept(deleted: Any, partly: Any, levels: list[dict[str, Any]]) -> None:
    """A merge that leaves the oldest run alone writes the delete again."""
    assert [row["fate"] for row in deleted] == ["kept"]
    assert {row["run"] for row in partly.inputs.to_pylist()} == {0, 1, 2}
    assert [file["level"] for file in levels[:3]] == [0, 0, 0]


def the_steps_are_the_merge(after: pa.Table, merged: Any, table: ts.Table) -> None:
    """Compaction wrote what the steps gave: one run at level 5."""
    assert after.equals(merged.rows.cast(after.schema)), "the steps gave what compaction wrote"
    assert [file["level"] for file in table.inspect.levels().to_pylist()] == [5]


@claims("the two values of `at`", "20 > 10: the older run wins")
def a_column_decides(
    late: list[dict[str, Any]], early: list[dict[str, Any]], by_arrival: Any, by_field: Any
) -> None:
    """By arrival the late row wins, by the column the other one."""
    assert ([row["at"] for row in late], [row["at"] for row in early]) == ([10], [20])
    assert by_arrival.model.steps[0].values["status"] == "packed"
    assert by_field.model.steps[0].values["status"] == "sent"
    assert "although" in by_field.model.steps[0].why


def sound(table: ts.Table) -> None:
    """The table is sound."""
    assert table.check() == [], "the table is sound"
