"""A race in slow motion: real commits of two writers, stepped by hand, one at a time, the same in every run.

Each writer runs in a thread of its own on the real engine; its FileIO holds it at every step until the
race lets it go on, so exactly one of them moves at any moment and the order is the caller's. Nothing of the
engine is imitated: a step begins where the engine's operations change their purpose (it looks, writes data,
writes manifests, publishes, cleans up), and what is said about a conflict is the text of its error.
Waits of a retry take no time. Called by notebook 07.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import tablestore as ts
from notebooks.course.watched_io import CLEAN, DATA, HINT, MANIFEST, PUBLISH, READ, Operation, WatchedIO
from tablestore.core.env import Env
from tablestore.core.errors import CommitConflict, InvalidRequest, TablestoreError
from tablestore.io.fileio import LocalFileIO
from widgets.steps.model import DONE, LOST, REFUSED, StepsModel, StoryStep
from widgets.steps.widget import StepLanes

PATIENCE = 60.0
ROOM = 18
"""Columns of a race that is stepped by hand: two appends, one of them lost, take 14."""
_RACES = itertools.count()
UNTIL = (READ, DATA, MANIFEST, PUBLISH, CLEAN)


class _Abandoned(BaseException):
    """The race is over: the writer's thread ends where it stands."""


class _NoWaiting(Env):
    """Seeded chance, and waits that take no time."""

    def sleep(self, seconds: float) -> None:
        """Nothing: the race decides who moves."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a writer: `committed`, `refused`, or `running`."""

    kind: str
    snapshots: tuple[int, ...] = ()
    lost: int = 0
    """How often a snapshot's name was taken."""
    message: str = ""
    """The engine's words, if it refused."""
    against: int | None = None
    """The snapshot that the commit conflicted with."""

    def __str__(self) -> str:
        ids = ", ".join(f"#{snapshot}" for snapshot in self.snapshots)
        tries = f" after {self.lost} lost" if self.lost else ""
        return {"committed": f"committed {ids}{tries}", "refused": f"refused: {self.message}"}.get(
            self.kind, self.kind
        )


@dataclass
class _Holding:
    """What a writer has in hand."""

    base: int | None = None
    files: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = [(sum(kind == k for kind in self.files.values()), noun) for k, noun in _NOUNS.items()]
        parts = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count]
        based = f"knows #{self.base}" if self.base is not None else "has not looked"
        return f"{based}, holds {' and '.join(parts)}" if parts else based


_NOUNS = {DATA: "data file", MANIFEST: "manifest"}


class Race:
    """Writers over one table, each stepped by name. Not thread-safe; use as a context or call `close`."""

    def __init__(
        self, table: ts.Table, writers: Mapping[str, Callable[[ts.Table], Any]], *, seed: int = 7
    ) -> None:
        latest = table.inspect.snapshots()["snapshot_id"].to_pylist()
        self._table, self._before = table, latest[-1] if latest else None
        self.newest = self._before
        self.made_by: dict[int, str] = {}
        self.orders: list[str] = []
        """What the caller asked for so far, as Python."""
        self.steps: list[StoryStep] = []
        names = f"race {next(_RACES)} {seed}"  # no two races of a kernel give their files the same names
        self._writers = {
            name: _Writer(self, lane, name, act, seed=f"{names} {lane}")
            for lane, (name, act) in enumerate(writers.items())
        }
        for writer in self._writers.values():
            writer.start()

    def __enter__(self) -> Race:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, name: str) -> str:
        """Let a writer take one step; what it is about to do next, or its outcome."""
        writer = self._writer(name)
        if writer.ended:
            raise InvalidRequest(f"{name} is at its end: {writer.outcome}")
        self.orders.append(f"race.step({name!r})")
        writer.advance()
        return str(writer.outcome) if writer.ended else f"{name} is about to {_ABOUT[writer.pending]}"

    def run(self, name: str, *, until: str | None = None) -> Outcome:
        """Let a writer go on to its end, or until it is about to do something: one of UNTIL."""
        if until is not None and until not in UNTIL:
            raise InvalidRequest(f"until {until!r}: one of {', '.join(UNTIL)}")
        writer = self._writer(name)
        self.orders.append(f"race.run({name!r}{f', until={until!r}' if until else ''})")
        while not writer.ended and not (until is not None and writer.pending == until):
            writer.advance()
        return writer.outcome

    def finish(self) -> dict[str, Outcome]:
        """Every writer to its end, in order; what became of each."""
        return {name: self.run(name) for name in self._writers}

    def outcome(self, name: str) -> Outcome:
        """What became of a writer so far."""
        return self._writer(name).outcome

    def close(self) -> None:
        """End the writers that still stand somewhere."""
        for writer in self._writers.values():
            writer.abandon()

    def model(self, title: str = "Two writers") -> StepsModel:
        """The steps so far, for a picture."""
        now = f"#{self.newest}" if self.newest is not None else "nothing"
        span = f"#{self._before} → {now}" if self.newest != self._before else f"still {now}"
        lanes = tuple(self._writers)
        subtitle, orders = f"{self._table.name} · {span}", "\n".join(self.orders)
        return StepsModel(title, subtitle, lanes, tuple(self.steps), self._before, code=orders)

    def view(self, title: str = "Two writers") -> StepLanes:
        """The steps so far as a picture to walk through."""
        return StepLanes(self.model(title))

    def live(self, title: str = "Two writers") -> StepLanes:
        """The race as a picture with a button a writer: each press is one step."""

        def act(name: str) -> tuple[StepsModel, tuple[str, ...]]:
            self.step(name)
            return shown()

        def shown() -> tuple[StepsModel, tuple[str, ...]]:
            running = tuple(name for name, writer in self._writers.items() if not writer.ended)
            return replace(self.model(title), room=ROOM), running

        model, running = shown()
        return StepLanes(model, act=act, actions=running)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Who knows and holds what at this moment."""
        now = ("newest snapshot", f"#{self.newest}" if self.newest is not None else "none")
        return (now, *((name, str(writer.holding)) for name, writer in self._writers.items()))

    def _writer(self, name: str) -> _Writer:
        if name not in self._writers:
            raise InvalidRequest(f"no writer {name!r}; there are {', '.join(self._writers)}")
        return self._writers[name]


_ABOUT = {
    READ: "look at the table",
    DATA: "write a data file",
    MANIFEST: "write manifests",
    PUBLISH: "publish its snapshot",
    CLEAN: "remove files of its own",
}


class _Writer:
    """One writer in its thread. `turn` lets it go on, `rest` says that it stands again."""

    def __init__(
        self, race: Race, lane: int, name: str, act: Callable[[ts.Table], Any], *, seed: str
    ) -> None:
        self._race, self._lane, self._name, self._act = race, lane, name, act
        self._turn, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, name=f"writer {name}", daemon=True)
        self._env = _NoWaiting(random.Random(seed))
        self.pending, self.phase = READ, ""
        self.ended, self._over = False, False
        self._failure: BaseException | None = None
        self.outcome = Outcome("running")
        self.holding = _Holding()
        self._tally: dict[str, int] = {}

    def start(self) -> None:
        """Run up to the first step."""
        self._thread.start()
        self._await_rest()

    def advance(self) -> None:
        """One step: go, and wait until it stands at the next one or has ended."""
        self._turn.release()
        self._await_rest()

    def abandon(self) -> None:
        """End the thread where it stands."""
        if not self.ended:
            self._over = True
            self._turn.release()
            self._thread.join(PATIENCE)

    def _await_rest(self) -> None:
        if not self._rest.acquire(timeout=PATIENCE):
            raise TimeoutError(f"writer {self._name} did not come to its next step within {PATIENCE:.0f} s")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # in the writer's thread

    def _work(self) -> None:
        try:
            io = WatchedIO(self._gate, self._done)
            table = ts.open(self._race._table.location, io=io, env=self._env)
            self.outcome = replace(self.outcome, kind="committed") if self._run(table) else self.outcome
        except _Abandoned:
            self.outcome = replace(self.outcome, kind="abandoned")
        except BaseException as failure:
            self._failure = failure
        finally:
            self.ended = True
            self._rest.release()

    def _run(self, table: ts.Table) -> bool:
        try:
            self._act(table)
        except TablestoreError as error:
            against = error.snapshot if isinstance(error, CommitConflict) else None
            self.outcome = replace(self.outcome, kind="refused", message=str(error), against=against)
            owner = self._race.made_by.get(against or 0)
            title = f"is refused: #{against} of {owner} was first" if owner else "is refused"
            self._report(StoryStep(self._lane, "end", title, str(error), REFUSED, against=against))
            return False
        return True

    def _gate(self, operation: Operation) -> None:
        """Stand before a new step until the turn comes."""
        if self._over:
            raise _Abandoned
        phase = self._phase_of(operation)
        if phase is None:
            return
        self.pending = phase
        self._rest.release()
        self._turn.acquire()
        if self._over:
            raise _Abandoned
        self.phase, self._tally = phase, {}
        self._report(StoryStep(self._lane, phase, _ABOUT[phase]))

    def _phase_of(self, operation: Operation) -> str | None:
        """The step that an operation begins, None if it belongs to the one that is going on."""
        kind, now = operation.kind, self.phase
        if kind == HINT or (kind == READ and now in (READ, MANIFEST, PUBLISH)):
            return None
        return None if kind == now and kind != PUBLISH else kind

    def _done(self, operation: Operation, result: Any) -> None:
        """Note what an operation did, and replace the step."""
        if operation.verb == "put" and operation.snapshot is not None:
            self._published(operation, operation.snapshot) if result else self._lost(operation)
            return
        if operation.verb == "read" and operation.snapshot is not None and self.phase == READ:
            self.holding.base = operation.snapshot
        elif operation.verb in ("create", "write", "put") and operation.kind in _NOUNS:
            self.holding.files[operation.path] = operation.kind
            self._count("files")
        elif operation.verb == "open" and operation.name.startswith("data-"):
            self._count("opened")
        elif operation.verb == "delete" and operation.path in self.holding.files:
            del self.holding.files[operation.path]
            self._count("removed")
        self._update_step()

    def _count(self, what: str) -> None:
        self._tally[what] = self._tally.get(what, 0) + 1

    def _published(self, operation: Operation, snapshot: int) -> None:
        stored = json.loads(LocalFileIO().read(operation.path))
        self._race.newest = self.holding.base = snapshot
        self._race.made_by[snapshot] = self._name
        self.holding.files.clear()
        self.outcome = replace(self.outcome, snapshots=(*self.outcome.snapshots, snapshot))
        detail = (
            f"There was no snapshot-{snapshot} yet, so putting it succeeded. "
            "From this moment on every reader sees all of it."
        )
        step = StoryStep(self._lane, PUBLISH, f"publishes #{snapshot}", detail, mark=f"#{snapshot}")
        self._report(replace(step, commit=stored["commitKind"]), anew=True)

    def _lost(self, operation: Operation) -> None:
        self._count("lost")
        self.outcome = replace(self.outcome, lost=self.outcome.lost + 1)
        detail = (
            f"snapshot-{operation.snapshot} is there already: the put changes nothing and says so. "
            "Nothing is lost but the try; the writer looks again."
        )
        mark = f"#{operation.snapshot}"
        self._report(
            StoryStep(self._lane, PUBLISH, f"finds {mark} taken", detail, LOST, mark=mark), anew=True
        )

    def _update_step(self) -> None:
        """The step that is going on, with what it has done so far."""
        if self.phase in (READ, DATA, MANIFEST, CLEAN):
            title, detail, mark = _described(self.phase, self._tally, self.holding)
            self._report(StoryStep(self._lane, self.phase, title, detail, DONE, mark=mark), anew=True)

    def _report(self, step: StoryStep, *, anew: bool = False) -> None:
        """Add a step to the story, or replace the last one."""
        race = self._race
        latest = replace(step, snapshot=race.newest, facts=race.facts())
        if anew:
            race.steps[-1] = latest
        else:
            race.steps.append(latest)


def _described(phase: str, tally: Mapping[str, int], holding: _Holding) -> tuple[str, str, str]:
    """Title, detail and mark of a step."""
    if phase == READ:
        opened, base = tally.get("opened", 0), holding.base
        of = f" and reads {_count_of(opened, 'data file')}" if opened else ""
        mark = f"#{base}" if base is not None else ""
        detail = (
            "What it does from here on is based on this snapshot." if mark else "It finds out what is there."
        )
        return f"looks at {mark or 'the table'}{of}", detail, mark
    files = tally.get("files", 0)
    if phase == DATA:
        detail = "Under fresh names. No snapshot names them yet, so no reader sees them."
        return f"writes {_count_of(files, 'data file')}", detail, ""
    if phase == MANIFEST:
        detail = "They say which files are added and which are taken away. No snapshot names them yet."
        return f"writes {_count_of(files, 'manifest')}", detail, ""
    detail = "Only files that no snapshot names are removed."
    return f"removes {_count_of(tally.get('removed', 0), 'file')} of its own", detail, ""


def _count_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
