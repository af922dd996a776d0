"""A simulated bucket by its story: so many flushes, a compaction, so many more, other options.

    tree(5, "compact", 4)                          five flushes, the compaction they lead to, four more
    tree(5, "compact", {"num-sorted-run.compaction-trigger": 3})

The same story gives the same tree, so each step of a lesson can show its own and keep it as it was. Nothing
is compacted but where the story says so. Used by the notebooks on compaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablestore.insight.simulator import Schedule, Simulator, Workload

Act = int | str | Mapping[str, Any]
COMPACT = "compact"


def tree(
    *story: Act,
    workload: Workload,
    options: Mapping[str, Any] | None = None,
    seed: int = 7,
    samples: int | None = None,
) -> Simulator:
    """The bucket after these acts: a number flushes so often, "compact" carries out the next pick, a mapping
    sets options. Raises ValueError for an act that is none, or a compaction where nothing is due."""
    simulator = Simulator(workload, options, schedule=Schedule(write_only=True), seed=seed, samples=samples)
    for act in story:
        if isinstance(act, Mapping):
            simulator.set_options(act)
        elif act == COMPACT:
            if not simulator.compact().busy:
                raise ValueError(f"nothing to compact in {story}")
        elif isinstance(act, int) and not isinstance(act, bool):
            for _ in range(act):
                simulator.flush()
        else:
            raise ValueError(f"{act!r} is no act: give a number of flushes, {COMPACT!r}, or options")
    return simulator
