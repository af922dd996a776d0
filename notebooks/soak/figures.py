"""What is measured while a soak runs, and its verdicts."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablestore as ts
from notebooks.soak.beside import READ
from notebooks.soak.services import Services
from notebooks.soak.verdicts import Verdict, longest_life, verdict

MEMORY, HANDLES, FILES, FRESHNESS, READING = "memory", "open files", "files", "freshness", "reading"
LEAST: Mapping[str, tuple[str, float]] = {
    MEMORY: ("MB", 8.0),
    HANDLES: ("files", 3.0),
    FILES: ("files", 10.0),
    FRESHNESS: ("s", 1.0),
    READING: ("s", 0.25),
}
"""The unit of each kind of figure, and what of a growth means nothing: less than this."""
GROWING_ROWS = 100_000.0
_OF_A_PROCESS = (MEMORY, HANDLES)
_MB = 1e6


@dataclass(slots=True)
class Figures:
    """Samples of all figures by (kind, whose), at `times` in seconds after the start; NaN where there was
    nothing to measure."""

    times: list[float] = field(default_factory=list)
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    processes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, at: float, values: Mapping[tuple[str, str], float]) -> None:
        """The samples of a moment."""
        for key in values:
            self.samples.setdefault(key, [float("nan")] * len(self.times))
        self.times.append(at)
        for key, series in self.samples.items():
            series.append(values.get(key, float("nan")))

    def verdicts(self) -> list[Verdict]:
        """Flat or not, of each figure; those of processes over the longest life of one."""
        return [self._verdict(kind, name) for kind, name in sorted(self.samples)]

    def _verdict(self, kind: str, name: str) -> Verdict:
        times, values = np.array(self.times), np.array(self.samples[kind, name])
        title = f"{kind} of {name}"
        if kind in _OF_A_PROCESS:
            life = longest_life(np.array(self.processes[name]))
            times, values = times[life], values[life]
        unit, least = LEAST[kind]
        return verdict(title, unit, times, values, least=least)

    def rows(self, kind: str) -> pa.Table:
        """Seconds, and a column for each figure of the kind."""
        columns = {name: values for (of, name), values in sorted(self.samples.items()) if of == kind}
        arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
        return pa.table({"seconds": self.times, **arrays})


class Sampler:
    """Looks at the processes, the files and the freshness of a soak."""

    def __init__(
        self,
        services: Services,
        lake: ts.Lake,
        lags: Mapping[str, Callable[[], float]],
    ) -> None:
        self.figures = Figures()
        self.illnesses: dict[str, list[str]] = defaultdict(list)
        self._services, self._lake, self._lags = services, lake, lags
        self._began = time.monotonic()

    def look(self) -> None:
        """Take the samples of now."""
        values: dict[tuple[str, str], float] = {}
        for name in self._services.names:
            process, resident, handles = self._services.numbers(name)
            self.figures.processes[name].append(process)
            if process:
                values[MEMORY, name], values[HANDLES, name] = resident / _MB, handles
                if illness := self._services.illness(name):
                    self.illnesses[name].append(illness)
        for name, lag in self._lags.items():
            values[FRESHNESS, name] = lag()
        for name in self._lake.tables():
            values[FILES, name] = self._files(name)
        if (seconds := self._reading()) is not None:
            values[READING, "reader"] = seconds
        self.figures.add(time.monotonic() - self._began, values)

    def _files(self, name: str) -> float:
        """Files below the table; of one without a key, whose rows add up, those for 100,000 rows."""
        table = self._lake.table(name)
        place = table.location.removeprefix("file:")
        count = sum(len(files) for _, _, files in os.walk(place))
        if table.primary_key:
            return count
        return count * GROWING_ROWS / max(stored_rows(table), GROWING_ROWS)

    def _reading(self) -> float | None:
        """Seconds of the reader's newest round."""
        lines = readings(self._services.folder)[-1:]
        return lines[0]["seconds"] if lines else None


def stored_rows(table: ts.Table) -> int:
    """Rows of the newest snapshot."""
    counts = table.inspect.snapshots(newest=1)["total_record_count"].to_pylist()
    return int(counts[0] or 0) if counts else 0


def readings(folder: Path) -> list[dict[str, Any]]:
    """What the reader wrote down; a line that a kill cut is left out."""
    path = folder / READ
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]
