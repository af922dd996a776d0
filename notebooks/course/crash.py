"""A crash lab: the same work, killed once before every operation that changes the store.

For each of these points: a fresh copy of the table, the work runs on the real engine until its FileIO ends
the "process" there (nothing after that reaches the store), and a new process opens what is left. It must be
sound and hold the rows of before or of after, never a mixture; then the work is done again, and the orphans
are counted and removed. Operations that only read are skipped: a kill before one leaves what the kill
before the next change leaves. Called by notebook 08.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from notebooks.course.watched_io import CLEAN, HINT, MANIFEST, PUBLISH, Operation, WatchedIO
from tablestore.core.env import Env
from tablestore.io.fileio import LocalFileIO
from widgets.kit import format as fmt
from widgets.steps.model import StepsModel, StoryStep, Track
from widgets.steps.widget import StepLanes

Work = Callable[[ts.Table], Any]


class Killed(BaseException):
    """The process is gone: nothing of it may reach the store any more."""


@dataclass(frozen=True, slots=True)
class Crash:
    """What is left when the work is killed before operation `at`, and what becomes of it."""

    at: int
    operation: Operation | None
    """What did not happen any more; None: nothing was killed."""
    snapshots: tuple[int, ...]
    """The snapshots that a new process finds."""
    rows: int
    visible: bool
    """Whether these snapshots are those of after the work."""
    untouched: bool
    """Whether they are those of before."""
    violations: tuple[str, ...]
    orphans: int
    orphan_bytes: int
    retried: bool
    """Whether doing the work again left the rows and the snapshots of after: it is done exactly once."""
    clean: bool
    """Whether removing the orphans left no orphan, and every row."""

    @property
    def safe(self) -> bool:
        """Sound, nothing lost, retried, cleaned up."""
        return not self.violations and self.retried and self.clean


@dataclass(frozen=True)
class State:
    """What a reader sees: the rows, and the snapshots there are."""

    rows: pa.Table
    snapshots: tuple[int, ...]

    @classmethod
    def of(cls, table: ts.Table) -> State:
        """The state of a table, its rows in key order."""
        rows = table.scan().to_arrow()
        names = table.primary_key or tuple(rows.column_names)
        ids = table.inspect.snapshots()["snapshot_id"].to_pylist()
        return cls(rows.sort_by([(name, "ascending") for name in names]), tuple(ids))


class CrashLab:
    """A table and a piece of work that is killed at every step. The table itself is never touched."""

    def __init__(self, table: ts.Table, work: Work, *, name: str = "the work", seed: int = 7) -> None:
        self._table, self._work, self._name, self._seed = table, work, name, seed
        self.steps = self._dry_run()
        """The operations that change the store, in order; appends of one file as one, half way through."""
        self.crashes: tuple[Crash, ...] = ()

    def _dry_run(self) -> tuple[tuple[int, Operation], ...]:
        """The work once, on a copy: its changing operations with their numbers."""
        recordedlt: list[Operation] = []
        with _Copy(self._table) as copy:
            self._work(copy.open(WatchedIO(before=recordedlt.append), seed=self._seed))
        return changing(recordedlt)

    def kill_at(self, point: int) -> Crash:
        """Kill before the step `point`; `len(steps)` kills nothing."""
        number, operation = self.steps[point] if point < len(self.steps) else (None, None)
        with _Copy(self._table) as copy:
            with contextlib.suppress(Killed):
                self._work(copy.open(_killing(number), seed=self._seed))
            return self._examine(copy, point, operation)

    def _examine(self, copy: _Copy, point: int, operation: Operation | None) -> Crash:
        """A new process: what does it find, does the work succeed now, do the orphans go?"""
        table, after = copy.open(), self.after
        seen, violations = State.of(table), tuple(str(v) for v in table.check())
        assert seen.rows.equals(self.before.rows) or seen.rows.equals(after.rows), "never a mixture"
        orphans = table.remove_orphans("0 s", force=True)
        self._work(copy.open(seed=self._seed + 1))
        again = State.of(copy.open())
        copy.open().remove_orphans("0 s", force=True, dry_run=False)
        left = copy.open()
        clean = not left.remove_orphans("0 s", force=True).files and left.check() == []
        return Crash(
            at=point,
            operation=operation,
            snapshots=seen.snapshots,
            rows=seen.rows.num_rows,
            visible=seen.snapshots == after.snapshots,
            untouched=seen.snapshots == self.before.snapshots,
            violations=violations,
            orphans=len(orphans.files),
            orphan_bytes=orphans.bytes,
            retried=again == after,
            clean=clean and State.of(left) == after,
        )

    @cached_property
    def before(self) -> State:
        """The table before the work."""
        return State.of(self._table)

    @cached_property
    def after(self) -> State:
        """The table after the work, if nobody is killed."""
        with _Copy(self._table) as copy:
            self._work(copy.open(seed=self._seed))
            return State.of(copy.open())

    def run(self) -> tuple[Crash, ...]:
        """Every point once, and the work without a kill at the end."""
        if not self.crashes:
            self.crashes = tuple(self.kill_at(point) for point in range(len(self.steps) + 1))
        return self.crashes

    def view(self, *, at: int | None = None) -> StepLanes:
        """All points as a picture; the chosen one is where the process is killed."""
        return StepLanes(story(self._name, self._table.name, self.run()), index=at)


def changing(operations: Sequence[Operation]) -> tuple[tuple[int, Operation], ...]:
    """(number, operation) of those that change the store; of the appends to one file the middle one."""
    chosen: list[tuple[int, Operation]] = []
    appends: dict[str, list[int]] = {}
    for number, operation in enumerate(operations):
        if operation.verb == "append":
            appends.setdefault(operation.path, []).append(number)
        elif (operation.writes and operation.verb != "mkdir") or operation.kind == CLEAN:
            chosen.append((number, operation))
    chosen += [(numbers[len(numbers) // 2], operations[numbers[0]]) for numbers in appends.values()]
    return tuple(sorted(chosen, key=lambda pair: pair[0]))


def _killing(at: int | None) -> WatchedIO:
    """A FileIO that dies before operation number `at`, and stays dead."""
    count = iter(range(1 << 60))

    def before(operation: Operation) -> None:
        if at is not None and next(count) >= at:
            raise Killed(operation.path)

    return WatchedIO(before=before)


class _Copy:
    """A copy of a table's directory, gone at the end of the `with`."""

    def __init__(self, table: ts.Table) -> None:
        self._folder = tempfile.mkdtemp(prefix="crash-")
        source = Path(table.location)
        self._path = str(Path(self._folder) / source.parent.name / source.name)
        shutil.copytree(source, self._path)

    def open(self, io: Any = None, *, seed: int | None = None) -> ts.Table:
        """The table as a new process opens it."""
        env = Env(random.Random(f"crash {seed}")) if seed is not None else Env()
        return ts.open(self._path, io=io or LocalFileIO(), env=env)

    def __enter__(self) -> _Copy:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def story(name: str, table: str, crashes: Sequence[Crash]) -> StepsModel:
    """The crashes as steps: one lane, plateaus of what a new process finds, bars of orphans."""
    snapshots = Track("snapshots", tuple(_span(c).replace(" ", "") for c in crashes))
    rows = Track("rows", tuple(f"{c.rows:,}" for c in crashes))
    orphans = Track("orphans", tuple(c.orphans for c in crashes))
    subtitle = f"{table} · once before each of {len(crashes) - 1} changes"
    steps = tuple(_step(crash) for crash in crashes)
    lanes, tracks = ("operations",), (snapshots, rows, orphans)
    code = "lab.kill_at({index})"
    return StepsModel(f"Killing {name}", subtitle, lanes, steps, tracks=tracks, code=code, fatal=True)


def _span(crash: Crash) -> str:
    first, last = min(crash.snapshots, default=0), max(crash.snapshots, default=0)
    return f"#{first}" if first == last else f"#{first} … #{last}"


def _step(crash: Crash) -> StoryStep:
    operation = crash.operation
    facts = (
        ("invariants", "hold" if not crash.violations else "; ".join(crash.violations)),
        ("left over", f"{fmt.plural(crash.orphans, 'file')}, {fmt.bytes_text(crash.orphan_bytes)}"),
        ("done again", "done exactly once" if crash.retried else "not the state of after"),
        ("left-overs removed", "all; no row lost" if crash.clean else "not all"),
    )
    newest = max(crash.snapshots, default=0)
    sight = f"A new process finds {_span(crash)} and {crash.rows:,} rows"
    if operation is None:
        return StoryStep(0, "end", "nobody was killed", f"{sight}.", snapshot=newest, facts=facts, mark="✓")
    begun = (
        "nothing of the work is to be seen" if crash.untouched else "some of the work is done, no row is lost"
    )
    result = "the work is done" if crash.visible else begun
    title = f"killed before it could {_words(operation)}"
    mark = _mark(operation)
    return StoryStep(0, operation.kind, title, f"{sight}: {result}.", snapshot=newest, facts=facts, mark=mark)


def _mark(operation: Operation) -> str:
    """One word for the box."""
    if operation.kind == PUBLISH:
        return f"#{operation.snapshot}"
    if operation.name.endswith(".log"):
        return "log"
    if operation.kind == MANIFEST:
        return "list" if operation.name.startswith("manifest-list") else "manifest"
    words = {"create": "data", "append": "… data", "delete": "remove", "replace": "hint"}
    return words.get(operation.verb, "")


def _words(operation: Operation) -> str:
    """`publish snapshot-5`, `write the second half of data-…`."""
    name = fmt.file_name(operation.name)
    if operation.verb == "append":
        return f"write the second half of {name}"
    if operation.verb == "create":
        return f"begin {name}"
    if operation.kind == PUBLISH:
        return f"publish {name}"
    if operation.name.endswith(".log"):
        return "append to the log"
    if operation.kind == HINT:
        return f"note the newest snapshot in {name}"
    return f"remove {name}" if operation.kind == CLEAN else f"write {name}"
