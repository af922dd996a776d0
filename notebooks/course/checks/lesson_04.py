"""What notebook 04 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts
from notebooks import course
from notebooks.course.checks import claims
from tablestore.insight.simulator import Simulator, Workload


@claims("(5 unless you change it)")
def below_the_trigger(waiting: Any, workload: Workload) -> None:
    """With four runs nothing is taken, by the default as well."""
    assert waiting.unit is None
    assert not course.tree(4, workload=workload).compact(dry_run=True).busy
    assert course.tree(5, workload=workload).compact(dry_run=True).busy


def every_rule_is_tried(tried: list[str], names: dict[str, str]) -> None:
    """All five rules have a place in the order."""
    assert set(tried) >= set(names)


def sizes(tree: Simulator) -> list[int]:
    """The bytes of the runs of a simulated bucket, the newest first, in sizes of the newest one."""
    sizes_of_runs = tree.inspect.levels()["bytes"].to_pylist()
    return [round(each / sizes_of_runs[0]) for each in sizes_of_runs]


@claims(
    "bytes of the newer runs × 100 > 200 × bytes of the oldest run",
    "The 200 is `compaction.max-size-amplification-percent`",
    "all five are of about the same size",
    "Four runs are newer than the oldest. What are four equal parts",
    "Four of the same size are 400 % of the fifth: above 200 %",
)
def all_five(decision: Any, five: Simulator) -> None:
    """Size amplification takes all five runs to the oldest level: the newer ones are 400 % of it."""
    assert decision.rule == "size amplification"
    assert len(decision.unit.files) == 5
    assert decision.unit.output_level == 5, "everything goes to the oldest level"
    assert sizes(five) == [1, 1, 1, 1, 1]
    *newer, oldest = five.inspect.levels()["bytes"].to_pylist()
    assert abs(100 * sum(newer) / oldest - 400) <= 15
    fired = next(trial for trial in decision.reason.trials if trial.state == "fired")
    assert dict(fired.numbers)["limit_percent"] == 200


def one_run_at_level_5(tree: Callable[..., Any]) -> None:
    """Carried out, it leaves one run at level 5."""
    done = tree(5, "compact").inspect
    assert done.levels()["level"].to_pylist() == [5]
    assert done.compactions()["rule"].to_pylist() == ["size amplification"]


@claims(
    "candidate × 1.01 ≥ next run",
    "The 1.01 is `compaction.size-ratio`, 1 percent",
    "Four more runs have come",
    "Four fresh runs and the big one",
    "are the four newer runs together more than twice the oldest",
    "whether the sum × 1.01 reaches it",
    "One reaches one, two reach one, three reach one; but four do not reach the big one",
)
def the_four_fresh_runs(
    decision: Any, taken: Callable[..., pa.Table], files: pa.Table, four_and_big: Simulator
) -> None:
    """The size ratio takes the four runs of level 0."""
    assert decision.rule == "size ratio"
    assert taken(files, decision)["level"].to_pylist() == [0, 0, 0, 0]
    assert sizes(four_and_big)[:4] == [1, 1, 1, 1]
    *newer, oldest = files["bytes"].to_pylist()
    assert sum(newer) <= 2 * oldest
    reached = [sum(newer[:at]) * 1.01 >= size for at, size in enumerate([*newer, oldest]) if at]
    assert reached == [True, True, True, False]


@claims(
    "the big run lies at level 5, the new one gets level 4",
    "three more runs were flushed: three fresh ones, one at level 4, one at level 5",
    "The three fresh ones are of one size, the run at level 4 holds four of them",
    "3 × 1.01 does not reach 4",
)
def older_runs_are_larger(more: Simulator, story: Simulator) -> None:
    """One run each at levels 3, 4 and 5."""
    assert more.inspect.levels()["level"].to_pylist() == [0, 0, 0, 4, 5]
    assert sizes(more)[:4] == [1, 1, 1, 4]
    assert story.inspect.levels()["level"].to_pylist() == [3, 4, 5], "older runs are larger"


@claims(
    "At the trigger, with five runs, the rules begin to be tried",
    "this one fires above it, from six on",
    "The trigger is now **3**. There are four runs: a fresh one of size 1 and runs of size 3, 4 and 5",
    "1 + 3 + 4 are 8, and that is not more than twice 5",
    "1 × 1.01 does not reach the next run, of size 3",
    "is 1 + 3 + 4 more than twice 5? Size ratio: does 1 × 1.01 reach 3",
    "8 is not more than 10, 1 does not reach 3, but runs 4 > trigger 3",
)
def the_count_decides(
    next_pick: Callable[..., Any], crowded: Simulator, tree: Callable[..., Simulator], TRIGGER: str
) -> None:
    """Above the trigger the file number fires."""
    assert next_pick(crowded).rule == "file number"
    assert crowded.options[TRIGGER] == "3"
    assert sizes(crowded) == [1, 3, 4, 5]
    assert "runs 4 > trigger 3" in next_pick(crowded).explain()
    assert "runs 5 ≤ trigger 5" in next_pick(tree(5)).explain()
    assert "runs 6 > trigger 5" in next_pick(tree(6)).explain()


@claims(
    "We go back to five runs.",
    "Four fresh runs of size 1 and one of size 5, as above",
    "Four of size 1, stretched by the ratio, must reach almost 5: 4 × (1 + ratio / 100) ≥ 5.",
    "4 × 1.25 = 5.",
    "smaller than five fresh ones",
)
def the_big_run_stays_out(runs_taken: Callable[[int], int], four_and_big: Simulator) -> None:
    """At a ratio of 1 percent the big run stays out."""
    assert runs_taken(1) == 4, "at 1 % the big run stays out, as above"
    assert sizes(four_and_big) == [1, 1, 1, 1, 5]
    assert runs_taken(25) == 5


@claims("The two rules around them")
def rules_that_are_asked_for(early: Any, lift: Any) -> None:
    """Early full and lift level 0 fire where they are asked for."""
    assert (early.rule, lift.rule) == ("early full", "lift level 0")


@claims("a medium write and three small ones", "three small ones do not reach it")
def five_runs_of_the_table(pick: Any, table_files: pa.Table, batch: int) -> None:
    """The size ratio stops after three runs, and five are taken, to level 5."""
    assert pick.rule == "size ratio"
    assert len(pick.unit.files) == 5
    assert pick.unit.output_level == 5
    assert table_files["rows"].to_pylist() == [batch, batch, batch, 8 * batch, 20 * batch]
    assert dict(next(t for t in pick.reason.trials if t.state == "fired").numbers)["taken"] == 3


def a_preview_and_a_merge(
    preview: Any, TRIGGER: str, table: ts.Table, before: pa.Table, kept: dict[str, Any]
) -> None:
    """A preview stores nothing; the merge changes no row, and its rule is kept."""
    assert not preview.busy, "with a trigger of 9 there is nothing to do"
    assert TRIGGER not in table.refresh().options, "and nothing was stored"
    assert table.scan().to_arrow().sort_by("order_id").equals(before), "compaction changes no row"
    assert kept["rule"] == "size ratio"


@claims("was given 3,000 trees")
def three_thousand_picks(checked: Any) -> None:
    """Every recorded pick of Paimon is the same here."""
    assert (checked.cases, checked.wrong) == (3_000, 0)
