"""Compaction strategies: which sorted runs of a bucket to merge next.

A strategy is pure: levels, options and a context in; a `Decision` with its reason out, the "no" included.
`pick` uses the table's strategy; `full` brings all of a bucket to the oldest level whatever the strategy.
Called by writers, compaction jobs, dry runs and the simulator. `python -m tablestore.lsm.compaction
--check-picks FILE` replays recorded picks.
"""

from __future__ import annotations

from tablestore.lsm.compaction.decision import (
    CompactUnit,
    Decision,
    OverlapStep,
    RatioStep,
    Reason,
    RuleTrial,
)
from tablestore.lsm.compaction.loop import pick, require_strategy
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.universal import full

__all__ = [
    "CompactUnit",
    "CompactionOptions",
    "Decision",
    "OverlapStep",
    "PickContext",
    "RatioStep",
    "Reason",
    "RuleTrial",
    "full",
    "pick",
    "require_strategy",
]
