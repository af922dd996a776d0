"""The commit identifier at which a stream starts, so that a lost checkpoint loses and repeats no row.

Batches are numbered from 0 in every new checkpoint; commit identifiers must rise. So a fresh checkpoint gets
a small file: batch 0 has the identifier after the last one that is committed, and starts where that says. It
is written before the stream first starts, and never again once a batch is planned. A capture looks at all
tables of its lake: the newest batch of any of them may lack in others, so it is read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.names import UUID
from tablestore.flow.checkpoint import Checkpoint
from tablestore.flow.journal import JournalFiles
from tablestore.flow.source import Offset
from tablestore.table.lake import Lake
from tablestore.table.table import Table

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
