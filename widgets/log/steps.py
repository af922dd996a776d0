"""What a reader does: the state of a snapshot, the switch to the log, rows of the log; files where it has
expired.

Steps are those that the engine's streams give (`Change`), with their own words; one that is planned is what a
stream from here would give now. Pure. Called by the model and by the widget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from widgets.kit import format as fmt
from widgets.kit.svg import plain

Kind = Literal["state", "log", "files"]


class StreamStep(Protocol):
    """A step of a stream, as `Table.stream` gives it."""

    @property
    def snapshot(self) -> int: ...

    @property
    def full(self) -> bool: ...

    @property
    def cursor(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ReaderStep:
    """A step from offsets to offsets; `start` is None at the beginning of a stream, both are None of streams
    that read files alone. `count`: so many steps of one kind in a row, those of files from snapshot `first`
    on."""

    kind: Kind
    snapshot: int
    start: Mapping[int, int] | None = field(hash=False)
    stop: Mapping[int, int] | None = field(hash=False)
    reason: str = ""
    count: int = 1
    first: int = 0


@dataclass(frozen=True, slots=True)
class ReaderModel:
    """A reader: the steps it has taken, where it is (None: at its beginning), those it would take next, and
    what ends them: the words of an error, or that it waits."""

    title: str
    taken: tuple[ReaderStep, ...] = ()
    place: Mapping[int, int] | None = field(default=None, hash=False)
    planned: tuple[ReaderStep, ...] = ()
    end: str = ""
    failed: bool = False

    @property
    def switch(self) -> Mapping[int, int] | None:
        """The offsets at which it goes from files to the log, the last time; None if it does not."""
        stop = None
        before: ReaderStep | None = None
        for step in (*self.taken, *self.planned):
            if before is not None and before.kind != "log" and step.kind == "log":
                stop = before.stop
            before = step
        if stop is None and before is not None and before.kind == "state":
            return before.stop  # the log has nothing for it yet
        return stop


def offsets_of_cursor(cursor: str) -> dict[int, int] | None:
    """The offsets of the log in a cursor; None of one among files."""
    try:
        offsets = json.loads(cursor).get("log")
    except (ValueError, AttributeError):
        return None
    return None if offsets is None else {int(bucket): int(offset) for bucket, offset in offsets.items()}


def steps_of(changes: Iterable[StreamStep], start: Mapping[int, int] | None) -> tuple[ReaderStep, ...]:
    """The steps of a stream that begins at `start`; those of the log, or of files, in a row as one
    with the reason of the first."""
    steps: list[ReaderStep] = []
    for change in changes:
        stop = offsets_of_cursor(change.cursor)
        kind: Kind = "state" if change.full else "log" if change.source == "log" else "files"
        step = ReaderStep(kind, change.snapshot, start, stop, change.reason or "", first=change.snapshot)
        start = stop
        last = steps[-1] if steps else None
        if last is not None and last.kind == kind and kind != "state":
            step = replace(step, start=last.start, reason=last.reason, count=last.count + 1, first=last.first)
            steps.pop()
        steps.append(step)
    return tuple(steps)


def step_words(step: ReaderStep) -> str:
    """What a step reads, in words."""
    if step.kind == "state":
        return f"state of snapshot {step.snapshot}"
    if step.kind == "log":
        rows = _between(step)
        return f"log {rows}" if rows else "log"
    if step.count > 1:
        return f"files of {step.count} snapshots up to {step.snapshot}"
    return f"files of snapshot {step.snapshot}"


def _between(step: ReaderStep) -> str:
    if step.stop is None:
        return ""
    start = step.start or {}
    if len(step.stop) == 1:
        ((bucket, stop),) = step.stop.items()
        return f"{start.get(bucket, 0):,} … {stop:,}"
    count = sum(stop - start.get(bucket, 0) for bucket, stop in step.stop.items())
    return fmt.plural(count, "offset")


def taken_text(reader: ReaderModel) -> str:
    """What it has read."""
    return " → ".join(map(step_words, reader.taken))


def next_text(reader: ReaderModel) -> str:
    """What it would read next, and what then."""
    return " → ".join(part for part in (*map(step_words, reader.planned), reader.end) if part)


def reasons(reader: ReaderModel) -> tuple[str, ...]:
    """Why it reads files, each reason once."""
    steps = (*reader.taken, *reader.planned)
    return tuple(dict.fromkeys(step.reason for step in steps if step.reason))


def steps_text(reader: ReaderModel) -> Sequence[str]:
    """The reader as lines of text."""
    lines = [f"reader, {reader.title}"]
    if reader.taken:
        lines.append(f"  has read {taken_text(reader)}")
    if ahead := next_text(reader):
        lines.append(f"  next {plain(ahead)}")
    return [*lines, *(f"  reads files: {plain(reason)}" for reason in reasons(reader))]
