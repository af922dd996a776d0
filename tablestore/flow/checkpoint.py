"""A checkpoint: how far a stream has come and where it began, in the files of Spark's Structured Streaming,
whoever runs it.

    <checkpoint>/metadata                  the id of the query
    <checkpoint>/offsets/<n>               where batch n ends, written before it begins
    <checkpoint>/commits/<n>               batch n is carried out
    <checkpoint>/tablestore-origin.json    the commit identifier of batch 0, and where that starts

A batch with a file in `offsets` and none in `commits` is done again, with the same number and offsets. Spark
keeps sums of its files beside them (`.<n>.crc`), and reads files that have none.

Batches are numbered from 0 in every new checkpoint; commit identifiers must rise. So in a fresh checkpoint
batch 0 has the identifier after the last one that is committed, and a lost checkpoint loses and repeats no
row. The origin is written before the stream first starts, and never again once a batch is planned. A capture
looks at all tables of its lake: the newest batch of any of them may lack in others, so it is read again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Corrupt, InvalidRequest, NotFound, require_there
from tablestore.core.options.names import UUID
from tablestore.flow.journal import JournalFiles, NumberedFiles
from tablestore.flow.source import Offset
from tablestore.io.paths import location
from tablestore.table.lake import Lake
from tablestore.table.table import Table

log = logging.getLogger(__name__)
KEPT = 100  # batches, as many as Spark keeps
_OFFSETS, _COMMITS, _METADATA, _VERSION = "offsets", "commits", "metadata", "v1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint in a directory."""

    directory: str

    @classmethod
    def at(cls, directory: str) -> Checkpoint:
        """The one at a path or address."""
        return cls(location(directory))

    def planned(self) -> int | None:
        """The number of the newest batch whose end is written; None without one."""
        return max(self._states(_OFFSETS).numbers(), default=None)

    def pending(self) -> int | None:
        """The newest planned batch, where it is not noted as carried out."""
        number = self.planned()
        done = number is None or self._files.read(self._states(_COMMITS).name(number)) is not None
        return None if done else number

    def end(self, number: int) -> Offset:
        """Where a batch ends. Raises Corrupt for a file that does not say so."""
        path = self._files.place(_OFFSETS, str(number))
        text = self._files.io.read(path).decode()
        try:
            end = json.loads(text.splitlines()[2])  # version, facts of Spark, the offset of the one source
        except (IndexError, ValueError):
            end = None
        if not isinstance(end, dict):
            raise Corrupt(path, "it does not say where a batch ends")
        return end

    def reached(self) -> Offset | None:
        """Where the newest batch ends that is noted as carried out; None without one."""
        number, pending = self.planned(), self.pending()
        return None if number is None else self.end(number) if pending is None else self.start(number)

    def start(self, number: int) -> Offset | None:
        """Where a batch begins: at the end of the one before; None for the first."""
        return self.end(number - 1) if number else None

    def begin(self) -> None:
        """Make the directory fit for a query of Spark, too: its id, and no remains of a first batch that was
        being planned as its process was killed."""
        self.remove_remains()
        if self._files.read(_METADATA) is None:
            self._files.claim(_METADATA, {"id": SYSTEM.uuid()})

    def require_begun(self) -> None:
        """Raise Unavailable where a checkpoint that was begun is not there: what it lies on is away."""
        require_there(self._files.read(_METADATA) is not None, f"the checkpoint {self.directory}")

    def note_planned(self, number: int, end: Offset) -> None:
        """Write where a batch ends. Raises InvalidRequest where another process has done so."""
        facts = {"batchWatermarkMs": 0, "batchTimestampMs": SYSTEM.now_ms(), "conf": {}}
        self._note(_OFFSETS, number, [facts, end])

    def note_done(self, number: int) -> None:
        """Write that a batch is carried out, and let go of those long before it. Raises InvalidRequest where
        another process has done so."""
        self._note(_COMMITS, number, [{"nextBatchWatermarkMs": 0}])
        if number and number % KEPT == 0:
            for which in (_COMMITS, _OFFSETS):
                for old in self._states(which).sweep(number - 1):
                    self._files.io.delete(self._sum(which, old))

    def remove_remains(self) -> None:
        """Where no batch was recorded: remove the temporary file of a query that was killed while it recorded
        its first, or Spark refuses to start ("should be empty on batch 0")."""
        if self.planned() is not None:
            return
        for which in (_OFFSETS, _COMMITS):
            for remains in self._files.io.list(self._files.place(which), hidden=True):
                if remains.name.startswith("."):
                    log.info("removed %s, which a killed first batch left", remains.name)
                    self._files.io.delete(self._files.place(which, remains.name))

    def _note(self, which: str, number: int, lines: list[dict[str, Any]]) -> None:
        self.require_begun()
        texts = [_VERSION, *(json.dumps(line, separators=(",", ":")) for line in lines)]
        self._files.io.delete(self._sum(which, number))
        if not self._files.claim(self._states(which).name(number), "\n".join(texts).encode()):
            raise InvalidRequest(
                f"batch {number} of {self.directory} is another process's: a checkpoint has one at a time; "
                "stop the other, or use another checkpoint="
            )

    def _states(self, which: str) -> NumberedFiles:
        return NumberedFiles(self._files, which, KEPT)

    def _sum(self, which: str, number: int) -> str:
        return self._files.place(which, f".{number}.crc")

    @property
    def _files(self) -> JournalFiles:
        return JournalFiles(self.directory)


_FILE, _TABLE = "tablestore-origin.json", "table"


@dataclass(frozen=True, slots=True)
class Origin:
    """Batch 0 has commit identifier `identifier` and starts at `position`, as commits keep it (None: at the
    very beginning)."""

    identifier: int
    position: Any


def origin_of(checkpoint: str, table: Table, user: str) -> Origin:
    """The origin of a checkpoint of commits by `user` to `table`; written if no batch was ever planned there.

    Raises InvalidRequest for a checkpoint of another stream, and for one older than the table's commits.
    """
    mine = {"v": 1, "user": user, _TABLE: table.options.get(UUID, table.location)}
    file = _OriginFile(JournalFiles.at(checkpoint, durable=table.store.durable), mine, "position")
    return file.origin(table.position(user), lambda position: position)


def origin_in_lake(checkpoint: str, lake: Lake, *, user: str, source: str) -> Origin:
    """The origin of a checkpoint of commits by `user` to tables of a lake, of what `source` names; its
    position is an offset. Raises as `origin_of`."""
    newest = max(_positions(lake, user), default=None, key=lambda position: position[0])
    mine = {"v": 1, "user": user, "source": source}
    file = _OriginFile(JournalFiles.at(checkpoint), mine, "start")
    return file.origin(newest, partial(_start, user))


@dataclass(frozen=True)
class _OriginFile:
    """The file of a checkpoint; `mine` says whose it is, and `field` is what its position is called there."""

    files: JournalFiles
    mine: dict[str, Any]
    field: str

    @property
    def checkpoint(self) -> str:
        """The directory of the checkpoint."""
        return self.files.directory

    def origin(self, newest: tuple[int, str | None] | None, start: Callable[[str | None], Any]) -> Origin:
        """The origin, by the newest commit (identifier, position) that is known; `start` says where the batch
        of that position begins."""
        planned, there = Checkpoint(self.checkpoint).planned(), self.files.fields(_FILE)
        if there is not None:
            self._require_mine(there, planned=planned is not None)
        if planned is None:
            fresh = Origin(0, None) if newest is None else Origin(newest[0] + 1, start(newest[1]))
            self.files.put(_FILE, {**self.mine, "identifier": fresh.identifier, self.field: fresh.position})
            return fresh
        if there is None:
            raise InvalidRequest(
                f"{self.checkpoint} is the checkpoint of another query; use a fresh directory"
            )
        if newest is not None and newest[0] > there["identifier"] + planned:
            raise InvalidRequest(
                f"there are commits of {self.mine['user']!r} that {self.checkpoint} did not plan: they went "
                "on under another checkpoint; use that one or a fresh directory"
            )
        return Origin(int(there["identifier"]), there[self.field])

    def _require_mine(self, there: dict[str, Any], *, planned: bool) -> None:
        for key, value in self.mine.items():
            if there.get(key) != value and (planned or key != _TABLE):
                raise InvalidRequest(
                    f"{self.checkpoint} is a checkpoint with {key} {there.get(key)!r}, and not {value!r}: "
                    "use another name= or a fresh directory"
                )


def _positions(lake: Lake, user: str) -> Iterator[tuple[int, str | None]]:
    for name in lake.tables():
        try:
            position = lake.table(name).position(user)
        except NotFound:  # dropped meanwhile
            continue
        if position is not None:
            yield position


def _start(user: str, position: str | None) -> Offset:
    """Where the batch of a commit began."""
    try:
        start: Offset = json.loads(position or "")["start"]
    except (ValueError, TypeError, KeyError):
        raise InvalidRequest(
            f"commits of {user!r} are there, and none of a capture: give it another name="
        ) from None
    return start
