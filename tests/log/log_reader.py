"""A reader of a table's stream that keeps what it has read as the state that the changes describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tablestore.core.errors import NotFound
from tablestore.read.changes.change import Change
from tablestore.read.changes.stream import StreamRequest
from tablestore.read.table_log import TableLog
from tablestore.table.normalize import follow
from tablestore.table.table import Table
from tests.log.followed import Followed


class LogReader(Followed):
    """Reads what is there; goes on from its cursor."""

    def __init__(
        self, table: Table, log: TableLog, keys: int, start: Any = None, *, normalize: bool | None = None
    ) -> None:
        super().__init__(keys)
        self.table, self.log, self.start, self.normalize = table, log, start, normalize
        self.stopped = False
        self._steps: Iterator[Change] | None = None

    def restart(self) -> None:
        """Forget everything but the cursor and what was read."""
        self._steps = None

    def read(self) -> None:
        """Read all steps that there are."""
        if self._steps is None:
            start = self.start if self.cursor is None else self.cursor
            request = StreamRequest(start=start, timeout=0.0, consumer=None)
            self._steps = iter(follow(self.table.store, request, normalize=self.normalize, log=self.log))
        try:
            for step in self._steps:
                self.take(step)
        except NotFound as e:
            self.stopped = "latest-full" in str(e)
            raise
        self._steps = None
