"""Weeks of a table with an embedded log by a virtual clock, against a model in memory.

Writers come and are killed at any operation of the store, or find the disk full; a loss of power tears the
newest file of the log; compactions, expiry of snapshots and of the log, overwrites and rollbacks happen;
readers follow the stream, restart, fall behind retention and begin again. The clock runs, and jumps back in
every other life. After each moment scans, union reads and streams are what the model says.

The model: `state` is what readers of the table see; `maybe` holds what may come on top of it, since nobody
knows yet what a killed writer has done. Each write ends with a value that never comes again, so the state
says which of these it is.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, CommitUnknown, NotFound, TablestoreError, Unsupported
from tablestore.log.embedded import directory, files, roll_up
from tablestore.log.embedded import log as embedded
from tests.faults import FaultyIO, Killed, SimEnv
from tests.log.followed import Followed
from tests.tables import TableSpec

Row = tuple[str, int, int]  # kind, k, v
Rows = list[Row]
KEYS = 12
MINUTE = 60_000
OPTIONS = {
    "bucket": 2,
    "log.system": "embedded",
    "log.retention": "6 h",
    "snapshot.time-retained": "3 h",
    "snapshot.num-retained.min": 3,
    "snapshot.num-retained.max": 12,
    "num-sorted-run.compaction-trigger": 3,
    "tablestore.history.enabled": False,
}
KEYED = TableSpec({"k": ts.BIGINT, "v": ts.BIGINT}, ("k",), options=OPTIONS)
SPECS = {
    "keyed": KEYED,
    "eventual": KEYED.with_options({"log.consistency": "eventual"}),
    "append": TableSpec(KEYED.columns, options={**OPTIONS, "bucket-key": "k"}),
    "sums": KEYED.with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
}


@contextmanager
def small_segments() -> Iterator[None]:
    """Segments of four files, so that roll-ups of roll-ups happen within days."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (directory, roll_up, embedded):
            patch.setattr(module, "SPAN", 4)
        for module in (directory, roll_up):
            patch.setattr(module, "TIERS", (4, 16, 64))
        yield


class TableTruth:
    """The rows of a table of some kind: by key, or counted."""

    def __init__(self, kind: str, rows: Counter[tuple[int, int]] | None = None) -> None:
        self.kind, self.rows = kind, Counter(rows or {})

    def after(self, rows: Rows) -> TableTruth:
        """The state after more rows."""
        if self.kind == "append":
            return TableTruth(self.kind, self.rows + Counter((k, v) for _, k, v in rows))
        actual = dict(list(self.rows))
        for kind, k, v in rows:
            if kind == "-D":
                actual.pop(k, None)
            else:
                actual[k] = v + (actual.get(k, 0) if self.kind == "sums" else 0)
        return TableTruth(self.kind, Counter(actual.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableTruth) and self.rows == other.rows

    def __repr__(self) -> str:
        return str(sorted(self.rows.elements()))

    __hash__ = None  # type: ignore[assignment]  # it is compared, never a key


@dataclass
class LogFollower:
    """One who follows the stream. `due`: what it has to have after it has read; `raw`: it takes changes as
    they were written."""

    due: TableTruth
    raw: bool
    consumer: str | None = None
    followed: Followed = field(default_factory=lambda: Followed(0))
    steps: Iterator[Any] | None = None
    begun: bool = False


class Life:
    """One table and its model. `counts`: what happened how often."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.rng, self.kind, self.folder = random.Random(f"{kind} {seed}"), kind, folder
        self.env = SimEnv(seed)
        self.jumps, self.overwrites = seed % 2 == 1, seed % 3 == 2
        self.counts = Counter[str]()
        SPECS[kind].create(folder, env=self.env)
        self.table = self.opened()
        self.state, self.maybe = TableTruth(kind), list[Rows]([[]])
        self.values, self.batches = itertools.count(1), itertools.count(1)
        self.readers = [] if kind == "sums" else [self.reader(n) for n in range(3)]
        self.marks: list[tuple[int, TableTruth]] = []

    def opened(self, io: FaultyIO | None = None) -> ts.Table:
        """The table, as a process that has just started opens it."""
        return ts.connect(str(self.folder), io=io, env=self.env).table("d.t")

    def reader(self, number: int) -> LogFollower:
        """A reader that begins with the state of now; the first is a consumer."""
        keyed = 0 if self.kind == "append" else 1
        name = f"c{next(self.batches)}" if number == 0 else None
        return LogFollower(self.state, self.overwrites, name, Followed(keyed, raw=self.overwrites))

    # what happens

    def moment(self, action: str | None = None) -> None:
        """Time passes, one thing happens, that named `action` or any, and some look."""
        self.pass_time()
        action = action or self.rng.choices(list(ACTIONS), [a.weight for a in ACTIONS.values()])[0]
        self.counts[action] += 1
        ACTIONS[action].act(self)
        self.look()

    def pass_time(self) -> None:
        millis = self.rng.choice((1, 1000, 5 * MINUTE, 90 * MINUTE, 400 * MINUTE))
        if self.jumps and self.rng.random() < 0.1:
            millis = -self.rng.choice((1, 1000, 200 * MINUTE))
            self.counts["jumps back"] += 1
        self.env.move(millis)

    def write(self) -> None:
        batches = [self.some_rows() for _ in range(self.rng.choice((1, 1, 2)))]
        io, fails = self.world()
        name = {"user": "stream", "identifier": next(self.batches)} if self.rng.random() < 0.5 else {}
        done = self.attempt(io, batches, name)
        if done:
            self.came(batches)
        elif name and fails and self.rng.random() < 0.5:  # the same again, by who is started next
            self.counts["retries"] += 1
            assert self.attempt(None, batches, name)
            self.maybe = [before + joined(batches) for before in self.before_write]

    def attempt(self, io: FaultyIO | None, batches: Sequence[Rows], name: dict[str, Any]) -> bool:
        """Write the batches in one commit; False where something failed, and `maybe` is what there may be."""
        self.before_write = self.maybe
        try:
            table = self.opened(io)
            if io is not None:
                io.fail_at = io.count + (io.fail_at or 0)
            self.commit(table, batches, name)
        except (Killed, TablestoreError, OSError) as e:
            refused = isinstance(e, TablestoreError) and not isinstance(e, CommitUnknown)
            self.counts[type(e).__name__] += 1
            prefixes = [joined(batches[:n]) for n in range(len(batches) + 1)]
            if self.kind != "eventual":
                prefixes = prefixes[:1] if refused else [prefixes[0], prefixes[-1]]
            self.maybe = [before + more for before in self.maybe for more in prefixes]
            return False
        return True

    def commit(self, table: ts.Table, batches: Sequence[Rows], name: dict[str, Any]) -> None:
        way = self.rng.randrange(3)
        if way == 0 and len(batches) == 1:
            table.write(as_table(batches[0]), row_kind_column="kind", **name)
        elif way == 1 and not name:
            engine = table.open_writer(user="engine")
            for batch in batches:
                kinds, rows = as_columns(batch)
                engine.write(rows, kinds)
            messages = engine.prepare()
            engine.close()
            table.commit(messages, user="engine", identifier=next(self.batches))
        else:
            with table.writer(**name) as writer:
                for batch in batches:
                    writer.write(as_table(batch), row_kind_column="kind")

    def delete(self) -> None:
        if self.kind in ("append", "sums"):
            self.write()
            return
        self.settle()
        below = self.rng.randrange(KEYS)
        gone: Rows = [("-D", k, v) for k, v in self.state.rows if k < below]
        marker = self.some_rows()[-1:]
        io, _ = self.world()
        try:
            table = self.opened(io)
            if io is not None:
                io.fail_at = io.count + (io.fail_at or 0)
            table.delete(ts.col("k") < below)
        except (Killed, TablestoreError, OSError) as e:
            self.counts[type(e).__name__] += 1
            self.maybe = [[], gone]
            if self.kind == "eventual":  # its batches are seen at once, one after another
                left = self.visible().rows
                self.maybe = [[row for row in gone if row[1:] not in left]]
            self.settle()  # a delete has no value of its own by which it is known
            return
        self.came([gone])
        self.table.write(as_table(marker), row_kind_column="kind")
        self.came([marker])

    def compact(self) -> None:
        with suppress(CommitConflict):
            self.opened().compact(full=self.rng.random() < 0.4)
        self.finished()

    def expire(self) -> None:
        if self.table.store.snapshots.latest_id():
            self.opened().expire_snapshots(keep=self.rng.randrange(2, 8))

    def finish(self) -> None:
        self.opened().log.finish()
        self.finished()

    def overwrite(self) -> None:
        if not self.overwrites:
            self.write()
            return
        self.settle()
        rows = [("+I", k, v) for _, k, v in self.some_rows() if k >= 0]
        after = TableTruth(self.kind).after(rows)
        io, _ = self.world()
        try:
            table = self.opened(io)
            if io is not None:
                io.fail_at = io.count + (io.fail_at or 0)
            table.overwrite(as_table(rows).drop_columns("kind"))
        except (Killed, TablestoreError, OSError) as e:
            refused = isinstance(e, TablestoreError) and not isinstance(e, CommitUnknown)
            self.counts[type(e).__name__] += 1
            if refused or self.visible() == self.state:
                return
        assert self.visible() == after
        self.state = after

    def roll_back(self) -> None:
        if not self.overwrites or not self.table.store.snapshots.latest_id():
            self.write()
            return
        self.settle()
        to = self.rng.choice(self.table.store.snapshots.ids())
        log, then = self.table.log, self.opened().at(snapshot=to)
        assert log is not None
        state, at = self.scanned(then), log.snapshots().to_pylist()
        named = next(dict(s["offsets"] or {}) for s in at if s["snapshot_id"] == to)
        try:
            self.opened().rollback(snapshot=to)
        except Unsupported:
            assert named != {b: o for b, o in log.end.items() if o}
            return
        self.counts["rolled back"] += 1
        self.state = state

    def tear(self) -> None:
        """A loss of power leaves the newest file of the log torn, of which nobody had an answer."""
        self.settle()
        path = self.folder / "d.db" / "t" / "tablestore" / "log"
        numbers = [n for p in path.glob("*.log") if (n := files.numbers(p.name)) is not None]
        newest = max((last for _, last in numbers), default=0)
        torn = self.rng.choice((b"", b"TSLOG", bytes(500), files.MAGIC + b"\xff" * 60))
        path.mkdir(parents=True, exist_ok=True)
        (path / files.file_name(newest + 1, newest + 1)).write_bytes(torn)

    # what must be

    def came(self, batches: Sequence[Rows]) -> None:
        """Rows are in the table for certain, behind what may be there."""
        self.maybe = [before + joined(batches) for before in self.maybe]
        self.finished()

    def finished(self) -> None:
        """Whoever wrote last has completed what others left: what the table shows is what there is."""
        self.decide(self.visible(), final=True)

    def settle(self) -> None:
        """Know what killed writers have done."""
        if self.maybe != [[]]:
            self.opened().log.finish()
            self.finished()

    def decide(self, seen: TableTruth, *, final: bool) -> None:
        """Take that of `maybe` which is seen; unless `final`, more may come."""
        fitting = [rows for rows in self.maybe if self.state.after(rows) == seen]
        assert fitting, f"{seen}\nis none of {[self.state.after(rows) for rows in self.maybe]}"
        shown = fitting[0]
        self.state = self.state.after(shown)
        for reader in self.readers:
            reader.due = reader.due.after(shown)
        hidden = [rows[len(shown) :] for rows in self.maybe if rows[: len(shown)] == shown]
        self.maybe = [[]] if final or self.kind == "eventual" else hidden

    def visible(self) -> TableTruth:
        """What readers see: of an eventual log its rows at once."""
        return self.scanned(log=self.kind == "eventual")

    def scanned(self, table: ts.Table | None = None, **asked: Any) -> TableTruth:
        rows = (table or self.table).scan(**asked).to_arrow().to_pylist()
        return TableTruth(self.kind, Counter((r["k"], r["v"]) for r in rows))

    def look(self) -> None:
        """Readers of every sort look."""
        self.decide(self.visible(), final=False)
        if self.rng.random() < 0.4:
            assert self.scanned(log=True) == self.state
        for number, reader in enumerate(self.readers):
            if self.rng.random() < (0.3, 0.5, 0.05)[number]:
                self.follow(number, reader)
        if self.maybe == [[]] and not self.jumps and not self.overwrites:
            self.travel()

    def follow(self, number: int, reader: LogFollower) -> None:
        if self.rng.random() < 0.4 or reader.steps is None:
            reader.steps = None
        try:
            self.read(reader)
        except NotFound as e:
            if "latest-full" not in str(e) or (reader.consumer is not None and reader.begun):
                raise
            self.counts["begun again"] += 1
            self.readers[number] = reader = self.reader(number)
            self.read(reader)
        rows = reader.followed.rows
        assert rows == reader.due.rows, (
            f"reader {number} lost {reader.due.rows - rows}, has too much {rows - reader.due.rows}"
        )

    def read(self, reader: LogFollower) -> None:
        """All steps that there are."""
        if reader.steps is None:
            start = reader.followed.cursor or "latest-full"
            how = {"normalize": False} if reader.raw else {}
            table = self.opened() if self.rng.random() < 0.3 else self.table
            if not reader.begun:
                reader.due = self.state
            reader.steps = table.stream(start=start, timeout=0.0, consumer=reader.consumer, **how)
        for step in reader.steps:
            reader.begun = True
            reader.followed.take(step)
            self.counts[f"steps of {'state' if step.full else step.source}"] += 1
        reader.begun |= reader.consumer is not None
        reader.steps = None

    def travel(self) -> None:
        """The past: union reads at a moment, streams that start at one. Where it has expired, says so."""
        if self.rng.random() < 0.2:
            self.env.move(5)
            self.marks.append((self.env.now_ms(), self.state))
            self.env.move(5)
        if not self.marks or self.rng.random() < 0.7:
            return
        moment, then = self.rng.choice(self.marks[-12:])
        if all(s.time_millis >= moment for s in self.table.store.snapshots.all()):
            return  # who asks for more than there is gets what there is
        if self.kind == "eventual":
            with suppress(NotFound):
                actual = self.scanned(self.table.at(timestamp=moment), log=True)
                self.counts["past seen"] += 1
                assert actual == then, (moment, actual, then)
        if self.kind in ("keyed", "eventual"):
            followed = Followed(1, raw=True, states={(k,): (v,) for k, v in then.rows})
            with suppress(NotFound):
                for step in self.table.stream(start={"timestamp": moment}, timeout=0.0, normalize=False):
                    followed.take(step)
                self.counts["streams from a moment"] += 1
                assert followed.rows == self.state.rows, (moment, followed.rows, self.state)

    # chance

    def some_rows(self) -> Rows:
        """A few rows; the last one has a value that no other has."""
        deletes = self.kind in ("keyed", "eventual")
        kinds = ("+I", "+U", "-D") if deletes else ("+I",)
        some: Rows = [
            (self.rng.choice(kinds), self.rng.randrange(KEYS), next(self.values))
            for _ in range(self.rng.randrange(5))
        ]
        return [*some, ("+I", self.rng.randrange(KEYS), next(self.values))]

    def world(self) -> tuple[FaultyIO | None, bool]:
        """(the files of a writer, whether they may fail it)."""
        if self.rng.random() < 0.6:
            return None, False
        mode = self.rng.choice((*FaultyIO.MODES, "kill before", "kill after", "full"))
        return FaultyIO(int(self.rng.lognormvariate(3.2, 0.9)), mode), True


@dataclass(frozen=True)
class Action:
    weight: int
    act: Any


ACTIONS = {
    "write": Action(55, Life.write),
    "delete": Action(5, Life.delete),
    "compact": Action(8, Life.compact),
    "expire": Action(8, Life.expire),
    "finish": Action(3, Life.finish),
    "overwrite": Action(6, Life.overwrite),
    "roll back": Action(4, Life.roll_back),
    "tear": Action(3, Life.tear),
}


def joined(batches: Sequence[Rows]) -> Rows:
    """The rows of some batches."""
    return [row for batch in batches for row in batch]


def as_table(rows: Rows) -> pa.Table:
    """Rows with a column of their kinds."""
    texts = pa.array([kind for kind, _, _ in rows], pa.string())
    return pa.Table.from_batches([as_columns(rows)[1]]).append_column("kind", texts)


def as_columns(rows: Rows) -> tuple[pa.Array, pa.RecordBatch]:
    """(int8 row kinds, rows)."""
    kinds = pa.array([{"+I": 0, "+U": 2, "-D": 3}[kind] for kind, _, _ in rows], pa.int8())
    columns = {"k": pa.array([k for _, k, _ in rows], pa.int64()), "v": pa.array([v for *_, v in rows])}
    return kinds, pa.record_batch(columns)


def live(folder: Path, kind: str, seed: int, moments: int) -> Counter[str]:
    """So many moments of one life; what happened. Raises AssertionError where something is not as it must
    be, with the number of the moment."""
    with small_segments():
        life = Life(folder, kind, seed)
        for number in range(moments):
            try:
                life.moment("write" if number == 0 else None)  # what comes next has rows to work on
            except Exception as e:
                e.add_note(f"life {kind} {seed}, moment {number}")
                raise
        life.finish()
        if life.counts["tear"] and any(v.invariant == "I14" for v in life.opened().check()):
            life.opened().log.repair()  # as the finding says; a later write would have passed over it
        assert life.scanned() == life.state
        wrong = [v for v in life.opened().check() if v.invariant != "I13"]
        assert wrong == []
        return life.counts
