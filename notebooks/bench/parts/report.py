"""Tables of figures as text, and the rounds behind them as JSON."""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psutil

from notebooks.bench.contenders.contender import Measured
from tablestore.core.options.table_options import TableOptions

Row = Sequence[str]


def machine() -> str:
    """One line that a reader needs beside every figure."""
    cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    mode = TableOptions().durability
    text = f"{cores} cores, {memory:.0f} GiB, {platform.machine()}, load {load:.1f} at the start"
    return f"{text}, tablestore.durability {mode}"


def command(name: str, arguments: Sequence[str]) -> str:
    """What repeats this run."""
    return shlex.join(["./workbench", "bench", name, *arguments])


def text(header: Row, rows: Iterable[Row]) -> str:
    """A table: the first two columns to the left, figures to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    shown = (
        [c.ljust(w) if at < 2 else c.rjust(w) for at, (c, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in shown)


def median(rounds: Sequence[Measured], figure: Callable[[Measured], float]) -> float:
    return statistics.median(figure(measured) for measured in rounds)


def spread(values: Sequence[float]) -> str:
    """Least and most of several rounds; nothing for one."""
    return f"{min(values):.2f}–{max(values):.2f}" if len(values) > 1 else ""


def ratio(peer: float, ours: float) -> str:
    """How many times as long the peer takes as we do."""
    return f"{peer / ours:.2f}×" if ours > 0 else ""


def save(path: Path | None, called: str, results: dict[str, list[Measured]]) -> None:
    """Every round of every step as JSON, with the command that repeats it."""
    if path is None:
        return
    rounds = {step: [asdict(measured) for measured in some] for step, some in results.items()}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"command": called, "at": when, "machine": machine(), "python": sys.version, "rounds": rounds}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
