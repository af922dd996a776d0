"""What notebook 00 claims, checked with the values of its cells. Called by `checks.run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tablestore.insight.simulator import Simulator
from widgets import LsmLevels


def the_first_minute(levels: LsmLevels, tree: Simulator) -> None:
    """A minute is one run at level 0, and 8,000 orders are left of its changes."""
    assert levels.data()["level"].to_pylist() == [0]
    assert tree.inspect.levels()["rows"].to_pylist() == [8_000]


def the_fifth_run(
    runs: pa.Table, reader: Any, taken: int, percent: int, plan: Any, after: list[dict[str, Any]]
) -> None:
    """Four minutes left four runs; at the fifth all are merged into one, at the oldest level."""
    assert runs.num_rows == 4, "every minute left a run of its own"
    assert reader.answer.own == ["#4", "#3"]
    assert taken == 5
    assert percent > 200, "the rule on size amplification fires"
    assert plan.picks[0].decision.rule == "size amplification"
    assert [file["level"] for file in after] == [5], "one run is left, at the oldest level"


def more_runs_for_less_writing(
    amplification: float,
    rewritten: float,
    most_runs: Callable[[Simulator], int],
    own: Simulator,
    max_runs: int,
) -> None:
    """Rows are written again, and a larger trigger leaves more runs."""
    assert amplification > 1
    assert rewritten > 0, "to be asked less, rows are written more"
    assert most_runs(own) > max_runs
