"""What notebook 04 claims, checked with the values of its cells. Called by `checks.run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts


def below_the_trigger(waiting: Any) -> None:
    """With four runs nothing is taken."""
    assert waiting.unit is None


def every_rule_is_tried(tried: list[str], names: dict[str, str]) -> None:
    """All five rules have a place in the order."""
    assert set(tried) >= set(names)


def all_five(decision: Any) -> None:
    """Size amplification takes all five runs to the oldest level."""
    assert decision.rule == "size amplification"
    assert len(decision.unit.files) == 5
    assert decision.unit.output_level == 5, "everything goes to the oldest level"


def one_run_at_level_5(tree: Callable[..., Any]) -> None:
    """Carried out, it leaves one run at level 5."""
    done = tree(5, "compact").inspect
    assert done.levels()["level"].to_pylist() == [5]
    assert done.compactions()["rule"].to_pylist() == ["size amplification"]


def the_four_fresh_runs(decision: Any, taken: Callable[..., pa.Table], files: pa.Table) -> None:
    """The size ratio takes the four runs of level 0."""
    assert decision.rule == "size ratio"
    assert taken(files, decision)["level"].to_pylist() == [0, 0, 0, 0]


def older_runs_are_larger(story: Any) -> None:
    """One run each at levels 3, 4 and 5."""
    assert story.inspect.levels()["level"].to_pylist() == [3, 4, 5], "older runs are larger"


def the_count_decides(next_pick: Callable[..., Any], crowded: Any) -> None:
    """Above the trigger the file number fires."""
    assert next_pick(crowded).rule == "file number"


def the_big_run_stays_out(runs_taken: Callable[..., pa.Table]) -> None:
    """At a ratio of 1 percent the big run stays out."""
    assert runs_taken(1) == 4, "at 1 % the big run stays out, as above"


def rules_that_are_asked_for(early: Any, lift: Any) -> None:
    """Early full and lift level 0 fire where they are asked for."""
    assert (early.rule, lift.rule) == ("early full", "lift level 0")


def five_runs_of_the_table(pick: Any) -> None:
    """The size ratio stops after three runs, and five are taken, to level 5."""
    assert pick.rule == "size ratio"
    assert len(pick.unit.files) == 5
    assert pick.unit.output_level == 5
    assert dict(next(t for t in pick.reason.trials if t.state == "fired").numbers)["taken"] == 3


def a_preview_and_a_merge(
    preview: Any, TRIGGER: str, table: ts.Table, before: pa.Table, kept: dict[str, Any]
) -> None:
    """A preview stores nothing; the merge changes no row, and its rule is kept."""
    assert not preview.busy, "with a trigger of 9 there is nothing to do"
    assert TRIGGER not in table.refresh().options, "and nothing was stored"
    assert table.scan().to_arrow().sort_by("order_id").equals(before), "compaction changes no row"
    assert kept["rule"] == "size ratio"


def three_thousand_picks(checked: Any) -> None:
    """Every recorded pick of Paimon is the same here."""
    assert (checked.cases, checked.wrong) == (3_000, 0)
