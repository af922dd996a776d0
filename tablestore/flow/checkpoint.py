"""A checkpoint: how far a stream has come, in the files of Spark's Structured Streaming, whoever runs it.

    <checkpoint>/metadata       the id of the query
    <checkpoint>/offsets/<n>    where batch n ends, written before it begins
    <checkpoint>/commits/<n>    batch n is carried out

A batch with a file in `offsets` and none in `commits` is done again, with the same number and offsets. Spark
keeps sums of its files beside them (`.<n>.crc`), and reads files that have none.
"""

from __future__ import annotations

import errno
import json
import logging
from dataclasses import dataclass
from typing import Any

from tablestore.core.env import SYSTEM
from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable
from tablestore.flow.journal import JournalFiles, NumberedFiles
from tablestore.flow.source import Offset
from tablestore.io.paths import location

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
        """Raise Unavailable where a checkpoint that was begun is not there: what it lies on is away. Nothing
        may be written then, or another would begin in its place."""
        if self._files.read(_METADATA) is None:
            raise Unavailable(errno.ENOENT, f"the checkpoint {self.directory} is away: mount what holds it")

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
