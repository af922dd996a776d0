"""One table with a log, attacked: after every moment each reader has each acknowledged row, or an error that
names the log; after `repair` the table goes on.

Writers, deletes alone, silence longer than retention, retention that is faster than the files, damage, kills
of writers, of readers and of the broker, answers that are lost or come twice: the same over files and over a
topic (`log_stores.py`). The truth is a model in memory (`acknowledged.py`).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tablestore as ts
from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.log.log import CommitMark, LogExpired
from tablestore.table.log_of import log_of
from tests.campaign import log_process
from tests.campaign.acknowledged import Acknowledged
from tests.campaign.log_process import ProcessJob, as_table
from tests.campaign.log_stores import LogStore, create, opened
from tests.log import logged
from tests.log.followed import Followed
from tests.log.held import log_view
from tests.log.soak import KEYS, Rows, TableTruth, small_segments

READERS, COMMITS, USER = 2, 4, "till"
OPERATIONS = 160
"""Of the files of a table, within which a process dies."""
NAMED = (Corrupt, LogExpired, NotFound)
"""What damage of a log, and its retention, may be."""


class Life:
    """A table and what was acknowledged of it. `counts`: what happened how often."""

    def __init__(self, store: LogStore, kind: str, folder: Path, seed: int) -> None:
        self.store, self.kind, self.folder = store, kind, folder
        self.rng = random.Random(f"{store.name} {kind} {seed}")
        self.keyed, self.tiered, self.eventual = kind != "append", kind == "tiered", kind == "eventual"
        self.counts = Counter[str]()
        create(store, folder, kind)
        self.truth = Acknowledged(TableTruth("keyed" if self.keyed else "append"), whole=not self.eventual)
        self.values, self.numbers, self.places = (itertools.count(1) for _ in range(3))
        self.readers, self.retained = [self.reader() for _ in range(READERS)], False

    # what happens

    def write(self) -> None:
        """A commit; its answer may come twice."""
        self.commit(self.some_rows())

    def commit(self, rows: Rows) -> None:
        """Rows in one commit, which may be asked for again."""
        number = next(self.numbers)
        assert not self.ask(rows, number).replayed
        self.settle()
        self.truth.tail.append(rows)
        if not self.tiered:
            self.truth.finished()
        if self.rng.random() < 0.2:
            self.counts["answers twice"] += 1
            assert self.ask(rows, number).replayed

    def ask(self, rows: Rows, number: int, user: str = USER) -> ts.Committed:
        """Ask for a commit of these rows."""
        return self.table.write(as_table(rows), row_kind_column="kind", user=user, identifier=number)

    def delete(self) -> None:
        """A commit of deletes alone."""
        if not self.keyed:
            self.write()
        elif self.tiered or self.rng.random() < 0.5:
            self.commit([("-D", key, 0) for key in self.rng.sample(range(KEYS), 2)])
        else:
            below = self.rng.randrange(KEYS)
            self.table.delete(ts.col("k") < below)
            self.settle()
            self.truth.finished()
            left = {row: n for row, n in self.truth.files.rows.items() if row[0] >= below}
            self.truth.files = TableTruth(self.truth.files.kind, Counter(left))

    def leave_in_log(self) -> None:
        """A writer is killed when its rows are in the log and in no file; its commit may be asked for
        again."""
        self.finish_unsure()
        rows, number = self.some_rows(), next(self.numbers)
        if self.tiered:
            self.ask(rows, number)
            self.truth.tail.append(rows)
            return
        table = self.table
        log = log_of(table.store)
        assert log is not None
        appender = log.appender()
        logged.into(appender, table, rows)
        if self.eventual:
            appender.flush()
            self.truth.tail.append(rows)
            return
        appender.commit(CommitMark(USER, number))
        if self.store.shows_tail:
            self.truth.tail.append(rows)
        else:
            self.truth.unsure = rows
        if self.rng.random() < 0.5:
            self.look()
            self.counts["answers lost"] += 1
            assert self.ask(rows, number).replayed
            self.settle()
            self.truth.finished()

    def finish(self) -> None:
        """The files get what the log has."""
        log_view(self.table).finish()
        self.settle()
        self.truth.finished()

    def settle(self) -> None:
        """A writer has come, who finishes what killed ones have left."""
        if self.truth.unsure:
            self.truth.tail.append(self.truth.unsure)
            self.truth.unsure = []

    def finish_unsure(self) -> None:
        """Let nothing be unsure."""
        if self.truth.unsure:
            self.finish()

    def compact(self) -> None:
        """A writer without rows."""
        if not self.tiered:
            self.table.compact(full=self.rng.random() < 0.5)
        self.finish()

    def idle(self) -> None:
        """Silence longer than retention, when files have everything: it costs nobody a row."""
        self.finish()
        self.let_go()

    def outrun(self) -> None:
        """Retention is faster than who brings rows into files."""
        self.leave_in_log()
        self.let_go()
        if self.truth.tail and not self.store.keeps_tail:
            self.mend("retention was faster than files")

    def let_go(self) -> None:
        """Let retention pass."""
        self.store.let_go(self.folder)
        self.retained = True

    def damage(self) -> None:
        """The log is damaged, and repaired after everybody had a look."""
        self.finish_unsure()
        if self.store.can_damage(self.folder):
            self.mend(self.store.damage(self, self.folder))

    def kill_writer(self) -> None:
        """A process that writes is killed."""
        self.run_writer(dies_at=self.rng.randrange(OPERATIONS))

    def kill_server(self) -> None:
        """The broker is killed while a process writes; once a life, since a start takes seconds. Not after
        retention: a broker that is killed soon after has rows again that were gone."""
        if self.store.has_server and not self.retained and not self.counts["brokers killed"]:
            self.counts["brokers killed"] += 1
            self.run_writer(dies_at=None)

    def run_writer(self, *, dies_at: int | None) -> None:
        """What a process had answers for is there, and the commit that it was at wholly or not at all, until
        it is asked for again."""
        self.finish_unsure()
        commits, first = tuple(self.some_rows() for _ in range(COMMITS)), next(self.numbers)
        self.numbers = itertools.count(first + COMMITS)
        job = ProcessJob(self.folder, self.place(), commits, first, dies_at)
        process = log_process.started(job)
        if dies_at is None:
            self.store.restart()
        self.counts["writers killed"] += log_process.ended(process, job)
        count = job.noted() or 0
        self.truth.tail += commits[:count]
        if count and not self.tiered:
            self.truth.finished()
        if count < COMMITS:
            self.truth.unsure = commits[count]
            self.look()
            self.ask(commits[count], first + count, log_process.USER)
            self.settle()
            if not self.tiered:
                self.truth.finished()

    def kill_reader(self) -> None:
        """A process that reads is killed; whoever goes on from its notes misses nothing."""
        job = ProcessJob(self.folder, self.place(), dies_at=self.rng.randrange(OPERATIONS // 2))
        job.note(self.readers[0])
        self.counts["readers killed"] += log_process.ended(log_process.started(job), job)
        self.readers[0] = job.noted()

    # what must be

    def look(self) -> None:
        """Everybody reads, and has what was acknowledged. Nobody has an error, but for readers that have
        fallen behind retention: they are told to begin anew, and do."""
        errors = self.complaints()
        for number in range(READERS):
            if self.retained and "start with latest-full" in errors.get(f"reader {number}", ""):
                self.counts["begun anew"] += 1
                del errors[f"reader {number}"]
                self.readers[number] = self.reader()
                self.followed(self.readers[number])
        assert not errors, errors

    def complaints(self) -> dict[str, str]:
        """Who reads → the error; who has none has every row. Raises AssertionError where one has fewer rows,
        or others, or an error that does not name the log and what to do."""
        actual = self.scanned(log=False)
        assert actual in self.truth.shown(), f"a scan has {actual}, not {self.truth.shown()}"
        reads: dict[str, Callable[[], TableTruth]] = {
            "a union read": lambda: self.scanned(log=True),
            "a stream from the earliest": lambda: self.followed(self.reader(), "earliest"),
            "a stream from now": lambda: self.followed(self.reader()),
            **{f"reader {n}": partial(self.followed, reader) for n, reader in enumerate(self.readers)},
        }
        errors, possible = dict[str, str](), self.truth.possible()
        for who, read in reads.items():
            try:
                actual = read()
            except TablestoreError as e:
                require_named(e)
                errors[who] = str(e)
            else:
                assert actual in possible, f"{who} has {actual}, not {possible}"
        return errors

    def mend(self, what: str) -> None:
        """The log lacks something: errors say so, `check` finds it, and `repair` goes on with the rest."""
        self.counts["damages"] += 1
        self.retained = True
        try:
            self._mend()
        except BaseException as e:
            e.add_note(what)
            raise

    def _mend(self) -> None:
        errors, problems, rows = self.complaints(), self.table.check(), self.some_rows()
        try:
            self.table.write(as_table(rows), row_kind_column="kind")
        except TablestoreError as e:
            require_named(e)
            errors["a writer"] = str(e)
            actual = self.scanned(log=False)
            assert actual == self.truth.files, f"a refused writer left {actual}, not {self.truth.files}"
        else:
            self.truth.tail.append(rows)
        begin_anew = all("latest-full" in text for text in errors.values())  # what retention may do, too
        assert problems or begin_anew, f"check has nothing of {errors}"
        lost = log_view(self.table).repair()
        log_view(self.table).finish()
        actual, whole = self.scanned(log=True), self.truth.state
        assert self.truth.lacking(actual) == []
        assert actual == whole or lost or errors, f"in silence {actual}, not {whole}"
        self.counts["losses named"] += actual != whole
        self.truth.files, self.truth.tail = actual, []
        problems, lost = self.table.check(), log_view(self.table).repair()
        assert (problems, lost) == ([], {}), f"after repair: {problems}, lost again {lost}"
        for number in range(READERS):
            if actual != whole or f"reader {number}" in errors:
                self.readers[number] = self.reader()
        self.look()
        self.write()

    # how

    @property
    def table(self) -> ts.Table:
        """The table, as another process opens it."""
        return opened(self.folder)

    def reader(self) -> Followed:
        """Who has read nothing yet."""
        return Followed(1 if self.keyed else 0)

    def place(self) -> Path:
        """A file outside of the lake."""
        return self.folder.parent / f"{self.folder.name}-{next(self.places)}.notes"

    def scanned(self, *, log: bool) -> TableTruth:
        """The rows of a scan."""
        rows = self.table.scan(log=log).to_arrow().to_pylist()
        return TableTruth(self.truth.files.kind, Counter((r["k"], r["v"]) for r in rows))

    def followed(self, reader: Followed, start: str = "latest-full") -> TableTruth:
        """What a reader has when it has read what is there; one without a cursor begins at `start`."""
        for step in self.table.stream(start=reader.cursor or start, timeout=0.0):
            reader.take(step)
        return TableTruth(self.truth.files.kind, reader.rows)

    def some_rows(self) -> Rows:
        """A few rows of different keys, some of them deletes; a value comes once."""
        keys = self.rng.sample(range(KEYS), self.rng.randint(1, 4))
        kinds = ("+I", "+I", "-D") if self.keyed else ("+I",)
        return [(self.rng.choice(kinds), key, next(self.values)) for key in keys]


def require_named(error: TablestoreError) -> None:
    """Raise AssertionError unless an error says that it is the log, and what to do."""
    text = str(error)
    assert isinstance(error, NAMED), repr(error)
    assert any(name in text for name in ("tablestore/log", "topic '", "the log ")), text
    assert any(remedy in text for remedy in ("repair()", "latest-full", "missing")), text


MOMENTS: dict[Callable[[Life], None], int] = {
    Life.write: 30,
    Life.delete: 12,
    Life.leave_in_log: 14,
    Life.finish: 5,
    Life.compact: 8,
    Life.idle: 8,
    Life.outrun: 8,
    Life.damage: 8,
    Life.kill_writer: 4,
    Life.kill_reader: 2,
    Life.kill_server: 1,
}
"""What may happen, and how often."""


def live(store: LogStore, kind: str, folder: Path, seed: int, moments: int) -> Counter[str]:
    """So many moments of one life; what happened. Raises AssertionError where something is not as it must
    be, with the number of the moment."""
    with small_segments():
        life = Life(store, kind, folder, seed)
        for number in range(moments):
            [act] = life.rng.choices(list(MOMENTS), list(MOMENTS.values()))
            life.counts[act.__name__] += 1
            try:
                act(life)
                life.look()
            except Exception as e:
                e.add_note(f"log of {store.name}, {kind}, seed {seed}, moment {number}: {act.__name__}")
                raise
        life.finish()
        life.look()
        assert life.table.check() == []
        return life.counts
