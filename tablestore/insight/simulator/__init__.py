"""The simulator: compaction over metadata alone, by the engine's own picks, rewrite plans and accounts.

`simulate` runs a synthetic workload, `Simulator` takes it step by step; `ReplayedHistory` is that of a real
table. `WhatIf` is what comes of two sets of options: of a table's history (`Table.what_if`) or of a workload
(`compare`, `ts.what_if`). Nothing is read or written.
"""

from __future__ import annotations

from tablestore.insight.simulator.history_replay import ReplayedHistory
from tablestore.insight.simulator.replay_result import Replay
from tablestore.insight.simulator.simulator import Schedule, SimulatedStep, Simulator
from tablestore.insight.simulator.what_if import HistoryWhatIf, WhatIf, WorkloadWhatIf, compare
from tablestore.insight.simulator.workload import Workload
from tablestore.insight.simulator.workload_run import Run, Summary, simulate

__all__ = [
    "HistoryWhatIf",
    "Replay",
    "ReplayedHistory",
    "Run",
    "Schedule",
    "SimulatedStep",
    "Simulator",
    "Summary",
    "WhatIf",
    "Workload",
    "WorkloadWhatIf",
    "compare",
    "simulate",
]
