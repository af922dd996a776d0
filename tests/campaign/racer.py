"""One process of a race: a writer, a compactor, an expirer, a reader or a follower of one table, which dies
at an operation of its store drawn beforehand.

Death is SIGKILL for the whole process group, so processes that it started go with it. A process that is
started again goes on where the table says that it was.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.format import rowkind
from tests.campaign.lives import LIVES, rows_of
from tests.faults import FaultyIO
from tests.log.followed import Followed

MOST_RETRIES = 200


@dataclass(frozen=True)
class Racer:
    """Who runs, on which table, with which chance. `dies_at`: the operation of its store at which it is
    killed, counted from 0; None: it lives."""

    role: str
    number: int
    life: str
    seed: int
    steps: int
    location: str
    folder: str
    dies_at: int | None = None
    incarnation: int = 0

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"

    @property
    def failure(self) -> Path:
        """Where the process writes what it raised."""
        return Path(self.folder) / f"{self.name}.failure"

    @property
    def finish(self) -> Path:
        """A file whose presence tells compactors, expirers and readers to end."""
        return Path(self.folder) / "finish"

    def followed(self) -> Followed | None:
        """What the process noted of a stream; None if nothing."""
        return pickle.loads(self._notes.read_bytes()) if self._notes.exists() else None

    def note(self, reader: Followed) -> None:
        """Note what was read of a stream, at once."""
        half = self._notes.with_suffix(".half")
        half.write_bytes(pickle.dumps(reader))
        half.replace(self._notes)

    @property
    def _notes(self) -> Path:
        return Path(self.folder) / f"{self.name}.notes"

    def draw(self) -> random.Random:
        return random.Random(f"{self.seed} {self.name} {self.incarnation}")


class MortalIO(FaultyIO):
    """Local files; at operation `dies_at` the process group is killed."""

    def __init__(self, dies_at: int | None) -> None:
        super().__init__()
        self._dies_at = dies_at

    def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
        if self.count == self._dies_at:
            os.killpg(0, signal.SIGKILL)
        self.count += 1
        return action()


def run(racer: Racer) -> None:
    """The whole life of the process; exit code 0 if it did all it had to do."""
    os.setpgid(0, 0)
    try:
        ROLES[racer.role](racer)
    except BaseException:
        racer.failure.write_text(traceback.format_exc())
        sys.exit(1)


def _open(racer: Racer) -> ts.Table:
    folder = os.path.dirname(os.path.dirname(racer.location))
    return ts.connect(folder, io=MortalIO(racer.dies_at)).table("d.t")


def _until_done(act: Callable[[], Any]) -> Any:
    """What `act` answers, called again as long as it says that nothing was committed."""
    for _ in range(MOST_RETRIES):
        with contextlib.suppress(ts.CommitConflict):
            return act()
    raise AssertionError(f"refused {MOST_RETRIES} times")


def write(racer: Racer) -> None:
    """All steps from the one that the table knows; the last one is repeated, which must add nothing."""
    life, table, user = LIVES[racer.life], _open(racer), f"w{racer.number}"
    if table.log is not None:
        table.log.finish()  # what it appended before it was killed
    position = table.position(user)
    newest = -1 if position is None else position[0]
    for step in range(max(0, newest), racer.steps):
        rows = life.step(racer.seed, racer.number, step)
        done = _until_done(lambda rows=rows, step=step: _commit(table, rows, user, step))
        assert done.replayed == (step <= newest), f"step {step} after {newest}: {done}"
        gone = life.delete(racer.seed, racer.number, step)
        if gone is not None:
            _until_done(lambda gone=gone: table.delete(ts.col("k").between(*gone)))


def _commit(table: ts.Table, rows: pa.Table, user: str, step: int) -> ts.Committed:
    """The rows of a step in one commit; of a table with a log in several ways."""
    kinds = {"row_kind_column": "kind"} if "kind" in rows.column_names else {}
    way = step % 3 if table.log is not None else 0
    if way == 0:
        return table.write(rows, user=user, identifier=step, **kinds)
    if way == 1:
        with table.writer(user=user, identifier=step) as writer:
            for at in range(0, rows.num_rows, 7):
                writer.write(rows.slice(at, 7), **kinds)
        return writer.committed or ts.Committed()
    engine = table.open_writer(user=user)
    numbers = rowkind.parse(rows["kind"].combine_chunks()) if kinds else None
    try:
        batch = rows.drop_columns(list(kinds.values())).combine_chunks().to_batches()[0]
        engine.write(batch, numbers)
        messages = engine.prepare()
    finally:
        engine.close()
    return table.commit(messages, user=user, identifier=step)


def _turns(racer: Racer) -> Iterator[random.Random]:
    draw = racer.draw()
    while not racer.finish.exists():
        yield draw


def compact(racer: Racer) -> None:
    """Compaction after compaction, some of them by processes of their own as engines do."""
    table, processes = _open(racer), multiprocessing.get_context("forkserver")
    for draw in _turns(racer):
        if draw.random() < 0.1:
            with contextlib.suppress(ts.CommitConflict):
                _compact_by_processes(racer, table, processes)
        else:
            with contextlib.suppress(ts.CommitConflict):
                table.compact(full=draw.random() < 0.3)


def _compact_by_processes(racer: Racer, table: ts.Table, processes: Any) -> None:
    tasks = table.buckets_to_compact()
    places = [f"{racer.folder}/{racer.name}-{racer.incarnation}-{at}.message" for at in range(len(tasks))]
    arguments = [(os.getpid(), racer.location, t, p) for t, p in zip(tasks, places, strict=True)]
    workers = [processes.Process(target=_compact_bucket, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    messages = [Path(place).read_bytes() for place in places if os.path.exists(place)]
    for place in places:
        Path(place).unlink(missing_ok=True)
    if messages:
        table.commit(messages, user=f"{racer.name}-{racer.incarnation}")


def _compact_bucket(group: int, location: str, task: bytes, place: str) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(0, group)
    message = ts.compact_bucket(location, task)
    if message is not None:
        Path(place).write_bytes(message)


def expire(racer: Racer) -> None:
    """Old snapshots go, tags come and go."""
    table = _open(racer)
    for draw in _turns(racer):
        table.expire_snapshots(keep=draw.randint(2, 6))
        name = f"t{racer.number}"
        if draw.random() < 0.3:
            with contextlib.suppress(ts.AlreadyExists, NotFound):
                table.tags.create(name)
        elif draw.random() < 0.5:
            with contextlib.suppress(NotFound):
                table.tags.delete(name)


def read(racer: Racer) -> None:
    """Each snapshot has the same rows whenever it is read, for as long as it is there."""
    table = _open(racer)
    for _ in _turns(racer):
        newest = table.store.snapshots.latest_id()
        if newest is None:
            continue
        with contextlib.suppress(NotFound):
            past = table.at(snapshot=newest)
            assert rows_of(past) == rows_of(past), f"snapshot {newest} reads differently"


def follow(racer: Racer) -> None:
    """The stream of the table, from where the process before was with what it had read, to the very end.
    Where that has expired, it begins again."""
    life, table = LIVES[racer.life], _open(racer)
    reader = racer.followed() or Followed(1 if life.keyed else 0)
    last = False
    while not last:
        last = racer.finish.exists()
        try:
            for step in table.stream(start=reader.cursor or "latest-full", timeout=0.0):
                reader.take(step)
                racer.note(reader)
        except NotFound as e:
            if "latest-full" not in str(e):
                raise
            reader, last = Followed(reader.keys), False


ROLES = {"writer": write, "compactor": compact, "expirer": expire, "reader": read, "follower": follow}
