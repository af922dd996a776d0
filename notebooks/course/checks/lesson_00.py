"""What notebook 00 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from notebooks.course.checks import claims
from tablestore.insight.simulator import Simulator, Workload
from widgets import LsmLevels


@claims("brings 20,000 changes", "Six of ten change a recent order", "8,000 orders remain")
def the_first_minute(levels: LsmLevels, tree: Simulator, shop: Workload) -> None:
    """A minute is one run at level 0, and 8,000 orders are left of its changes."""
    assert (shop.rows, shop.updates) == (20_000, 0.6)
    assert levels.data()["level"].to_pylist() == [0]
    assert tree.inspect.levels()["rows"].to_pylist() == [8_000]


@claims(
    "Three more minutes.",
    "fewer than five runs",
    "five is its **trigger**",
    "There are five runs now.",
    "the newest four may be small, but they outweigh the oldest one, and five runs are due",
    "that would leave four runs",
    "Four fresh runs lie on one old, smaller run.",
    "The four newer runs have",
    "Above 200 % everything is merged",
    "rows in five runs became",
    "instead of five.",
)
def the_fifth_run(
    runs: pa.Table,
    reader: Any,
    taken: int,
    percent: int,
    plan: Any,
    before: pa.Table,
    after: list[dict[str, Any]],
    tree: Simulator,
) -> None:
    """Four minutes left four runs; at the fifth all are merged into one, at the oldest level."""
    assert runs.num_rows == 4, "every minute left a run of its own"
    assert reader.answer.own == ["#4", "#3"]
    assert taken == before.num_rows == 5
    assert tree.options == {"num-sorted-run.compaction-trigger": "5"}
    fewer = Simulator(tree.workload, tree.options, seed=tree.seed)
    for _minute in range(4):
        assert not fewer.compact(dry_run=True).busy, "with fewer than five runs nothing is merged"
        fewer.flush()
    *newer, oldest = before["bytes"].to_pylist()
    assert len(newer) == 4
    assert min(newer) > oldest
    fired = next(trial for trial in plan.picks[0].decision.reason.trials if trial.state == "fired")
    assert dict(fired.numbers)["limit_percent"] == 200
    assert percent > 200, "the rule on size amplification fires"
    assert plan.picks[0].decision.rule == "size amplification"
    assert [file["level"] for file in after] == [5], "one run is left, at the oldest level"


@claims("**60** runs were written in this hour", "compaction waits for **10** runs instead of 5")
def more_runs_for_less_writing(
    amplification: float,
    rewritten: float,
    kinds: list[str],
    most_runs: Callable[[Simulator], int],
    own: Simulator,
    max_runs: int,
) -> None:
    """Rows are written again, and a larger trigger leaves more runs."""
    assert amplification > 1
    assert kinds.count("APPEND") == 60, "one run a minute"
    assert own.options == {"num-sorted-run.compaction-trigger": "10"}
    assert rewritten > 0, "to be asked less, rows are written more"
    assert most_runs(own) > max_runs
