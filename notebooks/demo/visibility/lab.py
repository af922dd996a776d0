"""The visibility lab: when does a reader see a row? Four designs, the same rows, the same crash.

A writer gets batches of rows, with a checkpoint after so many of them. Between two checkpoints it is lost
once; its next process goes on from the last checkpoint, as any source that can be read again lets it. The
reader follows the table in a thread and notes when it has each row. Two rows more, which are not counted, say
that the reader is there, and that it has come to the end: nothing waits by the clock.

All figures are measured. Wall time of one process, so both sides share its interpreter.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from notebooks.demo.visibility.designs import DESIGNS, EMBEDDED, Design
from notebooks.demo.visibility.outcome import Delivery, Load, VisibilityOutcome, batch_of
from notebooks.demo.visibility.picture import picture, themed
from tablestore.core.errors import Unavailable
from widgets.kit.svg import Figure

_BEGIN, _END = -1, -2
_PATIENCE_SECONDS = 120


_HEADER = ("design", "p50", "p99", "most", "early", "taken back", "doubles", "never", "data files", "log")


@dataclass(frozen=True, slots=True)
class VisibilityLab:
    """The outcomes of one load, with a table as text and a picture."""

    load: Load
    outcomes: tuple[VisibilityOutcome, ...] = field(repr=False)

    def to_arrow(self) -> pa.Table:
        """A row a design, every figure a column."""
        return pa.Table.from_pylist(
            [
                {
                    "design": f"{o.number} {o.design}",
                    "p50_ms": round(o.quantile(0.5), 2),
                    "p99_ms": round(o.quantile(0.99), 2),
                    "max_ms": round(o.quantile(1.0), 2),
                    "rows": o.rows,
                    "early": o.early,
                    "taken_back": o.taken_back,
                    "doubles": o.doubles,
                    "twice_in_log": o.twice_in_log,
                    "never": o.never,
                    "data_files": o.data_files,
                    "log_files": o.log_files,
                    "snapshots": o.snapshots,
                }
                for o in self.outcomes
            ]
        )

    def __getitem__(self, number: int) -> VisibilityOutcome:
        """The outcome of a design, by its number. Raises KeyError for one that did not take part."""
        for outcome in self.outcomes:
            if outcome.number == number:
                return outcome
        raise KeyError(number)

    def figure(self, *, width: float = 900) -> Figure:
        """The picture: a strip a design, a dot a batch."""
        return picture(self.load, self.outcomes, width=width)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/html": themed(self.figure(), alt=str(self)), "text/plain": str(self)}

    def __str__(self) -> str:
        load = self.load
        title = (
            f"{load.batches} batches of {load.rows} rows, a checkpoint after every {load.checkpoint}, the "
            f"writer is lost before batch {load.crash}"
        )
        lines = [[str(cell) for cell in _HEADER]]
        for o in self.outcomes:
            waits = [f"{o.quantile(share):,.1f} ms" for share in (0.5, 0.99, 1.0)]
            counts = [o.early, o.taken_back, o.doubles, o.never, o.data_files, o.log_files]
            lines.append([f"{o.number} {o.design}", *waits, *(f"{count:,}" for count in counts)])
        wide = [max(len(line[at]) for line in lines) for at in range(len(_HEADER))]
        shown = [
            "  ".join(
                [line[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(line[1:], wide[1:], strict=True))]
            )
            for line in lines
        ]
        return "\n".join([title, *shown])


def run(
    load: Load | None = None,
    *,
    designs: Sequence[int] = (1, 2, 3, 4),
    log: Mapping[str, str] = EMBEDDED,
    place: str | Path | None = None,
) -> VisibilityLab:
    """Write the load under each of the `designs`, by number. `log` are the options of the logs of tables;
    `place` a directory that stays (None: a temporary one that goes)."""
    load = load or Load()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="visibility-") as folder:
        for number in designs:
            folder_of = Path(place or folder) / f"design-{number}"
            outcomes.append(_run(load, number, DESIGNS[number - 1](folder_of, log)))
    return VisibilityLab(load, tuple(outcomes))


def _run(load: Load, number: int, design: Design) -> VisibilityOutcome:
    notes = _Notes(load)
    reader = threading.Thread(target=notes.guarded, args=(_read, design, notes), daemon=True)
    reader.start()
    taken_back = _write_all(load, design, notes)
    reader.join(_PATIENCE_SECONDS)
    notes.require(not reader.is_alive(), "the reader did not come to the end")
    in_log = Counter(id for id in design.log_ids() if id >= 0)
    return VisibilityOutcome(
        number,
        design.name,
        load.batches * load.rows,
        tuple(notes.deliveries),
        taken_back,
        sum(in_log.values()) - len(in_log),
        **design.sizes(),
        files_agree=sorted(design.ids()) == sorted([_BEGIN, _END, *range(load.batches * load.rows)]),
    )


class _Lost(Exception):
    """The writer's process is gone."""


@dataclass
class _Notes:
    """What writer and reader of one run note. Each field has one thread that changes it."""

    load: Load
    given: dict[int, float] = field(default_factory=dict)
    """When each batch was given to the writer first."""
    committing: int = 0
    """Batches below this one are in a commit that has begun."""
    deliveries: list[Delivery] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    begun: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def guarded(self, work: Callable[..., None], *values: Any) -> None:
        """Do the work of a thread; who waits raises what it raised."""
        try:
            work(*values)
        except BaseException as error:
            self.failure = error
        finally:
            self.begun.set()

    def require(self, holds: bool, what: str) -> None:
        """Raise what the reader raised, or Unavailable unless that holds."""
        if self.failure is not None:
            raise self.failure
        if not holds:
            raise Unavailable(f"{what} within {_PATIENCE_SECONDS} seconds")

    def wait_for(self, batch: int) -> None:
        """Wait until the reader has the rows of a batch."""
        rows = range(batch * self.load.rows, (batch + 1) * self.load.rows)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self.seen.issuperset(rows):
            self.require(time.monotonic() < until, f"the reader has not all rows of batch {batch}")
            time.sleep(0.001)

    def deliver(self, row: int) -> None:
        """Note a row that the reader has now."""
        now, batch = time.perf_counter(), row // self.load.rows
        again = row in self.seen
        waited = (now - self.given[batch]) * 1000
        self.deliveries.append(Delivery(row, batch, waited, batch >= self.committing, again))
        self.seen.add(row)


def _read(design: Design, notes: _Notes) -> None:
    for ids in design.follow():
        for row in ids:
            if row >= 0:
                notes.deliver(row)
        if _BEGIN in ids:
            notes.begun.set()
        if _END in ids:
            return


def _write_all(load: Load, design: Design, notes: _Notes) -> int:
    """Write everything, with the crash; how many rows it took back."""
    with design.checkpoint(0) as write:
        write(-1, batch_of([_BEGIN], [0]))
    notes.begun.wait(_PATIENCE_SECONDS)
    notes.require(notes.begun.is_set(), "the reader did not begin")
    try:
        done = 0
        for done, batches in enumerate(load.checkpoints()):
            _write(load, batches, design, notes, number=done + 1, crash=load.crash)
    except _Lost:
        design.restart()
        taken_back = len(notes.seen.copy().difference(design.ids()))
        for number, batches in list(enumerate(load.checkpoints()))[done:]:
            _write(load, batches, design, notes, number=number + 1)
    else:
        taken_back = 0
    with design.checkpoint(load.batches + 1) as write:
        write(load.batches, batch_of([_END], [0]))
    return taken_back


def _write(
    load: Load, batches: range, design: Design, notes: _Notes, *, number: int, crash: int | None = None
) -> None:
    """The batches of a checkpoint."""
    with design.checkpoint(number) as write:
        for batch in batches:
            if batch == crash:
                raise _Lost
            rows = load.batch(batch)
            notes.given.setdefault(batch, time.perf_counter())
            if design.commits_at_once:
                notes.committing = max(notes.committing, batch + 1)
            write(batch, rows)
            if load.in_step and design.visible_at_once:
                notes.wait_for(batch)
            time.sleep(load.pause)
        notes.committing = max(notes.committing, batches.stop)
