"""`ts.simulator`: a simulation from plain arguments, for whoever uses the public names only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.insight.simulator.simulator import Schedule, Simulator
from tablestore.insight.simulator.start import start_files, start_rows
from tablestore.insight.simulator.workload import Workload


@checked
def simulator(
    workload: Workload | Mapping[str, Any] | str = "uniform",
    options: Mapping[str, Any] | None = None,
    *,
    buckets: int = 1,
    seed: int = 0,
    samples: int | None = None,
    write_only: bool = False,
    start: Any = None,
) -> Simulator:
    """A simulation of one table under `options`, which runs by `advance`, or by hand: `flush`, `compact`.

    `workload` is a `Workload`, its name ("uniform", "zipf", "sequential", "time-series"), or a mapping of
    what it is made of (`kind`, `rows`, `keys`, `updates`, `deletes`, `skew`, …). It goes to `buckets`
    buckets.
    The same `seed` gives the same rows, of which `samples` stand for those of a flush (None: each is drawn).
    With `write_only` nothing is compacted unless it is asked for. `start` are the files of one bucket of a
    table, `inspect.levels(bucket=…)` or its rows: the simulation begins with them as they are and goes on by
    expected sizes. Raises InvalidRequest and InvalidOption.

    >>> options = {"num-sorted-run.compaction-trigger": 3}
    >>> tree = ts.simulator({"kind": "zipf", "rows": 1_000}, options).advance(20)
    >>> tree.inspect.levels().num_rows < 20
    True
    """
    asked, files = workload_of(workload), None
    if start is not None:
        if samples:
            raise InvalidRequest(
                f"samples {samples}: keys of a table's files are not drawn; leave samples out"
            )
        files, space = start_files(start_rows(start), asked.key_space)
        asked, samples = replace(asked, keys=space) if asked.spread else asked, 0
    simulation = Simulator(
        asked,
        options,
        buckets=buckets,
        seed=seed,
        samples=samples,
        schedule=Schedule(write_only=write_only),
    )
    if files is not None:
        simulation.begin(files)
    return simulation


def workload_of(asked: Workload | Mapping[str, Any] | str) -> Workload:
    """A workload in any of its forms. Raises InvalidRequest for fields that it does not have."""
    if isinstance(asked, Workload):
        return asked
    if isinstance(asked, str):
        return Workload(asked)
    try:
        return Workload(**asked)
    except TypeError as wrong:
        raise InvalidRequest(f"workload {dict(asked)!r}: {wrong}") from wrong
