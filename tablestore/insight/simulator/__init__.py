"""The simulator: compaction over metadata alone, by the engine's own picks, rewrite plans and accounts.

`simulate` runs a synthetic workload, `Simulator` takes it step by step; `History` is a real table's, which
`WhatIf` replays under other options (`Table.what_if`); `compare` carries out a workload under two sets of
options. Nothing is read or written.
`python -m tablestore.insight.simulator --help` prints runs as text.
"""

from __future__ import annotations

from tablestore.insight.simulator.compare import Compared, compare
from tablestore.insight.simulator.comparison import Comparison
from tablestore.insight.simulator.replay import History, Replay
from tablestore.insight.simulator.run import Run, Summary, simulate
from tablestore.insight.simulator.simulator import Schedule, Simulator, Step
from tablestore.insight.simulator.what_if import WhatIf
from tablestore.insight.simulator.workload import Workload

__all__ = [
    "Compared",
    "Comparison",
    "History",
    "Replay",
    "Run",
    "Schedule",
    "Simulator",
    "Step",
    "Summary",
    "WhatIf",
    "Workload",
    "compare",
    "simulate",
]
