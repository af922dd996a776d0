"""What notebook 05 claims, checked with the values of its cells. Called by `checks.run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablestore as ts


def the_trade_off(eager: Any, lazy: Any, large: Any, small: Any) -> None:
    """Fewer runs cost more bytes; a larger multiplier costs bytes and saves runs and space."""
    assert eager.write > lazy.write
    assert eager.read < lazy.read
    assert large.write > small.write
    assert large.read < small.read
    assert large.space < small.space


def level_0_is_due(next_pick: Callable[..., Any], six: Any) -> None:
    """The rule of level 0 fires."""
    assert next_pick(six).rule == "level 0"


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
