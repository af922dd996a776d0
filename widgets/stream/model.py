"""The last changes of a stream, and how many of each kind there were.

Invariants: frozen values; only so many rows are kept, whatever comes; the clock is an argument. Pure. Called
by the figure and by the widget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt

OP = "op"
KINDS = ("+I", "-U", "+U", "-D")
SPEED_SECONDS = 2.0
"""The time over which rows a second are counted."""


@dataclass(frozen=True, slots=True)
class StreamModel:
    """What came so far: `last` has the newest rows, the kind of change as column `op`; `marks` are (seconds,
    rows) by which the speed is found."""

    title: str
    last: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict)
    state: str = "waiting"
    elapsed: float = 0.0
    marks: tuple[tuple[float, int], ...] = ((0.0, 0),)
    error: str = ""

    @property
    def rows(self) -> int:
        """How many changes came."""
        return sum(self.counts.values())

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self.state in ("waiting", "running", "stopping")

    @property
    def speed(self) -> float:
        """Rows a second: of the last seconds while it runs, then of all the time."""
        if not self.live:
            return self.rows / self.elapsed if self.elapsed else 0.0
        since, before = self.marks[0]
        return (self.rows - before) / (self.elapsed - since) if self.elapsed > since else 0.0

    @property
    def names(self) -> list[str]:
        """The columns without `op`."""
        return [name for name in self.last.schema.names if name != OP]


def with_batch(model: StreamModel, batch: pa.RecordBatch, *, keep: int) -> StreamModel:
    """The model after more changes; of all the last `keep` are kept."""
    counts = dict(model.counts)
    for counted in pc.value_counts(batch.column(OP)).to_pylist():
        counts[counted["values"]] = counts.get(counted["values"], 0) + counted["counts"]
    tail = batch.slice(max(batch.num_rows - keep, 0))
    last = pa.concat_tables([model.last, pa.Table.from_batches([tail])])
    last = last.slice(max(last.num_rows - keep, 0)).combine_chunks()
    return replace(model, counts=counts, last=last, state="running" if model.live else model.state)


def at_time(model: StreamModel, elapsed: float) -> StreamModel:
    """The model at a later moment."""
    marks = (*model.marks, (elapsed, model.rows))
    while len(marks) > 2 and marks[1][0] < elapsed - SPEED_SECONDS:
        marks = marks[1:]
    return replace(model, elapsed=elapsed, marks=marks)


def sign(op: str) -> str:
    """`−U` for `-U`."""
    return op.replace("-", "−")


def cell(value: Any) -> str:
    """A value as text on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value)


def state_text(model: StreamModel) -> str:
    """`stopped after 3.2 s`."""
    if model.state == "running":
        return f"for {fmt.duration(model.elapsed)}"
    if model.live:
        return "waiting for the first row" if model.state == "waiting" else model.state
    return f"{model.state} after {fmt.duration(model.elapsed)}"


def counts_text(model: StreamModel) -> str:
    """`12 changes · +I 9 · −U 1 · +U 1 · −D 1`."""
    parts = [f"{sign(kind)} {model.counts[kind]:,}" for kind in KINDS if model.counts.get(kind)]
    return " · ".join([fmt.plural(model.rows, "change"), *parts])


def text_form(model: StreamModel) -> str:
    """The last rows, one a line, and what came in all."""
    lines = [" │ ".join([OP, *(fmt.value(name) or "" for name in model.names)])]
    for row in model.last.to_pylist():
        shown = [fmt.value(cell(row[name])) or "" for name in model.names]
        lines.append(" │ ".join([fmt.value(sign(row[OP])) or "", *shown]))
    if model.rows > model.last.num_rows:
        lines.append(f"… the last {model.last.num_rows} of {model.rows:,}")
    lines.append(f"{counts_text(model)} · {fmt.short_count(model.speed)} rows/s · {state_text(model)}")
    return "\n".join([*lines, *([model.error] if model.error else [])])
