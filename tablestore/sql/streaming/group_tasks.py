"""The tasks that bring a batch of changes into the state of a GROUP BY.

Workers compute parts of its pieces and update buckets of the state; this process only hands parts on and
commits. Parts beyond a few megabytes of a piece go through files beside the state, so that no process holds
more, however many groups a batch has.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Batch, Work
from tablestore.io.paths import join
from tablestore.io.routed import file_io_for
from tablestore.sql.query.connection import Connection
from tablestore.sql.streaming.group_state import Basis, GroupState
from tablestore.sql.streaming.lookups import Snapshots

_MEMORY = "1GB"  # of DuckDB in a worker
_HANDED_BYTES = 4 << 20  # of parts of a piece that go through this process
_here = threading.local()
Handed = tuple[int, bytes | str]  # the bucket, and a part or the file that it is in


def advance(state: GroupState, batch: Batch, *, identifier: int, position: str) -> bool:
    """Commit a batch to the state; False where it was there before. The same identifier and the same changes
    may come again after a crash, at any point of it."""
    basis = state.begin(identifier)
    if basis is None:
        state.commit([], identifier, position)  # compacts what a kill left
        return False
    exchange = join(state.directory, "exchange")
    io = file_io_for(exchange)
    io.delete_tree(exchange)
    by_bucket: dict[int, list[bytes | str]] = {}
    task = PartsTask(state, batch.end.get("lookups", {}), exchange)
    for handed in batch.over(task, batch.works()):
        for bucket, part in handed:
            by_bucket.setdefault(bucket, []).append(part)
    found = batch.over(UpdateTask(state, basis), sorted(by_bucket.items()))
    state.commit([message for some in found for message in some], identifier, position)
    io.delete_tree(exchange)
    return True


@dataclass(frozen=True)
class PartsTask:
    """The task that computes the parts of a piece. `at` are the snapshots of looked-up tables."""

    state: GroupState
    at: Snapshots
    exchange: str

    def __call__(self, work: Work) -> list[Handed]:
        one, partials = self.state.plan.inputs[work.source], self.state.partials()
        changes = work.piece.read(one.columns, one.where)
        if partials.step.lookups:
            parts = partials.of(one.view, changes, memory=_MEMORY, at=self.at)
        else:
            parts = partials.on(_connection(), one.view, changes, None)
        found: list[Handed] = []
        size = 0
        for bucket, part in parts:
            size += len(part)
            found.append((bucket, part if size <= _HANDED_BYTES else self._filed(part)))
        return found

    def _filed(self, part: bytes) -> str:
        path = join(self.exchange, f"{SYSTEM.uuid()}.arrow")
        file_io_for(path).write(path, part)
        return path


@dataclass(frozen=True)
class UpdateTask:
    """The task that updates a bucket of the state by its parts, and gives commit messages."""

    state: GroupState
    basis: Basis

    def __call__(self, item: tuple[int, list[bytes | str]]) -> list[bytes]:
        bucket, parts = item
        return self.state.apply_on(_connection(), bucket, _read(parts), self.basis)


def _read(parts: Iterable[bytes | str]) -> Iterator[bytes]:
    for part in parts:
        yield part if isinstance(part, bytes) else file_io_for(part).read(part)


def _connection() -> Connection:
    """A connection of this thread that stays open from batch to batch."""
    if "connection" not in _here.__dict__:
        _here.connection = Connection(memory=_MEMORY)
    found: Connection = _here.connection
    return found
