"""What notebook 10 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from typing import Any

import tablestore as ts


def parts_and_first_rows(results: Any) -> None:
    """Partial update takes each column's newest value, first row the oldest row."""
    assert results["partial-update"] == {"name": "lamp", "stock": "4", "price": "30"}
    assert results["first-row"] == {"name": "Lamp", "stock": "9", "price": "25"}


def a_clock_for_each_part(step: Any) -> None:
    """Two columns come from two runs."""
    row, source = step.values, step.origins
    assert row == {"s_at": "21", "stock": "7", "shelf": None, "p_at": "8", "price": "12"}
    assert (source["stock"].run, source["price"].run) == (1, 2), "two columns, two different runs"


def sums_and_largest(sums: Any, counter: Any) -> None:
    """The sum takes back what was taken back, the largest stays."""
    assert sums == {"sold": "15", "best": "90"}
    assert "9 + 4 + 6 − 4 = 15" in counter.model.steps[0].why


def refused_where_it_would_be_wrong(refused: Any) -> None:
    """Without the option the engine refuses, and names it."""
    assert refused.model.steps[0].fate == "refused"
    assert "ignore-retract" in refused.model.steps[0].why


def fed_step_by_step(played: Any) -> None:
    """Each row moves the sum, one more as well."""
    assert [step.values["sold"] for step in played.model.steps[:3]] == ["9", "13", "9"]
    assert played.model.steps[-1].values == {"sold": "15", "best": "90"}


def readers_add_up(found: Any, total: Any, table: ts.Table) -> None:
    """Readers add up, and compaction changes no row."""
    assert found == 3 * total, "readers add up"
    assert sum(table.scan().to_arrow()["amount"].to_pylist()) == found, "compaction changes no row"
    assert table.inspect.levels()["rows"].to_pylist() == [6]


def as_another_engine(whole: Any, batch: Any, table: ts.Table) -> None:
    """A compacted row holds the sum of three, whatever engine reads on."""
    assert whole.engine == "aggregation"
    amount = int(whole.model.steps[0].values["amount"])
    assert amount == 4 * batch["amount"][0].as_py()
    whole.engine = "first-row"  # as if
    assert int(whole.model.steps[0].values["amount"]) == 3 * batch["amount"][0].as_py(), "L5 holds three"
    whole.engine = "aggregation"
    assert table.check() == [], "the table is sound"
