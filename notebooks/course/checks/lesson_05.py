"""What notebook 05 claims, checked with the values of its cells. Run by `checks.call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts
from notebooks.course.checks import claims


@claims(
    "pays with one of three things",
    "size-ratio 1 %",
    "From trigger **8** to trigger **2**",
    "bytes at trigger 2,",
    "at trigger 8.",
    "Leveled, trigger 4.",
    "Each level holds **10** times the newer one, not **2** times.",
    "buys two of three with the third",
)
def the_trade_off(eager: Any, lazy: Any, large: Any, small: Any, trade_off: Any) -> None:
    """Fewer runs cost more bytes; a larger multiplier costs bytes and saves runs and space."""
    settings = [each.setting for each in (lazy, eager, small, large)]
    assert [(each.strategy, each.trigger, each.ratio) for each in settings] == [
        *(("universal", 8, 1), ("universal", 2, 1)),
        *(("leveled", 4, 2), ("leveled", 4, 10)),
    ]
    costs = [(each.write, each.read, each.space) for each in trade_off.model.outcomes]
    assert tuple(map(min, zip(*costs, strict=True))) not in costs, "no setting is best in all three"
    assert eager.write > lazy.write
    assert eager.read < lazy.read
    assert large.write > small.write
    assert large.read < small.read
    assert large.space < small.space


@claims("its trigger is **4**", "/ 4: level 0 is due", "The highest score of 1 or more goes first")
def level_0_is_due(next_pick: Callable[..., Any], six: Any, score: Any) -> None:
    """The rule of level 0 fires."""
    assert next_pick(six).rule == "level 0"
    numbers = dict(score.numbers)
    assert numbers["score"] == six.inspect.levels().num_rows / 4 >= 1


def a_part_of_level_1(full: Any, moving: list[str]) -> None:
    """Level 1 moves on file by file, not as a whole."""
    assert full.inspect.levels()["level"].to_pylist().count(1) > len(moving)


def universal_beside_leveled(side_by_side: Any) -> None:
    """Universal compaction writes less than leveled, and leaves more runs."""
    both = {row.name: row for row in side_by_side.comparison.differences}
    assert both["write amplification"].after > both["write amplification"].before
    assert both["runs, mean"].after < both["runs, mean"].before


def a_preview(done: dict[str, Any], table: ts.Table, before: pa.Table, STRATEGY: str) -> None:
    """Leveled compaction ran, changed no row and was not stored."""
    assert (done["strategy"], done["rule"]) == ("leveled", "level 0")
    assert table.scan().to_arrow().sort_by("order_id").equals(before), "compaction changes no row"
    assert STRATEGY not in table.refresh().options, "the strategy was not stored"
    assert table.check() == []
