"""The simulator: compaction over metadata alone, by the engine's own picks, rewrite plans and accounts.

`simulate` runs a synthetic workload, `Simulator` takes it step by step; `History` is a real table's, which
`WhatIf` replays under other options (`Table.what_if`); `compare` carries out a workload under two sets of
options. Nothing is read or written.
`python -m tablestore.lsm.simulator --help` prints runs as text.
"""

from __future__ import annotations

from tablestore.lsm.simulator.compare import Compared, compare
from tablestore.lsm.simulator.comparison import Comparison
from tablestore.lsm.simulator.replay import History, Replay
from tablestore.lsm.simulator.run import Run, Summary, simulate
from tablestore.lsm.simulator.simulator import Schedule, Simulator, Step
from tablestore.lsm.simulator.what_if import WhatIf
from tablestore.lsm.simulator.workload import Workload

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
